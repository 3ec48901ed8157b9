"""The instances of the comparison: ten cells, and the large ones beyond them.

(1-3) log-normal loads on random nodes; (4-7) the generator of [ICDE17, 5.1], with 20 key groups per
node; (8) nodes of capacity 0.5 to 4; (9) the same with three resources; (10) a budget in bytes,
where bytes and load are correlated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench.rebalance.peers.exchange import Instance
from solvers.model.budget import Budget
from solvers.model.problem import FloatArray, IntArray, Problem

SIGMA = 0.8
"""Spread of the log-normal loads: the largest of 1,000 key groups has about 12 times the median."""
CAPACITIES = (0.5, 1.0, 2.0, 4.0)
LARGE_CAPACITIES = (1.0, 2.0, 4.0)
BYTES_CORRELATION = 0.7
MEDIAN_BYTES = 10_000_000


@dataclass(frozen=True)
class Cell:
    """A kind of instance; ``make(seed)`` draws an instance."""

    name: str
    words: str
    make: Callable[[int], Instance]
    key_groups: int
    nodes: int

    def draw(self, seed_base: int, index: int) -> tuple[Instance, int]:
        """Return the index-th instance under a seed base, and its seed, which the solvers use as
        well."""
        name = int.from_bytes(self.name.encode(), "big")
        entropy = [seed_base, name, index]
        seed = int(np.random.SeedSequence(entropy).generate_state(1)[0]) % 2**31
        return self.make(seed), seed


def lognormal_cell(
    name: str,
    key_groups: int,
    nodes: int,
    moves: int,
    *,
    capacities: tuple[float, ...] = (1.0,),
    resources: int = 1,
) -> Cell:
    def make(seed: int) -> Instance:
        rng = np.random.default_rng(seed)
        capacity = rng.choice(capacities, size=nodes)
        load = rng.lognormal(0, SIGMA, (key_groups, resources))
        return _instance(rng, capacity, load, place_by_capacity(rng, capacity, key_groups), moves)

    words = f"log-normal, {key_groups:,} key groups, {nodes:,} nodes, {moves:,} moves"
    if len(capacities) > 1:
        words += f", capacities {capacities[0]:g}-{capacities[-1]:g}"
    if resources > 1:
        words += f", {resources} resources"
    return Cell(name, words, make, key_groups, nodes)


def icde17_cell(name: str, nodes: int, varies: float, moves: int) -> Cell:
    per_node = 20

    def make(seed: int) -> Instance:
        rng = np.random.default_rng(seed)
        current, load = icde17_loads(rng, nodes, per_node, varies)
        return _instance(rng, np.ones(nodes), load[:, None], current, moves)

    words = (
        f"[ICDE17]'s, {nodes * per_node:,} key groups, {nodes} nodes, "
        f"varies {varies:g} %, {moves} moves"
    )
    return Cell(name, words, make, nodes * per_node, nodes)


def bytes_cell(name: str, key_groups: int, nodes: int, share: float) -> Cell:
    """A cell whose budget is a share of all bytes, without a limit on the number of moves."""

    def make(seed: int) -> Instance:
        rng = np.random.default_rng(seed)
        load, state_bytes = correlated_bytes(rng, key_groups)
        current = rng.integers(0, nodes, key_groups)
        return Instance(
            capacity=np.ones((nodes, 1)),
            load=load[:, None],
            state_bytes=state_bytes,
            current=current,
            moves=None,
            bytes=int(share * state_bytes.sum()),
        )

    words = f"log-normal, {key_groups:,} key groups, {nodes} nodes, {share:.0%} of the bytes"
    return Cell(name, words, make, key_groups, nodes)


def place_by_capacity(rng: np.random.Generator, capacity: FloatArray, key_groups: int) -> IntArray:
    """Random nodes, chosen in proportion to their capacity."""
    current = rng.choice(len(capacity), size=key_groups, p=capacity / capacity.sum())
    return np.asarray(current, dtype=np.int64)


def icde17_loads(
    rng: np.random.Generator, nodes: int, per_node: int, varies: float
) -> tuple[IntArray, FloatArray]:
    """Return the current node [G] and the load [G] as section 5.1 draws them.

    Each node has the same number of key groups, with loads of the mean +-5 %. Of 20 % of the nodes,
    half lose and half gain 0.5 x varies of their load, through a random half of their key groups.
    """
    current = np.repeat(np.arange(nodes), per_node)
    load = rng.uniform(0.95, 1.05, nodes * per_node)
    shifted = rng.permutation(nodes)[: max(2, round(0.2 * nodes))]
    for place, node in enumerate(shifted):
        sign = -1.0 if place < len(shifted) // 2 else 1.0
        groups = rng.permutation(np.flatnonzero(current == node))
        some = groups[: (len(groups) + 1) // 2]
        change = sign * varies / 200.0 * load[groups].sum() / load[some].sum()
        load[some] *= max(0.0, 1.0 + change)
    return current, load


def correlated_bytes(rng: np.random.Generator, key_groups: int) -> tuple[FloatArray, IntArray]:
    """Loads and state sizes whose logarithms are correlated."""
    of_load, own = rng.standard_normal((2, key_groups))
    of_bytes = BYTES_CORRELATION * of_load + np.sqrt(1 - BYTES_CORRELATION**2) * own
    load = np.exp(SIGMA * of_load)
    return load, np.rint(MEDIAN_BYTES * np.exp(of_bytes)).astype(np.int64)


def _instance(
    rng: np.random.Generator,
    capacity: FloatArray,
    load: FloatArray,
    current: IntArray,
    moves: int,
) -> Instance:
    sizes = MEDIAN_BYTES * np.exp(rng.standard_normal(len(load)))
    return Instance(
        capacity=np.repeat(capacity[:, None], load.shape[1], axis=1),
        load=load,
        state_bytes=np.rint(sizes).astype(np.int64),
        current=current,
        moves=moves,
        bytes=None,
    )


TEN_CELLS: tuple[Cell, ...] = (
    lognormal_cell("1", 400, 20, 20),
    lognormal_cell("2", 1000, 20, 50),
    lognormal_cell("3", 10_000, 100, 500),
    icde17_cell("4", 20, 20, 10),
    icde17_cell("5", 40, 40, 20),
    icde17_cell("6", 60, 40, 20),
    icde17_cell("7", 60, 60, 40),
    lognormal_cell("8", 1000, 20, 50, capacities=CAPACITIES),
    lognormal_cell("9", 1000, 20, 50, capacities=CAPACITIES, resources=3),
    bytes_cell("10", 1000, 20, 0.01),
)

LARGE_CELLS: tuple[Cell, ...] = (
    lognormal_cell("1e5-1%", 100_000, 1000, 1000),
    lognormal_cell("1e5-5%", 100_000, 1000, 5000),
    lognormal_cell("1e6-1%", 1_000_000, 10_000, 10_000),
    lognormal_cell("1e6-5%", 1_000_000, 10_000, 50_000),
)

BY_NAME = {cell.name: cell for cell in (*TEN_CELLS, *LARGE_CELLS)}


def problem_of(instance: Instance) -> tuple[Problem, Budget]:
    """Return the instance as a problem of the solvers."""
    groups, nodes = instance.n_key_groups, instance.n_nodes
    resources = ("cpu", "memory", "network")[: instance.load.shape[1]]
    problem = Problem(
        node_ids=tuple(f"node-{i}" for i in range(nodes)),
        resources=resources,
        capacity=instance.capacity,
        node_state=("alive",) * nodes,
        key_group_ids=tuple(f"kg-{k}" for k in range(groups)),
        operator_ids=("op",) * groups,
        load=instance.load,
        state_bytes=instance.state_bytes,
        current=instance.current,
    )
    return problem, Budget(moves=instance.moves, bytes=instance.bytes)
