"""Runs one method round by round, and finds when it reaches the obtainable collocation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import fmean
from typing import Any

from bench.collocation.methods import CollocationSetting, Step
from bench.simulator.traffic import TrafficSimulation
from solvers.collocate.joint_bound import collocation_bound, load_distance_bound
from solvers.collocate.lower_bound import fewest_rounds
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.traffic_costs import TrafficCosts

SHARE_WANTED = 0.9
"""Share of the obtainable collocation; the benchmark compares the rounds until it is reached."""
TOGETHER = 99.999
HELD = 10
"""Rounds after everything is collocated, to see whether a method keeps it."""
PATIENCE = 40
STEP = 0.1
"""A method stops after PATIENCE rounds without STEP points more."""
SLACK = 1e-6


@dataclass(frozen=True, slots=True)
class CollocationRound:
    """Collocation factor and load distance (percent) after a round, and the moves it took.

    The bounds hold for every plan of the round within its budget, also where none was computed.
    """

    collocation: float
    load_distance: float
    moves: int
    collocation_bound: float = 100.0
    load_bound: float = 0.0


History = Sequence[CollocationRound]


def simulate(
    step: Step, setting: CollocationSetting, seed: int, rounds: int, *, with_bounds: bool = False
) -> list[CollocationRound]:
    """Run at most this many rounds; stop early if all is collocated or nothing improves any more.

    Figures are recomputed from the assignment; those of the solver are not used. Bounds take time,
    so they are computed where they are asked for.
    """
    world = TrafficSimulation(setting.scenario, seed)
    history: list[CollocationRound] = []
    for number in range(rounds):
        problem = world.problem()
        assignment = step(problem, seed + number)
        collocation = metrics.collocation_factor(problem, assignment) or 0.0
        distance = metrics.load_distance(problem, assignment)
        bounds = _bounds(problem, setting) if with_bounds else ()
        moves = world.follow(assignment).moves
        history.append(CollocationRound(collocation, distance, moves, *bounds))
        if is_held(history) or is_stuck(history):
            break
    return history


def _bounds(problem: Problem, setting: CollocationSetting) -> tuple[float, float]:
    """Return the bounds of the collocation and of the load distance of a round, in percent."""
    budget = Budget(moves=setting.moves)
    traffic = collocation_bound(problem, budget)
    load = load_distance_bound(problem, budget, TrafficCosts())
    return 100.0 if traffic is None else traffic, load


def at_the_end(history: History) -> CollocationRound:
    """Return the means over the last rounds."""
    last = history[-HELD:]
    means = (fmean(getattr(r, name.name) for r in last) for name in fields(CollocationRound))
    collocation, distance, moves, traffic, load = means
    return CollocationRound(collocation, distance, round(moves), traffic, load)


def is_held(history: History) -> bool:
    """Return whether everything was collocated for enough rounds."""
    return any(r.collocation >= TOGETHER for r in history[:-HELD])


def is_stuck(history: History) -> bool:
    """Return whether no recent round collocated clearly more than the best one before."""
    if len(history) <= PATIENCE:
        return False
    before = max(r.collocation for r in history[:-PATIENCE])
    return max(r.collocation for r in history[-PATIENCE:]) < before + STEP


def rounds_to(history: History, wanted: float) -> int | None:
    """Return the first round with this collocation; None if there is none."""
    return next((i for i, r in enumerate(history, 1) if r.collocation >= wanted - SLACK), None)


def best_within(history: History, bound: float) -> float:
    """Return the highest collocation of a history within the load bound."""
    within = [r.collocation for r in history if r.load_distance <= bound + SLACK]
    return max(within, default=0.0)


def obtainable(histories: Iterable[History], bound: float) -> float:
    """Return the highest collocation of all methods and rounds within the load bound."""
    return max((best_within(history, bound) for history in histories), default=0.0)


def over_budget(history: History, moves: int) -> int:
    return sum(r.moves > moves for r in history)


def over_bound(history: History, bound: float) -> int:
    """Rounds that ended over the load bound after the first round that kept it.

    A start beyond the bound may take some rounds to repair. After that no round may exceed the
    bound, even if the loads drifted since the last plan.
    """
    late = [r.load_distance > bound + SLACK for r in history]
    repaired = late.index(False) if False in late else 0
    return sum(late[repaired:])


@dataclass(frozen=True, slots=True)
class CollocationRun:
    """All methods on one instance; ``fewest`` is the proven lower bound of the rounds."""

    setting: CollocationSetting
    seed: int
    index: int
    wanted: float
    fewest: int
    histories: Mapping[str, History]

    def rounds_of(self, method: str) -> int | None:
        return rounds_to(self.histories[method], self.wanted)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def run_of(
    setting: CollocationSetting, seed: int, index: int, histories: Mapping[str, History]
) -> CollocationRun:
    """Return the wanted collocation, and the lower bound of the rounds until it is reached."""
    wanted = SHARE_WANTED * obtainable(histories.values(), setting.bound)
    problem = TrafficSimulation(setting.scenario, seed).problem()
    assert problem.traffic_rate is not None
    rate = wanted / 100.0 * float(problem.traffic_rate.sum())
    fewest = max(1, fewest_rounds(problem, rate, setting.moves))
    return CollocationRun(setting, seed, index, wanted, fewest, dict(histories))
