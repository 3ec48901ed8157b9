"""Search over relocations, swaps and replacements: the method for every size of cluster.

Three parts work on plans that are valid at every moment. *Polish* repairs the worst node by the
best exchange with a node that mirrors its deviation. *Anneal* accepts exchanges that lower the
excess over a target below the best so far, and some that do not; it pays up to some ten thousand
key groups, and two walkers do it side by side, each on a plan of its own. In the end, moves that
the result does not need are undone, and what is left of the budget empties draining nodes. The
loops are compiled (docs/adr/0014).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.parameter_checks import is_finite_and_not_negative
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

CHUNKS = (20_000, 40_000, 100_000)
"""Proposals of one cooling, in turn: one step of the stopping rule, 10 to 50 ms. Short ones suit
fine loads, long ones coarse loads, where few key groups decide."""
REPAIRS = 200
FEW_REPAIRS = 10
"""Repairs between two looks at the clock; fewer where items have no order by size."""
FALL = 0.8
"""The target of the next chunk, between the bound (0) and the best so far (1)."""
COOLINGS = ((2.0, 0.06), (8.0, 0.05))
"""Temperature at the start and at the end of a chunk, as deviations in units of the target, one
pair a walker. Heat finds the better plans where loads are fine, cold where they are coarse."""
COOLING_OF_SEVERAL = (1.0, 0.02)
"""With several resources."""
COOLING_OF_COSTS = (0.5, 0.005)
"""Where bytes or pauses are limited: few key groups decide, and each exchange of them counts."""
IDLE_CHUNKS = 200
"""Without any limit the search ends after so many chunks without a better plan."""
WALKERS = len(COOLINGS)
"""Plans that are annealed side by side, by threads. A constant: were it the number of processors,
the same seed and steps would give another plan on another machine."""
ANNEALED = 30_000
"""Beyond this many items annealing gains nothing in seconds; polishing alone goes on."""
BISECTIONS = 16
TIGHT = 0.3
KEPT_BACK = 0.4
"""Share of the moves that the construction leaves to the exchanges after it."""
PAIR_FALL = 0.3
"""Several resources: each aim as a share of the one before. One step to the last aim spends more
moves; many small steps do too."""
PAIR_MARGIN = 0.7
"""What a pair settles to, as a share of the aim: it will be a partner again."""
PAIR_ROUNDS = 4
"""Rounds with new partners until every node is within the aim, or it is not to be had."""
PAIRS = 500
"""Pairs between two looks at the clock."""
ORDERS = 4
"""Orders in which needless moves are looked for; one with very many items."""
ENDING_S = 1.5e-6
"""Seconds a key group that are kept for needless moves and for the result."""


@dataclass(frozen=True, slots=True)
class SearchParams:
    """Parameters of the search."""

    tolerance: float = 1e-4
    """Percentage points of load distance that a plan with fewer moves may be worse by."""
    enough: float = 0.0
    """Load distance in percent of the mean at which the search ends."""

    def __post_init__(self) -> None:
        for name in ("tolerance", "enough"):
            value = getattr(self, name)
            if not is_finite_and_not_negative(value):
                raise InvalidInput(f"search.{name} is {value!r}", allowed="a finite number >= 0")


def solve(problem: Problem, budget: Budget, stop: Stop, seed: int, params: SearchParams) -> Result:
    """Minimise load distance as far as the time or the steps allow."""
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
            problem, budget, start, floor, seed, stop, _until_the_end(clock, problem)
        )
        search.run()
        found = search.finished_plan(params)
        trace = tuple(search.trace)
        # Running sums round; what is over the budget or a cap by a hair is still over it.
        plans += [p for p in (search.best_plan(), found) if _is_kept(problem, budget, p)]
    return make_result(
        problem,
        without_useless_moves(problem, _fewest_moves(problem, plans, params)),
        SolverRun(method=NAME, bound=bound, seconds=clock.elapsed(), trace=trace),
    )


def _is_kept(problem: Problem, budget: Budget, plan: IntArray) -> bool:
    over = metrics.over_cap(problem, plan).any()
    return within_budget(problem, budget, plan) and not over


def _until_the_end(clock: SolverClock, problem: Problem) -> SolverClock:
    """The clock of the search proper: what comes after it takes its time with many key groups."""
    if clock.seconds is None:
        return clock
    ending = min(ENDING_S * problem.n_key_groups, 0.2 * clock.seconds)
    return SolverClock(clock.seconds - ending, clock.started)


def _fewest_moves(problem: Problem, plans: list[IntArray], params: SearchParams) -> IntArray:
    """The last plan is the finished one: it wins unless it lost more than the tolerance."""
    best = best_plan(problem, plans)
    last = plans[-1]
    allowed = max(metrics.load_distance(problem, best), params.enough) + params.tolerance
    return last if metrics.load_distance(problem, last) <= allowed else best


@dataclass(eq=False, slots=True)
class _Walker:
    """A plan at hand, its own random numbers, and the best places it has seen."""

    number: int
    plan: PlanArrays
    random: RandomState
    best: BestPlan

    @classmethod
    def at(cls, layout: Layout, place: IntArray, seed: int, number: int) -> _Walker:
        random = np.array([_scrambled(seed, number)], dtype=np.uint64)
        best = BestPlan(place.copy(), np.array([np.inf]))
        return cls(number, plan_at(layout, place), random, best)

    def keep_if_better(self, distance: float) -> None:
        if distance < self.best.deviation[0]:
            self.best.deviation[0] = distance
            self.best.place[:] = self.plan.place


class _PlanSearch:
    """One search: the layout, the walkers on it, and the best plan that any of them has seen."""

    def __init__(
        self,
        problem: Problem,
        budget: Budget,
        start: IntArray,
        floor: float,
        seed: int,
        stop: Stop,
        clock: SolverClock,
    ) -> None:
        self.problem, self.seed, self.stop, self.clock = problem, seed, stop, clock
        self.floor = floor / 100.0
        self.layout = Layout.of(problem, budget)
        self.start = self.layout.places_of(start)
        self.fixed = self.layout.fixed
        limits = self.fixed.allowance[1:]
        self.by_size = self.fixed.load.shape[1] == 1 and bool(np.isinf(limits).all())
        self.lead = _Walker.at(self.layout, self.start, seed, 0)
        self.best = self._distance(self.lead.plan)
        self.best_place = self.start.copy()
        self.steps = 0
        self.trace: list[TraceStep] = [(clock.elapsed(), "start", 100.0 * self.best)]

    def run(self) -> None:
        if not len(self.layout.groups) or not self.fixed.n_balanced:
            return
        self._construct()
        self._polish(self.lead)
        self._gather([self.lead])
        self._note("polish")
        if len(self.layout.groups) <= ANNEALED:
            with ThreadPoolExecutor(WALKERS) as threads:
                self._walk(threads)

    def _walk(self, threads: ThreadPoolExecutor) -> None:
        """Step by step all walkers go on from where they are; the best that any saw is kept."""
        walkers = [self.lead]
        for number in range(1, WALKERS):
            place = self.lead.plan.place
            walkers.append(_Walker.at(self.layout, place, self.seed, number))
        idle = 0
        while not self._is_over():
            before = self.best
            # Read before any of them starts: what one finds must not steer the other by chance.
            target = max(self.floor, self.floor + FALL * (before - self.floor), FALL * before)
            for walker in walkers:
                walker.best.deviation[0] = before
            list(threads.map(self._step, walkers, [target] * len(walkers)))
            self._gather(walkers)
            self.steps += 1
            self._note(f"step {self.steps}", before)
            idle = 0 if self.best < before else idle + 1
            if self._has_no_limit() and idle >= IDLE_CHUNKS:
                return

    def _step(self, walker: _Walker, target: float) -> None:
        self._anneal(walker, target)
        self._polish(walker)

    def _gather(self, walkers: Sequence[_Walker]) -> None:
        """Keep the best plan that one of them saw; of equals that of the first."""
        ahead = min(walkers, key=lambda walker: float(walker.best.deviation[0]))
        if ahead.best.deviation[0] < self.best:
            self.best = float(ahead.best.deviation[0])
            self.best_place[:] = ahead.best.place

    def _is_over(self) -> bool:
        if self.best <= self.floor + PROOF_TOLERANCE / 200.0:
            return True
        return self.clock.is_over() or (
            self.stop.steps is not None and self.steps >= self.stop.steps
        )

    def _has_no_limit(self) -> bool:
        return self.stop.steps is None and self.stop.seconds is None

    def _distance(self, plan: PlanArrays) -> float:
        from solvers.rebalance.kernels.deviation import worst_node

        worst, _ = worst_node(self.fixed, plan)
        return float(worst)

    def _anneal(self, walker: _Walker, target: float) -> None:
        from solvers.rebalance.kernels.annealing import anneal

        unit = max(target, 1e-12)
        hot, cold = self._cooling(walker)
        proposals = CHUNKS[self.steps % len(CHUNKS)]
        schedule = AnnealingSchedule(
            proposals, self._kinds(proposals), (hot * unit) ** 2, (cold * unit) ** 2
        )
        rule = SearchRule(target, self.by_size)
        anneal(schedule, rule, walker.random, self.fixed, walker.plan, walker.best)

    def _cooling(self, walker: _Walker) -> tuple[float, float]:
        if self.by_size:
            return COOLINGS[walker.number]
        return COOLING_OF_SEVERAL if self.fixed.n_balanced > 1 else COOLING_OF_COSTS

    def _kinds(self, proposals: int) -> int:
        """Fine exchanges too, but in long coolings and where bytes or pauses are limited."""
        if self.fixed.n_balanced > 1:
            return ALL_KINDS
        is_coarse = not self.by_size or proposals == max(CHUNKS)
        return COARSE if is_coarse else ALL_KINDS

    def _polish(self, walker: _Walker) -> None:
        from solvers.rebalance.kernels.polishing import PolishingPass, polish

        is_slow = not self.by_size and len(self.layout.groups) > ANNEALED
        repairs = FEW_REPAIRS if is_slow else REPAIRS
        for partners in (8, 32) if self.by_size else (3, 12):
            stuck = np.zeros(len(self.layout.nodes), dtype=bool)
            task = PolishingPass(repairs, self.floor, min(len(stuck), partners), self.by_size)
            done = 1
            while done and not self.clock.is_over():
                done = polish(task, stuck, walker.random, self.fixed, walker.plan)
        walker.keep_if_better(self._distance(walker.plan))

    def _construct(self) -> None:
        """Start from the least distance that can be built; keep moves back where they pay later.

        Where the bound is near what the whole budget reaches, every move counts. Elsewhere the
        exact fit comes from exchanges, which need moves of their own.
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
        self._note("construct")

    def _pair_off(self) -> None:
        """Lower an aim step by step; at each, nodes above it settle with nodes that mirror them."""
        from solvers.rebalance.kernels.pairing import PairingRound, pair_off

        aim = self.best
        while self.best <= aim and not self._is_over():
            aim = max(self.floor, PAIR_FALL * aim)
            for _ in range(PAIR_ROUNDS):
                todo = np.ones(len(self.layout.nodes), dtype=bool)
                pairs = PAIRS
                while pairs == PAIRS and not self.clock.is_over():
                    task = PairingRound(PAIRS, aim, PAIR_MARGIN * aim)
                    pairs = pair_off(task, todo, self.lead.random, self.fixed, self.lead.plan)
                self._keep_lead()
                if self.best <= aim or self.clock.is_over():
                    break
            self._note("pairs")

    def _bisect(self, share: float, high: float) -> float:
        """The least distance built with this share of the moves; the lead holds that plan."""
        from solvers.rebalance.kernels.construction import construct

        fixed = self.fixed._replace(allowance=self.fixed.allowance * share)
        low = self.floor
        for _ in range(BISECTIONS):
            if self.clock.is_over() or high - low <= 1e-3 * high:
                break
            middle = low + (high - low) / 2
            plan = plan_at(self.layout, self.start)
            if construct(middle, fixed, plan):
                self.lead.plan, high = plan, middle
                self._keep_lead()
            else:
                low = middle
        return high

    def _keep_lead(self) -> None:
        self.lead.keep_if_better(self._distance(self.lead.plan))
        self._gather([self.lead])

    def _note(self, step: str, before: float = np.inf) -> None:
        if self.best < before:
            self.trace.append((self.clock.elapsed(), step, 100.0 * self.best))

    def best_plan(self) -> IntArray:
        return self.layout.assignment_of(self.problem, self.best_place)

    def finished_plan(self, params: SearchParams) -> IntArray:
        """The best plan without the moves it does not need, and with its drains."""
        from solvers.rebalance.kernels.finishing import drain, send_home

        ceiling = max(self.best, params.enough / 100.0) + params.tolerance / 200.0
        best: PlanArrays | None = None
        ways = ORDERS if len(self.layout.groups) <= ANNEALED else 1
        for way in range(ways if self.fixed.n_balanced else 0):
            plan = plan_at(self.layout, self.best_place)
            send_home(ceiling, self._order(plan, way), self.fixed, plan)
            if best is None or plan.used[0] < best.used[0]:
                best = plan
        plan = plan_at(self.layout, self.best_place) if best is None else best
        left = np.flatnonzero(~self.fixed.takes[plan.place])
        if len(left):
            share = self.fixed.load[left].max(axis=1, initial=0.0)
            order = left[np.argsort(-share, kind="stable")]
            drain(ceiling, order, self.fixed, plan)
        return self.layout.assignment_of(self.problem, plan.place)

    def _order(self, plan: PlanArrays, way: int) -> IntArray:
        """Smallest first, largest bytes first, or at random."""
        away = np.sort(plan.moved[: int(plan.n_moved[0])])
        if way == 0:
            return away[np.argsort(self.fixed.load[away, 0], kind="stable")]
        if way == 1:
            return away[np.argsort(-self.fixed.cost[away, 1], kind="stable")]
        return np.random.default_rng(way).permutation(away)


def _scrambled(seed: int, number: int) -> int:
    """Any seed, also 0, as a state of xorshift, which must not be 0; another for each walker."""
    words = np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)
    return int(words[0]) | 1
