"""The fewest moves whose measured load distance is within the noise of the best.

The next period measures the load distance with noise, so two plans whose expected figures differ by
a small part of the noise cannot be distinguished. Of all plans that are so close to the best one,
this method looks for the one with the fewest moves, then the fewest bytes. The number of moves and
the effect of the noise are optimised together (noise_potential.py, ADR 59): it looks for the fewest
moves with which the median of the measured load distance is at most

    level = median under the best plan + tolerance

From the current placement it makes moves, and from the best plan it takes moves back; then it
replaces moves by fewer. With very many key groups it takes moves back from the best plan and from
searches that end at a larger load distance.

Without noise it returns the best plan. Key groups that the best plan takes off draining nodes leave
them here too, and what is left of the budget takes off more.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np

from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.method import Parameter, RebalanceMethod, check_parameters
from solvers.model.problem import BoolArray, IntArray, Problem
from solvers.model.result import Result, SolverRun, TraceStep, infeasible_result, make_result
from solvers.model.stop import SolverClock, Stop
from solvers.noise.load_distance_distribution import LoadDistanceDistribution, next_load_distance
from solvers.rebalance import search
from solvers.rebalance.bound import counting_bound
from solvers.rebalance.compare import without_useless_moves
from solvers.rebalance.fewest_moves_search import Goal, lower, replace_moves, undo_needless
from solvers.rebalance.kernels.arrays import NOWHERE
from solvers.rebalance.noise_potential import ENOUGH, NodeTerms, NoisyPlacement
from solvers.rebalance.search import SearchParams
from solvers.rebalance.search_arrays import Layout
from solvers.rebalance.start import must_move_mask, why_infeasible, within_budget

NAME = "fewest_moves"
BEST_SHARE = 0.5
"""Share of the time for the best plan, where none is given."""
ONE_SD = 0.8413
"""The probability of a normal variable to be below its mean plus one standard deviation."""
MOST_ITEMS = 4_000
"""Beyond this many key groups the moves come from searches that end early."""
EARLY_ENDS = 5
"""Such searches: the load distance at which they end is bisected."""
EARLY_SHARE = 0.15
"""Share of the time that is left which each of them may take."""
ENDING_S = 2e-6
"""Seconds a key group that are kept for checking the plan and for the result."""
TAKERS = 64
"""Emptiest nodes that are tried for each key group that leaves a draining node."""
IDLE_ROUNDS = 150
"""Tries to replace moves, without fewer of them, after which it ends."""
ROUNDING = 1e-6
"""Relative: sums that moves built differ by less from sums of the placement."""


@dataclass(frozen=True, slots=True)
class FewestMovesParams:
    """Parameters of the method."""

    tolerance: Annotated[
        float,
        Parameter(
            "how far the expected load distance may be above that of the best plan, in standard "
            "deviations of the load distance that the next period will measure",
            at_least=0,
        ),
    ] = 0.05
    """At 0.05 one period of each tells the better of two plans in 51 of 100 cases, where 50 would
    be a guess (ADR 59)."""
    start: IntArray | None = field(default=None, compare=False)
    """The best plan, if it is known; None: a search looks for it first."""

    def __post_init__(self) -> None:
        check_parameters(NAME, self)


def has_noise(problem: Problem) -> bool:
    """Return whether a balanced resource has noise, so that plans can be too close to compare."""
    noise = problem.noise
    return noise is not None and bool(noise.variance[:, problem.balanced_mask].any())


def solve(
    problem: Problem, budget: Budget, stop: Stop, seed: int, params: FewestMovesParams
) -> Result:
    """Return the plan with the fewest moves that is found within the noise of the best plan.

    Arguments and result are described in ``RebalanceMethod``.
    """
    clock = stop.start()
    reason = why_infeasible(problem, budget)
    if reason is not None:
        return infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
    best, trace = _best_plan(problem, budget, stop, seed, params)
    why = "is not known" if problem.noise is None else "is 0"
    plan, reason = best, f"the noise of the loads {why}, so this is the best plan"
    if has_noise(problem):
        run = _FewestMoves(problem, budget, replace(params, start=best), seed, stop, clock)
        plan, reason = run.plan(), run.reason
    return make_result(
        problem,
        plan.copy(),
        SolverRun(
            method=NAME,
            bound=counting_bound(problem, budget),
            seconds=clock.elapsed(),
            trace=trace,
            reason=reason,
        ),
    )


def _best_plan(
    problem: Problem, budget: Budget, stop: Stop, seed: int, params: FewestMovesParams
) -> tuple[IntArray, tuple[TraceStep, ...]]:
    """Return the plan with the least known load distance, and the trace of its search."""
    if params.start is not None:
        return np.asarray(params.start, dtype=np.int64), ()
    seconds = None if stop.seconds is None else BEST_SHARE * stop.seconds
    found = search.solve(problem, budget, Stop(seconds, stop.steps), seed, SearchParams())
    return found.assignment, found.trace


def tolerance_of(distribution: LoadDistanceDistribution, share: float) -> float:
    """Return a share of the standard deviation of the load distance that will be measured."""
    spread = distribution.quantile(ONE_SD) - distribution.quantile(1.0 - ONE_SD)
    return share * spread / 2.0


def _until_the_end(clock: SolverClock, problem: Problem) -> SolverClock:
    """Return a clock that keeps time for checking the plan and for the figures of the result."""
    if clock.seconds is None:
        return clock
    ending = min(ENDING_S * problem.n_key_groups, 0.3 * clock.seconds)
    return SolverClock(clock.seconds - ending, clock.started)


class _FewestMoves:
    """One call of the method. ``params.start`` is the best plan."""

    def __init__(
        self,
        problem: Problem,
        budget: Budget,
        params: FewestMovesParams,
        seed: int,
        stop: Stop,
        clock: SolverClock,
    ) -> None:
        best = problem.current if params.start is None else params.start
        self.problem, self.budget, self.best = problem, budget, best
        self.seed, self.stop, self.clock = seed, stop, _until_the_end(clock, problem)
        measured = next_load_distance(problem, best)
        self.tolerance = tolerance_of(measured, params.tolerance)
        self.level = measured.median + self.tolerance
        self.layout = Layout.of(problem, budget)
        self.stays_away = self._stays_away()
        self.reason = ""

    def _stays_away(self) -> BoolArray:
        """[G]: the key group must move, or it leaves a draining node in the best plan."""
        drained = self.problem.draining[self.problem.current] & (self.best != self.problem.current)
        return np.asarray(must_move_mask(self.problem) | drained)

    def plan(self) -> IntArray:
        """Return the plan with the fewest moves that was found and keeps all rules."""
        terms = NodeTerms.of(self.problem, self.layout, self.level)
        if self.level <= 0 or not len(self.layout.groups) or not terms.fixed.n_balanced:
            self.reason = "nothing can be moved within the noise"
            return self.best
        at = self._placement(terms, self.best)
        if at.is_enough:
            self._reduce(at)
        found = self.layout.assignment_of(at.place)
        plan = found if self._is_kept(found) else self.best
        self.reason = self._account(plan)
        return plan

    def _placement(self, terms: NodeTerms, assignment: IntArray) -> NoisyPlacement:
        layout = self.layout
        home = np.where(self.stays_away[layout.groups], NOWHERE, layout.fixed.home)
        least = np.where(must_move_mask(self.problem), self.best, self.problem.current)
        ceiling = max(metrics.load_distance(self.problem, p) for p in (least, self.best)) / 100.0
        return NoisyPlacement(terms, layout.places_of(assignment), home, ceiling * (1.0 + ROUNDING))

    def _reduce(self, at: NoisyPlacement) -> None:
        """Search from the best plan. ``at`` is the best placement afterwards."""
        undo_needless(at, self.clock.is_over)
        is_large = len(self.layout.groups) > MOST_ITEMS
        self._move_forward(at, none=is_large)
        if is_large:
            self._end_early(at)
        else:
            rounds = IDLE_ROUNDS * 100 if self.stop.steps is None else self.stop.steps
            random = np.random.default_rng(self.seed)
            replace_moves(at, random, rounds, IDLE_ROUNDS, self.clock.is_over)
        # Items that have moved anyway go where the noise raises the load distance least.
        lower(at, Goal(0.0, at.used[0], is_free=True), self.clock.is_over)
        self._drain(at)

    def _move_forward(self, at: NoisyPlacement, *, none: bool) -> None:
        """Make moves, or none, from the current placement; keep them if they are fewer."""
        known, price = at.place.copy(), at.price
        at.set(np.where(at.home == NOWHERE, known, at.home))
        lower(at, Goal(most_moves=0.0 if none else price[0]), self.clock.is_over)
        undo_needless(at, self.clock.is_over)
        if not at.is_enough or at.price > price:
            at.set(known)

    def _end_early(self, at: NoisyPlacement) -> None:
        """Bisect the load distance at which a search ends; keep the plan with the fewest moves."""
        known, price = at.place.copy(), at.price
        low = metrics.load_distance(self.problem, self.best)
        high = min(self.level, metrics.load_distance(self.problem, self.problem.current))
        for _ in range(EARLY_ENDS):
            if self.clock.is_over() or high - low <= ROUNDING * high:
                break
            middle = (low + high) / 2.0
            at.set(self._places_at(middle))
            if not at.is_enough or not at.fits(np.zeros((1, 3)))[0]:
                high = middle
                continue
            low = middle
            undo_needless(at, self.clock.is_over)
            if at.price < price:
                known, price = at.place.copy(), at.price
        at.set(known)

    def _places_at(self, distance: float) -> IntArray:
        """Return the places of a search that ends early, with the drains of the best plan."""
        remaining = self.clock.remaining()
        seconds = None if remaining is None else max(1e-3, EARLY_SHARE * remaining)
        found = search.solve(
            self.problem,
            self.budget,
            Stop(seconds, 1 if self.stop.steps is None else self.stop.steps),
            self.seed,
            SearchParams(enough=distance),
        )
        stays = self.stays_away & (found.assignment == self.problem.current)
        return self.layout.places_of(np.where(stays, self.best, found.assignment))

    def _drain(self, at: NoisyPlacement) -> None:
        """Move key groups off draining nodes, largest first, if budget and level allow it."""
        every = np.flatnonzero(at.terms.fixed.takes)
        left = np.flatnonzero(~at.terms.fixed.takes[at.place])
        share = at.terms.fixed.load[left].max(axis=1, initial=0.0)
        for item in left[np.argsort(-share, kind="stable")].tolist():
            if self.clock.is_over():
                return
            fullness = (at.sums[every] * at.terms.fixed.inverse[every]).max(axis=1)
            nodes = every[np.argsort(fullness, kind="stable")[:TAKERS]]
            items = np.full(len(nodes), item)
            may = at.may_go(items, nodes) & at.fits(at.fees(items, nodes))
            nodes = nodes[may]
            change = at.changes(items[may], nodes)
            if len(nodes) and at.total + change.min() <= ENOUGH:
                at.move(item, int(nodes[np.argmin(change)]))

    def _is_kept(self, plan: IntArray) -> bool:
        """Return whether the plan, computed from scratch, keeps all rules and the level."""
        problem = self.problem
        if metrics.over_cap(problem, plan).any() or not within_budget(problem, self.budget, plan):
            return False
        if not np.array_equal(without_useless_moves(problem, plan), plan):
            return False
        return next_load_distance(problem, plan).median <= self.level * (1.0 + ROUNDING)

    def _account(self, plan: IntArray) -> str:
        problem = self.problem
        moves = [int(metrics.voluntary_mask(problem, p).sum()) for p in (plan, self.best)]
        expected = [next_load_distance(problem, p).median for p in (plan, self.best)]
        return (
            f"{moves[0]} moves are expected to measure {expected[0]:.4g} %, the {moves[1]} of the "
            f"best plan {expected[1]:.4g} %; up to {self.tolerance:.2g} points more are within "
            "the noise"
        )


METHOD = RebalanceMethod(
    name=NAME,
    summary=(
        "finds, of all plans that measure as well as the best one within the noise of the loads, "
        "the one with the fewest moves"
    ),
    params=FewestMovesParams,
    solve=solve,
)
