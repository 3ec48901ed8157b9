"""Runs one method round by round, and finds when it reaches the obtainable collocation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.collocation.methods import CollocationSetting, Step
from bench.simulator.traffic import TrafficSimulation
from solvers.collocate.lower_bound import fewest_rounds
from solvers.model import metrics

SHARE_WANTED = 0.9
"""Of the obtainable collocation; the rounds until then are what is compared."""
TOGETHER = 99.999
HELD = 10
"""Rounds that are run on once all is together: what a method holds is its end, not what it met."""
PATIENCE = 40
STEP = 0.1
"""Rounds without so many points more, after which a method is taken to get no further."""
SLACK = 1e-6


@dataclass(frozen=True, slots=True)
class CollocationRound:
    """Collocation factor and load distance (percent) after a round, and the moves it took."""

    collocation: float
    load_distance: float
    moves: int


History = Sequence[CollocationRound]


def simulate(
    step: Step, setting: CollocationSetting, seed: int, rounds: int
) -> list[CollocationRound]:
    """Up to so many rounds; ends early once all has been together or nothing has come for long.

    Figures are recomputed from the assignment; those of the solver are not used.
    """
    world = TrafficSimulation(setting.scenario, seed)
    history: list[CollocationRound] = []
    for number in range(rounds):
        problem = world.problem()
        assignment = step(problem, seed + number)
        collocation = metrics.collocation_factor(problem, assignment) or 0.0
        distance = metrics.load_distance(problem, assignment)
        history.append(CollocationRound(collocation, distance, world.follow(assignment).moves))
        if is_held(history) or is_stuck(history):
            break
    return history


def is_held(history: History) -> bool:
    """All was together so many rounds ago."""
    return any(r.collocation >= TOGETHER for r in history[:-HELD])


def is_stuck(history: History) -> bool:
    """None of the last rounds had clearly more than the best before them."""
    if len(history) <= PATIENCE:
        return False
    before = max(r.collocation for r in history[:-PATIENCE])
    return max(r.collocation for r in history[-PATIENCE:]) < before + STEP


def rounds_to(history: History, wanted: float) -> int | None:
    """The first round after which the collocation is there; None if it never is."""
    return next((i for i, r in enumerate(history, 1) if r.collocation >= wanted - SLACK), None)


def best_within(history: History, bound: float) -> float:
    """The highest collocation that the history had within the load bound."""
    within = [r.collocation for r in history if r.load_distance <= bound + SLACK]
    return max(within, default=0.0)


def obtainable(histories: Iterable[History], bound: float) -> float:
    """The most that any method had in any round within the load bound."""
    return max((best_within(history, bound) for history in histories), default=0.0)


def over_budget(history: History, moves: int) -> int:
    return sum(r.moves > moves for r in history)


def over_bound(history: History, bound: float) -> int:
    """Rounds that ended over the load bound after the first one that kept it.

    A start beyond the bound may take some rounds to repair. After that no round may exceed it, not
    even that the loads drifted since the last plan.
    """
    late = [r.load_distance > bound + SLACK for r in history]
    repaired = late.index(False) if False in late else 0
    return sum(late[repaired:])


@dataclass(frozen=True, slots=True)
class CollocationRun:
    """All methods on one instance. ``fewest``: the proven lower bound on rounds."""

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
    """The wanted collocation, and the bound on the rounds until it is there."""
    wanted = SHARE_WANTED * obtainable(histories.values(), setting.bound)
    problem = TrafficSimulation(setting.scenario, seed).problem()
    assert problem.traffic_rate is not None
    rate = wanted / 100.0 * float(problem.traffic_rate.sum())
    fewest = max(1, fewest_rounds(problem, rate, setting.moves))
    return CollocationRun(setting, seed, index, wanted, fewest, dict(histories))
