"""Outcomes: rows of plans.outcomes from figures, their report, and broken promises. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ballast.contracts.records import Outcome
from spark_jobs.outcome.figures import PlanFigure


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
    measurement: Measurement, period: MeasuredPeriod, figures: Sequence[PlanFigure]
) -> list[Outcome]:
    """One outcome for each figure that was measured."""
    return [
        Outcome(
            job=measurement.job,
            version=measurement.version,
            plan_id=measurement.plan_id,
            run_id=measurement.run_id,
            figure=figure.name,
            unit=figure.unit,
            before=figure.before,
            promised=figure.promised,
            measured=float(figure.measured),
            windows=period.windows,
            period_start_at=period.start_at,
            period_end_at=period.end_at,
            measured_at=measurement.measured_at,
        )
        for figure in figures
        if figure.measured is not None
    ]


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
    return f"{outcome.figure}: promised {promised}, measured {measured}{before}"


def broken_promise(outcomes: Sequence[Outcome], limit_pct: float) -> str | None:
    """The message if the load distance is worse than promised by more than a limit, or None."""
    for outcome in outcomes:
        if outcome.figure != "load_distance_pct" or outcome.promised is None:
            continue
        excess = outcome.measured - outcome.promised
        if excess > limit_pct:
            return (
                f"version {outcome.version} promised a load distance of {outcome.promised:.2f} % "
                f"and has {outcome.measured:.2f} %, {excess:.2f} more (allowed {limit_pct:g})"
            )
    return None
