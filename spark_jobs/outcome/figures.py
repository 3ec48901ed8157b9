"""Figures of a plan: before it, promised by it and measured since. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Ack, Draft, Promise, ScalingRow
from ballast.contracts.scaling import NODE
from ballast.contracts.tables import PLANS_PLANS, PLANS_SCALING
from solvers.model import metrics
from spark_jobs.draft.past_outcomes import WIRE_PER_RECORD, figures_of_plan
from spark_jobs.draft.round import build_problem
from spark_jobs.draft.wire_traffic import serialise_us, wire_of

NODE_CPU = "cpu_load_cores"


@dataclass(frozen=True)
class PlanFigure:
    """One figure of a plan; None for a value that is not known."""

    name: str
    unit: str
    before: float | None
    promised: float | None
    measured: float | None


@dataclass(frozen=True)
class MeasuredFigures:
    """Figures by their names in plans.plans; None if there was nothing to measure."""

    load_distance_pct: float
    load_distance_points: float
    collocation_factor_pct: float | None
    load_index_pct: float | None = None
    wire_bytes_per_s: float | None = None
    serialise_us: float | None = None
    records_before_per_s: float | None = None
    """Of all key groups in the plan's snapshot."""
    records_per_s: float | None = None
    """Of all key groups since the plan was applied."""


@dataclass(frozen=True)
class MeasuredLoads:
    """Loads of key groups and rates of traffic since the plan was applied."""

    key_groups: pa.Table
    traffic: pa.Table


def measure_figures(
    policy: JobPolicy, before: pa.Table, nodes: pa.Table, loads: MeasuredLoads
) -> MeasuredFigures:
    """The figures of the present placement, by the same definitions that plans are made by.

    Args:
        policy: the job's policy.
        before: key groups of the plan's snapshot.
        nodes: nodes under the plan.
        loads: loads and traffic measured since the plan was applied.
    """
    key_groups = loads.key_groups
    traffic = _between_known(loads.traffic, key_groups)
    problem = build_problem(policy, key_groups, nodes, traffic)
    has_traffic = problem.traffic_rate is not None
    return MeasuredFigures(
        load_distance_pct=metrics.load_distance(problem, problem.current),
        load_distance_points=metrics.load_distance_points(problem, problem.current),
        collocation_factor_pct=metrics.collocation_factor(problem, problem.current),
        load_index_pct=load_index_per_record(before, key_groups),
        wire_bytes_per_s=wire_of(traffic).bytes_per_s if has_traffic else None,
        serialise_us=serialise_us(key_groups, traffic),
        records_before_per_s=_total(before, "records_per_s"),
        records_per_s=_total(key_groups, "records_per_s"),
    )


def load_index_per_record(before: pa.Table, after: pa.Table) -> float | None:
    """CPU time of a record in percent of its CPU time before; None if either is zero.

    The index is of a record, so that it does not change when the input grows or shrinks.
    """
    cpu_before, cpu_after = (_total(rows, "cpu_load_cores") for rows in (before, after))
    records_before, records_after = (_total(rows, "records_per_s") for rows in (before, after))
    if cpu_before <= 0 or records_before <= 0 or records_after <= 0:
        return None
    return 100.0 * (cpu_after / records_after) / (cpu_before / records_before)


def _total(rows: pa.Table, column: str) -> float:
    return float(pc.sum(rows[column]).as_py() or 0.0)


def node_figures(
    scaling: Sequence[ScalingRow],
    promises: Iterable[Promise],
    before: pa.Table,
    key_groups: pa.Table,
) -> list[PlanFigure]:
    """CPU load of each node for which the plan promises one.

    Args:
        scaling: rows of plans.scaling of the plan; a plan of an earlier version promises loads
            only there.
        promises: rows of plans.promises of the plan.
        before: key groups of the plan's snapshot.
        key_groups: loads measured since the plan was applied.
    """
    cpu_before, cpu_after = _cpu_by_node(before), _cpu_by_node(key_groups)
    unit = PLANS_SCALING.column(NODE_CPU).unit or ""
    return [
        PlanFigure(
            f"{NODE_CPU}/{node}", unit, cpu_before.get(node, 0.0), load, cpu_after.get(node, 0.0)
        )
        for node, load in sorted(_promised_cpu(scaling, promises).items())
    ]


def _promised_cpu(scaling: Sequence[ScalingRow], promises: Iterable[Promise]) -> dict[str, float]:
    """The promised CPU load by node."""
    promised = {
        row.subject_id: row.cpu_load_cores
        for row in scaling
        if row.subject == NODE and row.cpu_load_cores is not None
    }
    for row in promises:
        name, _, node = row.figure.partition("/")
        if name == NODE_CPU:
            promised[node] = row.expected
    return promised


def _cpu_by_node(key_groups: pa.Table) -> dict[str, float]:
    sums = key_groups.group_by("node_id").aggregate([("cpu_load_cores", "sum")])
    return dict(
        zip(sums["node_id"].to_pylist(), sums["cpu_load_cores_sum"].to_pylist(), strict=True)
    )


def plan_figures(plan: Draft, ack: Ack, measured: MeasuredFigures) -> list[PlanFigure]:
    """The figures of the whole plan."""
    return [*_balance(plan, measured), *_migration(plan, ack), *_traffic(plan, measured)]


def _balance(plan: Draft, measured: MeasuredFigures) -> Iterator[PlanFigure]:
    yield _figure(
        "load_distance_pct",
        plan.load_distance_before_pct,
        plan.load_distance_pct,
        measured.load_distance_pct,
    )
    yield _figure(
        "load_distance_points",
        plan.load_distance_before_points,
        plan.load_distance_points,
        measured.load_distance_points,
    )


def _migration(plan: Draft, ack: Ack) -> Iterator[PlanFigure]:
    """Moves, bytes and pause."""
    promised = figures_of_plan(plan)
    yield _figure("moves", None, promised["moves"], ack.moved_key_groups)
    yield _figure("bytes", None, promised["bytes"], ack.bytes_moved)
    yield _figure("pause_s", None, promised["pause_s"], ack.pause_ms / 1000)


def _traffic(plan: Draft, measured: MeasuredFigures) -> Iterator[PlanFigure]:
    yield _figure(
        "collocation_factor_pct",
        plan.collocation_factor_before_pct,
        plan.collocation_factor_pct,
        measured.collocation_factor_pct,
    )
    yield _figure("load_index_pct", 100.0, plan.load_index_pct, measured.load_index_pct)
    yield _figure(
        "wire_bytes_per_s",
        plan.wire_bytes_before_per_s,
        plan.wire_bytes_per_s,
        measured.wire_bytes_per_s,
    )
    # Of a record, so that the figure does not change when the input grows or shrinks.
    yield PlanFigure(
        WIRE_PER_RECORD,
        "bytes/record",
        _per_record(plan.wire_bytes_before_per_s, measured.records_before_per_s),
        _per_record(plan.wire_bytes_per_s, measured.records_before_per_s),
        _per_record(measured.wire_bytes_per_s, measured.records_per_s),
    )
    yield _figure("serialise_us", None, plan.serialise_us, measured.serialise_us)


def _figure(
    name: str, before: float | None, promised: float | None, measured: float | None
) -> PlanFigure:
    """A figure that is a column of plans.plans."""
    return PlanFigure(name, PLANS_PLANS.column(name).unit or "", before, promised, measured)


def _per_record(total: float | None, records: float | None) -> float | None:
    return None if total is None or not records else total / records


def _between_known(traffic: pa.Table, key_groups: pa.Table) -> pa.Table:
    """Traffic between key groups of the job; a row may name others by mistake."""
    known = _names(key_groups["operator_id"], key_groups["key_group"]).combine_chunks()
    ends = (
        pc.is_in(_names(traffic[f"{end}_operator_id"], traffic[f"{end}_key_group"]), known)
        for end in ("from", "to")
    )
    return traffic.filter(pc.and_(*ends))


def _names(operators: pa.ChunkedArray, numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(operators, numbers.cast(pa.string()), "/")
