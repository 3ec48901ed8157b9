"""Plans for today and for a what-if question, from one snapshot. Reads tables, writes none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ballast.contracts.errors import NotFound, VerificationFailed
from ballast.contracts.records import Snapshot
from ballast.contracts.settings import Settings
from ballast.store.snapshots import newest_snapshot, snapshot_of
from solvers.model.budget import Budget
from solvers.model.method import MethodInputs
from solvers.model.objective import Objective
from solvers.model.problem import Problem
from solvers.model.result import Result
from solvers.model.stop import Stop
from solvers.planner.allocation import AllocationOptions, allocate
from solvers.planner.frontier import FrontierPoint, SweepOptions, sweep
from solvers.planner.what_if_arguments import parse_limit
from solvers.planner.what_if_problem import (
    NodesThatHold,
    apply_question,
    nodes_that_hold,
    with_load_of,
)
from solvers.verify.assignment import verify
from spark_jobs.draft.draft_tables import read_round
from spark_jobs.draft.method_inputs import read_method_inputs
from spark_jobs.draft.round import Round
from spark_jobs.program.run import progress
from spark_jobs.scenario.request import WhatIfRequest

FRONTIER_POINTS = 8


@dataclass(frozen=True, eq=False)
class ComparedPlan:
    """A problem and the plan for it."""

    problem: Problem
    result: Result


@dataclass(frozen=True, eq=False)
class PlanComparison:
    """The plan for today and the plan for the question, from one snapshot."""

    snapshot: Snapshot
    today: ComparedPlan
    asked: ComparedPlan
    held: NodesThatHold | None = None
    """The fewest nodes that hold the load; None if the request does not ask for them."""
    hold_pct: float | None = None
    """The percentage of its capacity that no node may exceed for ``held``."""
    frontier: Sequence[FrontierPoint] = ()
    """Plans for several limits on moves; empty if the request does not ask for them."""


@dataclass(frozen=True)
class _PlanOptions:
    objective: Objective
    budget: Budget
    stop: Stop
    method: str
    params: Mapping[str, Any]
    inputs: MethodInputs
    precision: str


def compare_plans(settings: Settings, job: str, request: WhatIfRequest) -> PlanComparison:
    """Plan for today and for the question, and verify both plans.

    Raises:
        NotFound: the job has no snapshot, or none of the run or time of ``request.load_of``.
        InvalidInput: the question names an unknown node or operator, or no number of nodes holds
            the load.
        VerificationFailed: a plan breaks its promises.
    """
    today = _newest_round(settings, job)
    problem = today.problem
    if request.load_of is not None:
        earlier = read_round(settings, snapshot_of(settings, job, request.load_of))
        problem = with_load_of(problem, earlier.problem)
    problem = apply_question(problem, request.question)
    options = _plan_options(today, request, read_method_inputs(settings, today))
    held = None if request.hold_pct is None else nodes_that_hold(problem, request.hold_pct / 100)
    return PlanComparison(
        today.snapshot,
        today=_plan("today", today.problem, options),
        asked=_plan("the question", problem, _asked_options(options, today.problem, problem)),
        held=held,
        hold_pct=request.hold_pct,
        frontier=_frontier(problem, options) if request.frontier else (),
    )


def _plan(name: str, problem: Problem, options: _PlanOptions) -> ComparedPlan:
    stop = options.stop
    progress.info("planning for %s: %d key groups on %d nodes, at most %g s", name,
                  problem.n_key_groups, problem.n_nodes, stop.seconds)  # fmt: skip
    how = AllocationOptions(
        method=options.method,
        params=options.params,
        inputs=options.inputs,
        precision=options.precision,
    )
    found = allocate(options.objective, problem, options.budget, stop, how)
    plan = ComparedPlan(problem, found.result)
    _check_promises(plan, options)
    return plan


def _frontier(problem: Problem, options: _PlanOptions) -> list[FrontierPoint]:
    how = SweepOptions(
        points=FRONTIER_POINTS, objective=options.objective, precision=options.precision
    )
    return sweep(problem, options.budget, "moves", options.stop, how)


def _newest_round(settings: Settings, job: str) -> Round:
    snapshot = newest_snapshot(settings, job)
    if snapshot is None:
        raise NotFound(
            f"job {job} has no snapshot to plan from", value=job,
            remedy=f"run reoptimize__{job} first",
        )  # fmt: skip
    return read_round(settings, snapshot)


def _asked_options(options: _PlanOptions, today: Problem, asked: Problem) -> _PlanOptions:
    """The options for the question: a load series is scaled as the loads are."""
    return replace(options, inputs=options.inputs.with_load_of(today, asked))


def _plan_options(today: Round, request: WhatIfRequest, inputs: MethodInputs) -> _PlanOptions:
    default = today.policy.budgets.of(today.snapshot.head_version)
    budget = Budget(
        moves=parse_limit("--moves", request.moves, default.moves, int),
        bytes=parse_limit("--bytes", request.bytes, default.bytes, int),
        pause_s=parse_limit("--pause-s", request.pause_s, default.pause_s, float),
    )
    objective = replace(today.objective, kind=request.objective or today.objective.kind)
    method = request.method or ("auto" if request.objective else today.policy.solver.method)
    own, stop = today.policy.solver, Stop(seconds=request.seconds)
    params = own.params if method == own.method and request.objective is None else {}
    return _PlanOptions(objective, budget, stop, method, params, inputs, own.precision)


def _check_promises(plan: ComparedPlan, options: _PlanOptions) -> None:
    """Check every promise of a plan with the verifier, which shares no code with the solvers."""
    problem, result = plan.problem, plan.result
    if not result.is_solved:
        return
    nodes = [problem.node_ids[node] for node in result.assignment.tolist()]
    assignment = (problem.key_group_ids, nodes)
    broken = verify(problem, options.budget, assignment, _promises(result), options.objective)
    if broken:
        raise VerificationFailed(
            f"the plan breaks its promises: {'; '.join(map(str, broken))}; to fix it: report "
            "this as a bug of the solver, and ask for another method"
        )


def _promises(result: Result) -> dict[str, object]:
    return {
        "status": result.status.value,
        "load_distance_before": result.load_distance_before,
        "load_distance": result.load_distance,
        "bound": result.bound,
        "gap": result.gap,
        "moves": result.moves,
        "bytes": result.bytes,
        "forced_moves": result.forced_moves,
        "forced_bytes": result.forced_bytes,
        "pause_s": result.pause_s,
    }
