"""What a plan came to: which windows count, and promised against measured. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from ballast.contracts.policy import JobPolicy
from ballast.contracts.scaling import NODE
from ballast.contracts.tables import PLANS_PLANS, PLANS_SCALING
from solvers.model import metrics
from spark_jobs.draft.problem import Row, build_problem
from spark_jobs.draft.wire_traffic import serialise_us, wire_of
from spark_jobs.snapshot.window_selection import (
    TakeUp,
    WindowSummary,
    select_windows,
    windows_needed,
)

NODE_CPU = "cpu_load_cores"
WIRE_PER_RECORD = "wire_bytes_per_record"
# Share of a statistics period that has to be there before a plan is measured.
MEASURED_SHARE = 0.5


@dataclass(frozen=True)
class MeasuredFigures:
    """Figures by their names in plans.plans; None where there was nothing to measure."""

    load_distance_pct: float
    load_distance_points: float
    collocation_factor_pct: float | None
    load_index_pct: float | None = None
    wire_bytes_per_s: float | None = None
    serialise_us: float | None = None
    records_before_per_s: float | None = None
    """Of all key groups in the plan's snapshot, and since."""
    records_per_s: float | None = None


def windows_to_measure(policy: JobPolicy) -> int:
    """The fewest windows that a measurement may use: half a statistics period."""
    return windows_needed(policy, MEASURED_SHARE)


def usable_windows(
    policy: JobPolicy, windows: Sequence[WindowSummary], take_up: TakeUp
) -> tuple[WindowSummary, ...]:
    """The latest windows that ``condense`` would use as well, at most one statistics period."""
    expected = sum(operator.key_groups for operator in policy.operators)
    return select_windows(windows, expected, take_up).usable[-policy.windows_per_period :]


def enough_at(
    policy: JobPolicy, usable: Sequence[WindowSummary], applied_at: datetime, now: datetime
) -> datetime:
    """When enough windows will be there if every window from now on is complete."""
    missing = windows_to_measure(policy) - len(usable)
    last = usable[-1].end_at if usable else applied_at
    return max(last, now) + timedelta(seconds=policy.window_s * missing)


def measure_figures(
    policy: JobPolicy, before: pa.Table, key_groups: pa.Table, nodes: pa.Table, traffic: pa.Table
) -> MeasuredFigures:
    """The figures of the placement as it is, by the very definitions that plans are made by.

    ``before`` are the key groups of the plan's snapshot, ``key_groups`` those measured since.
    """
    known = _between_known(traffic, key_groups)
    problem = build_problem(policy, key_groups, nodes, known)
    has_traffic = problem.traffic_rate is not None
    return MeasuredFigures(
        load_distance_pct=metrics.load_distance(problem, problem.current),
        load_distance_points=metrics.load_distance_points(problem, problem.current),
        collocation_factor_pct=metrics.collocation_factor(problem, problem.current),
        load_index_pct=load_index(before, key_groups),
        wire_bytes_per_s=wire_of(known).bytes_per_s if has_traffic else None,
        serialise_us=serialise_us(key_groups, known),
        records_before_per_s=_total(before, "records_per_s"),
        records_per_s=_total(key_groups, "records_per_s"),
    )


def load_index(before: pa.Table, after: pa.Table) -> float | None:
    """CPU time of a record in percent of what it was; None where one of the two did nothing.

    Of a record: input that grew or shrank since is no merit or fault of the plan.
    """
    was, now = (_total(rows, "cpu_load_cores") for rows in (before, after))
    records_then, records_now = (_total(rows, "records_per_s") for rows in (before, after))
    if was <= 0 or records_then <= 0 or records_now <= 0:
        return None
    return 100.0 * (now / records_now) / (was / records_then)


def _total(rows: pa.Table, column: str) -> float:
    return float(pc.sum(rows[column]).as_py() or 0.0)


def node_figures(
    scaling: Sequence[Row], before: pa.Table, key_groups: pa.Table
) -> list[tuple[str, float, float, float]]:
    """CPU of each node that the plan says something of: figure, before, promised and measured."""
    was, now = _cpu_by_node(before), _cpu_by_node(key_groups)
    return [
        (
            f"{NODE_CPU}/{row['subject_id']}",
            was.get(row["subject_id"], 0.0),
            row["cpu_load_cores"],
            now.get(row["subject_id"], 0.0),
        )
        for row in sorted(scaling, key=lambda row: row["subject_id"])
        if row["subject"] == NODE and row["cpu_load_cores"] is not None
    ]


def _cpu_by_node(key_groups: pa.Table) -> dict[str, float]:
    sums = key_groups.group_by("node_id").aggregate([("cpu_load_cores", "sum")])
    return dict(
        zip(sums["node_id"].to_pylist(), sums["cpu_load_cores_sum"].to_pylist(), strict=True)
    )


def outcome_rows(
    plan: Row,
    ack: Row,
    measured: MeasuredFigures,
    windows: Sequence[WindowSummary],
    window_s: float,
    run_id: str,
    at: datetime,
    by_node: Sequence[tuple[str, float, float, float]] = (),
) -> list[Row]:
    """The rows of plans.outcomes; a figure that could not be measured has none."""
    common = {
        "job": plan["job"],
        "version": ack["version"],
        "plan_id": plan["plan_id"],
        "run_id": run_id,
        "windows": len(windows),
        "period_start_at": windows[0].end_at - timedelta(seconds=window_s),
        "period_end_at": windows[-1].end_at,
        "measured_at": at,
    }
    return [
        {
            **common,
            "figure": figure,
            "unit": _unit(figure),
            "before": before,
            "promised": promised,
            "measured": float(value),
        }
        for figure, before, promised, value in [*_figures(plan, ack, measured), *by_node]
        if value is not None
    ]


def _unit(figure: str) -> str | None:
    if figure == WIRE_PER_RECORD:
        return "bytes/record"
    if figure.startswith(f"{NODE_CPU}/"):
        return PLANS_SCALING.column(NODE_CPU).unit
    return PLANS_PLANS.column(figure).unit


def report(rows: Sequence[Row]) -> list[str]:
    """Promised against measured, in words."""
    first = rows[0]
    period = f"{first['period_start_at']:%H:%M:%S} to {first['period_end_at']:%H:%M:%S} UTC"
    head = (
        f"version {first['version']}, plan {first['plan_id']}, over {first['windows']} windows "
        f"from {period}"
    )
    return [head, *(_words(row) for row in sorted(rows, key=lambda row: row["figure"]))]


def _words(row: Row) -> str:
    promised = "nothing" if row["promised"] is None else f"{row['promised']:.6g}"
    before = "" if row["before"] is None else f", was {row['before']:.6g}"
    measured = f"{row['measured']:.6g} {row['unit']}"
    return f"{row['figure']}: promised {promised}, measured {measured}{before}"


def _figures(
    plan: Row, ack: Row, measured: MeasuredFigures
) -> Iterator[tuple[str, float | None, float | None, float | None]]:
    """Name, value before the plan, value promised, value measured."""
    yield (
        "load_distance_pct",
        plan["load_distance_before_pct"],
        plan["load_distance_pct"],
        measured.load_distance_pct,
    )
    yield (
        "load_distance_points",
        plan["load_distance_before_points"],
        plan["load_distance_points"],
        measured.load_distance_points,
    )
    yield "moves", None, plan["moves"] + plan["forced_moves"], ack["moved_key_groups"]
    # What keys carry and how long it takes is part of what the job measured; plans of versions
    # that could not route keys do not say it.
    n_bytes = plan["bytes"] + plan["forced_bytes"] + (plan["route_bytes"] or 0)
    yield "bytes", None, n_bytes, ack["bytes_moved"]
    pause_s = plan["pause_s"] + (plan["route_pause_s"] or 0.0)
    yield "pause_s", None, pause_s, ack["pause_ms"] / 1000
    yield (
        "collocation_factor_pct",
        plan["collocation_factor_before_pct"],
        plan["collocation_factor_pct"],
        measured.collocation_factor_pct,
    )
    yield "load_index_pct", 100.0, plan["load_index_pct"], measured.load_index_pct
    yield (
        "wire_bytes_per_s",
        plan["wire_bytes_before_per_s"],
        plan["wire_bytes_per_s"],
        measured.wire_bytes_per_s,
    )
    # Input that grew or shrank since is no merit or fault of the plan.
    then, now = measured.records_before_per_s, measured.records_per_s
    yield (
        WIRE_PER_RECORD,
        _of_each(plan["wire_bytes_before_per_s"], then),
        _of_each(plan["wire_bytes_per_s"], then),
        _of_each(measured.wire_bytes_per_s, now),
    )
    yield "serialise_us", None, plan["serialise_us"], measured.serialise_us


def _of_each(total: float | None, records: float | None) -> float | None:
    return None if total is None or not records else total / records


def _between_known(traffic: pa.Table, key_groups: pa.Table) -> pa.Table:
    """Traffic whose two ends are key groups of the job; a row may name others by mistake."""
    known = _names(key_groups["operator_id"], key_groups["key_group"]).combine_chunks()
    ends = (
        pc.is_in(_names(traffic[f"{end}_operator_id"], traffic[f"{end}_key_group"]), known)
        for end in ("from", "to")
    )
    return traffic.filter(pc.and_(*ends))


def _names(operators: pa.ChunkedArray, numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(operators, numbers.cast(pa.string()), "/")


def broken_promise(rows: Sequence[Row], limit_pct: float) -> str | None:
    """What to say where the measured load distance is worse than promised by more than a limit."""
    for row in rows:
        if row["figure"] != "load_distance_pct" or row["promised"] is None:
            continue
        worse = row["measured"] - row["promised"]
        if worse > limit_pct:
            return (
                f"version {row['version']} promised a load distance of {row['promised']:.2f} % and "
                f"has {row['measured']:.2f} %, {worse:.2f} more (allowed {limit_pct:g})"
            )
    return None
