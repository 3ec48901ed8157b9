"""The setting of seed 000, 5.3, as problems: operators in pairs or in chains, drifting loads."""

from __future__ import annotations

import dataclasses

import numpy as np

from solvers import Problem

RECORDS = 1000.0
"""Rate of each one-to-one edge before skew; only ratios matter."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scenario:
    """20 key groups a node, ``operators`` of them as many key groups each.

    ``pairs``: operators two by two, key group i of one sends to key group i of the other.
    ``chains``: all operators in a row, one to one along it. ``collocatable``: share of the
    traffic that is one-to-one; the rest is sent evenly to all key groups downstream (full
    partitioning, Figure 1). ``skew``: sigma of log-normal loads and rates, 0 for 5.3's +-5 %.
    """

    nodes: int
    shape: str
    collocatable: float = 1.0
    skew: float = 0.0
    operators: int = 10
    mean_load: float = 0.5

    @property
    def key_groups(self) -> int:
        return 20 * self.nodes


def first_problem(scenario: Scenario, seed: int) -> Problem:
    """Key groups spread evenly over the nodes, at random (5.1: each node has the same number)."""
    rng = np.random.default_rng([seed, 1])
    groups, nodes, operators = scenario.key_groups, scenario.nodes, scenario.operators
    operator = np.repeat(np.arange(operators), groups // operators)
    weight = 1.0 + rng.uniform(-0.05, 0.05, groups)
    lanes = groups // operators
    if scenario.skew:
        # A lane (key group i of every operator) sees the same keys: load and rate go together.
        lane = rng.lognormal(0.0, scenario.skew, lanes)
        weight *= np.tile(lane / lane.mean(), operators)
    source, target, rate = _edges(scenario, weight.reshape(operators, lanes))
    current = rng.permutation(np.repeat(np.arange(nodes), groups // nodes))
    load = weight / weight.sum() * nodes * scenario.mean_load
    return Problem(
        node_ids=tuple(f"n{i}" for i in range(nodes)),
        resources=("cpu",),
        capacity=np.ones((nodes, 1)),
        node_state=("alive",) * nodes,
        key_group_ids=tuple(f"g{k}" for k in range(groups)),
        operator_ids=tuple(f"o{i}" for i in operator.tolist()),
        load=load.reshape(-1, 1),
        state_bytes=np.full(groups, 1_000_000, dtype=np.int64),
        current=current,
        traffic_from=source,
        traffic_to=target,
        traffic_rate=rate,
    )


def _edges(scenario: Scenario, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    operators, lanes = weight.shape
    step = 2 if scenario.shape == "pairs" else 1
    source, target, rate = [], [], []
    for upstream in range(0, operators - 1, step):
        for lane in range(lanes):
            sends = RECORDS * float(weight[upstream, lane])
            here = upstream * lanes + lane
            below = (upstream + 1) * lanes
            if scenario.collocatable > 0:
                source.append(here)
                target.append(below + lane)
                rate.append(sends * scenario.collocatable)
            if scenario.collocatable < 1:
                for other in range(lanes):
                    source.append(here)
                    target.append(below + other)
                    rate.append(sends * (1 - scenario.collocatable) / lanes)
    return np.array(source), np.array(target), np.array(rate)


def next_problem(problem: Problem, assignment: np.ndarray, rng: np.random.Generator) -> Problem:
    """A round later: the plan is in force, and 20 % of the nodes changed by up to +-2 % (5.3)."""
    nodes = problem.n_nodes
    changed = rng.choice(nodes, size=max(1, nodes // 5), replace=False)
    factor = np.ones(nodes)
    factor[changed] += rng.uniform(-0.02, 0.02, len(changed))
    load = problem.load * factor[assignment][:, None]
    return dataclasses.replace(problem, load=load, current=assignment.copy())
