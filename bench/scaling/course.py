"""An experiment of [DODO], and the figures of one run of it over time."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.simulator.fleet import Fleet
from bench.simulator.pipeline import Ramp

STEP_S = 30.0
STEPS = 4
DECIDE_S = STEP_S * STEPS
"""Time between two rounds; the paper does not print it."""


@dataclass(frozen=True)
class Experiment:
    """Operators with their costs, on clusters of these sizes, under a ramp."""

    name: str
    cost_ms: tuple[float, float, float]
    sizes: tuple[int, ...]
    mapping: tuple[int, int, int]
    ramp: Ramp
    minutes: float
    cap: int
    launch_s: float = 120.0

    @property
    def steps(self) -> int:
        return round(60 * self.minutes / STEP_S)


@dataclass
class Course:
    """Records that passed in each step, the number of nodes, and the cost paid until then."""

    at_s: list[float] = field(default_factory=list)
    passed: list[float] = field(default_factory=list)
    nodes: list[float] = field(default_factory=list)
    hours: list[float] = field(default_factory=list)
    moves: int = 0
    needless: int = 0
    sustained: float = 0.0
    billed_hours: int = 0

    def note(self, at_s: float, passed: float, nodes: float, hours: float) -> None:
        self.at_s.append(at_s)
        self.passed.append(passed)
        self.nodes.append(float(nodes))
        self.hours.append(hours)

    def ended(self, sustained: float, fleet: Fleet, now_s: float) -> Course:
        self.sustained = sustained
        self.billed_hours = fleet.billed_hours(now_s)
        return self

    @property
    def steady(self) -> float:
        """Tweets per second that pass in the last round."""
        return sum(self.passed[-STEPS:]) / STEPS

    def hours_at(self, minutes: float) -> float:
        return self.hours[min(len(self.hours), round(60 * minutes / STEP_S)) - 1]

    def tweets_until(self, minutes: float) -> float:
        return STEP_S * sum(self.passed[: round(60 * minutes / STEP_S)])
