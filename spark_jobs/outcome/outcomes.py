"""Outcomes: rows of plans.outcomes from figures, their report, and broken promises. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ballast.contracts.promise_side import promise_side
from ballast.contracts.records import Outcome, Promise
from ballast.contracts.tables import INSIDE
from spark_jobs.outcome.figures import PlanFigure

LOAD_DISTANCE = "load_distance_pct"


@dataclass(frozen=True)
class Measurement:
    """Which version a run measured, and when."""

    job: str
    version: int
    plan_id: str
    run_id: str
    measured_at: datetime


@dataclass(frozen=True)
class MeasuredPeriod:
    """The windows that figures were measured over."""

    start_at: datetime
    end_at: datetime
    windows: int

    @classmethod
    def of_windows(cls, ends: Sequence[datetime], window_s: float) -> MeasuredPeriod:
        """The period of windows with these ends, oldest first."""
        return cls(ends[0] - timedelta(seconds=window_s), ends[-1], len(ends))


def outcomes_of(
    measurement: Measurement,
    period: MeasuredPeriod,
    figures: Sequence[PlanFigure],
    promises: Mapping[str, Promise],
) -> list[Outcome]:
    """One outcome for each figure that was measured.

    Args:
        measurement: which version was measured.
        period: the windows.
        figures: the figures; one that the plan has no promise of keeps its own promised value.
        promises: what the plan promises, by figure.
    """
    return [
        _outcome(measurement, period, figure, promises.get(figure.name))
        for figure in figures
        if figure.measured is not None
    ]


def _outcome(
    measurement: Measurement, period: MeasuredPeriod, figure: PlanFigure, promise: Promise | None
) -> Outcome:
    measured = float(figure.measured or 0.0)
    low, high = (promise.low, promise.high) if promise else (None, None)
    return Outcome(
        job=measurement.job,
        version=measurement.version,
        plan_id=measurement.plan_id,
        run_id=measurement.run_id,
        figure=figure.name,
        unit=figure.unit,
        before=figure.before,
        promised=promise.expected if promise else figure.promised,
        measured=measured,
        low=low,
        high=high,
        side=None if low is None or high is None else promise_side(measured, low, high),
        windows=period.windows,
        period_start_at=period.start_at,
        period_end_at=period.end_at,
        measured_at=measurement.measured_at,
    )


def report(outcomes: Sequence[Outcome]) -> list[str]:
    """Promised against measured, one line for each figure after a line on the version."""
    first = outcomes[0]
    period = f"{first.period_start_at:%H:%M:%S} to {first.period_end_at:%H:%M:%S} UTC"
    head = (
        f"version {first.version}, plan {first.plan_id}, over {first.windows} windows from {period}"
    )
    in_order = sorted(outcomes, key=lambda outcome: outcome.figure)
    return [head, *(_line(outcome) for outcome in in_order)]


def _line(outcome: Outcome) -> str:
    promised = "nothing" if outcome.promised is None else f"{outcome.promised:.6g}"
    before = "" if outcome.before is None else f", was {outcome.before:.6g}"
    measured = f"{outcome.measured:.6g} {outcome.unit}"
    if outcome.side is None:
        return f"{outcome.figure}: promised {promised}, measured {measured}{before}"
    interval = f"{outcome.low:.6g} to {outcome.high:.6g}"
    side = outcome.side if outcome.side == INSIDE else f"{outcome.side} the interval"
    return (
        f"{outcome.figure}: promised {promised} (90 % interval {interval}), measured {measured}, "
        f"{side}{before}"
    )


def broken_promise(
    outcomes: Sequence[Outcome], promises: Mapping[str, Promise], limit_pct: float
) -> str | None:
    """The message if the load distance is worse than promised, or None.

    It is worse if it is above the 99.9 % interval; where the plan promises no interval, if it is
    above the promised value by more than a limit.

    Args:
        outcomes: the outcomes of one version.
        promises: what the plan promises, by figure.
        limit_pct: the limit, in percent of the mean.
    """
    for outcome in outcomes:
        if outcome.figure != LOAD_DISTANCE or outcome.promised is None:
            continue
        promise = promises.get(LOAD_DISTANCE)
        if promise is not None and promise.highest is not None:
            return _above_interval(outcome, promise.highest)
        return _above_limit(outcome, outcome.measured - outcome.promised, limit_pct)
    return None


def _above_interval(outcome: Outcome, highest: float) -> str | None:
    if promise_side(outcome.measured, 0.0, highest) == INSIDE:
        return None
    return (
        f"version {outcome.version} promised a load distance of {outcome.promised:.2f} % (90 % "
        f"interval {outcome.low:.2f} to {outcome.high:.2f}) and has {outcome.measured:.2f} %, "
        f"above the 99.9 % interval, which ends at {highest:.2f}"
    )


def _above_limit(outcome: Outcome, excess: float, limit_pct: float) -> str | None:
    if excess <= limit_pct:
        return None
    return (
        f"version {outcome.version} promised a load distance of {outcome.promised:.2f} % "
        f"and has {outcome.measured:.2f} %, {excess:.2f} more (allowed {limit_pct:g})"
    )
