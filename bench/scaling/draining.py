"""[ICDE17], Figure 5: scale-in inside the allocation against scale-in apart from it."""

from __future__ import annotations

from dataclasses import dataclass

from bench.common.seeds import seed_of
from bench.simulator import scale_in
from bench.simulator.scale_in import DrainRounds
from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.stop import Stop
from solvers.planner.allocation import Allocation
from solvers.planner.round import Allocate
from solvers.rebalance.solve import solve

OVERLOADED = (1, 5)
ROUNDS = 16
STEPS = 3
"""Of the search, in each allocation; a number of steps repeats exactly, seconds do not."""
LEVEL_POINTS = 10.0
"""Figure 5 calls a load distance good without a number; ten points is ALBIC's default maxLD."""


@dataclass(frozen=True)
class Drain:
    """One cluster, both ways."""

    overloaded: int
    index: int
    integrated: DrainRounds
    apart: DrainRounds

    def area_ratio(self) -> float:
        """Each until it was drained."""
        return self.integrated.area() / self.apart.area()

    def same_rounds_ratio(self) -> float:
        """The same over the same rounds, for the integrated one may take some more."""
        until = max(r.drained_after or ROUNDS for r in (self.integrated, self.apart))
        return self.integrated.area(until) / self.apart.area(until)

    def rounds_ratio(self) -> float:
        drained, apart = self.integrated.drained_after, self.apart.drained_after
        return float("inf") if drained is None or apart is None else drained / apart

    def most_moves(self) -> int:
        return max(self.integrated.moves)


def drain_of(seed_base: int, overloaded: int, index: int) -> Drain:
    seed = seed_of(seed_base, f"figure 5, {overloaded}", index)
    runs = {}
    for name, run in (("one", scale_in.run_integrated), ("two", scale_in.run_apart)):
        cluster, load = scale_in.overloaded_cluster(seed, overloaded)
        runs[name] = run(cluster, load, ROUNDS, allocator(seed))
    return Drain(overloaded, index, runs["one"], runs["two"])


def allocator(seed: int) -> Allocate:
    def allocate(problem: Problem, budget: Budget) -> Allocation:
        return Allocation(solve(problem, budget, Stop(steps=STEPS), seed, "search"))

    return allocate
