"""Plans load and traffic together under one budget, with a target that lasts over rounds.

One search moves toward a target placement of clusters (cluster_target.py), another one follows the
gain of single moves; the better plan wins (candidate_choice.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ballast.contracts.tables import MEASURED
from solvers.collocate.candidate_choice import ROUNDING, best_lexicographic, best_weighted
from solvers.collocate.candidate_search import CandidateSearch
from solvers.collocate.cluster_packing import ClusterTarget
from solvers.collocate.cluster_target import TargetParams, propose_target
from solvers.collocate.joint_bound import collocation_bound, load_distance_bound
from solvers.collocate.joint_params import JointParams
from solvers.collocate.joint_round import Candidate, JointRound
from solvers.collocate.load_levelling import level_load
from solvers.collocate.move_elimination import without_idle_moves
from solvers.collocate.move_objective import make_move_objective
from solvers.collocate.placement_state import TINY
from solvers.collocate.plan_gate import held_back_key_groups, hold_back_plan
from solvers.collocate.target_memory import TargetMemory
from solvers.model.amortisation import HeldBack
from solvers.model.budget import Budget
from solvers.model.method import RebalanceMethod
from solvers.model.problem import Problem
from solvers.model.result import Result, SolverRun, infeasible_result, make_result
from solvers.model.stop import Stop
from solvers.rebalance.fewest_moves import has_noise
from solvers.rebalance.start import why_infeasible

NAME = "joint"


@dataclass(frozen=True, eq=False, slots=True)
class JointPlan:
    """The plan of one round.

    Attributes:
        result: The placement, with figures of the loads that it would have.
        target: Target to pass to the next round; None if there is none.
        saved_rate: Priced records saved per unit of time, against the necessary moves alone.
        held_back: Moves whose gain does not pay for their state.
        winner: Which search made the placement.
    """

    result: Result
    target: TargetMemory | None
    saved_rate: float
    held_back: tuple[HeldBack, ...]
    winner: str


def plan(problem: Problem, budget: Budget, stop: Stop, seed: int, params: JointParams) -> JointPlan:
    """Plan one round.

    Args:
        problem: Nodes, key groups, loads and traffic.
        budget: Limits of moves, bytes and pause.
        stop: When the search ends.
        seed: Seed of everything random.
        params: Parameters, with the target that the last round returned.

    Returns:
        The plan. Its result is infeasible, with the reason, if no placement keeps every rule.
    """
    clock = stop.start()
    reason = why_infeasible(problem, budget)
    if reason is not None:
        return _infeasible(problem, params, reason, clock.elapsed())
    round_ = JointRound(problem, budget, stop, clock, seed, params)
    target, memory = _choose_target(round_)
    objective, held = make_move_objective(round_, target)
    myopic, held_myopic = make_move_objective(round_, None)
    search = CandidateSearch(round_, objective)
    nothing = search.nothing()
    candidates = search.candidates(nothing, target, myopic)
    fitting = [c for c in candidates if not round_.over_cap(c.assignment).any()]
    if not fitting:
        return _infeasible(problem, params, _cap_reason(round_, nothing), round_.clock.elapsed())
    is_stalled = memory is not None and memory.is_stalled
    if round_.is_weighted:
        best = best_weighted(round_, fitting, nothing, search.rated, is_stalled=is_stalled)
    else:
        best = best_lexicographic(round_, fitting, nothing, is_stalled=is_stalled)
    if params.precision == MEASURED and has_noise(problem) and best is not nothing:
        best = without_idle_moves(round_, search, best, nothing)
    held = held if target is not None else held_myopic
    if nothing in fitting:
        best, held_plan = hold_back_plan(round_, best, nothing)
        held = (*held, *held_plan)
    held = (*held, *held_back_key_groups(round_, best, held))
    levelled = _levelled(round_, search, best, nothing, target)
    if memory is not None:
        memory = memory.moved(problem, best.assignment, levelled.assignment)
        memory = memory.after(levelled.saved, round_.graph.total_rate)
    return JointPlan(
        _result(round_, search, best, levelled),
        memory,
        levelled.saved - nothing.saved,
        held,
        best.name,
    )


def _infeasible(problem: Problem, params: JointParams, reason: str, seconds: float) -> JointPlan:
    result = infeasible_result(problem, method=NAME, reason=reason, seconds=seconds)
    return JointPlan(result, params.target, 0.0, (), "nothing")


def _cap_reason(round_: JointRound, nothing: Candidate) -> str:
    """Return the message for a round in which every candidate has a node over its cap.

    Necessary moves can put records between nodes, and these can be what exceeds the cap.
    """
    problem = round_.problem
    node, resource = (int(i) for i in np.argwhere(round_.over_cap(nothing.assignment))[0])
    return (
        f"no plan was found that keeps every node under its cap on "
        f"{problem.resources[resource]!r} once records between nodes are counted, first "
        f"{problem.node_ids[node]!r}; add a node, raise the capacity or the budget, or "
        "balance the resource instead of capping it"
    )


def _choose_target(round_: JointRound) -> tuple[ClusterTarget | None, TargetMemory | None]:
    """Return the target of the last round, or a new one where it is due, gone or cheaper."""
    memory = round_.params.target
    known = None if memory is None else memory.resolve(round_.problem)
    if memory is not None and known is not None:
        is_due = memory.is_stalled or memory.age >= round_.params.propose_every
        if not is_due:
            return known, memory
    fresh = _propose(round_, 0 if memory is None else memory.proposals)
    if fresh is None:
        return None, None
    if known is not None and memory is not None and not memory.is_stalled:
        # Moves toward the old target would be lost, so a new one must need clearly fewer moves.
        saves = known.migrations(round_.start) - fresh.migrations(round_.start)
        if saves <= 0 and fresh.excess >= known.excess - TINY:
            return known, replace(memory, age=0)
    proposals = 1 if memory is None else memory.proposals + 1
    return fresh, TargetMemory.of(round_.problem, fresh, proposals, memory)


def _propose(round_: JointRound, proposals: int) -> ClusterTarget | None:
    params = TargetParams(round_.bound, round_.params.score_factor, round_.seed + proposals)
    return propose_target(
        round_.problem, round_.graph, round_.params.costs, round_.budget, round_.start, params
    )


def _levelled(
    round_: JointRound,
    search: CandidateSearch,
    best: Candidate,
    nothing: Candidate,
    target: ClusterTarget | None,
) -> Candidate:
    """Return the plan with its load levelled by the moves left, where it keeps within the bound.

    A weighted search has weighed load against traffic already. A plan beyond the load bound used
    its budget on that. ``best`` itself if nothing got more level.
    """
    if round_.is_weighted or best.distance > round_.bound + TINY:
        return best
    assignment, exchanges = level_load(round_, best.assignment, target)
    if not exchanges or round_.over_cap(assignment).any():
        return best
    found = search.rated(best.name, assignment, round_.bound)
    if round_.params.precision == MEASURED and has_noise(round_.problem):
        found = without_idle_moves(round_, search, found, nothing)
    is_better = found.distance < best.distance and found.saved >= best.saved * (1.0 - ROUNDING)
    return found if is_better else best


def _result(
    round_: JointRound, search: CandidateSearch, best: Candidate, levelled: Candidate
) -> Result:
    problem, budget = round_.problem, round_.budget
    return make_result(
        problem,
        levelled.assignment.copy(),
        SolverRun(
            method=NAME,
            bound=load_distance_bound(problem, budget, round_.params.costs),
            seconds=round_.clock.elapsed(),
            trace=tuple(search.trace),
            reason=_reason(round_, search, best, levelled),
            collocation_bound=collocation_bound(problem, budget),
        ),
        after=replace(problem, load=round_.load_under(levelled.assignment)),
    )


def _reason(
    round_: JointRound, search: CandidateSearch, best: Candidate, levelled: Candidate
) -> str:
    won = f"the {best.name} plan won"
    if levelled is not best:
        more = round_.moves(levelled) - round_.moves(best)
        won += (
            f", and {more} more moves without loss of traffic level the load from "
            f"{100 * best.distance:.2f} to {100 * levelled.distance:.2f} %"
        )
    if not round_.params.from_scratch:
        return won
    tried = "was a candidate" if search.scratch_fits else "is over the budget"
    return f"{won}; a first plan: a placement from scratch (COLA) {tried}"


METHOD = RebalanceMethod(
    name=NAME,
    summary=(
        "moves towards a target placement of clusters that lasts over rounds, or by the gain of "
        "single moves, whichever is better"
    ),
    params=JointParams,
    solve=lambda *inputs: plan(*inputs).result,
)
