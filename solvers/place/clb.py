"""Correlation-based load balancing over m windows: [AUTODASP17], CLB.

CLB places substreams that rise and fall together on different instances: the imbalance summed over
the windows, sum_t var(L_t), is smallest when the cross covariance of the instances is largest.
Let N_i be the load series of instance i. Then n x sum_t var(L_t) = sum_i |N_i|^2 - const, and a
move of substream x from i to j changes the sum by 2|x|^2 + 2 x . (N_j - N_i). The local search
computes this for all moves at once.

The slides' "min sum_t var(L_t) <=> min sum_i var(N_i)" holds only for equal means of the N_i; the
search minimises the left side. The slides do not say how CLB searches. Here: best relocation, then
best swap, until neither helps. See docs/papers.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from ballast.contracts.methods import MethodLimit, MethodNeed
from solvers.model.budget import Budget
from solvers.model.method import Parameter, RebalanceMethod, check_parameters
from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.model.result import Result, infeasible_result
from solvers.model.stop import Stop
from solvers.place.imbalance import as_assignment, as_series, instance_loads
from solvers.place.instances import Instances
from solvers.rebalance.start import why_infeasible

TOLERANCE = 1e-12
MAX_STEPS_PER_SUBSTREAM = 20

NAME = "clb"
MOST_KEY_GROUPS = 4000
"""CLB compares every pair of key groups."""

Step = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ClbParams:
    """Parameters of CLB."""

    windows: Annotated[
        int, Parameter("newest steps of the load series that are balanced (m)", at_least=1)
    ] = 6
    series: FloatArray | None = field(default=None, compare=False)
    """[key groups, resources, steps]: the load series."""

    def __post_init__(self) -> None:
        check_parameters(NAME, self)


def solve(
    problem: Problem,
    budget: Budget,
    stop: Stop,
    seed: int,  # noqa: ARG001 - every method has the same signature
    params: ClbParams,
) -> Result:
    """Balance the newest windows with CLB, within the budget of bytes.

    Arguments and result are described in ``RebalanceMethod``. CLB knows no budget of moves or
    pause, so its plan is repaired. Without a series it balances the load of the period.
    """
    clock = stop.start()
    reason = why_infeasible(problem, budget)
    if reason is not None:
        return infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
    instances = Instances.of(problem, budget, NAME)
    if problem.n_key_groups > MOST_KEY_GROUPS:
        note = (
            f"CLB compares all pairs of {problem.n_key_groups:,} key groups, and is for at most "
            f"{MOST_KEY_GROUPS:,}; only necessary moves are made"
        )
        return instances.result(instances.current, budget, NAME, clock.elapsed(), note)
    series = problem.load[:, :, None] if params.series is None else params.series
    loads = instances.newest(series, params.windows)
    if not loads.any():
        return instances.result(instances.current, budget, NAME, clock.elapsed())
    assignment = clb(
        loads,
        instances.current,
        len(instances.nodes),
        state=problem.state_bytes,
        max_state_moved=budget.bytes,
        is_over=clock.is_over,
    )
    return instances.result(assignment, budget, NAME, clock.elapsed())


def clb(
    series: object,
    current: object,
    instances: int,
    *,
    state: object = None,
    max_state_moved: float | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> IntArray:
    """Balance the load of several windows, starting from the current assignment.

    Args:
        series: [p, m], load of each substream in each window.
        current: [p], instance of each substream.
        instances: number of instances.
        state: [p], state of each substream; 1 each if None.
        max_state_moved: limit on the state of moved substreams; no limit if None.
        is_over: says that the time is over; the search then ends with what it has.

    Returns:
        [p], the new instance of each substream.
    """
    x = as_series(series)
    home = as_assignment(current, len(x), instances)
    sizes: IntArray = (
        np.ones(len(x), dtype=np.int64) if state is None else np.array(state, dtype=np.int64)
    )
    limit = np.inf if max_state_moved is None else float(max_state_moved)
    search = _LocalSearch(x, home, sizes, home.copy(), instance_loads(x, home, instances))
    floor = -TOLERANCE * max(1.0, float((search.loads**2).sum()))
    for _ in range(MAX_STEPS_PER_SUBSTREAM * max(1, len(x))):
        left = limit - search.state_moved()
        step = search.best_relocation(left, floor) or search.best_swap(left, floor)
        if step is None or is_over():
            break
        search.apply(step)
    return search.assignment


@dataclass(eq=False, slots=True)
class _LocalSearch:
    """An assignment that is improved move by move. A step is a list of (substream, instance)."""

    x: FloatArray  # [p, m] load series
    home: IntArray  # [p] assignment before the search
    sizes: IntArray  # [p] state
    assignment: IntArray  # [p]
    loads: FloatArray  # [n, m] load series of the instances

    def state_moved(self) -> float:
        """State of the substreams that are not on their instance before the search."""
        return float(self.sizes[self.assignment != self.home].sum())

    def apply(self, step: Step) -> None:
        """Move the substreams of a step."""
        for k, j in step:
            self.loads[self.assignment[k]] -= self.x[k]
            self.loads[j] += self.x[k]
            self.assignment[k] = j

    def best_relocation(self, left: float, floor: float) -> Step | None:
        """The best move of one substream that costs at most ``left``; None if none helps."""
        gains = self._gains()
        gains[self._costs() > left] = 0.0
        k, j = np.unravel_index(int(np.argmin(gains)), gains.shape)
        return [(int(k), int(j))] if gains[k, j] < floor else None

    def best_swap(self, left: float, floor: float) -> Step | None:
        """The best swap of two substreams of different instances; None if none helps."""
        gains, assignment = self._gains(), self.assignment
        one_way = gains[:, assignment]
        both = one_way + one_way.T - 4 * (self.x @ self.x.T)
        both[assignment[:, None] == assignment[None, :]] = 0.0
        paid = self._costs()[:, assignment]
        both[paid + paid.T > left] = 0.0
        a, b = np.unravel_index(int(np.argmin(both)), both.shape)
        if both[a, b] >= floor:
            return None
        return [(int(a), int(assignment[b])), (int(b), int(assignment[a]))]

    def _costs(self) -> FloatArray:
        """[p, n]: change of the state moved if substream k goes to instance j."""
        away = np.arange(len(self.loads))[None, :] != self.home[:, None]
        is_away = (self.assignment != self.home)[:, None]
        return np.asarray(self.sizes[:, None] * (away.astype(np.float64) - is_away))

    def _gains(self) -> FloatArray:
        """[p, n]: change of sum |N_i|^2 if substream k goes to instance j; 0 for its own."""
        x, rows = self.x, np.arange(len(self.x))
        dots = x @ self.loads.T
        own = dots[rows, self.assignment]
        gains = 2 * ((x**2).sum(axis=1)[:, None] + dots - own[:, None])
        gains[rows, self.assignment] = 0.0
        return np.asarray(gains)


METHOD = RebalanceMethod(
    name=NAME,
    summary=(
        "lowers the variance of the nodes' loads, summed over windows, by the best relocation or "
        "swap"
    ),
    paper="AUTODASP17, CLB",
    params=ClbParams,
    needs=(MethodNeed.SERIES,),
    cannot=(MethodLimit.BUDGET, MethodLimit.SEVERAL_RESOURCES, MethodLimit.UNEQUAL_NODES),
    solve=solve,
)
