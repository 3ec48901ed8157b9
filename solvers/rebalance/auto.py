"""Runs the methods one after another and returns the best plan, with the name of its method.

Order: unchanged (the reference), Flux (fast at any size), the search, and the MILP of
[ICDE17, 4.3.1] if a gap is left and the model is small enough; it starts from the best plan so far
and may prove it optimal. The result is that of ``unchanged`` if no other plan is better.

Where the noise of the loads is known and the precision is ``measured``, the plan is the one with
the fewest moves within the noise of the best (fewest_moves.py). The bound stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from ballast.contracts.errors import InvalidInput
from ballast.contracts.tables import EXACT, PRECISIONS
from solvers.model.budget import Budget
from solvers.model.method import RebalanceMethod
from solvers.model.problem import Problem
from solvers.model.result import PROOF_TOLERANCE, Result, SolverRun, TraceStep, make_result
from solvers.model.stop import SolverClock, Stop
from solvers.rebalance import fewest_moves, flux, milp, search, unchanged
from solvers.rebalance.compare import Score, best_index
from solvers.rebalance.compile_kernels import make_ready
from solvers.rebalance.fewest_moves import FewestMovesParams
from solvers.rebalance.flux import FluxParams
from solvers.rebalance.milp import MilpParams
from solvers.rebalance.search import SearchParams

NAME = "auto"
FLUX_SHARE = 0.1
"""Share of the time that Flux may take. Flux needs all of it only with very many key groups."""
SEARCH_SHARE = 0.85
"""Share of the remaining time for the search if the MILP may run after it."""
LONG_S = 5.0
LONG_SEARCH_SHARE = 0.5
"""Share for the search if more than ``LONG_S`` remain: by then it rarely improves any more, and
the MILP may close the gap."""
BEST_SHARE = 0.6
"""Share of the time for the best plan, where the fewest moves within its noise are looked for."""
LEAST_SHARE = 0.2
"""Least share of the time for the fewest moves, if the methods before it end late."""


@dataclass(frozen=True, slots=True)
class AutoParams:
    """The parameters of each method that ``auto`` runs."""

    flux: FluxParams = field(default_factory=FluxParams)
    search: SearchParams = field(default_factory=SearchParams)
    milp: MilpParams = field(default_factory=MilpParams)
    fewest_moves: FewestMovesParams = field(default_factory=FewestMovesParams)
    precision: str = EXACT
    """One of ``PRECISIONS``: whether the plan stops improving where that cannot be measured; set
    by the planner from ``solver.precision``."""

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise InvalidInput(
                f"auto.precision is {self.precision!r}", allowed=", ".join(PRECISIONS)
            )
        kinds = (FluxParams, SearchParams, MilpParams, FewestMovesParams)
        for one, kind in zip(fields(self), kinds, strict=False):
            value = getattr(self, one.name)
            if not isinstance(value, kind):
                raise InvalidInput(
                    f"auto.{one.name} is {value!r}", allowed=f"the parameters of {one.name}"
                )


def solve(problem: Problem, budget: Budget, stop: Stop, seed: int, params: AutoParams) -> Result:
    """Run the methods one after another; return the best plan with the best bound.

    Arguments and result are described in ``RebalanceMethod``.
    """
    make_ready(problem.n_resources > 1)
    clock = stop.start()
    if params.precision == EXACT or not fewest_moves.has_noise(problem):
        results = _exact_results(problem, budget, stop, seed, params)
        return _combine(problem, results, results[_winner(problem, results)], clock)
    results = _exact_results(problem, budget, _share(stop, clock, BEST_SHARE), seed, params)
    best = results[_winner(problem, results)]
    if not best.is_solved:
        return best
    rest = replace(params.fewest_moves, start=best.assignment)
    results.append(fewest_moves.solve(problem, budget, _rest(stop, clock), seed, rest))
    return _combine(problem, results, results[-1], clock)


def _exact_results(
    problem: Problem, budget: Budget, stop: Stop, seed: int, params: AutoParams
) -> list[Result]:
    """The results of the methods that look for the least load distance."""
    clock = stop.start()
    first = unchanged.METHOD.solve_with_defaults(problem, budget, stop, seed)
    if not first.is_solved:
        return [first]
    results = [first]
    flux_stop = _share(stop, clock, FLUX_SHARE)
    results.append(flux.solve(problem, budget, flux_stop, seed, params.flux))
    if not _is_settled(results) and not clock.is_over():
        search_stop = _share(stop, clock, _search_share(problem, budget, stop, clock))
        results.append(search.solve(problem, budget, search_stop, seed, params.search))
    if not _is_proven(problem, results) and not clock.is_over():
        best = results[_winner(problem, results)]
        milp_params = replace(params.milp, start=best.assignment)
        milp_stop = _share(stop, clock, 1.0)
        results.append(milp.solve(problem, budget, milp_stop, seed, milp_params))
    return results


def _search_share(problem: Problem, budget: Budget, stop: Stop, clock: SolverClock) -> float:
    """Return the share of the remaining time for the search; 1 if the MILP is too large to run."""
    remaining = clock.remaining()
    if remaining is None:
        return 1.0
    share = SEARCH_SHARE if remaining < LONG_S else LONG_SEARCH_SHARE
    for_the_milp = Stop(max(1e-3, remaining * (1 - share)), stop.steps)
    return 1.0 if milp.is_too_large(problem, budget, for_the_milp) else share


def _is_proven(problem: Problem, results: list[Result]) -> bool:
    """Return whether the best plan meets the bound and no load is left on draining nodes.

    The MILP could then only save moves.
    """
    best = results[_winner(problem, results)]
    return _is_settled(results) or (best.gap == 0 and best.draining_load == 0)


def _rest(stop: Stop, clock: SolverClock) -> Stop:
    """Return what is left for the fewest moves, and at least ``LEAST_SHARE`` of all.

    On a busy machine the methods before it may end late. Without time for it the plan would be
    the best one with all its moves, most of which bring nothing that can be measured.
    """
    rest = _share(stop, clock, 1.0)
    if stop.seconds is None or rest.seconds is None:
        return rest
    return Stop(max(rest.seconds, LEAST_SHARE * stop.seconds), rest.steps)


def _share(stop: Stop, clock: SolverClock, share: float) -> Stop:
    remaining = clock.remaining()
    return stop if remaining is None else Stop(max(remaining * share, 1e-3), stop.steps)


def _is_settled(results: list[Result]) -> bool:
    """Return whether no improvement is possible: no deviation, nothing to drain, no moves."""
    return any(
        r.load_distance <= PROOF_TOLERANCE and r.draining_load == 0 and r.moves == 0
        for r in results
    )


def _winner(problem: Problem, results: list[Result]) -> int:
    return best_index([Score.of(problem, r.assignment) for r in results])


def _combine(problem: Problem, results: list[Result], winner: Result, clock: SolverClock) -> Result:
    if not winner.is_solved:
        return winner
    bound = max(r.bound for r in results if r.bound is not None)
    return make_result(
        problem,
        winner.assignment.copy(),
        SolverRun(
            method=winner.method,
            bound=bound,
            seconds=clock.elapsed(),
            trace=_joined_trace(results),
            reason="; ".join(_account(r) for r in results),
        ),
    )


def _account(result: Result) -> str:
    has_note = result.method in (milp.NAME, search.NAME, fewest_moves.NAME) and result.reason
    note = f" ({result.reason})" if has_note else ""
    return (
        f"{result.method}: load distance {result.load_distance:.6g} % "
        f"with {result.moves} moves{note}"
    )


def _joined_trace(results: list[Result]) -> tuple[TraceStep, ...]:
    """Join the traces; the times of each method begin at the end of the one before."""
    joined: list[TraceStep] = []
    offset = 0.0
    for result in results:
        for seconds, step, distance in result.trace:
            joined.append((offset + seconds, _qualified(result.method, step), distance))
        offset += result.seconds
        joined.append((offset, f"{result.method} done", result.load_distance))
    return tuple(joined)


def _qualified(method: str, step: str) -> str:
    return step if step == method else f"{method} {step}"


METHOD = RebalanceMethod(
    name=NAME,
    summary=(
        "runs `unchanged`, `flux`, `search`, `milp` only if a gap is left and the model is small, "
        "and `fewest_moves` where the precision is `measured`; returns the best plan and the best "
        "bound, and names the method"
    ),
    params=AutoParams,
    solve=solve,
)
