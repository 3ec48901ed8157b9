"""Keys do not move until every node is within its limits; those that lose least stay first."""

from __future__ import annotations

import numpy as np
import pytest

from solvers.key_routing.key_graph import KeyGraph
from solvers.key_routing.node_load_limits import (
    KeyPartners,
    LoadLimits,
    MoveEffects,
    select_feasible,
)

INF = np.inf


def limits(load: list[float], least: float = -INF, most: float = INF) -> LoadLimits:
    column = np.array(load, dtype=np.float64)[:, None]
    return LoadLimits(column, np.full_like(column, least), np.full_like(column, most))


def effects(*entries: tuple[int, int, float]) -> MoveEffects:
    """Source, target and amount of each key, one after the other, in the only column."""
    source, target, amount = zip(*entries, strict=True)
    keys = np.arange(len(entries))
    return MoveEffects(
        keys, np.zeros_like(keys), np.array(source), np.array(target), np.array(amount)
    )


def worth(*values: float):
    return lambda moving: np.array(values)


def test_all_move_where_nodes_bear_them() -> None:
    moving = select_feasible(
        effects((0, 1, 3.0), (0, 1, 2.0)), limits([10, 5], most=10), 2, worth(1, 1)
    )
    assert moving.tolist() == [True, True]


def test_those_that_lose_least_for_their_weight_are_sent_back() -> None:
    wanted = effects((0, 1, 4.0), (0, 1, 2.0), (0, 1, 2.0))
    moving = select_feasible(wanted, limits([10, 5], most=11), 3, worth(9.0, 1.0, 8.0))
    assert moving.tolist() == [True, False, True]


def test_a_node_that_would_have_too_little_keeps_some() -> None:
    wanted = effects((0, 1, 3.0), (0, 2, 3.0))
    moving = select_feasible(wanted, limits([8, 1, 1], least=0.5, most=9), 2, worth(1.0, 2.0))
    assert moving.tolist() == [True, True]
    moving = select_feasible(wanted, limits([8, 1, 1], least=3.0, most=9), 2, worth(1.0, 2.0))
    assert moving.tolist() == [False, False]  # the others had too little before


def test_every_column_counts() -> None:
    one = limits([10, 5], most=20)
    two = one.beside(limits([1, 1], most=1.5))
    both = MoveEffects(
        np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([0, 0, 0, 0]),
        np.array([1, 1, 1, 1]), np.array([2.0, 0.4, 2.0, 0.4]),
    )  # fmt: skip
    assert select_feasible(both, two, 2, worth(1, 2)).tolist() == [False, True]


@pytest.mark.parametrize("seed", range(30))
def test_what_is_left_is_always_within_the_limits(seed: int) -> None:
    chance = np.random.default_rng(seed)
    n_nodes, n_keys = int(chance.integers(2, 7)), int(chance.integers(1, 60))
    start = chance.uniform(5, 10, n_nodes)
    bounds = limits(start.tolist(), least=float(start.min()) - 0.5, most=float(start.max()) + 0.5)
    source = chance.integers(0, n_nodes, n_keys)
    target = (source + chance.integers(1, n_nodes, n_keys)) % n_nodes
    amount = chance.exponential(0.7, n_keys)
    wanted = effects(*zip(source.tolist(), target.tolist(), amount.tolist(), strict=True))
    moving = select_feasible(wanted, bounds, n_keys, worth(*chance.uniform(-1, 5, n_keys)))
    assert bounds.allow(wanted.load(bounds, moving))
    everything = np.ones(n_keys, dtype=bool)
    assert moving.all() == bounds.allow(wanted.load(bounds, everything))


def test_a_key_loses_the_partners_it_would_have_come_to() -> None:
    graph = KeyGraph.from_counts(
        [(b"a", b"x", 5.0), (b"b", b"x", 2.0), (b"b", b"y", 1.0)],
        {b"a": 5.0, b"b": 3.0},
        {b"x": 7.0, b"y": 1.0},
        None,
    )
    at = dict(zip(graph.keys, (0, 0, 1, 0), strict=True))
    assert at == {b"a": 0, b"b": 0, b"x": 1, b"y": 0}
    before = np.array([0, 0, 1, 0])
    # a and b move to the node of x; y, which b leaves, does not move.
    partners = KeyPartners(graph, before, np.array([0, 1]), np.array([1, 1]))
    assert partners.lost(np.array([True, True])).tolist() == [5.0, 1.0]
    # If x moves to them instead, and b does not move, x still gains the records of a.
    together = KeyPartners(graph, before, np.array([2]), np.array([0]))
    assert together.lost(np.array([True])).tolist() == [7.0]
    assert together.lost(np.array([False])).tolist() == [7.0]
