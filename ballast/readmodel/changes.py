"""What plans do beside placing key groups: nodes that come and go, sizes of operators, routes,
weights of ordered regions.

The rows of plans.scaling say what a plan does with each node; a plan without any leaves the nodes
as its snapshot had them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ballast.contracts import scaling as does
from ballast.readmodel.plans import BEFORE_THE_FIRST, JobHistory, find_plan, first_plan, plan_row
from ballast.store.cache import Row, TableCache

IN_USE, DRAINING, DEAD, NOT_IN_USE = "in use", "draining", "dead", "not in use"
STATES = {
    does.ADD: IN_USE, does.KEEP: IN_USE, does.DRAIN: DRAINING, does.REMOVE: NOT_IN_USE,
    does.SPARE: NOT_IN_USE,
}  # fmt: skip
"""A node's state under a plan, by what the plan does with it."""
SNAPSHOT_STATES = {"alive": IN_USE, "draining": DRAINING, "dead": DEAD}
VERBS = {does.ADD: "added", does.DRAIN: "draining", does.REMOVE: "removed"}
TAKEN_BACK = "taken back"
MOST_SPARES = 100
SCALING_COLUMNS = (
    "subject", "subject_id", "action", "wanted", "before", "needed", "utilisation",
    "drain_rounds", "due", "reason", "binding", "would_change",
)  # fmt: skip
WEIGHT_COLUMNS = (
    "region_id", "worker_id", "weight", "previous_weight", "state", "records_per_s", "blocked_pct",
    "reason",
)  # fmt: skip
ROUTE_KEY = ["operator_id", "key"]
K = TypeVar("K", str, tuple[str, str])
T = TypeVar("T")


def scaling_rows(cache: TableCache, job: str, plan_id: str) -> list[Row]:
    """The rows of plans.scaling of a plan, in order; none where it leaves the nodes alone."""
    where = [("plan_id", "=", plan_id)]
    found = cache.read("plans.scaling", job, where, list(SCALING_COLUMNS))
    rows = [] if found is None else found.to_pylist()
    return sorted(rows, key=lambda row: (row["subject"], row["subject_id"]))


def node_change_label(action: str, before: str | None) -> str | None:
    """A plan's action on a node as people say it, where it changes or goes on changing it.

    ``before`` is the node's state in the plan's snapshot.
    """
    if action == does.KEEP and before == DRAINING:
        return TAKEN_BACK
    return VERBS.get(action)


def node_plan(history: JobHistory, plan: Row) -> Row | None:
    """What a plan does with nodes, and why; None where it does not decide on them."""
    rows = scaling_rows(history.cache, history.job, plan["plan_id"])
    if not rows:
        return None
    by_subject: dict[str, list[Row]] = {subject: [] for subject in does.SUBJECTS}
    for row in rows:
        by_subject[row["subject"]].append(row)
    nodes, clusters = by_subject[does.NODE], by_subject[does.CLUSTER]
    before = snapshot_states(history.cache, history.job, plan["snapshot_id"])
    spares = [row["subject_id"] for row in nodes if row["action"] == does.SPARE]
    decided = (clusters or rows)[0]
    return {
        "reason": decided["reason"],
        "binding": decided["binding"],
        "would_change": decided["would_change"],
        "before": _total(clusters, "before"),
        "wanted": _total(clusters, "wanted"),
        "changes": list(_node_changes(nodes, before)),
        "spares": spares[:MOST_SPARES],
        "spare_count": len(spares),
        "clusters": [_renamed(row, "cluster", ("before", "needed", "wanted", "utilisation"))
                     for row in clusters],
        "operators": [_renamed(row, "operator_id", ("wanted",))
                      for row in by_subject[does.OPERATOR]],
    }  # fmt: skip


def _total(clusters: Iterable[Row], column: str) -> int | None:
    counts = [row[column] for row in clusters if row[column] is not None]
    return sum(counts) if counts else None


def _renamed(row: Row, name: str, columns: Sequence[str]) -> Row:
    return {name: row["subject_id"], "action": row["action"]} | {c: row[c] for c in columns}


def _node_changes(nodes: Iterable[Row], before: Mapping[str, str]) -> Iterable[Row]:
    for row in nodes:
        change = node_change_label(row["action"], before.get(row["subject_id"]))
        if change is not None:
            yield {
                "node_id": row["subject_id"],
                "change": change,
                "drain_rounds": row["drain_rounds"],
                "due": len(row["due"] or []),
                "utilisation": row["utilisation"],
            }


def snapshot_states(cache: TableCache, job: str, snapshot_id: str) -> dict[str, str]:
    """Nodes of a snapshot with their states; none where it is no longer kept."""
    where = [("snapshot_id", "=", snapshot_id)]
    found = cache.read("snapshots.nodes", job, where, ["node_id", "state"])
    if found is None:
        return {}
    pairs = zip(found["node_id"].to_pylist(), found["state"].to_pylist(), strict=True)
    return {node: SNAPSHOT_STATES[state] for node, state in pairs}


@dataclass(frozen=True)
class Cluster:
    """Nodes in use, draining or dead, and how many instances of each operator are wanted."""

    nodes: Mapping[str, str]
    operators: Mapping[str, int]

    @property
    def in_use(self) -> int:
        """How many nodes are in use."""
        return sum(state == IN_USE for state in self.nodes.values())


def cluster_under(history: JobHistory, name: str) -> Cluster:
    """The cluster that a plan leaves the job with; version 0 is before the first plan."""
    is_before = name == BEFORE_THE_FIRST
    plan = plan_row(history, first_plan(history) if is_before else find_plan(history, name).plan_id)
    states = snapshot_states(history.cache, history.job, plan["snapshot_id"])
    rows = [] if is_before else scaling_rows(history.cache, history.job, plan["plan_id"])
    for row in rows:
        if row["subject"] == does.NODE:
            node = row["subject_id"]
            # A plan keeps a node that is dead; that does not bring it back.
            is_dead = states.get(node) == DEAD and row["action"] in does.IN_USE
            states[node] = DEAD if is_dead else STATES[row["action"]]
    sizes = {row["subject_id"]: row["wanted"] for row in rows if row["subject"] == does.OPERATOR}
    return Cluster(states, sizes)


def node_difference(history: JobHistory, old: str, new: str) -> Row:
    """Nodes in another state under one plan than under another, and operators of another size."""
    before, after = cluster_under(history, old), cluster_under(history, new)
    return {
        "nodes": [
            {"node_id": name, "old": left, "new": right}
            for name, left, right in _different(before.nodes, after.nodes, NOT_IN_USE)
        ],
        "nodes_in_use": [before.in_use, after.in_use],
        "operators": [
            {"operator_id": name, "old": left, "new": right}
            for name, left, right in _different(before.operators, after.operators, None)
        ],
    }


def _different(
    old: Mapping[K, T], new: Mapping[K, T], missing: T | None
) -> list[tuple[K, T | None, T | None]]:
    pairs = [(name, old.get(name, missing), new.get(name, missing)) for name in {**old, **new}]
    return sorted((pair for pair in pairs if pair[1] != pair[2]), key=lambda pair: pair[0])


def route_difference(history: JobHistory, old: str, new: str, limit: int) -> Row:
    """Keys that two plans send to different key groups: how many, and the first of them.

    A key without a route goes by its hash; such a side is None.
    """
    tables = [_routes(history, name) for name in (old, new)]
    total = sum(table.num_rows for table in tables)
    if total == 0:
        return {"total": 0, "routes": [0, 0], "rows": []}
    # Without threads: see ballast.store.tables.rows_of.
    joined = tables[0].join(
        tables[1], keys=ROUTE_KEY, join_type="full outer", left_suffix="_old", right_suffix="_new",
        use_threads=False,
    )  # fmt: skip
    same = pc.equal(joined["key_group_old"], joined["key_group_new"])
    different = joined.filter(pc.invert(pc.fill_null(same, False)))
    order = [(column, "ascending") for column in ROUTE_KEY]
    shown = different.take(pc.select_k_unstable(different, limit, sort_keys=order))
    return {
        "total": different.num_rows,
        "routes": [table.num_rows for table in tables],
        "rows": [
            {
                "operator_id": row["operator_id"],
                "key": row["key"],
                "old_key_group": row["key_group_old"],
                "new_key_group": row["key_group_new"],
            }
            for row in shown.to_pylist()
        ],
    }


def _routes(history: JobHistory, name: str) -> pa.Table:
    columns = [*ROUTE_KEY, "key_group"]
    empty = pa.table({"operator_id": pa.array([], pa.string()), "key": pa.array([], pa.string()),
                      "key_group": pa.array([], pa.int64())})  # fmt: skip
    if name == BEFORE_THE_FIRST:
        return empty
    where = [("plan_id", "=", find_plan(history, name).plan_id)]
    found = history.cache.read("plans.routes", history.job, where, columns)
    return empty if found is None or found.num_rows == 0 else found


def weight_rows(history: JobHistory, plan_id: str) -> list[Row]:
    """The rows of plans.weights of a plan, by region and worker; none without ordered regions."""
    where = [("plan_id", "=", plan_id)]
    found = history.cache.read("plans.weights", history.job, where, list(WEIGHT_COLUMNS))
    rows = [] if found is None else found.to_pylist()
    return sorted(rows, key=lambda row: (row["region_id"], row["worker_id"]))


def weight_difference(history: JobHistory, old: str, new: str) -> list[Row]:
    """Workers of ordered regions that two plans weigh differently; None: not weighed."""
    before, after = (_weights(history, name) for name in (old, new))
    return [
        {"region_id": region, "worker_id": worker, "old_weight": left, "new_weight": right}
        for (region, worker), left, right in _different(before, after, None)
    ]


def _weights(history: JobHistory, name: str) -> dict[tuple[str, str], int]:
    """Units by region and worker; the job as it was before its first plan weighs nobody."""
    if name == BEFORE_THE_FIRST:
        return {}
    rows = weight_rows(history, find_plan(history, name).plan_id)
    return {(row["region_id"], row["worker_id"]): row["weight"] for row in rows}
