"""Minimum-cost load balancing, exactly: [AUTODASP17], MCLB, which ELB and CLB approximate.

The two objectives are imbalance (max - min, the largest over the windows) and state moved. The MILP
in PuLP minimises the first and bounds the second. State is counted in whole bytes, so the
epsilon-constraint method finds the whole Pareto front. MCLB is NP-hard: use it for small instances
and as a reference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from ballast.contracts.errors import InvalidInput
from ballast.contracts.methods import MethodLimit, MethodNeed
from solvers.model.budget import Budget
from solvers.model.method import Parameter, RebalanceMethod, check_parameters
from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.model.result import Result, infeasible_result
from solvers.model.stop import Stop
from solvers.place.imbalance import as_assignment, as_series, spread, state_moved
from solvers.place.instances import Instances
from solvers.rebalance.start import why_infeasible

TOLERANCE = 1e-7
"""Relative to the whole load: plans whose imbalance differs by less count as equal."""

NAME = "mclb"
MOST_TERMS = 60_000
"""Key groups x nodes x windows of a model that is built."""
STATE_UNITS = 100_000
"""The state of all key groups in the model's units: a solver's tolerance of 1e-6 is a thousand
bytes of a gigabyte, so bytes are counted in larger units, rounded up."""


@dataclass(frozen=True, slots=True)
class MclbParams:
    """Parameters of MCLB."""

    windows: Annotated[
        int, Parameter("newest steps of the load series that are balanced", at_least=1)
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
    params: MclbParams,
) -> Result:
    """Solve the exact model over the newest windows, within the budget of bytes.

    Arguments and result are described in ``RebalanceMethod``. The model has no budget of moves or
    pause, so its plan is repaired. A model that is too large or not solved in time makes necessary
    moves alone, and the reason says so.
    """
    clock = stop.start()
    reason = why_infeasible(problem, budget)
    if reason is not None:
        return infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
    instances = Instances.of(problem, budget, NAME)
    series = problem.load[:, :, None] if params.series is None else params.series
    loads = instances.newest(series, params.windows)
    if not loads.any():
        return instances.result(instances.current, budget, NAME, clock.elapsed())
    terms = loads.size * len(instances.nodes)
    if terms > MOST_TERMS:
        note = (
            f"the exact model would have {terms:,} terms, and {MOST_TERMS:,} are the most; only "
            "necessary moves are made"
        )
        return instances.result(instances.current, budget, NAME, clock.elapsed(), note)
    unit = max(1, int(problem.state_bytes.sum()) // STATE_UNITS)
    try:
        point = mclb(
            loads,
            -(-problem.state_bytes // unit),
            instances.current,
            len(instances.nodes),
            max_state_moved=None if budget.bytes is None else budget.bytes // unit,
            seconds=None if stop.seconds is None else stop.seconds / 2,
        )
    except InvalidInput as error:
        note = f"{error}; only necessary moves are made"
        return instances.result(instances.current, budget, NAME, clock.elapsed(), note)
    return instances.result(point.assignment, budget, NAME, clock.elapsed())


@dataclass(frozen=True, eq=False, slots=True)
class ParetoPoint:
    """A plan that no other plan beats in both objectives, with their values."""

    assignment: IntArray
    imbalance: float
    state_moved: int


def mclb(
    series: object,
    state: object,
    current: object,
    instances: int,
    *,
    max_state_moved: int | None = None,
    seconds: float | None = None,
) -> ParetoPoint:
    """The plan with the least imbalance within the limit; of those, the least state moved."""
    x = as_series(series)
    home = as_assignment(current, len(x), instances)
    sizes = _sizes(state, len(x))
    scale = max(float(x.sum(axis=0).max()), 1e-300)
    model = _MclbModel(x / scale, sizes, home, instances, max_state_moved, seconds)
    best = model.least_imbalance()
    cheapest = model.least_state(best + TOLERANCE)
    return ParetoPoint(cheapest, spread(x, cheapest, instances), state_moved(sizes, home, cheapest))


def pareto_front(
    series: object,
    state: object,
    current: object,
    instances: int,
    *,
    seconds: float | None = None,
) -> tuple[ParetoPoint, ...]:
    """The Pareto front of imbalance and state moved, from no move to the best balance."""
    points: list[ParetoPoint] = []
    limit: int | None = None
    while True:
        point = mclb(series, state, current, instances, max_state_moved=limit, seconds=seconds)
        points.append(point)
        if point.state_moved == 0:
            return tuple(reversed(points))
        limit = point.state_moved - 1


def _sizes(state: object, substreams: int) -> IntArray:
    sizes = np.array(state)
    if sizes.shape != (substreams,) or sizes.dtype.kind not in "iu" or bool((sizes < 0).any()):
        raise InvalidInput("state needs whole bytes >= 0, one value a substream")
    return sizes.astype(np.int64)


class _MclbModel:
    """The MILP: assignment variables, and loads between ``low`` and ``high`` in each window."""

    def __init__(
        self,
        x: FloatArray,
        sizes: IntArray,
        home: IntArray,
        instances: int,
        limit: int | None,
        seconds: float | None,
    ) -> None:
        import pulp

        self.pulp, self.seconds = pulp, seconds
        self.p, self.n = len(x), instances
        self.lp = pulp.LpProblem("mclb", pulp.LpMinimize)
        self.a = [
            [
                self.lp.add_variable(f"a_{k}_{i}", lowBound=0, upBound=1, cat=pulp.LpInteger)
                for i in range(instances)
            ]
            for k in range(self.p)
        ]
        self.imbalance = self.lp.add_variable("imbalance", lowBound=0)
        self.moved = pulp.lpSum(
            int(sizes[k]) * (1 - self.a[k][int(home[k])]) for k in range(self.p)
        )
        for k in range(self.p):
            self.lp += pulp.lpSum(self.a[k]) == 1
        for t in range(x.shape[1]):
            low = self.lp.add_variable(f"low_{t}", lowBound=0)
            high = self.lp.add_variable(f"high_{t}", lowBound=0)
            self.lp += high - low <= self.imbalance
            for i in range(instances):
                load = pulp.lpSum(float(x[k, t]) * self.a[k][i] for k in range(self.p))
                self.lp += load <= high
                self.lp += load >= low
        if limit is not None:
            self.lp += self.moved <= limit

    def least_imbalance(self) -> float:
        self.lp.setObjective(self.imbalance)
        self._solve()
        return float(self.imbalance.value())

    def least_state(self, imbalance: float) -> IntArray:
        self.imbalance.upBound = imbalance
        self.lp.setObjective(self.moved)
        self._solve()
        chosen = [[self.a[k][i].value() for i in range(self.n)] for k in range(self.p)]
        return np.array(np.argmax(np.array(chosen).reshape(self.p, self.n), axis=1), dtype=np.int64)

    def _solve(self) -> None:
        options: dict[str, Any] = {"msg": False, "gapRel": 0.0, "threads": 1}
        if self.seconds is not None:
            options["timeLimit"] = self.seconds
        status = self.lp.solve(self.pulp.HiGHS(**options))
        if self.pulp.LpStatus[status] != "Optimal":
            raise InvalidInput(
                f"the exact model was not solved: {self.pulp.LpStatus[status]}",
                remedy="give it more seconds, or use clb, which is for larger instances",
            )


METHOD = RebalanceMethod(
    name=NAME,
    summary=(
        "solves the exact model: the least difference of the fullest and the emptiest node over "
        "all windows, then the least state moved"
    ),
    paper="AUTODASP17, MCLB",
    params=MclbParams,
    needs=(MethodNeed.SERIES,),
    cannot=(MethodLimit.BUDGET, MethodLimit.SEVERAL_RESOURCES, MethodLimit.UNEQUAL_NODES),
    solve=solve,
)
