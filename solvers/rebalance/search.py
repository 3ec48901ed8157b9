"""Local search by relocations, swaps and replacements, for any size of cluster.

Every intermediate plan is valid. *Polish* repairs the worst node by the best exchange with a node
of opposite deviation. *Anneal* accepts exchanges that lower the excess over a target below the
best so far, and some that do not; *regroup* divides the key groups that moved to two nodes between
them anew (ADR 71). Both are used up to ANNEALED key groups, by two threads with one plan each. At
the end, moves that the result does not need are undone, and the rest of the budget is used to empty
draining nodes. The loops are compiled (ADR 14).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.method import Parameter, RebalanceMethod, check_parameters
from solvers.model.problem import IntArray, Problem
from solvers.model.result import (
    PROOF_TOLERANCE,
    Result,
    SolverRun,
    TraceStep,
    infeasible_result,
    make_result,
)
from solvers.model.stop import SolverClock, Stop
from solvers.rebalance.bound import counting_bound
from solvers.rebalance.compare import best_plan, without_useless_moves
from solvers.rebalance.compile_kernels import make_ready
from solvers.rebalance.kernels.arrays import (
    ALL_KINDS,
    COARSE,
    AnnealingSchedule,
    BestPlan,
    PlanArrays,
    RandomState,
    SearchRule,
)
from solvers.rebalance.search_arrays import Layout, plan_at
from solvers.rebalance.start import place_must_moves, why_infeasible, within_budget

NAME = "search"

PROPOSALS = (20_000, 40_000, 100_000)
"""Proposals of one annealing run, in turn: one step of the stopping rule, 10 to 50 ms. Short runs
are better for many small loads, long ones for few large loads."""
REPAIRS = 200
FEW_REPAIRS = 10
"""Repairs between two checks of the clock; fewer if items are not sorted by size."""
REGROUPED_STEPS = 2
"""With one resource and a budget of moves only: steps that regroup, after each step that anneals.
Regrouping finds better plans wherever it was tried; annealing gets out of plans that it cannot
improve."""
REGROUPINGS = 40_000
"""Proposals of a step that regroups: 20 to 30 ms."""
REGROUPING_COOLINGS = ((1.0, 0.05), (4.0, 0.2))
"""Temperatures of a step that regroups, as ``COOLINGS``."""
FALL = 0.8
"""Target of the next annealing run, as a share of the distance between the bound and the best
plan."""
COOLINGS = ((2.0, 0.06), (8.0, 0.05))
"""Temperatures at the start and the end of a run, as deviations in units of the target; one pair
for each chain. A high temperature finds better plans for many small loads, a low one for few large
loads."""
COOLING_OF_SEVERAL = (1.0, 0.02)
"""Temperatures with several resources."""
COOLING_OF_COSTS = (0.5, 0.005)
"""Temperatures if bytes or pauses are limited: the exchanges of few key groups matter."""
IDLE_RUNS = 200
"""Without any limit the search ends after this many runs without a better plan."""
CLOSE = 2e-6
"""Distance to the bound, as a share of the mean, that is too small to be measured."""
CLOSE_IDLE_RUNS = 10
"""Steps without a better plan after which a search that is this close to the bound ends."""
CHAINS = len(COOLINGS)
"""Plans annealed in parallel. It is a constant, so that a seed and a number of steps give the same
plan on every machine."""
ANNEALED = 30_000
"""Most items for annealing: with more it gains nothing in seconds, and only polishing is done."""
BISECTIONS = 16
TIGHT = 0.3
KEPT_BACK = 0.4
"""Share of the moves that the construction leaves for the exchanges after it."""
PAIR_FALL = 0.3
"""Several resources: each aim as a share of the one before. A single step to the last aim uses more
moves; many small steps do too."""
PAIR_MARGIN = 0.7
"""Deviation at which a pair stops exchanging, as a share of the aim."""
PAIR_ROUNDS = 4
"""Rounds with new partners for each aim."""
PAIRS = 500
"""Pairs between two checks of the clock."""
ORDERS = 4
"""Orders in which needless moves are undone; one order with very many items."""
ENDING_S = 1.5e-6
"""Seconds for each key group that are reserved for undoing needless moves and for the result."""


@dataclass(frozen=True, slots=True)
class SearchParams:
    """Parameters of the search."""

    tolerance: Annotated[
        float,
        Parameter(
            "percentage points by which the load distance may be larger in a plan with fewer moves",
            at_least=0,
        ),
    ] = 1e-4
    enough: Annotated[
        float,
        Parameter("load distance in percent of the mean at which the search ends", at_least=0),
    ] = 0.0

    def __post_init__(self) -> None:
        check_parameters(NAME, self)


def solve(problem: Problem, budget: Budget, stop: Stop, seed: int, params: SearchParams) -> Result:
    """Minimise load distance as far as the time or the steps allow.

    Arguments and result are described in ``RebalanceMethod``.
    """
    make_ready(problem.n_resources > 1)
    clock = stop.start()
    reason = why_infeasible(problem, budget)
    if reason is not None:
        return infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
    start = place_must_moves(problem, budget)
    bound = counting_bound(problem, budget)
    plans = [start]
    trace: tuple[TraceStep, ...] = ()
    if metrics.load_distance(problem, start) > 0 or problem.draining.any():
        floor = max(bound, params.enough)
        search = _PlanSearch(
            Layout.of(problem, budget), start, floor, seed, stop, _search_clock(clock, problem)
        )
        search.run()
        found = search.finished_plan(params)
        trace = tuple(search.trace)
        # Running sums are rounded, so the budget and the caps are checked exactly here.
        plans += [p for p in (search.best_plan(), found) if _keeps_limits(problem, budget, p)]
    return make_result(
        problem,
        without_useless_moves(problem, _fewest_moves(problem, plans, params)),
        SolverRun(method=NAME, bound=bound, seconds=clock.elapsed(), trace=trace),
    )


def _keeps_limits(problem: Problem, budget: Budget, plan: IntArray) -> bool:
    over = metrics.over_cap(problem, plan).any()
    return within_budget(problem, budget, plan) and not over


def _search_clock(clock: SolverClock, problem: Problem) -> SolverClock:
    """Return the clock of the search, less the time that finishing the plan takes."""
    if clock.seconds is None:
        return clock
    ending = min(ENDING_S * problem.n_key_groups, 0.2 * clock.seconds)
    return SolverClock(clock.seconds - ending, clock.started)


def _fewest_moves(problem: Problem, plans: list[IntArray], params: SearchParams) -> IntArray:
    """Return the last plan, or the best one if the last is worse by more than the tolerance."""
    best = best_plan(problem, plans)
    last = plans[-1]
    allowed = max(metrics.load_distance(problem, best), params.enough) + params.tolerance
    return last if metrics.load_distance(problem, last) <= allowed else best


@dataclass(eq=False, slots=True)
class _AnnealingChain:
    """A plan that is annealed, with its random numbers and its best placement so far."""

    number: int
    plan: PlanArrays
    random: RandomState
    best: BestPlan

    @classmethod
    def at(cls, layout: Layout, place: IntArray, seed: int, number: int) -> _AnnealingChain:
        random = np.array([_scrambled(seed, number)], dtype=np.uint64)
        best = BestPlan(place.copy(), np.array([np.inf]))
        return cls(number, plan_at(layout, place), random, best)

    def keep_if_better(self, distance: float) -> None:
        if distance < self.best.deviation[0]:
            self.best.deviation[0] = distance
            self.best.place[:] = self.plan.place


class _PlanSearch:
    """One search: the layout, the annealing chains, and the best plan of all chains."""

    def __init__(
        self,
        layout: Layout,
        start: IntArray,
        floor: float,
        seed: int,
        stop: Stop,
        clock: SolverClock,
    ) -> None:
        self.seed, self.stop, self.clock = seed, stop, clock
        self.floor = floor / 100.0
        self.layout = layout
        self.start = self.layout.places_of(start)
        self.fixed = self.layout.fixed
        limits = self.fixed.allowance[1:]
        self.by_size = self.fixed.load.shape[1] == 1 and bool(np.isinf(limits).all())
        self.first_chain = _AnnealingChain.at(self.layout, self.start, seed, 0)
        self.best = self._distance(self.first_chain.plan)
        self.best_place = self.start.copy()
        self.steps = 0
        self.trace: list[TraceStep] = [(clock.elapsed(), "start", 100.0 * self.best)]

    def run(self) -> None:
        if not len(self.layout.groups) or not self.fixed.n_balanced:
            return
        self._construct()
        self._polish(self.first_chain)
        self._keep_best_of([self.first_chain])
        self._trace_step("polish")
        if len(self.layout.groups) <= ANNEALED:
            with ThreadPoolExecutor(CHAINS) as threads:
                self._anneal_in_parallel(threads)

    def _anneal_in_parallel(self, threads: ThreadPoolExecutor) -> None:
        """Anneal all plans step by step and keep the best."""
        chains = [self.first_chain]
        for number in range(1, CHAINS):
            place = self.first_chain.plan.place
            chains.append(_AnnealingChain.at(self.layout, place, self.seed, number))
        idle = 0
        while not self._is_over():
            before = self.best
            # Read before the threads start, so that the result does not depend on their timing.
            target = max(self.floor, self.floor + FALL * (before - self.floor), FALL * before)
            for chain in chains:
                chain.best.deviation[0] = before
            list(threads.map(self._step, chains, [target] * len(chains)))
            self._keep_best_of(chains)
            self.steps += 1
            self._trace_step(f"step {self.steps}", before)
            idle = 0 if self.best < before else idle + 1
            if idle >= self._patience():
                return

    def _step(self, chain: _AnnealingChain, target: float) -> None:
        if self._regroups():
            self._regroup(chain, target)
        else:
            self._anneal(chain, target)
        self._polish(chain)

    def _regroups(self) -> bool:
        """Return whether this step regroups; else it anneals."""
        return self.by_size and self.steps % (REGROUPED_STEPS + 1) > 0

    def _keep_best_of(self, chains: Sequence[_AnnealingChain]) -> None:
        """Keep the best plan of these chains; the first of equal ones."""
        ahead = min(chains, key=lambda chain: float(chain.best.deviation[0]))
        if ahead.best.deviation[0] < self.best:
            self.best = float(ahead.best.deviation[0])
            self.best_place[:] = ahead.best.place

    def _is_over(self) -> bool:
        if self.best <= self.floor + PROOF_TOLERANCE / 200.0:
            return True
        return self.clock.is_over() or (
            self.stop.steps is not None and self.steps >= self.stop.steps
        )

    def _patience(self) -> float:
        """Return how many steps without a better plan end the search."""
        if self.best <= self.floor + CLOSE:
            return CLOSE_IDLE_RUNS
        has_no_limit = self.stop.steps is None and self.stop.seconds is None
        return IDLE_RUNS if has_no_limit else np.inf

    def _distance(self, plan: PlanArrays) -> float:
        from solvers.rebalance.kernels.deviation import worst_node

        worst, _ = worst_node(self.fixed, plan)
        return float(worst)

    def _anneal(self, chain: _AnnealingChain, target: float) -> None:
        from solvers.rebalance.kernels.annealing import anneal

        unit = max(target, 1e-12)
        hot, cold = self._cooling(chain)
        annealed = self.steps // (REGROUPED_STEPS + 1) if self.by_size else self.steps
        proposals = PROPOSALS[annealed % len(PROPOSALS)]
        schedule = AnnealingSchedule(
            proposals, self._kinds(proposals), (hot * unit) ** 2, (cold * unit) ** 2
        )
        rule = SearchRule(target, self.by_size)
        anneal(schedule, rule, chain.random, self.fixed, chain.plan, chain.best)

    def _regroup(self, chain: _AnnealingChain, target: float) -> None:
        from solvers.rebalance.kernels.regrouping import regroup

        unit = max(target, 1e-12)
        hot, cold = REGROUPING_COOLINGS[chain.number]
        schedule = AnnealingSchedule(REGROUPINGS, ALL_KINDS, (hot * unit) ** 2, (cold * unit) ** 2)
        rule = SearchRule(target, self.by_size)
        regroup(schedule, rule, chain.random, self.fixed, chain.plan, chain.best)

    def _cooling(self, chain: _AnnealingChain) -> tuple[float, float]:
        if self.by_size:
            return COOLINGS[chain.number]
        return COOLING_OF_SEVERAL if self.fixed.n_balanced > 1 else COOLING_OF_COSTS

    def _kinds(self, proposals: int) -> int:
        """Return the number of kinds: coarse ones alone in long runs and for limited bytes."""
        if self.fixed.n_balanced > 1:
            return ALL_KINDS
        is_coarse = not self.by_size or proposals == max(PROPOSALS)
        return COARSE if is_coarse else ALL_KINDS

    def _polish(self, chain: _AnnealingChain) -> None:
        from solvers.rebalance.kernels.polishing import PolishingPass, polish

        is_slow = not self.by_size and len(self.layout.groups) > ANNEALED
        repairs = FEW_REPAIRS if is_slow else REPAIRS
        for partners in (8, 32) if self.by_size else (3, 12):
            stuck = np.zeros(len(self.layout.nodes), dtype=bool)
            task = PolishingPass(repairs, self.floor, min(len(stuck), partners), self.by_size)
            done = 1
            while done and not self.clock.is_over():
                done = polish(task, stuck, chain.random, self.fixed, chain.plan)
        chain.keep_if_better(self._distance(chain.plan))

    def _construct(self) -> None:
        """Start from the least distance that can be built, with moves left for exchanges.

        If the bound is near the distance that the whole budget reaches, no moves are reserved.
        Otherwise exchanges improve the fit, and they need moves too.
        """
        if self.fixed.n_balanced > 1 and len(self.layout.groups) > ANNEALED:
            self._pair_off()
            return
        if not self.by_size or self.fixed.limited.any():
            return
        worst = self.best
        reached = self._bisect(1.0, worst)
        if self.floor < TIGHT * reached:
            self._bisect(1.0 - KEPT_BACK, worst)
        self._trace_step("construct")

    def _pair_off(self) -> None:
        """Lower the aimed deviation in steps.

        In each step, pair every node above it with a node of opposite deviations and exchange key
        groups.
        """
        from solvers.rebalance.kernels.pairing import PairingRound, pair_off

        aim = self.best
        while self.best <= aim and not self._is_over():
            aim = max(self.floor, PAIR_FALL * aim)
            for _ in range(PAIR_ROUNDS):
                todo = np.ones(len(self.layout.nodes), dtype=bool)
                pairs = PAIRS
                while pairs == PAIRS and not self.clock.is_over():
                    task = PairingRound(PAIRS, aim, PAIR_MARGIN * aim)
                    pairs = pair_off(
                        task, todo, self.first_chain.random, self.fixed, self.first_chain.plan
                    )
                self._keep_first_chain()
                if self.best <= aim or self.clock.is_over():
                    break
            self._trace_step("pairs")

    def _bisect(self, share: float, high: float) -> float:
        """Build plans with this share of the budget; return the least distance reached.

        The first chain gets that plan.
        """
        from solvers.rebalance.kernels.construction import construct

        fixed = self.fixed._replace(allowance=self.fixed.allowance * share)
        low = self.floor
        for _ in range(BISECTIONS):
            if self.clock.is_over() or high - low <= 1e-3 * high:
                break
            middle = low + (high - low) / 2
            plan = plan_at(self.layout, self.start)
            if construct(middle, fixed, plan):
                self.first_chain.plan, high = plan, middle
                self._keep_first_chain()
            else:
                low = middle
        return high

    def _keep_first_chain(self) -> None:
        self.first_chain.keep_if_better(self._distance(self.first_chain.plan))
        self._keep_best_of([self.first_chain])

    def _trace_step(self, step: str, before: float = np.inf) -> None:
        if self.best < before:
            self.trace.append((self.clock.elapsed(), step, 100.0 * self.best))

    def best_plan(self) -> IntArray:
        return self.layout.assignment_of(self.best_place)

    def finished_plan(self, params: SearchParams) -> IntArray:
        """Return the best plan without needless moves, and with draining nodes emptied."""
        from solvers.rebalance.kernels.finishing import drain, undo_moves

        ceiling = max(self.best, params.enough / 100.0) + params.tolerance / 200.0
        best: PlanArrays | None = None
        ways = ORDERS if len(self.layout.groups) <= ANNEALED else 1
        for way in range(ways if self.fixed.n_balanced else 0):
            plan = plan_at(self.layout, self.best_place)
            undo_moves(ceiling, self._order(plan, way), self.fixed, plan)
            if best is None or plan.used[0] < best.used[0]:
                best = plan
        plan = plan_at(self.layout, self.best_place) if best is None else best
        left = np.flatnonzero(~self.fixed.takes[plan.place])
        if len(left):
            share = self.fixed.load[left].max(axis=1, initial=0.0)
            order = left[np.argsort(-share, kind="stable")]
            drain(ceiling, order, self.fixed, plan)
        return self.layout.assignment_of(plan.place)

    def _order(self, plan: PlanArrays, way: int) -> IntArray:
        """Return the moved items: smallest first, most bytes first, or in random order."""
        away = np.sort(plan.moved[: int(plan.n_moved[0])])
        if way == 0:
            return away[np.argsort(self.fixed.load[away, 0], kind="stable")]
        if way == 1:
            return away[np.argsort(-self.fixed.cost[away, 1], kind="stable")]
        return np.random.default_rng(way).permutation(away)


def _scrambled(seed: int, number: int) -> int:
    """Return a state of xorshift, which must not be 0, from a seed and the number of the chain."""
    state = np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)
    return int(state[0]) | 1


METHOD = RebalanceMethod(
    name=NAME,
    summary=(
        "builds a plan at the least distance within the budget, repairs the worst nodes by the "
        "best exchange, anneals two plans in parallel, then undoes needless moves"
    ),
    params=SearchParams,
    solve=solve,
)
