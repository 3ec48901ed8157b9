"""The methods that are compared, each as a step from a problem to an assignment.

All get the same budget of moves and the same bound on load distance. ALBIC balances by the search
of Ballast with a fixed number of steps, instead of the paper's MILP: the search gives the same plan
in each run, and balances better at this size (docs/bench-rebalance.md). COLA has no parameter for a
budget and gets none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.simulator.traffic import Scenario
from solvers.collocate import albic, cola, joint
from solvers.collocate.joint_params import JointParams
from solvers.collocate.target_memory import TargetMemory
from solvers.model.budget import Budget
from solvers.model.problem import IntArray, Problem
from solvers.model.stop import Stop

OURS, ALBIC_M, ALBIC, COLA = "ours", "albic-m", "albic", "cola"
UNLEVELLED = "ours-unlevelled"
METHODS = (OURS, UNLEVELLED, ALBIC_M, ALBIC, COLA)
WORDS = {
    OURS: "ours",
    UNLEVELLED: "ours, load not levelled",
    ALBIC_M: "ALBIC, M pairs a round",
    ALBIC: "ALBIC",
    COLA: "COLA",
}
BALANCE = "search"
BALANCE_STEPS = 1

Step = Callable[[Problem, int], IntArray]
"""Takes the problem and the seed of a round; returns the assignment."""


@dataclass(frozen=True, slots=True)
class CollocationSetting:
    """A setting; ``bound`` is the load distance that is allowed, in percent of the mean."""

    name: str
    scenario: Scenario
    moves: int
    bound: float = 10.0


def step_of(method: str, setting: CollocationSetting) -> Step:
    """Return a new method without state from another run."""
    if method in (OURS, UNLEVELLED):
        return _ours(setting, setting.bound if method == UNLEVELLED else JointParams().level_to)
    if method == COLA:
        return _cola(setting)
    return _albic(setting, setting.moves if method == ALBIC_M else 1)


def _ours(setting: CollocationSetting, level_to: float) -> Step:
    target: TargetMemory | None = None

    def step(problem: Problem, seed: int) -> IntArray:
        nonlocal target
        params = JointParams(max_load_distance=setting.bound, target=target, level_to=level_to)
        made = joint.plan(problem, Budget(moves=setting.moves), Stop(), seed, params)
        target = made.target
        return made.result.assignment.copy()

    return step


def _albic(setting: CollocationSetting, pairs: int) -> Step:
    def step(problem: Problem, seed: int) -> IntArray:
        mean = float(problem.load.sum()) / problem.n_nodes
        # ALBIC's maxLD is in points of load; the bound of all methods in percent of the mean.
        params = albic.AlbicParams(max_ld=setting.bound * mean, pairs=pairs, rebalance=BALANCE)
        stop = Stop(steps=BALANCE_STEPS)
        result = albic.solve(problem, Budget(moves=setting.moves), stop, seed, params)
        return result.assignment.copy()

    return step


def _cola(setting: CollocationSetting) -> Step:
    def step(problem: Problem, seed: int) -> IntArray:
        params = cola.ColaParams(max_load_distance=setting.bound)
        return cola.solve(problem, Budget(), Stop(), seed, params).assignment.copy()

    return step
