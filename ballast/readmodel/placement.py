"""Placements of plans: load per node, traffic between nodes, and where two plans differ.

Key groups are encoded as numbers (operator times ``SPAN``, plus key group), so that numpy compares
and looks up a million of them at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ballast.contracts import figure_text, scaling
from ballast.contracts.errors import NotFound
from ballast.contracts.policy import CapacityPolicy, JobPolicy, policy_from_json
from ballast.contracts.problem_columns import RESOURCES, ResourceColumns
from ballast.contracts.records import DraftSummary, Promise, Snapshot
from ballast.contracts.tables import ABOVE, BELOW, INSIDE, LARGEST_KEY_GROUP
from ballast.readmodel.changes import SNAPSHOT_STATES, node_change_label, scaling_rows
from ballast.readmodel.job_history import (
    BEFORE_THE_FIRST,
    JobHistory,
    PlanReference,
    find_plan,
    first_plan,
    summary_of,
)
from ballast.readmodel.moves import MoveFilter
from ballast.readmodel.promises import promises_of_plan

SPAN = LARGEST_KEY_GROUP + 1
NOWHERE = -1
NODE_CPU = "cpu_load_cores/"
"""Before the name of a node: the figure of its CPU load."""
CAME_LATER = "came later"
"""State of a node that is in a later snapshot only."""
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NameIndex:
    """The numbers of the operators and nodes that occur in some columns."""

    operators: pa.Array
    nodes: pa.Array

    @staticmethod
    def of(operators: Sequence[pa.ChunkedArray], nodes: Sequence[pa.ChunkedArray]) -> NameIndex:
        """Number the names that occur in any of the columns, in sorted order."""
        return NameIndex(_sorted_set(operators), _sorted_set(nodes))

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
class PlacedKeyGroups:
    """The node of each key group, in the order of the key groups."""

    codes: Ints
    nodes: Ints

    @staticmethod
    def of(codes: Ints, nodes: Ints) -> PlacedKeyGroups:
        """Sort by key group, unless the rows are in order already, as those of most plans are."""
        if codes.size < 2 or bool(np.all(codes[1:] > codes[:-1])):
            return PlacedKeyGroups(codes, nodes)
        order = np.argsort(codes, kind="stable")
        return PlacedKeyGroups(codes[order], nodes[order])

    def nodes_of(self, codes: Ints) -> Ints:
        """The node of each key group; NOWHERE for one that is not placed."""
        if codes.size == self.codes.size and np.array_equal(codes, self.codes):
            return self.nodes
        if self.codes.size == 0:
            return np.full(codes.size, NOWHERE, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.codes, codes), self.codes.size - 1)
        return np.where(self.codes[at] == codes, self.nodes[at], NOWHERE)


@dataclass(frozen=True)
class NodeUtilisation:
    """The load of a node in percent of its capacity; None where a snapshot lacks the node."""

    node_id: str
    state: str
    before: float | None
    promised: float | None
    measured: float | None
    low: float | None = None
    """Lower end of the promised 90 % interval; None without an interval."""
    high: float | None = None

    @property
    def side(self) -> str | None:
        """Whether the measured load is inside the interval, below or above it."""
        if self.measured is None or self.low is None or self.high is None:
            return None
        if self.measured < self.low:
            return BELOW
        return ABOVE if self.measured > self.high else INSIDE

    @property
    def promised_text(self) -> str | None:
        """The promised load with its interval."""
        if self.promised is None:
            return None
        return figure_text.promised_text(self.promised, self.low, self.high, "%")

    @property
    def measured_text(self) -> str | None:
        """The measured load with its side of the interval."""
        if self.measured is None:
            return None
        return figure_text.measured_text(self.measured, self.low, self.high, self.side, "%")


@dataclass(frozen=True)
class ResourceLoads:
    """The load of every node on one resource."""

    resource: str
    nodes: list[NodeUtilisation]


@dataclass(frozen=True)
class NodeLoads:
    """Loads before a plan, as promised, and as measured under its version."""

    resources: list[ResourceLoads]
    measured_at: datetime | None
    snapshot_at: datetime
    objective: str


def node_loads(history: JobHistory, name: str) -> NodeLoads:
    """Loads before a plan, as promised, and as measured under its version.

    The promised load is the new placement with the loads of the plan's snapshot, or the expected
    value of the plan's promise for the node. The measured load is that of the newest snapshot that
    was taken while the version was in force.

    Raises:
        NotFound: the plan or its snapshot is no longer kept.
    """
    found = find_plan(history, name)
    plan = summary_of(history, found.plan_id)
    snapshot = _snapshot_of(history, plan)
    policy = policy_from_json(snapshot.policy_json)
    resources = policy.objective.resources
    later = _later_snapshot(history, found)
    actions = scaling.node_actions(scaling.scaled(scaling_rows(history, found.plan_id)))
    promises = {
        row.figure.removeprefix(NODE_CPU): row
        for row in promises_of_plan(history, found.plan_id)
        if row.figure.startswith(NODE_CPU)
    }
    nodes = _snapshot_rows(history, "nodes", snapshot)
    planned = PlannedNodes(policy, nodes, actions, promises)
    key_groups = _key_groups(history, snapshot, resources)
    assignment = _assignment(history, found.plan_id)
    measured = None
    if later is not None:
        measured = MeasuredNodes(
            _snapshot_rows(history, "nodes", later), _key_groups(history, later, resources)
        )
    return NodeLoads(
        resources=[
            _resource_loads(resource, planned, key_groups, assignment, measured)
            for resource in resources
        ],
        measured_at=None if later is None else later.period_end_at,
        snapshot_at=snapshot.period_end_at,
        objective=plan.objective,
    )


@dataclass(frozen=True)
class MeasuredNodes:
    """Rows of a later snapshot: its nodes, and the loads of its key groups."""

    nodes: pa.Table
    key_groups: pa.Table


@dataclass(frozen=True)
class PlannedNodes:
    """The nodes of a plan's snapshot, the plan's actions on them, and its promises of their
    loads."""

    policy: JobPolicy
    nodes: pa.Table
    """Rows of snapshots.nodes."""
    actions: Mapping[str, str]
    promises: Mapping[str, Promise]
    """The promises of the CPU load of nodes, in cores."""

    @property
    def states(self) -> dict[str, str]:
        """Each node's state: new, draining, removed, taken back, or as in the snapshot."""
        columns = (self.nodes[name].to_pylist() for name in ("node_id", "state"))
        found = dict(zip(*columns, strict=True))
        states = dict(found)
        for node, action in self.actions.items():
            before = SNAPSHOT_STATES.get(found.get(node, ""))
            label = node_change_label(action, before)
            if label is not None and found.get(node) != "dead":
                states[node] = "new" if action == scaling.ADD else label
        return states

    def capacities(self, names: NameIndex, resource: str) -> Floats:
        """Capacities by the snapshot; those of nodes that the plan adds by the policy."""
        capacity = _capacities(names, self.nodes, RESOURCES[resource].capacity)
        in_policy = {node.id: node.capacity for node in self.policy.nodes}
        for number, node in enumerate(names.nodes.to_pylist()):
            is_added = self.actions.get(node) == scaling.ADD and node in in_policy
            if is_added and np.isnan(capacity[number]):
                capacity[number] = _policy_capacity(in_policy[node], resource)
        return capacity

    def with_promise(
        self, node: NodeUtilisation, resource: str, capacity: float
    ) -> NodeUtilisation:
        """The node with its promised load instead of the planned one, where there is a promise."""
        promise = self.promises.get(node.node_id) if resource == "cpu" else None
        if promise is None or not capacity > 0:
            return node
        low, expected, high = (
            None if value is None else 100.0 * value / capacity
            for value in (promise.low, promise.expected, promise.high)
        )
        return replace(node, promised=expected, low=low, high=high)


def _policy_capacity(capacity: CapacityPolicy, resource: str) -> float:
    by_resource = {
        "cpu": capacity.cpu_cores,
        "memory": capacity.memory_bytes,
        "network": capacity.network_bytes_per_s,
    }
    return by_resource[resource] or np.nan


def _resource_loads(
    resource: str,
    planned: PlannedNodes,
    key_groups: pa.Table,
    assignment: pa.Table,
    measured: MeasuredNodes | None,
) -> ResourceLoads:
    columns = RESOURCES[resource]
    tables = [key_groups, assignment, *([] if measured is None else [measured.key_groups])]
    known = [planned.nodes, *([] if measured is None else [measured.nodes])]
    names = NameIndex.of(
        [table["operator_id"] for table in tables], [table["node_id"] for table in tables + known]
    )
    loads = key_groups[columns.load].to_numpy()
    codes = names.codes(key_groups["operator_id"], key_groups["key_group"])
    placed = PlacedKeyGroups.of(
        names.codes(assignment["operator_id"], assignment["key_group"]),
        names.node_numbers(assignment["node_id"]),
    )
    before = _percents(
        _sums(names, names.node_numbers(key_groups["node_id"]), loads),
        _capacities(names, planned.nodes, columns.capacity),
    )
    capacities = planned.capacities(names, resource)
    promised = _percents(_sums(names, placed.nodes_of(codes), loads), capacities)
    after = [None] * len(names.nodes) if measured is None else _measured(names, measured, columns)
    states = planned.states
    rows = zip(names.nodes.to_pylist(), before, promised, after, strict=True)
    nodes = [NodeUtilisation(node, states.get(node, CAME_LATER), *loads) for node, *loads in rows]
    return ResourceLoads(
        resource,
        [
            planned.with_promise(node, resource, capacity)
            for node, capacity in zip(nodes, capacities.tolist(), strict=True)
        ],
    )


def _measured(
    names: NameIndex, measured: MeasuredNodes, columns: ResourceColumns
) -> list[float | None]:
    at = names.node_numbers(measured.key_groups["node_id"])
    sums = _sums(names, at, measured.key_groups[columns.load].to_numpy())
    return _percents(sums, _capacities(names, measured.nodes, columns.capacity))


def _percents(loads: Floats, capacities: Floats) -> list[float | None]:
    return [_percent(*pair) for pair in zip(loads.tolist(), capacities.tolist(), strict=True)]


@dataclass(frozen=True)
class NodeTraffic:
    """Records a second from node to node; rows send, columns receive."""

    nodes: list[str]
    before: list[list[float]]
    after: list[list[float]]
    routes: int
    """Keys that the plan routes; the matrices do not count them."""


def node_traffic(history: JobHistory, name: str) -> NodeTraffic:
    """The traffic between nodes before a plan and with it, by the rates of its snapshot."""
    found = find_plan(history, name)
    plan = summary_of(history, found.plan_id)
    where = [("snapshot_id", "=", plan.snapshot_id)]
    columns = ["from_operator_id", "from_key_group", "to_operator_id", "to_key_group",
               "records_per_s"]  # fmt: skip
    traffic = history.cache.read("snapshots.traffic", history.job, where, columns)
    if traffic is None or traffic.num_rows == 0:
        return NodeTraffic([], [], [], plan.routes or 0)
    assignment = _assignment(history, found.plan_id)
    nodes = [assignment["node_id"], assignment["previous_node_id"]]
    names = NameIndex.of([assignment["operator_id"]], nodes)
    codes = names.codes(assignment["operator_id"], assignment["key_group"])
    ends = [names.codes(traffic[f"{end}_operator_id"], traffic[f"{end}_key_group"])
            for end in ("from", "to")]  # fmt: skip
    rates = traffic["records_per_s"].to_numpy()
    before, after = (
        _matrix(
            PlacedKeyGroups.of(codes, names.node_numbers(column)), ends, rates, len(names.nodes)
        )
        for column in (assignment["previous_node_id"], assignment["node_id"])
    )
    return NodeTraffic(names.nodes.to_pylist(), before, after, plan.routes or 0)


@dataclass(frozen=True)
class KeyGroupChange:
    """A key group that two plans place on different nodes; None where a plan does not place it."""

    operator_id: str
    key_group: int
    old_node_id: str | None
    new_node_id: str | None


@dataclass(frozen=True)
class PlacementDifference:
    """Key groups that two plans place differently: how many, and one page of them."""

    total: int
    key_groups: int
    """Key groups of both plans together."""
    offset: int
    rows: list[KeyGroupChange]


def difference(
    history: JobHistory,
    old: str,
    new: str,
    wanted: MoveFilter,
    offset: int = 0,
    limit: int | None = None,
) -> PlacementDifference:
    """Key groups that two plans place differently.

    Args:
        history: the job.
        old: version or plan id; 0 is before the first plan.
        new: version or plan id.
        wanted: which of the key groups to count and show.
        offset: the first to show.
        limit: how many to show; None shows all.
    """
    before, after = _placement(history, old), _placement(history, new)
    names = NameIndex.of(
        [before["operator_id"], after["operator_id"]], [before["node_id"], after["node_id"]]
    )
    placed = [
        PlacedKeyGroups.of(
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
    page = at[offset : None if limit is None else offset + limit]
    columns = (codes[page], nodes[0][page], nodes[1][page])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return PlacementDifference(
        total=int(at.size),
        key_groups=int(codes.size),
        offset=offset,
        rows=[
            KeyGroupChange(
                operator_id=names.operators[code // SPAN].as_py(),
                key_group=code % SPAN,
                old_node_id=None if left == NOWHERE else names.nodes[left].as_py(),
                new_node_id=None if right == NOWHERE else names.nodes[right].as_py(),
            )
            for code, left, right in rows
        ],
    )


def _wanted(
    names: NameIndex, wanted: MoveFilter, codes: Ints, nodes: list[Ints]
) -> npt.NDArray[Any]:
    keep = np.ones(codes.size, dtype=bool)
    if wanted.operator_id is not None:
        keep &= codes // SPAN == _number(names.operators, wanted.operator_id)
    for column, name in zip(nodes, (wanted.from_node_id, wanted.to_node_id), strict=True):
        if name is not None:
            keep &= column == _number(names.nodes, name)
    return keep


def _number(known: pa.Array, name: str) -> int:
    """Return the number of a name, or a number that no name has if the name is unknown."""
    found = pc.index(known, pa.scalar(name, known.type)).as_py()
    return found if found >= 0 else -2


def _placement(history: JobHistory, name: str) -> pa.Table:
    """Where a plan puts key groups; version 0 is where they were before the first plan."""
    if name == BEFORE_THE_FIRST:
        rows = _assignment(history, first_plan(history))
        return rows.drop_columns(["node_id"]).rename_columns({"previous_node_id": "node_id"})
    return _assignment(history, find_plan(history, name).plan_id)


def _assignment(history: JobHistory, plan_id: str) -> pa.Table:
    columns = ["operator_id", "key_group", "node_id", "previous_node_id"]
    where = [("plan_id", "=", plan_id)]
    rows = history.cache.read("plans.assignments", history.job, where, columns)
    if rows is None or rows.num_rows == 0:
        raise NotFound(
            f"the content of plan {plan_id} is missing from plans.assignments", value=plan_id,
            remedy="run the DAG that checks invariants, or restore the table from a copy",
        )  # fmt: skip
    return rows


def _snapshot_of(history: JobHistory, plan: DraftSummary) -> Snapshot:
    snapshots = history.cache.records(Snapshot, history.job)
    found = _newest([row for row in snapshots if row.snapshot_id == plan.snapshot_id])
    if found is None:
        raise NotFound(
            f"snapshot {plan.snapshot_id} of plan {plan.plan_id} is no longer kept",
            value=plan.snapshot_id, remedy="look at a newer version",
        )  # fmt: skip
    return found


def _later_snapshot(history: JobHistory, found: PlanReference) -> Snapshot | None:
    """The newest snapshot whose windows ran under the version.

    The snapshot of a rollback names the head of its day but has loads from before it. Snapshots
    of earlier versions of Ballast do not name the applied plan: their head counts.
    """
    if found.version is None:
        return None
    snapshots = history.cache.records(Snapshot, history.job)
    return _newest(
        [
            row
            for row in snapshots
            if row.head_version == found.version and row.applied_plan_id in (None, found.plan_id)
        ]
    )


def _newest(snapshots: Sequence[Snapshot]) -> Snapshot | None:
    return max(snapshots, key=lambda row: (row.period_end_at, row.created_at), default=None)


def _snapshot_rows(
    history: JobHistory, part: str, snapshot: Snapshot, columns: Sequence[str] | None = None
) -> pa.Table:
    where = [("snapshot_id", "=", snapshot.snapshot_id)]
    rows = history.cache.read(f"snapshots.{part}", snapshot.job, where, columns)
    if rows is None or rows.num_rows == 0:
        raise NotFound(
            f"snapshot {snapshot.snapshot_id} has no rows in snapshots.{part}",
            value=snapshot.snapshot_id, remedy="look at a newer version",
        )  # fmt: skip
    return rows


def _key_groups(history: JobHistory, snapshot: Snapshot, resources: Sequence[str]) -> pa.Table:
    loads = [RESOURCES[resource].load for resource in resources]
    columns = ["operator_id", "key_group", "node_id", *loads]
    return _snapshot_rows(history, "key_groups", snapshot, columns)


def _sums(names: NameIndex, nodes: Ints, loads: Floats) -> Floats:
    held = nodes >= 0
    sums = np.bincount(nodes[held], weights=loads[held], minlength=len(names.nodes))
    return np.asarray(sums, dtype=np.float64)


def _capacities(names: NameIndex, nodes: pa.Table, column: str) -> Floats:
    capacity = np.full(len(names.nodes), np.nan)
    capacity[names.node_numbers(nodes["node_id"])] = nodes[column].to_numpy(zero_copy_only=False)
    return capacity


def _percent(load: float, capacity: float) -> float | None:
    return None if not capacity > 0 else 100.0 * float(load) / float(capacity)


def _matrix(
    placed: PlacedKeyGroups, ends: list[Ints], rates: Floats, size: int
) -> list[list[float]]:
    source, target = (placed.nodes_of(end) for end in ends)
    known = (source >= 0) & (target >= 0)
    pairs = source[known] * size + target[known]
    flat = np.bincount(pairs, weights=rates[known], minlength=size * size)
    matrix: list[list[float]] = flat.astype(np.float64).reshape(size, size).tolist()
    return matrix


def _sorted_set(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    found = pc.unique(pa.chunked_array([pc.unique(column) for column in columns]))
    return found.take(pc.sort_indices(found))
