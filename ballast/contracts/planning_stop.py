"""Whether a job plans by itself: after several broken promises in a row it stops (ADR 60). Pure.

The state follows from ``plans.outcomes`` and ``plans.log`` alone. No process stores it, so no crash
can lose it, and processes that read the same rows come to the same state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ballast.contracts.log_events import PLANNING_EVENTS, PLANNING_RESUMED, PLANNING_STOPPED
from ballast.contracts.records import LogEntry, Outcome
from ballast.contracts.tables import INSIDE

LOAD_DISTANCE = "load_distance_pct"
SHOWN_VERSIONS = 5


@dataclass(frozen=True)
class PlanningState:
    """Whether a job plans by itself, and the broken promises that this follows from."""

    stop_after: int | None = None
    """Broken promises in a row after which planning stops; None if it never stops."""
    broken: tuple[Outcome, ...] = ()
    """The first outcome of each of the newest plans in a row that were outside of their interval,
    oldest first."""
    kept: Outcome | None = None
    """The last outcome inside of its interval, which ended a row of broken promises."""
    last_event: LogEntry | None = None
    """The newest ``planning_stopped`` or ``planning_resumed`` of the log."""

    @property
    def is_stopped(self) -> bool:
        """Whether the job makes no plans by itself."""
        return self.stop_after is not None and len(self.broken) >= self.stop_after

    @property
    def is_logged_as_stopped(self) -> bool:
        """Whether the log says that planning is stopped. It may be one event behind the state."""
        return self.last_event is not None and self.last_event.event == PLANNING_STOPPED

    @property
    def since(self) -> datetime | None:
        """When the outcome was measured that stopped planning; None if it is not stopped."""
        if self.stop_after is None or not self.is_stopped:
            return None
        return self.broken[self.stop_after - 1].measured_at

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions of the broken promises in a row, oldest first."""
        return tuple(outcome.version for outcome in self.broken)

    @property
    def reason(self) -> str:
        """Why planning is stopped, with the most likely cause once it is logged; else empty."""
        if not self.is_stopped:
            return ""
        if self.last_event is not None and self.is_logged_as_stopped:
            return self.last_event.reason
        return broken_row_text(self.broken)


def planning_state(
    log: Iterable[LogEntry], outcomes: Iterable[Outcome], stop_after: int | None
) -> PlanningState:
    """The state of a job.

    The first outcome of the load distance of each version counts. Outside of its interval it makes
    the row of broken promises longer, inside it ends the row, and without an interval it does
    neither. Once planning is stopped, a later outcome of the version that is inside ends the row as
    well. ``planning_resumed`` sets aside the outcomes of the versions up to its own. Without a
    version, as after a change of the policy, it sets aside nothing.

    Args:
        log: the events of the job's plans, in any order.
        outcomes: the outcomes of the job's plans, in any order.
        stop_after: ``thresholds.stop_after_broken_promises`` of the policy as it is now.
    """
    events = sorted(
        (entry for entry in log if entry.event in PLANNING_EVENTS), key=lambda entry: entry.at
    )
    set_aside = max(
        (entry.version or 0 for entry in events if entry.event == PLANNING_RESUMED), default=0
    )
    broken: tuple[Outcome, ...] = ()
    kept = None
    for of_version in _by_version(outcomes, set_aside):
        inside = _inside_outcome(of_version, broken, stop_after)
        if inside is not None:
            broken, kept = (), inside
        elif of_version[0].side is not None:
            broken = (*broken, of_version[0])
    return PlanningState(stop_after, broken, kept, events[-1] if events else None)


def broken_row_text(broken: Sequence[Outcome]) -> str:
    """The broken promises of a row in a sentence."""
    shown = broken[-SHOWN_VERSIONS:]
    plans = "1 plan" if len(broken) == 1 else f"{len(broken)} plans in a row"
    more = f"{len(broken) - len(shown)} more, " if len(broken) > len(shown) else ""
    listed = ", ".join(promise_text(outcome) for outcome in shown)
    return (
        f"the measured load distance of {plans} was outside of the promised interval: "
        f"{more}{listed}"
    )


def promise_text(outcome: Outcome) -> str:
    """What was measured for a version, and what was promised."""
    text = f"version {outcome.version} {outcome.measured:.2f} %"
    if outcome.low is None or outcome.high is None:
        return f"{text} ({outcome.side})"
    return f"{text} (promised {outcome.low:.2f} to {outcome.high:.2f})"


def _by_version(outcomes: Iterable[Outcome], set_aside: int) -> list[list[Outcome]]:
    """Outcomes of the load distance of each later version in the order of time, by version."""
    found: dict[int, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.figure == LOAD_DISTANCE and outcome.version > set_aside:
            found[outcome.version].append(outcome)
    return [
        sorted(found[version], key=lambda outcome: (outcome.measured_at, outcome.run_id))
        for version in sorted(found)
    ]


def _inside_outcome(
    of_version: Sequence[Outcome], broken: Sequence[Outcome], stop_after: int | None
) -> Outcome | None:
    """The outcome of a version that ends the row; None if it has none."""
    first, *later = of_version
    if first.side == INSIDE:
        return first
    is_stopped = stop_after is not None and len(broken) + (first.side is not None) >= stop_after
    return next((row for row in later if is_stopped and row.side == INSIDE), None)
