"""Operators that exchange records, as in [ICDE17, 5.3]; loads drift between rounds.

Printed: 20 key groups a node, each with the mean load +-5 %, spread evenly over the nodes (5.1); x
% of the key groups send one to one; each round 20 % of the nodes change by up to +-2 % (5.3). Not
printed, and chosen here: how operators are connected (pairs or one chain), where the other key
groups send (full partitioning), how many key groups a partial pattern reaches, and skew.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from bench.simulator.cluster import Migration, SimulatedCluster
from solvers.model.problem import FloatArray, IntArray, Problem

KEY_GROUPS_A_NODE = 20
NODES_AN_OPERATOR = 2
"""20, 40 and 60 nodes have 10, 20 and 30 operators of 40 key groups each."""
MEAN_LOAD = 0.5
RECORDS = 1000.0
"""Rate that a key group sends before skew; only ratios matter."""
STATE_BYTES = 1_000_000
FAN_OUT = 4
MERGED = 2

PAIRS, CHAINS = "pairs", "chains"
ONE_TO_ONE, PARTIAL, MERGE, FULL = "one-to-one", "partial", "merge", "full"
PATTERNS = (ONE_TO_ONE, PARTIAL, MERGE, FULL)
"""Patterns of Figure 1: one to one; to a subset; all to one that others also send to; to all."""

Edges = tuple[IntArray, IntArray, FloatArray]
"""Sender, receiver and rate of each entry of the traffic."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scenario:
    """``collocatable``: share of the sending key groups that follow ``pattern``; the others send
    evenly to all key groups downstream. ``skew``: sigma of log-normal loads and rates, 0 for none.
    """

    nodes: int
    shape: str = PAIRS
    pattern: str = ONE_TO_ONE
    collocatable: float = 1.0
    skew: float = 0.0

    def __post_init__(self) -> None:
        if self.shape not in (PAIRS, CHAINS) or self.pattern not in PATTERNS:
            raise ValueError(f"no such traffic: {self.shape}, {self.pattern}")
        if self.nodes < 2 * NODES_AN_OPERATOR or self.nodes % NODES_AN_OPERATOR:
            raise ValueError(f"{self.nodes} nodes do not make whole operators")
        if not 0.0 <= self.collocatable <= 1.0 or self.skew < 0.0:
            raise ValueError("a share is between 0 and 1, a skew at least 0")

    @property
    def key_groups(self) -> int:
        return KEY_GROUPS_A_NODE * self.nodes

    @property
    def operators(self) -> int:
        return self.nodes // NODES_AN_OPERATOR

    @property
    def lanes(self) -> int:
        """Key groups of one operator. Lane i is the i-th key group of every operator."""
        return self.key_groups // self.operators


def receivers(pattern: str, lane: int, lanes: int) -> list[int]:
    """The lanes downstream that a key group sends to, with an even share each."""
    if pattern == ONE_TO_ONE:
        return [lane]
    if pattern == MERGE:
        return [lane - lane % MERGED]
    reach = lanes if pattern == FULL else min(FAN_OUT, lanes)
    return [(lane + step) % lanes for step in range(reach)]


def connected(shape: str, operators: int) -> list[tuple[int, int]]:
    """The pairs of operators that are connected: two by two, or each with the next."""
    step = 2 if shape == PAIRS else 1
    return [(upstream, upstream + 1) for upstream in range(0, operators - 1, step)]


def edges(scenario: Scenario, sends: FloatArray, rng: np.random.Generator) -> Edges:
    """The traffic; ``sends[operator, lane]`` is the rate that a key group sends in total."""
    lanes = scenario.lanes
    followers = round(scenario.collocatable * lanes)
    entries: list[tuple[int, int, float]] = []
    for upstream, downstream in connected(scenario.shape, scenario.operators):
        follows = set(rng.permutation(lanes)[:followers].tolist())
        for lane in range(lanes):
            pattern = scenario.pattern if lane in follows else FULL
            to = receivers(pattern, lane, lanes)
            rate = float(sends[upstream, lane]) / len(to)
            sender = upstream * lanes + lane
            entries += [(sender, downstream * lanes + other, rate) for other in to]
    source, target, rates = zip(*entries, strict=True)
    return np.array(source), np.array(target), np.array(rates)


class TrafficSimulation:
    """A cluster that runs the scenario. Same scenario and seed: same start and same drift."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        rng = np.random.default_rng([seed, 1])
        self.scenario = scenario
        groups, nodes, operators = scenario.key_groups, scenario.nodes, scenario.operators
        weight = 1.0 + rng.uniform(-0.05, 0.05, groups)
        if scenario.skew:
            # A lane has the same keys at every operator, so its load is proportional to its rate.
            lane = rng.lognormal(0.0, scenario.skew, scenario.lanes)
            weight *= np.tile(lane / lane.mean(), operators)
        start = rng.permutation(np.repeat(np.arange(nodes), groups // nodes))
        names = [f"op-{i:02d}" for i in np.repeat(np.arange(operators), scenario.lanes)]
        self.cluster = SimulatedCluster(start, nodes, operators=names)
        self.load: FloatArray = weight / weight.sum() * nodes * MEAN_LOAD
        self.traffic = edges(scenario, RECORDS * weight.reshape(operators, -1), rng)
        self.state_bytes = np.full(groups, STATE_BYTES, dtype=np.int64)
        self._drift = np.random.default_rng([seed, 2])

    def problem(self) -> Problem:
        """The problem for a solver in this round."""
        source, target, rate = self.traffic
        return dataclasses.replace(
            self.cluster.problem(self.load, self.state_bytes),
            traffic_from=source,
            traffic_to=target,
            traffic_rate=rate,
        )

    def follow(self, assignment: IntArray) -> Migration:
        """Put a plan in force; then 20 % of the nodes change by up to +-2 % (5.3)."""
        cost = self.cluster.follow(assignment, self.state_bytes)
        nodes = self.scenario.nodes
        changed = self._drift.choice(nodes, size=max(1, nodes // 5), replace=False)
        factor = np.ones(nodes)
        factor[changed] += self._drift.uniform(-0.02, 0.02, len(changed))
        self.load = self.load * factor[self.cluster.current]
        return cost
