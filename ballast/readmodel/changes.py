"""What plans change beside key groups: nodes, operator sizes, routes, splits, weights.

The rows of plans.scaling say what a plan does with each node. A plan without such rows leaves the
nodes as its snapshot had them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ballast.contracts import scaling
from ballast.contracts.records import DraftSummary, ScalingRow, WorkerWeight
from ballast.readmodel.job_history import (
    BEFORE_THE_FIRST,
    JobHistory,
    find_plan,
    first_plan,
    summary_of,
)

IN_USE, DRAINING, DEAD, NOT_IN_USE = "in use", "draining", "dead", "not in use"
STATES = {
    scaling.ADD: IN_USE, scaling.KEEP: IN_USE, scaling.DRAIN: DRAINING,
    scaling.REMOVE: NOT_IN_USE, scaling.SPARE: NOT_IN_USE,
}  # fmt: skip
"""A node's state under a plan, by the plan's action on it."""
SNAPSHOT_STATES = {"alive": IN_USE, "draining": DRAINING, "dead": DEAD}
CHANGE_LABELS = {scaling.ADD: "added", scaling.DRAIN: "draining", scaling.REMOVE: "removed"}
DRAIN_CANCELLED = "taken back"
MAX_SPARES = 100
ROUTE_KEY = ["operator_id", "key"]
K = TypeVar("K", str, tuple[str, str])
T = TypeVar("T")


def scaling_rows(history: JobHistory, plan_id: str) -> list[ScalingRow]:
    """The rows of plans.scaling of a plan, in order; none where it leaves the nodes alone."""
    rows = history.cache.read_records(ScalingRow, history.job, ("plan_id", "=", plan_id))
    return sorted(rows, key=lambda row: (row.subject, row.subject_id))


def node_change_label(action: str, before: str | None) -> str | None:
    """The label of a plan's action on a node; None where the node stays as it is.

    Args:
        action: one of ``tables.SCALING_ACTIONS``.
        before: the node's state in the plan's snapshot; None where the snapshot lacks the node.
    """
    if action == scaling.KEEP and before == DRAINING:
        return DRAIN_CANCELLED
    return CHANGE_LABELS.get(action)


@dataclass(frozen=True)
class NodeTransition:
    """A node that a plan adds, drains, removes or takes back."""

    node_id: str
    change: str
    drain_rounds: int | None
    due: int
    """Key groups that have to leave it in this round."""
    utilisation: float | None


@dataclass(frozen=True)
class ClusterDecision:
    """How many nodes a plan wants in a cluster."""

    cluster: str
    action: str
    before: int | None
    needed: int | None
    wanted: int | None
    utilisation: float | None


@dataclass(frozen=True)
class OperatorDecision:
    """How many instances of an operator a plan wants."""

    operator_id: str
    action: str
    wanted: int | None


@dataclass(frozen=True)
class NodePlan:
    """What a plan does with nodes, and why."""

    reason: str
    binding: str
    would_change: str
    before: int | None
    wanted: int | None
    changes: list[NodeTransition]
    spares: list[str]
    """The first ``MAX_SPARES`` spare nodes."""
    spare_count: int
    clusters: list[ClusterDecision]
    operators: list[OperatorDecision]


def node_plan(history: JobHistory, plan: DraftSummary) -> NodePlan | None:
    """What a plan does with nodes; None where it does not decide on them."""
    rows = scaling_rows(history, plan.plan_id)
    if not rows:
        return None
    nodes, clusters, operators = (
        [row for row in rows if row.subject == subject]
        for subject in (scaling.NODE, scaling.CLUSTER, scaling.OPERATOR)
    )
    spares = [row.subject_id for row in nodes if row.action == scaling.SPARE]
    decision = (clusters or rows)[0]
    return NodePlan(
        reason=decision.reason,
        binding=decision.binding,
        would_change=decision.would_change,
        before=_total(row.before for row in clusters),
        wanted=_total(row.wanted for row in clusters),
        changes=_transitions(nodes, snapshot_states(history, plan.snapshot_id)),
        spares=spares[:MAX_SPARES],
        spare_count=len(spares),
        clusters=[
            ClusterDecision(
                row.subject_id, row.action, row.before, row.needed, row.wanted, row.utilisation
            )
            for row in clusters
        ],
        operators=[OperatorDecision(row.subject_id, row.action, row.wanted) for row in operators],
    )


def _total(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _transitions(nodes: Iterable[ScalingRow], before: Mapping[str, str]) -> list[NodeTransition]:
    labelled = ((row, node_change_label(row.action, before.get(row.subject_id))) for row in nodes)
    return [
        NodeTransition(row.subject_id, label, row.drain_rounds, len(row.due or ()), row.utilisation)
        for row, label in labelled
        if label is not None
    ]


def snapshot_states(history: JobHistory, snapshot_id: str) -> dict[str, str]:
    """The state of each node of a snapshot; empty where the snapshot is no longer kept."""
    where = [("snapshot_id", "=", snapshot_id)]
    found = history.cache.read("snapshots.nodes", history.job, where, ["node_id", "state"])
    if found is None:
        return {}
    pairs = zip(found["node_id"].to_pylist(), found["state"].to_pylist(), strict=True)
    return {node: SNAPSHOT_STATES[state] for node, state in pairs}


@dataclass(frozen=True)
class ClusterState:
    """The state of each node, and how many instances of each operator are wanted."""

    nodes: Mapping[str, str]
    operators: Mapping[str, int | None]

    @property
    def in_use(self) -> int:
        """How many nodes are in use."""
        return sum(state == IN_USE for state in self.nodes.values())


def cluster_under(history: JobHistory, name: str) -> ClusterState:
    """The cluster under a plan; version 0 is before the first plan."""
    is_before = name == BEFORE_THE_FIRST
    plan_id = first_plan(history) if is_before else find_plan(history, name).plan_id
    states = snapshot_states(history, summary_of(history, plan_id).snapshot_id)
    rows = [] if is_before else scaling_rows(history, plan_id)
    for row in rows:
        if row.subject == scaling.NODE:
            # A plan may keep a dead node; that does not bring the node back.
            is_dead = states.get(row.subject_id) == DEAD and row.action in scaling.IN_USE
            states[row.subject_id] = DEAD if is_dead else STATES[row.action]
    sizes = {row.subject_id: row.wanted for row in rows if row.subject == scaling.OPERATOR}
    return ClusterState(states, sizes)


@dataclass(frozen=True)
class NodeStateChange:
    """A node that is in another state under one plan than under another."""

    node_id: str
    old: str | None
    new: str | None


@dataclass(frozen=True)
class OperatorSizeChange:
    """An operator of another size; None where the plan does not size it."""

    operator_id: str
    old: int | None
    new: int | None


@dataclass(frozen=True)
class ClusterDifference:
    """How the clusters under two plans differ."""

    nodes: list[NodeStateChange]
    nodes_in_use: tuple[int, int]
    operators: list[OperatorSizeChange]


def node_difference(history: JobHistory, old: str, new: str) -> ClusterDifference:
    """How the clusters under two plans differ."""
    before, after = cluster_under(history, old), cluster_under(history, new)
    nodes = _different(before.nodes, after.nodes, NOT_IN_USE)
    operators = _different(before.operators, after.operators, None)
    return ClusterDifference(
        nodes=[NodeStateChange(*change) for change in nodes],
        nodes_in_use=(before.in_use, after.in_use),
        operators=[OperatorSizeChange(*change) for change in operators],
    )


def _different(
    old: Mapping[K, T], new: Mapping[K, T], missing: T | None
) -> list[tuple[K, T | None, T | None]]:
    pairs = [(name, old.get(name, missing), new.get(name, missing)) for name in {**old, **new}]
    return sorted((pair for pair in pairs if pair[1] != pair[2]), key=lambda pair: pair[0])


@dataclass(frozen=True)
class RouteChange:
    """A key that two plans send to different key groups; None where it goes by its hash."""

    operator_id: str
    key: str
    old_key_group: int | None
    new_key_group: int | None


@dataclass(frozen=True)
class RouteDifference:
    """Keys that two plans route differently."""

    total: int
    routes: tuple[int, int]
    """How many keys each plan routes."""
    rows: list[RouteChange]
    """The first of the keys, in order."""


def route_difference(history: JobHistory, old: str, new: str, limit: int) -> RouteDifference:
    """The keys that two plans route differently.

    Args:
        history: the job.
        old: version or plan id; 0 is before the first plan.
        new: version or plan id.
        limit: the largest number of keys to return; all of them are counted.
    """
    left, right = _routes(history, old), _routes(history, new)
    counts = (left.num_rows, right.num_rows)
    if not any(counts):
        return RouteDifference(0, counts, [])
    # Without threads: see ballast.store.tables.rows_of.
    joined = left.join(
        right, keys=ROUTE_KEY, join_type="full outer", left_suffix="_old", right_suffix="_new",
        use_threads=False,
    )  # fmt: skip
    same = pc.equal(joined["key_group_old"], joined["key_group_new"])
    different = joined.filter(pc.invert(pc.fill_null(same, False)))
    order = [(column, "ascending") for column in ROUTE_KEY]
    shown = different.take(pc.select_k_unstable(different, limit, sort_keys=order))
    columns = (shown[name].to_pylist() for name in (*ROUTE_KEY, "key_group_old", "key_group_new"))
    rows = [RouteChange(*values) for values in zip(*columns, strict=True)]
    return RouteDifference(different.num_rows, counts, rows)


def _routes(history: JobHistory, name: str) -> pa.Table:
    columns = [*ROUTE_KEY, "key_group"]
    empty = pa.table({"operator_id": pa.array([], pa.string()), "key": pa.array([], pa.string()),
                      "key_group": pa.array([], pa.int64())})  # fmt: skip
    if name == BEFORE_THE_FIRST:
        return empty
    where = [("plan_id", "=", find_plan(history, name).plan_id)]
    found = history.cache.read("plans.routes", history.job, where, columns)
    return empty if found is None or found.num_rows == 0 else found


@dataclass(frozen=True)
class SplitChange:
    """A key that two plans split otherwise; None where it is in one key group."""

    operator_id: str
    key: str
    old_key_groups: str | None
    new_key_groups: str | None


def split_difference(history: JobHistory, old: str, new: str) -> list[SplitChange]:
    """Keys whose parts differ between two plans."""
    before, after = _parts(history, old), _parts(history, new)
    return [
        SplitChange(operator, key, left, right)
        for (operator, key), left, right in _different(before, after, None)
    ]


def _parts(history: JobHistory, name: str) -> dict[tuple[str, str], str]:
    """The key groups of each split key in words; before the first plan no key is split."""
    if name == BEFORE_THE_FIRST:
        return {}
    where = [("plan_id", "=", find_plan(history, name).plan_id)]
    columns = [*ROUTE_KEY, "key_group"]
    found = history.cache.read("plans.splits", history.job, where, columns)
    parts: dict[tuple[str, str], list[int]] = {}
    for row in found.to_pylist() if found is not None else ():
        parts.setdefault((row["operator_id"], row["key"]), []).append(row["key_group"])
    return {name: ", ".join(map(str, sorted(groups))) for name, groups in parts.items()}


def weight_rows(history: JobHistory, plan_id: str) -> list[WorkerWeight]:
    """The weights of a plan, by region and worker; none without ordered regions."""
    rows = history.cache.read_records(WorkerWeight, history.job, ("plan_id", "=", plan_id))
    return sorted(rows, key=lambda row: (row.region_id, row.worker_id))


@dataclass(frozen=True)
class WeightChange:
    """A worker with another weight; None where a plan does not weigh its region."""

    region_id: str
    worker_id: str
    old_weight: int | None
    new_weight: int | None


def weight_difference(history: JobHistory, old: str, new: str) -> list[WeightChange]:
    """Workers of ordered regions whose weights differ between two plans."""
    before, after = _weights(history, old), _weights(history, new)
    return [
        WeightChange(region, worker, left, right)
        for (region, worker), left, right in _different(before, after, None)
    ]


def _weights(history: JobHistory, name: str) -> dict[tuple[str, str], int]:
    """Weights by region and worker; before the first plan there are none."""
    if name == BEFORE_THE_FIRST:
        return {}
    rows = weight_rows(history, find_plan(history, name).plan_id)
    return {(row.region_id, row.worker_id): row.weight for row in rows}
