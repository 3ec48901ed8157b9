"""The problem in the rows of a snapshot, as names and arrays, and the noise of its loads. Pure.

It consists of names and arrays because the library does not import the solvers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ballast.contracts.errors import InvalidInput
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import SnapshotNoise
from ballast.contracts.tables import MEASURED, TOO_FEW

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ResourceColumns:
    """The names of the columns of a resource: load, capacity of a node, and noise of the load."""

    load: str
    capacity: str
    window_sd: str | None = None
    """The standard deviation of the load from window to window; None for a resource whose load is
    a state of the newest window, and no mean over windows."""
    mean_error: str | None = None
    level: str | None = None
    """The load that is expected from this period and those before."""
    level_error: str | None = None


RESOURCES: Mapping[str, ResourceColumns] = {
    "cpu": ResourceColumns(
        "cpu_load_cores",
        "cpu_capacity_cores",
        "cpu_window_sd_cores",
        "cpu_mean_error_cores",
        "cpu_level_cores",
        "cpu_level_error_cores",
    ),
    "memory": ResourceColumns("memory_load_bytes", "memory_capacity_bytes"),
    "network": ResourceColumns(
        "network_load_bytes_per_s",
        "network_capacity_bytes_per_s",
        "network_window_sd_bytes_per_s",
        "network_mean_error_bytes_per_s",
        "network_level_bytes_per_s",
        "network_level_error_bytes_per_s",
    ),
}


@dataclass(frozen=True, eq=False)
class SnapshotTraffic:
    """Records a second between pairs of key groups; key groups are indices."""

    source: Ints
    target: Ints
    rate: Floats


@dataclass(frozen=True, eq=False)
class ProblemColumns:
    """The problem of a snapshot, as names and arrays in a fixed order."""

    node_ids: tuple[str, ...]
    resources: tuple[str, ...]
    capacity: Floats
    """A row for each node, a column for each resource."""
    node_state: tuple[str, ...]
    rack: tuple[str, ...]
    key_group_ids: tuple[str, ...]
    operator_ids: tuple[str, ...]
    load: Floats
    """A row for each key group, a column for each resource."""
    state_bytes: Ints
    current: Ints
    """The index of the current node of each key group."""
    pause_c0_s: float
    pause_s_per_byte: float
    weight: Floats
    balanced: npt.NDArray[np.bool_]
    traffic_from: Ints | None = None
    traffic_to: Ints | None = None
    traffic_rate: Floats | None = None


@dataclass(frozen=True, eq=False)
class NoiseColumns:
    """The noise of a snapshot's loads, in the order of the problem's key groups and traffic."""

    window_sd: Floats
    """A row for each key group, a column for each resource."""
    mean_error: Floats
    """As ``window_sd``."""
    level_error: Floats
    """As ``window_sd``: the standard errors of the problem's loads. Equal to ``mean_error`` where
    the loads are means of the period."""
    rows: tuple[SnapshotNoise, ...]
    """A row for each resource whose noise was estimated."""
    traffic_window_sd: Floats | None = None
    """A value for each edge; None without traffic, NaN if unknown."""
    traffic_mean_error: Floats | None = None


def problem_columns(
    policy: JobPolicy, key_groups: pa.Table, nodes: pa.Table, traffic: pa.Table
) -> ProblemColumns:
    """Return the problem in the rows of a snapshot.

    Loads are means of the period. If the precision of plans is ``measured``, they are the expected
    loads from this period and those before, where the snapshot has them.

    Args:
        policy: its objective names the resources, its precision selects the loads.
        key_groups: rows of snapshots.key_groups, in any order.
        nodes: rows of snapshots.nodes, in any order.
        traffic: rows of snapshots.traffic; none if no traffic was measured.

    Raises:
        InvalidInput: a capacity is missing, or a row names a node or key group that is missing.
    """
    key_groups = _in_order(key_groups)
    nodes = nodes.sort_by("node_id")
    names = key_group_names(key_groups["operator_id"], key_groups["key_group"])
    objective = policy.objective
    flows = _traffic(names, traffic)
    return ProblemColumns(
        node_ids=tuple(nodes["node_id"].to_pylist()),
        resources=objective.resources,
        capacity=_matrix(nodes, [RESOURCES[name].capacity for name in objective.resources]),
        node_state=tuple(nodes["state"].to_pylist()),
        key_group_ids=tuple(names.to_pylist()),
        operator_ids=tuple(key_groups["operator_id"].to_pylist()),
        load=_loads(policy, key_groups),
        state_bytes=key_groups["state_bytes"].to_numpy(),
        current=_node_indices(names, key_groups["node_id"], nodes["node_id"]),
        rack=tuple(nodes["rack"].to_pylist()),
        pause_c0_s=policy.pause.c0_s,
        pause_s_per_byte=policy.pause.s_per_byte,
        weight=np.array([objective.weights.get(name, 1.0) for name in objective.resources]),
        balanced=np.array([name not in objective.caps for name in objective.resources]),
        traffic_from=None if flows is None else flows.source,
        traffic_to=None if flows is None else flows.target,
        traffic_rate=None if flows is None else flows.rate,
    )


def _loads(policy: JobPolicy, key_groups: pa.Table) -> Floats:
    """The loads by key group and resource; a key group without an expected load has its mean."""
    found = [RESOURCES[name] for name in policy.objective.resources]
    load = _matrix(key_groups, [of.load for of in found])
    for r, of in enumerate(found):
        level = _numbers(key_groups, of.level) if policy.solver.precision == MEASURED else None
        if level is not None:
            load[:, r] = np.where(np.isfinite(level), level, load[:, r])
    return load


def _numbers(rows: pa.Table, column: str | None) -> Floats | None:
    """The values of a column, NaN for NULL; None if the rows do not have it."""
    if column is None or column not in rows.column_names:
        return None
    return np.array(rows[column].to_numpy(), dtype=np.float64)


def _in_order(key_groups: pa.Table) -> pa.Table:
    return key_groups.sort_by([("operator_id", "ascending"), ("key_group", "ascending")])


def noise_reason(policy: JobPolicy, key_groups: pa.Table, rows: Sequence[SnapshotNoise]) -> str:
    """Return why the noise of a snapshot's loads is not known; empty if it is known."""
    by_resource, noisy = {row.resource: row for row in rows}, _noisy_resources(policy)
    if not noisy:
        return f"the noise of {' and '.join(policy.objective.resources)} is not estimated"
    for name in noisy:
        row, column = by_resource.get(name), RESOURCES[name].window_sd
        if row is None or column not in key_groups.column_names:
            return "the snapshot was taken by an earlier version, without the noise of the loads"
        if row.status == TOO_FEW:
            return row.reason
        if key_groups[column].null_count == key_groups.num_rows:
            return f"no key group of the snapshot has a known noise of its {name} load"
    return ""


def noise_columns(
    policy: JobPolicy, key_groups: pa.Table, traffic: pa.Table, rows: Sequence[SnapshotNoise]
) -> NoiseColumns | None:
    """Return the noise in the rows of a snapshot; None if :func:`noise_reason` has a reason.

    A key group that fell silent on a dead node has no noise of its own. It gets the noise that is
    usual for its load, and its mean counts as that of a single window: it is the last known one.

    Args:
        policy: its objective names the resources.
        key_groups: rows of snapshots.key_groups, in any order.
        traffic: rows of snapshots.traffic, in the order in which the problem has them.
        rows: rows of snapshots.noise.
    """
    if noise_reason(policy, key_groups, rows):
        return None
    ordered = _in_order(key_groups)
    resources = [RESOURCES[name] for name in policy.objective.resources]
    found = [_load_noise(ordered, of) for of in resources]
    mean_error = np.column_stack([error for _, error in found])
    level_error = mean_error.copy()
    for r, of in enumerate(resources):
        known = _numbers(ordered, of.level_error) if policy.solver.precision == MEASURED else None
        if known is not None:
            level_error[:, r] = np.where(np.isfinite(known), known, mean_error[:, r])
    return NoiseColumns(
        window_sd=np.column_stack([window_sd for window_sd, _ in found]),
        mean_error=mean_error,
        level_error=level_error,
        rows=tuple(row for row in rows if row.resource in policy.objective.resources),
        traffic_window_sd=_traffic_noise(traffic, "records_window_sd_per_s"),
        traffic_mean_error=_traffic_noise(traffic, "records_mean_error_per_s"),
    )


def _noisy_resources(policy: JobPolicy) -> list[str]:
    """The resources of the objective whose loads are means over windows."""
    return [name for name in policy.objective.resources if RESOURCES[name].window_sd]


def _load_noise(key_groups: pa.Table, of: ResourceColumns) -> tuple[Floats, Floats]:
    """The standard deviations and mean errors of a resource; zeros for one without noise."""
    if of.window_sd is None or of.mean_error is None:
        return np.zeros(key_groups.num_rows), np.zeros(key_groups.num_rows)
    load, window_sd, mean_error = (
        np.array(key_groups[column].to_numpy(), dtype=np.float64)
        for column in (of.load, of.window_sd, of.mean_error)
    )
    unknown = ~(np.isfinite(window_sd) & np.isfinite(mean_error))
    total = load[~unknown].sum()
    usual = window_sd[~unknown].sum() / total if total > 0 else 0.0
    window_sd[unknown] = mean_error[unknown] = usual * load[unknown]
    return window_sd, mean_error


def _traffic_noise(traffic: pa.Table, column: str) -> Floats | None:
    if traffic.num_rows == 0 or column not in traffic.column_names:
        return None
    return np.asarray(traffic[column].to_numpy(), dtype=np.float64)


def key_group_names(operator_ids: pa.ChunkedArray, numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return ``identity.key_group_name`` of each row of two columns."""
    return pc.binary_join_element_wise(operator_ids, numbers.cast(pa.string()), "/")


def _matrix(table: pa.Table, columns: list[str]) -> npt.NDArray[np.float64]:
    for column in columns:
        if table[column].null_count:
            raise InvalidInput(
                f"the snapshot has no {column} for {table[column].null_count} of its rows",
                remedy="give every node this capacity in the job's policy, or leave the "
                "resource out of objective.resources; then start a new run",
            )
    return np.column_stack([table[column].to_numpy() for column in columns])


def _node_indices(
    names: pa.ChunkedArray, held_by: pa.ChunkedArray, node_ids: pa.ChunkedArray
) -> npt.NDArray[np.int64]:
    index = pc.index_in(held_by, value_set=node_ids.combine_chunks())
    if index.null_count:
        at = pc.index(pc.is_null(index), True).as_py()
        raise InvalidInput(
            f"the snapshot has key group {names[at].as_py()} on node {held_by[at].as_py()!r}, "
            "which is none of its nodes",
            value=held_by[at].as_py(),
            allowed=", ".join(node_ids.to_pylist()),
            remedy="add the node to the job's policy, then start a new run",
        )
    return np.asarray(index.to_numpy(), dtype=np.int64)


def _traffic(names: pa.ChunkedArray, traffic: pa.Table) -> SnapshotTraffic | None:
    """Return the traffic of a snapshot; None where no traffic was measured."""
    if traffic.num_rows == 0:
        return None
    source, target = (
        _key_group_indices(
            names, key_group_names(traffic[f"{end}_operator_id"], traffic[f"{end}_key_group"])
        )
        for end in ("from", "to")
    )
    return SnapshotTraffic(source, target, traffic["records_per_s"].to_numpy())


def _key_group_indices(names: pa.ChunkedArray, ends: pa.ChunkedArray) -> Ints:
    index = pc.index_in(ends, value_set=names.combine_chunks())
    if index.null_count:
        unknown = ends[pc.index(pc.is_null(index), True).as_py()].as_py()
        raise InvalidInput(
            f"the snapshot has traffic of key group {unknown}, which is none of its key groups",
            value=unknown,
            remedy="start a new run",
        )
    return np.asarray(index.to_numpy(), dtype=np.int64)


class LoadedProblem(Protocol):
    """The names and loads that a series is made for."""

    @property
    def key_group_ids(self) -> tuple[str, ...]: ...

    @property
    def resources(self) -> tuple[str, ...]: ...

    @property
    def load(self) -> Floats: ...


def load_series(problem: LoadedProblem, rows: pa.Table) -> Floats:
    """[key groups, resources, steps]: the loads of a problem over time.

    A key group without rows was on a dead node. Its last known load counts as constant. Without
    any rows the load of the period is the only step.

    Args:
        problem: names, resources and loads.
        rows: rows of snapshots.load_series.
    """
    steps = pc.unique(rows["step"]).sort().to_pylist()
    if not steps:
        return np.array(problem.load)[:, :, None]
    series = np.repeat(np.array(problem.load)[:, :, None], len(steps), axis=2)
    names = key_group_names(rows["operator_id"], rows["key_group"])
    group = pc.index_in(names, value_set=pa.array(problem.key_group_ids)).to_numpy()
    step = pc.index_in(rows["step"], value_set=pa.array(steps)).to_numpy()
    for r, resource in enumerate(problem.resources):
        series[group, r, step] = rows[RESOURCES[resource].load].to_numpy()
    return series
