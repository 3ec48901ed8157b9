"""Past outcomes of a job's promises, which set the width of its next intervals. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ballast.contracts.records import DraftSummary, Outcome, Promise
from solvers.noise.calibration import PastOutcome

WIRE_PER_RECORD = "wire_bytes_per_record"
WITHOUT_NOISE_MODEL = ("bytes", "pause_s", "load_index_pct", "serialise_us")
"""Figures whose intervals come from the spread of earlier outcomes alone."""
VERSIONS_USED = 100
"""The newest versions whose outcomes count."""


@dataclass(frozen=True)
class PastPlans:
    """Outcomes, promises and figures of the job's newest plans."""

    outcomes: Sequence[Outcome] = ()
    promises: Sequence[Promise] = ()
    plans: Sequence[DraftSummary] = ()


def figures_of_plan(plan: DraftSummary) -> dict[str, float]:
    """The figures of a plan that it has columns for, by their names in plans.outcomes.

    The job measures moves, bytes and pause of rerouted keys with those of key groups. Plans of
    versions that could not route keys have NULL for them.
    """
    figures = {
        "moves": plan.moves + plan.forced_moves,
        "bytes": plan.bytes + plan.forced_bytes + (plan.route_bytes or 0),
        "pause_s": plan.pause_s + (plan.route_pause_s or 0.0),
        "load_index_pct": plan.load_index_pct,
        "wire_bytes_per_s": plan.wire_bytes_per_s,
        "serialise_us": plan.serialise_us,
    }
    return {name: float(value) for name, value in figures.items() if value is not None}


def past_outcomes(past: PastPlans, taken_at: datetime) -> dict[str, list[PastOutcome]]:
    """The first outcome of each version by figure, oldest version first.

    Later outcomes of a version are measured on loads that have moved on since the promise. The
    outcomes of all nodes are one figure, because a plan promises each node's load alike. What all
    nodes have in common, such as a burst, moves all of them at once, so that those of one version
    count together as one. Only what was measured before the snapshot counts, so that a retry makes
    the same promises.

    Args:
        past: what was read.
        taken_at: when the snapshot was taken.
    """
    promises = {(row.plan_id, row.figure): row for row in past.promises}
    raw = {
        (plan.plan_id, name): value
        for plan in past.plans
        for name, value in figures_of_plan(plan).items()
        if name in WITHOUT_NOISE_MODEL
    }
    first = first_outcomes(past.outcomes, taken_at)
    promised = [row for row in first if (row.plan_id, row.figure) in promises]
    alike = Counter((row.version, _family(row)) for row in promised)
    found: dict[str, list[PastOutcome]] = defaultdict(list)
    for outcome in promised:
        name, family = (outcome.plan_id, outcome.figure), _family(outcome)
        one = _past_outcome(promises[name], outcome.measured, raw.get(name))
        found[family].append(replace(one, weight=1.0 / alike[outcome.version, family]))
    return dict(found)


def _family(outcome: Outcome) -> str:
    """The figure without the node that it is of."""
    return outcome.figure.partition("/")[0]


def first_outcomes(outcomes: Sequence[Outcome], taken_at: datetime) -> list[Outcome]:
    """The outcomes of each version's first measurement before a time, oldest version first."""
    known = [row for row in outcomes if row.measured_at <= taken_at]
    first: dict[int, datetime] = {}
    for row in known:
        first[row.version] = min(row.measured_at, first.get(row.version, row.measured_at))
    of_first = [row for row in known if row.measured_at == first[row.version]]
    return sorted(of_first, key=lambda row: row.version)


def _past_outcome(promise: Promise, measured: float, raw: float | None) -> PastOutcome:
    """A promise and its outcome.

    A figure without a noise model is compared with the plan's own figure: the promised value may
    already be corrected by earlier outcomes.
    """
    if raw is not None:
        return PastOutcome(raw, raw, raw, 1.0, 1.0, measured)
    if promise.low is None or promise.high is None:
        expected = promise.expected
        return PastOutcome(expected, expected, expected, 1.0, 1.0, measured)
    return PastOutcome(
        promise.expected,
        promise.low,
        promise.high,
        promise.calibration_below or 1.0,
        promise.calibration_above or 1.0,
        measured,
    )
