"""The promises of a draft: what ``measure`` will find, as rows of plans.promises. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ballast.contracts.engine import CAPABILITIES
from ballast.contracts.records import DraftSummary, Promise
from ballast.contracts.tables import PLANS_PLANS
from solvers.noise.promise import (
    NO_NOISE,
    NODE_LOAD,
    ExpectedFigure,
    FigurePromise,
    PlanPromiseRequest,
    plan_promises,
)
from solvers.planner.plan import Plan
from spark_jobs.draft.past_outcomes import WIRE_PER_RECORD, figures_of_plan
from spark_jobs.draft.round import Round

OF_MOVES = ("moves", "bytes", "pause_s")


def promise_rows(job_round: Round, plan: Plan, draft: DraftSummary) -> list[Promise]:
    """What a plan promises, a row for each figure.

    Args:
        job_round: the snapshot that the plan was made from, and the outcomes of earlier promises.
        plan: the plan; one that changes nothing promises what the placement in force will have.
        draft: the row of plans.plans of the plan.
    """
    request = PlanPromiseRequest(
        problem=plan.problem,
        assignment=plan.result.assignment,
        after=plan.after(job_round.objective),
        figures=list(_further_figures(job_round, draft)),
        outcomes=job_round.past_outcomes,
    )
    promised = plan_promises(request)
    if not CAPABILITIES[job_round.policy.engine.kind].placement:
        promised = tuple(each for each in promised if not _is_of_placement(each.figure))
    return [_row(job_round, draft, promise) for promise in promised]


def _is_of_placement(figure: str) -> bool:
    """Whether a figure depends on what a plan places; other plans promise nothing of it."""
    return figure in OF_MOVES or figure.startswith(f"{NODE_LOAD}/")


def _further_figures(job_round: Round, draft: DraftSummary) -> Iterator[ExpectedFigure]:
    """Figures that do not follow from loads and assignment; how many key groups move is exact."""
    figures, total_moves = figures_of_plan(draft), draft.moves + draft.forced_moves
    moves_nothing = total_moves == 0 and not draft.rerouted_keys
    for name, expected in figures.items():
        is_exact = name == "moves" or (name in OF_MOVES and moves_nothing)
        yield ExpectedFigure(name, PLANS_PLANS.column(name).unit or "", expected, is_exact)
    if draft.wire_bytes_per_s is not None and job_round.records_per_s > 0:
        expected = draft.wire_bytes_per_s / job_round.records_per_s
        yield ExpectedFigure(WIRE_PER_RECORD, "bytes/record", expected)


def _row(job_round: Round, draft: DraftSummary, promise: FigurePromise) -> Promise:
    """The row of a promise; its reason is that of the snapshot if the snapshot has no noise."""
    reason = promise.reason
    if reason == NO_NOISE and job_round.noise_reason:
        reason = job_round.noise_reason
    return Promise(
        job=draft.job,
        plan_id=draft.plan_id,
        figure=promise.figure,
        unit=promise.unit,
        expected=promise.expected,
        low=promise.low,
        high=promise.high,
        lowest=promise.lowest,
        highest=promise.highest,
        calibration_below=promise.calibration_below,
        calibration_above=promise.calibration_above,
        reason=reason,
    )
