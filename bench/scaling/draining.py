"""[ICDE17], Figure 5: scale-in inside the allocation compared with scale-in before it."""

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
"""Steps of the search in each allocation; they give the same plan in each run."""
LEVEL_POINTS = 10.0
"""Figure 5 calls a load distance good without a number. Ten points is ALBIC's default maxLD."""


@dataclass(frozen=True)
class Drain:
    """The rounds of one cluster, both ways."""

    overloaded: int
    index: int
    integrated: DrainRounds
    apart: DrainRounds

    def area_ratio(self) -> float:
        """Ratio of the areas, each until its nodes were drained."""
        return self.integrated.area() / self.apart.area()

    def same_rounds_ratio(self) -> float:
        """Ratio of the areas over the same rounds, because the integrated way may take more of
        them."""
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
