"""The methods: Ballast, ALBIC, COLA and no plan. Each is a step from a problem to an assignment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from solvers.collocate import albic, cola, joint
from solvers.collocate.joint_params import JointParams
from solvers.collocate.target_memory import TargetMemory
from solvers.model.budget import Budget
from solvers.model.problem import IntArray, Problem
from solvers.model.stop import Stop
from solvers.model.traffic_costs import TrafficCosts

OURS, ALBIC, COLA, NO_PLAN = "ours", "albic", "cola", "unchanged"
METHODS = (OURS, ALBIC, COLA, NO_PLAN)
WORDS = {
    OURS: "ours (joint)",
    ALBIC: "ALBIC, up to M pairs a round",
    COLA: "COLA, from scratch each round",
    NO_PLAN: "nothing is moved",
}
# ALBIC balances by our search, in the place of the paper's MILP, with a fixed number of steps: it
# repeats exactly, and is the better balancer at this size (docs/bench-rebalance.md).
BALANCE, BALANCE_STEPS = "search", 1

Step = Callable[[Problem, int], IntArray]


@dataclass(frozen=True)
class Rules:
    """The parameters that all methods share; COLA has no budget."""

    moves: int = 10
    max_load_distance: float = 10.0
    """Percent of the mean."""
    costs: TrafficCosts = field(default_factory=TrafficCosts)
    """CPU ms a record sent and received, as measured before the rounds."""


def step_of(method: str, rules: Rules) -> Step:
    """Return a new planner of that name."""
    makers = {OURS: _ours, ALBIC: _albic, COLA: _cola, NO_PLAN: _no_plan}
    return makers[method](rules)


def _ours(rules: Rules) -> Step:
    target: TargetMemory | None = None

    def step(problem: Problem, seed: int) -> IntArray:
        nonlocal target
        params = JointParams(
            max_load_distance=rules.max_load_distance, costs=rules.costs, target=target
        )
        made = joint.plan(problem, Budget(moves=rules.moves), Stop(), seed, params)
        target = made.target
        return made.result.assignment.copy()

    return step


def _albic(rules: Rules) -> Step:
    """The paper collocates one pair a round; the budget allows more pairs, and ALBIC may use it."""

    def step(problem: Problem, seed: int) -> IntArray:
        mean = float(problem.load.sum() / problem.capacity.sum())
        params = albic.AlbicParams(
            max_ld=rules.max_load_distance * mean, pairs=rules.moves, rebalance=BALANCE
        )
        stop = Stop(steps=BALANCE_STEPS)
        return albic.solve(problem, Budget(moves=rules.moves), stop, seed, params).assignment.copy()

    return step


def _cola(rules: Rules) -> Step:
    def step(problem: Problem, seed: int) -> IntArray:
        params = cola.ColaParams(max_load_distance=rules.max_load_distance)
        return cola.solve(problem, Budget(), Stop(), seed, params).assignment.copy()

    return step


def _no_plan(_rules: Rules) -> Step:
    return lambda problem, _seed: problem.current.copy()
