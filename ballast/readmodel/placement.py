"""Placements as arrays: load per node, traffic between nodes, and where two plans differ.

Key groups are numbers (operator times a span, plus number), so that a million of them are
compared and looked up by numpy and not row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ballast.contracts import scaling as does
from ballast.contracts.errors import NotFound
from ballast.contracts.policy import CapacityPolicy, JobPolicy, policy_from_json
from ballast.contracts.tables import LARGEST_KEY_GROUP
from ballast.readmodel.changes import SNAPSHOT_STATES, node_change_label, scaling_rows
from ballast.readmodel.plans import (
    BEFORE_THE_FIRST,
    JobHistory,
    MoveFilter,
    PlanReference,
    find_plan,
    first_plan,
    plan_row,
)
from ballast.store.cache import Row, TableCache
from ballast.store.snapshots import RESOURCES

SPAN = LARGEST_KEY_GROUP + 1
NOWHERE = -1
CAME_LATER = "came later"
"""A node that only a later snapshot knows."""
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Names:
    """The operators and nodes that occur, each at its number."""

    operators: pa.Array
    nodes: pa.Array

    @staticmethod
    def of(operators: Sequence[pa.ChunkedArray], nodes: Sequence[pa.ChunkedArray]) -> Names:
        """All that occur in any of the columns, sorted."""
        return Names(_sorted_set(operators), _sorted_set(nodes))

    def codes(self, operators: pa.ChunkedArray, numbers: pa.ChunkedArray) -> Ints:
        """Key groups as numbers."""
        index = pc.index_in(operators, value_set=self.operators).fill_null(NOWHERE).to_numpy()
        codes: Ints = np.asarray(index, dtype=np.int64) * SPAN + numbers.to_numpy()
        return codes

    def node_numbers(self, nodes: pa.ChunkedArray) -> Ints:
        """Nodes as numbers."""
        index = pc.index_in(nodes, value_set=self.nodes).fill_null(NOWHERE)
        return np.asarray(index.to_numpy(), dtype=np.int64)


@dataclass(frozen=True)
class Placed:
    """Which node holds which key group, in the order of the key groups."""

    codes: Ints
    nodes: Ints

    @staticmethod
    def of(codes: Ints, nodes: Ints) -> Placed:
        """In order, which most plans are written in."""
        if codes.size < 2 or bool(np.all(codes[1:] > codes[:-1])):
            return Placed(codes, nodes)
        order = np.argsort(codes, kind="stable")
        return Placed(codes[order], nodes[order])

    def nodes_of(self, codes: Ints) -> Ints:
        """The node of each key group; NOWHERE for one that is not placed."""
        if codes.size == self.codes.size and np.array_equal(codes, self.codes):
            return self.nodes
        if self.codes.size == 0:
            return np.full(codes.size, NOWHERE, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.codes, codes), self.codes.size - 1)
        return np.where(self.codes[at] == codes, self.nodes[at], NOWHERE)


def node_loads(history: JobHistory, name: str) -> Row:
    """Load per node and resource before a plan, as promised, and as measured under its version.

    Promised is the new placement with the loads of the plan's snapshot; measured is the newest
    snapshot that was taken while the version was in force.
    """
    found = find_plan(history, name)
    plan = plan_row(history, found.plan_id)
    snapshot = _snapshot(history, "snapshot_id", plan["snapshot_id"])
    if snapshot is None:
        raise NotFound(
            f"snapshot {plan['snapshot_id']} of plan {found.plan_id} is no longer kept",
            value=plan["snapshot_id"], remedy="look at a newer version",
        )  # fmt: skip
    policy = policy_from_json(snapshot["policy_json"])
    resources = policy.objective.resources
    later = _later_snapshot(history, found)
    nodes = _snapshot_rows(history.cache, "nodes", snapshot)
    actions = does.node_actions(
        does.scaled(scaling_rows(history.cache, history.job, found.plan_id))
    )
    planned = PlannedNodes(policy, nodes, actions)
    key_groups = _key_groups(history, snapshot, resources)
    assignment = _assignment(history.cache, history.job, found.plan_id)
    measured = None if later is None else _key_groups(history, later, resources)
    later_nodes = None if later is None else _snapshot_rows(history.cache, "nodes", later)
    return {
        "resources": [
            _resource_loads(resource, planned, key_groups, assignment, measured, later_nodes)
            for resource in resources
        ],
        "measured_at": None if later is None else later["period_end_at"],
        "snapshot_at": snapshot["period_end_at"],
        "objective": plan["objective"],
    }


@dataclass(frozen=True)
class PlannedNodes:
    """Nodes as a plan found them and what it does with each; no actions where it does nothing."""

    policy: JobPolicy
    nodes: pa.Table
    """Rows of snapshots.nodes."""
    actions: Mapping[str, str]

    @property
    def states(self) -> dict[str, str]:
        """Each node's state as people read it: new, draining, removed, taken back, or as found."""
        columns = (self.nodes[name].to_pylist() for name in ("node_id", "state"))
        found = dict(zip(*columns, strict=True))
        states = dict(found)
        for node, action in self.actions.items():
            before = SNAPSHOT_STATES.get(found.get(node, ""))
            said = node_change_label(action, before)
            if said is not None and found.get(node) != "dead":
                states[node] = "new" if action == does.ADD else said
        return states

    def capacities(self, names: Names, resource: str) -> Floats:
        """By the snapshot, and of nodes that the plan adds by the policy, which has them."""
        capacity = _capacities(names, self.nodes, RESOURCES[resource].capacity)
        given = {node.id: node.capacity for node in self.policy.nodes}
        for number, node in enumerate(names.nodes.to_pylist()):
            is_added = self.actions.get(node) == does.ADD and node in given
            if is_added and np.isnan(capacity[number]):
                capacity[number] = _policy_capacity(given[node], resource)
        return capacity


def _policy_capacity(given: CapacityPolicy, resource: str) -> float:
    by_resource = {
        "cpu": given.cpu_cores,
        "memory": given.memory_bytes,
        "network": given.network_bytes_per_s,
    }
    return by_resource[resource] or np.nan


def _resource_loads(
    resource: str,
    planned: PlannedNodes,
    key_groups: pa.Table,
    assignment: pa.Table,
    measured: pa.Table | None,
    later_nodes: pa.Table | None,
) -> Row:
    """One line per node; percent of its capacity, None where a snapshot does not know the node."""
    columns = RESOURCES[resource]
    tables = [key_groups, assignment, *([] if measured is None else [measured])]
    known = [planned.nodes, *([] if later_nodes is None else [later_nodes])]
    names = Names.of(
        [table["operator_id"] for table in tables], [table["node_id"] for table in tables + known]
    )
    loads = key_groups[columns.load].to_numpy()
    codes = names.codes(key_groups["operator_id"], key_groups["key_group"])
    placed = Placed.of(
        names.codes(assignment["operator_id"], assignment["key_group"]),
        names.node_numbers(assignment["node_id"]),
    )
    sums = {
        "before": _sums(names, names.node_numbers(key_groups["node_id"]), loads),
        "promised": _sums(names, placed.nodes_of(codes), loads),
    }
    capacity = {
        "before": _capacities(names, planned.nodes, columns.capacity),
        "promised": planned.capacities(names, resource),
    }
    if measured is not None and later_nodes is not None:
        at = names.node_numbers(measured["node_id"])
        sums["measured"] = _sums(names, at, measured[columns.load].to_numpy())
        capacity["measured"] = _capacities(names, later_nodes, columns.capacity)
    states = planned.states
    return {
        "resource": resource,
        "nodes": [
            {"node_id": node, "state": states.get(node, CAME_LATER)}
            | {
                name: _percent(sums[name][number], capacity[name][number]) if name in sums else None
                for name in ("before", "promised", "measured")
            }
            for number, node in enumerate(names.nodes.to_pylist())
        ],
    }


def node_traffic(history: JobHistory, name: str) -> Row:
    """Records a second from node to node, before a plan and with it, by its snapshot's rates."""
    found = find_plan(history, name)
    plan = plan_row(history, found.plan_id)
    where = [("snapshot_id", "=", plan["snapshot_id"])]
    columns = ["from_operator_id", "from_key_group", "to_operator_id", "to_key_group",
               "records_per_s"]  # fmt: skip
    traffic = history.cache.read("snapshots.traffic", history.job, where, columns)
    if traffic is None or traffic.num_rows == 0:
        return {"nodes": [], "before": [], "after": [], "routes": plan["routes"] or 0}
    assignment = _assignment(history.cache, history.job, found.plan_id)
    nodes = [assignment["node_id"], assignment["previous_node_id"]]
    names = Names.of([assignment["operator_id"]], nodes)
    codes = names.codes(assignment["operator_id"], assignment["key_group"])
    ends = [names.codes(traffic[f"{end}_operator_id"], traffic[f"{end}_key_group"])
            for end in ("from", "to")]  # fmt: skip
    rates = traffic["records_per_s"].to_numpy()
    matrices = {
        when: _matrix(Placed.of(codes, names.node_numbers(assignment[column])), ends, rates,
                      len(names.nodes))
        for when, column in (("before", "previous_node_id"), ("after", "node_id"))
    }  # fmt: skip
    return {
        "nodes": names.nodes.to_pylist(), **matrices,
        "routes": plan["routes"] or 0,
    }  # fmt: skip


def difference(
    history: JobHistory, old: str, new: str, wanted: MoveFilter, offset: int, limit: int
) -> Row:
    """Key groups that two plans place differently: how many, and one page of them."""
    before, after = _placement(history, old), _placement(history, new)
    names = Names.of(
        [before["operator_id"], after["operator_id"]], [before["node_id"], after["node_id"]]
    )
    placed = [
        Placed.of(
            names.codes(table["operator_id"], table["key_group"]),
            names.node_numbers(table["node_id"]),
        )
        for table in (before, after)
    ]
    same = np.array_equal(placed[0].codes, placed[1].codes)
    codes = placed[0].codes if same else np.union1d(placed[0].codes, placed[1].codes)
    nodes = [each.nodes_of(codes) for each in placed]
    different = (nodes[0] != nodes[1]) & _wanted(names, wanted, codes, nodes)
    at = np.flatnonzero(different)
    page = at[offset : offset + limit]
    columns = (codes[page], nodes[0][page], nodes[1][page])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return {
        "total": int(at.size),
        "key_groups": int(codes.size),
        "offset": offset,
        "rows": [
            {
                "operator_id": names.operators[code // SPAN].as_py(),
                "key_group": code % SPAN,
                "old_node_id": None if left == NOWHERE else names.nodes[left].as_py(),
                "new_node_id": None if right == NOWHERE else names.nodes[right].as_py(),
            }
            for code, left, right in rows
        ],
    }


def _wanted(names: Names, wanted: MoveFilter, codes: Ints, nodes: list[Ints]) -> npt.NDArray[Any]:
    keep = np.ones(codes.size, dtype=bool)
    if wanted.operator_id is not None:
        keep &= codes // SPAN == _number(names.operators, wanted.operator_id)
    for column, name in zip(nodes, (wanted.from_node_id, wanted.to_node_id), strict=True):
        if name is not None:
            keep &= column == _number(names.nodes, name)
    return keep


def _number(known: pa.Array, name: str) -> int:
    """The number of a name; one that nothing has where it is not known."""
    found = pc.index(known, pa.scalar(name, known.type)).as_py()
    return found if found >= 0 else -2


def _placement(history: JobHistory, name: str) -> pa.Table:
    """Where a plan puts key groups; version 0 is where they were before the first plan."""
    if name == BEFORE_THE_FIRST:
        rows = _assignment(history.cache, history.job, first_plan(history))
        return rows.drop_columns(["node_id"]).rename_columns({"previous_node_id": "node_id"})
    return _assignment(history.cache, history.job, find_plan(history, name).plan_id)


def _assignment(cache: TableCache, job: str, plan_id: str) -> pa.Table:
    columns = ["operator_id", "key_group", "node_id", "previous_node_id"]
    rows = cache.read("plans.assignments", job, [("plan_id", "=", plan_id)], columns)
    if rows is None or rows.num_rows == 0:
        raise NotFound(
            f"the content of plan {plan_id} is missing from plans.assignments", value=plan_id,
            remedy="run the DAG that checks invariants, or restore the table from a copy",
        )  # fmt: skip
    return rows


def _snapshot(history: JobHistory, column: str, value: Any) -> Row | None:
    rows = history.cache.rows("snapshots.snapshots", history.job)
    return _newest([row for row in rows if row[column] == value])


def _later_snapshot(history: JobHistory, found: PlanReference) -> Row | None:
    """The newest snapshot whose windows ran under the version.

    One that a rollback derived names the head of its day, with loads from before it. Snapshots
    of earlier versions of Ballast do not say what was applied: their head counts.
    """
    if found.version is None:
        return None
    rows = history.cache.rows("snapshots.snapshots", history.job)
    return _newest(
        [
            row
            for row in rows
            if row["head_version"] == found.version
            and row["applied_plan_id"] in (None, found.plan_id)
        ]
    )


def _newest(rows: Sequence[Row]) -> Row | None:
    return max(rows, key=lambda row: (row["period_end_at"], row["created_at"]), default=None)


def _snapshot_rows(
    cache: TableCache, part: str, snapshot: Row, columns: Sequence[str] | None = None
) -> pa.Table:
    where = [("snapshot_id", "=", snapshot["snapshot_id"])]
    rows = cache.read(f"snapshots.{part}", snapshot["job"], where, columns)
    if rows is None or rows.num_rows == 0:
        raise NotFound(
            f"snapshot {snapshot['snapshot_id']} has no rows in snapshots.{part}",
            value=snapshot["snapshot_id"], remedy="look at a newer version",
        )  # fmt: skip
    return rows


def _key_groups(history: JobHistory, snapshot: Row, resources: Sequence[str]) -> pa.Table:
    loads = [RESOURCES[resource].load for resource in resources]
    columns = ["operator_id", "key_group", "node_id", *loads]
    return _snapshot_rows(history.cache, "key_groups", snapshot, columns)


def _sums(names: Names, nodes: Ints, loads: Floats) -> Floats:
    held = nodes >= 0
    sums = np.bincount(nodes[held], weights=loads[held], minlength=len(names.nodes))
    return np.asarray(sums, dtype=np.float64)


def _capacities(names: Names, nodes: pa.Table, column: str) -> Floats:
    capacity = np.full(len(names.nodes), np.nan)
    capacity[names.node_numbers(nodes["node_id"])] = nodes[column].to_numpy(zero_copy_only=False)
    return capacity


def _percent(load: float, capacity: float) -> float | None:
    return None if not capacity > 0 else 100.0 * float(load) / float(capacity)


def _matrix(placed: Placed, ends: list[Ints], rates: Floats, size: int) -> list[list[float]]:
    source, target = (placed.nodes_of(end) for end in ends)
    known = (source >= 0) & (target >= 0)
    pairs = source[known] * size + target[known]
    flat = np.bincount(pairs, weights=rates[known], minlength=size * size)
    matrix: list[list[float]] = flat.astype(np.float64).reshape(size, size).tolist()
    return matrix


def _sorted_set(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    found = pc.unique(pa.chunked_array([pc.unique(column) for column in columns]))
    return found.take(pc.sort_indices(found))
