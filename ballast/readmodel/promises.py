"""What plans promised and what was measured: figures with their 90 % intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ballast.contracts import figure_text
from ballast.contracts.records import DraftSummary, Outcome, Promise
from ballast.contracts.tables import PLANS_PLANS, PROMISE_SIDES
from ballast.readmodel.job_history import LOAD_DISTANCE, JobHistory


@dataclass(frozen=True, kw_only=True)
class PromisedFigure:
    """A figure of a plan as it was before, as the plan promises it, and as it was measured."""

    figure: str
    unit: str
    before: float | None = None
    expected: float | None = None
    """None where the figure is measured and not promised."""
    low: float | None = None
    """Lower end of the 90 % interval; None without an interval."""
    high: float | None = None
    reason: str = ""
    """Why there is no interval; empty if there is one or none is to be expected."""
    measured: float | None = None
    """The first measurement after the plan was taken up: the promise is about this one."""
    side: str | None = None
    """Its side, one of ``PROMISE_SIDES``; None if there is no interval."""
    windows: int | None = None
    measured_at: datetime | None = None
    last_measured: float | None = None
    """The newest measurement of the version."""
    last_side: str | None = None
    last_measured_at: datetime | None = None

    @property
    def before_text(self) -> str | None:
        """The value before the plan, with its unit."""
        return None if self.before is None else figure_text.value_text(self.before, self.unit)

    @property
    def promised_text(self) -> str | None:
        """The expected value with its interval."""
        if self.expected is None:
            return None
        return figure_text.promised_text(self.expected, self.low, self.high, self.unit)

    @property
    def measured_text(self) -> str | None:
        """The first measured value with its side of the interval."""
        return self._measured_text(self.measured, self.side)

    @property
    def last_measured_text(self) -> str | None:
        """The newest measured value with its side of the interval."""
        return self._measured_text(self.last_measured, self.last_side)

    def _measured_text(self, value: float | None, side: str | None) -> str | None:
        if value is None:
            return None
        return figure_text.measured_text(value, self.low, self.high, side, self.unit)


def promised_load_distance(
    history: JobHistory, plan: DraftSummary, version: int | None
) -> PromisedFigure:
    """The load distance of a plan; measured where it came into force with this version."""
    figure = PromisedFigure(
        figure=LOAD_DISTANCE,
        unit=PLANS_PLANS.column(LOAD_DISTANCE).unit or "",
        before=plan.load_distance_before_pct,
        expected=plan.load_distance_pct,
        reason=_reason_without_promise(plan),
    )
    outcomes = history.measurements.get((version, LOAD_DISTANCE), ())
    return _completed(figure, history.promises.get(plan.plan_id), outcomes)


def promised_figures(
    history: JobHistory, plan: DraftSummary, version: int | None, promises: Sequence[Promise]
) -> list[PromisedFigure]:
    """Every figure that a plan promises or that was measured under its version.

    Args:
        history: the job.
        plan: the plan.
        version: the version that it came into force with; None for a draft.
        promises: the promises of the plan.

    Returns:
        The load distance first, and figures of single nodes last.
    """
    promised = {row.figure: row for row in promises}
    outcomes = {
        figure: rows for (of, figure), rows in history.measurements.items() if of == version
    }
    units = {name: rows[0].unit for name, rows in outcomes.items()}
    units |= {name: row.unit for name, row in promised.items()}
    units.pop(LOAD_DISTANCE, None)
    # A plan with promises gives no interval for what is known exactly, such as moves.
    reason = "" if promises else _reason_without_promise(plan)
    return [
        promised_load_distance(history, plan, version),
        *(
            _completed(
                PromisedFigure(figure=name, unit=units[name], reason=reason),
                promised.get(name),
                outcomes.get(name, ()),
            )
            for name in sorted(units, key=lambda name: ("/" in name, name))
        ),
    ]


def promises_of_plan(history: JobHistory, plan_id: str) -> list[Promise]:
    """Every promise of a plan; none for a plan of an earlier version."""
    return history.cache.read_records(Promise, history.job, ("plan_id", "=", plan_id))


def _completed(
    figure: PromisedFigure, promise: Promise | None, outcomes: Sequence[Outcome]
) -> PromisedFigure:
    """The figure with its promise, and with its outcomes, which are the oldest first."""
    if promise is not None:
        figure = replace(
            figure, expected=promise.expected, low=promise.low, high=promise.high,
            reason=promise.reason,
        )  # fmt: skip
    if not outcomes:
        return figure
    first, last = outcomes[0], outcomes[-1]
    return replace(
        figure,
        before=first.before if figure.before is None else figure.before,
        expected=first.promised if figure.expected is None else figure.expected,
        measured=first.measured,
        side=first.side,
        windows=first.windows,
        measured_at=first.measured_at,
        last_measured=last.measured,
        last_side=last.side,
        last_measured_at=last.measured_at,
    )


def _reason_without_promise(plan: DraftSummary) -> str:
    if plan.precision is None:
        return figure_text.EARLIER_VERSION
    return figure_text.NOT_PROMISED


@dataclass(frozen=True)
class PromiseCounts:
    """How many versions were measured inside of their interval, below it and above it."""

    inside: int
    below: int
    above: int

    @property
    def measured(self) -> int:
        """How many versions were compared with an interval."""
        return self.inside + self.below + self.above

    @property
    def text(self) -> str:
        """The share inside, beside the one that is promised."""
        return figure_text.share_text(self.inside, self.measured)


def promise_counts(history: JobHistory) -> PromiseCounts:
    """How often the load distance of a version was inside of its interval when first measured."""
    sides = [
        rows[0].side
        for (_, figure), rows in history.measurements.items()
        if figure == LOAD_DISTANCE
    ]
    return PromiseCounts(**{side: sides.count(side) for side in PROMISE_SIDES})
