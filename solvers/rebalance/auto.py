"""The best of all methods, never worse than what it replaces; says which of them won.

Order: unchanged (the yardstick), Flux (fast at any size), then the MILP of seed 000, 4.3.1, which
starts from the best plan so far. A plan that is no better than leaving things alone is not made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ballast.contracts.errors import InvalidInput
from solvers.budget import Budget
from solvers.problem import Problem
from solvers.rebalance import flux, milp, unchanged
from solvers.rebalance.compare import Score, best_index
from solvers.result import PROOF_TOLERANCE, Result, TraceStep, make_result
from solvers.stop import Clock, Stop

NAME = "auto"
FLUX_SHARE = 0.3
"""Share of the time that Flux may take; it needs it only with very many key groups."""


def solve(
    problem: Problem, budget: Budget, stop: Stop, seed: int, params: Mapping[str, Any]
) -> Result:
    """Run the methods one after another and keep the best plan and the best bound."""
    clock = stop.start()
    _check(params)
    first = unchanged.solve(problem, budget, stop, seed, {})
    if not first.is_solved:
        return first
    results = [first]
    flux_alone = milp.is_too_large(problem, budget, stop)
    flux_stop = _share(stop, clock, 0.9 if flux_alone else FLUX_SHARE)
    results.append(flux.solve(problem, budget, flux_stop, seed, params.get("flux", {})))
    if not _is_settled(results) and not clock.is_over():
        best = results[_winner(problem, results)]
        milp_params = {**params.get("milp", {}), "start": best.assignment}
        milp_stop = _share(stop, clock, 1.0)
        results.append(milp.solve(problem, budget, milp_stop, seed, milp_params))
    return _combine(problem, results, clock)


def _check(params: Mapping[str, Any]) -> None:
    unknown = sorted(set(params) - {"flux", "milp"})
    if unknown:
        raise InvalidInput(
            f"method 'auto' does not know the parameters {unknown}",
            allowed="flux and milp, each with the parameters of that method",
        )


def _share(stop: Stop, clock: Clock, share: float) -> Stop:
    remaining = clock.remaining()
    return stop if remaining is None else Stop(max(remaining * share, 1e-3), stop.steps)


def _is_settled(results: list[Result]) -> bool:
    """Nothing can be gained any more: a perfect balance, nothing left to drain, no move made."""
    return any(
        r.load_distance <= PROOF_TOLERANCE and r.draining_load == 0 and r.moves == 0
        for r in results
    )


def _winner(problem: Problem, results: list[Result]) -> int:
    return best_index([Score.of(problem, r.assignment) for r in results])


def _combine(problem: Problem, results: list[Result], clock: Clock) -> Result:
    winner = results[_winner(problem, results)]
    bound = max(r.bound for r in results if r.bound is not None)
    return make_result(
        problem,
        winner.assignment.copy(),
        method=winner.method,
        bound=bound,
        seconds=clock.elapsed(),
        trace=_joined_trace(results),
        reason="; ".join(_account(r) for r in results),
    )


def _account(result: Result) -> str:
    note = f" ({result.reason})" if result.method == milp.NAME and result.reason else ""
    return (
        f"{result.method}: load distance {result.load_distance:.6g} % "
        f"with {result.moves} moves{note}"
    )


def _joined_trace(results: list[Result]) -> tuple[TraceStep, ...]:
    """Each method's own clock started when the one before it ended."""
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
