"""A simulation in which decisions have effects: load swings, nodes launch and drain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from solvers.scale import (
    LAUNCHING,
    Edge,
    NodeSample,
    Observation,
    OperatorSample,
    Policy,
    ScalingAction,
    ScalingDecision,
    ScalingHistory,
    SourceSample,
    decide,
)

INTERVAL_S = 600.0
WINDOWS = 12
RECORDS_PER_NODE = 1000.0
SELECTIVITY = 2.0
SHARE_OF_FIRST = 0.4
DRAIN_ROUNDS = 2

Load = Callable[[float], float]
"""Seconds since the start -> work to do, in nodes."""


def swing(
    base: float, *, amplitude: float = 0.3, period_s: float, phase: float, step_at_s: float = np.inf
) -> Load:
    def load(t: float) -> float:
        level = base * (1.5 if t >= step_at_s else 1.0)
        return level * (1 + amplitude * np.sin(2 * np.pi * t / period_s + phase))

    return load


def measured(
    node_id: str, cpu: object, *, capacity: float = 1.0, memory: object = None, **rest: object
) -> NodeSample:
    """A node from plain numbers; one number stands for a constant series."""
    use = {"cpu": _series(cpu)}
    room = {"cpu": capacity}
    if memory is not None:
        use["memory"], room["memory"] = _series(memory), capacity
    return NodeSample(node_id, room, use, **rest)  # type: ignore[arg-type]


def _series(value: object) -> tuple[float, ...]:
    return (float(value),) * WINDOWS if isinstance(value, int | float) else value  # type: ignore[arg-type]


def observe(at_s: float, *cpu: float, **rest: object) -> Observation:
    nodes = tuple(measured(f"n{i}", value) for i, value in enumerate(cpu))
    return Observation(at_s, INTERVAL_S / WINDOWS, nodes, **rest)  # type: ignore[arg-type]


@dataclass
class World:
    """Runs a policy on a load, round after round; ``covers``: share of the interval observed."""

    load: Load
    policy: Policy
    nodes: int
    seed: int = 0
    covers: float = 1.0
    noise: float = 0.02
    backlog: float = 0.0
    now_s: float = 0.0
    history: ScalingHistory = field(default_factory=ScalingHistory)
    decisions: list[ScalingDecision] = field(default_factory=list)
    draining: list[int] = field(default_factory=list)
    """Rounds left of each draining node."""
    launching: int = 0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def run(self, rounds: int) -> list[int]:
        """The rounds (from 1) with a scaling action."""
        for _ in range(rounds):
            self.step()
        return [i for i, d in enumerate(self.decisions, 1) if d.scales]

    def step(self) -> ScalingDecision:
        observation = self._pass_time()
        decision = decide(observation, self.policy, self.history)
        self.history = self.history.remember(observation.at_s, decision, self.policy.memory_rounds)
        self.decisions.append(decision)
        self.nodes += self.launching
        self.launching = 0
        self.draining = [left - 1 for left in self.draining if left > 1]
        change = decision.change("")
        if decision.action is ScalingAction.OUT:
            self.launching = change
        elif decision.action is ScalingAction.IN:
            self.nodes += change
            self.draining += [DRAIN_ROUNDS] * -change
        return decision

    def _pass_time(self) -> Observation:
        dt = INTERVAL_S / WINDOWS
        done, asked = [], []
        for _ in range(WINDOWS):
            work = self.load(self.now_s + dt / 2) * (1 + self.noise * self.rng.standard_normal())
            capable = float(self.nodes + self.launching)
            processed = min(capable, work + self.backlog / dt)
            self.backlog = max(0.0, self.backlog + (work - processed) * dt)
            self.now_s += dt
            done.append(processed)
            asked.append(work)
        seen = max(1, round(WINDOWS * self.covers))
        return self._observation(np.array(done[-seen:]), np.array(asked[-seen:]))

    def _observation(self, done: np.ndarray, asked: np.ndarray) -> Observation:
        each = tuple((done / self.nodes).tolist())
        nodes = [measured(f"n{i}", each, memory=0.2, started_at_s=0.0) for i in range(self.nodes)]
        nodes += [
            measured(f"d{i}", 0.0, memory=0.0, state="draining") for i in range(len(self.draining))
        ]
        nodes += [
            NodeSample(f"l{i}", {"cpu": 1.0, "memory": 1.0}, None, LAUNCHING, "", self.now_s)
            for i in range(self.launching)
        ]
        rate = float(done.mean()) * RECORDS_PER_NODE
        busy = float(done.mean())
        return Observation(
            self.now_s,
            INTERVAL_S / WINDOWS,
            tuple(nodes),
            sources=(
                SourceSample(
                    "orders",
                    "parse",
                    float(asked.mean()) * RECORDS_PER_NODE,
                    self.backlog * RECORDS_PER_NODE,
                ),
            ),
            operators=(
                OperatorSample("parse", rate, SHARE_OF_FIRST * busy),
                OperatorSample("count", SELECTIVITY * rate, (1 - SHARE_OF_FIRST) * busy),
            ),
            edges=(Edge("parse", "count", SELECTIVITY * rate),),
        )
