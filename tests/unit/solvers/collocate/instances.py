"""Small problems with traffic for the collocation tests."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from hypothesis import strategies as st

from solvers.model.budget import Budget
from solvers.model.problem import IntArray, Problem
from tests.unit.solvers.instances import make


def with_traffic(
    load: Any, current: Any, edges: list[tuple[int, int, float]], **rest: Any
) -> Problem:
    """A problem from plain numbers, with (from, to, rate) edges."""
    return make(
        load,
        current,
        traffic_from=np.array([a for a, _, _ in edges], dtype=np.int64),
        traffic_to=np.array([b for _, b, _ in edges], dtype=np.int64),
        traffic_rate=np.array([r for _, _, r in edges], dtype=float),
        **rest,
    )


def pairs_apart(n_pairs: int, n_nodes: int, seed: int = 0, **rest: Any) -> Problem:
    """Operators a and b; key group i of a sends to key group i of b; no pair shares a node."""
    rng = np.random.default_rng(seed)
    left = rng.permutation(np.arange(n_pairs) % n_nodes)
    right = (left + 1 + np.arange(n_pairs) % (n_nodes - 1)) % n_nodes
    problem = with_traffic(
        1.0 + rng.uniform(-0.05, 0.05, 2 * n_pairs),
        np.concatenate((left, right)),
        [(i, n_pairs + i, 10.0) for i in range(n_pairs)],
        nodes=n_nodes,
        **rest,
    )
    return with_operators(problem, ["a"] * n_pairs + ["b"] * n_pairs)


def with_operators(problem: Problem, operators: list[str]) -> Problem:
    return dataclasses.replace(problem, operator_ids=tuple(operators))


budgets = st.builds(
    Budget,
    moves=st.none() | st.integers(0, 6),
    bytes=st.none() | st.integers(0, 60),
    pause_s=st.none() | st.floats(0, 5, allow_nan=False),
)


@st.composite
def problems(draw: st.DrawFn, max_nodes: int = 4, max_groups: int = 9) -> Problem:
    """Problems with all rules: capacities, two resources, pins, allowed nodes, draining and dead
    nodes."""
    nodes = draw(st.integers(1, max_nodes))
    groups = draw(st.integers(1, max_groups))
    resources = draw(st.integers(1, 2))
    numbers = st.integers(0, 9)
    load = [[draw(numbers) for _ in range(resources)] for _ in range(groups)]
    edge = st.tuples(
        st.integers(0, groups - 1), st.integers(0, groups - 1), st.integers(0, 5).map(float)
    )
    rest: dict[str, Any] = {}
    if draw(st.booleans()):
        rarely = st.sampled_from([False, False, False, True])
        rest["pinned"] = np.array([draw(rarely) for _ in range(groups)])
    if draw(st.booleans()):
        mostly = st.sampled_from([True, True, True, True, False])
        mask = [[draw(mostly) for _ in range(nodes)] for _ in range(groups)]
        rest["allowed"] = np.array(mask, dtype=bool).reshape(groups, nodes)
    states = draw(
        st.lists(
            st.sampled_from(["alive", "alive", "alive", "draining", "dead"]),
            min_size=nodes,
            max_size=nodes,
        )
    )
    return with_traffic(
        load,
        [draw(st.integers(0, nodes - 1)) for _ in range(groups)],
        draw(st.lists(edge, max_size=15)),
        states=states,
        capacity=[draw(st.sampled_from([1.0, 2.0])) for _ in range(nodes)],
        state_bytes=np.array([draw(st.integers(0, 30)) for _ in range(groups)], dtype=np.int64),
        pause_c0_s=0.5,
        pause_s_per_byte=0.01,
        rack=tuple(draw(st.sampled_from(["x", "y"])) for _ in range(nodes)),
        **rest,
    )


def collocated_rate(problem: Problem, assignment: IntArray) -> float:
    """Recomputed edge by edge, in plain Python."""
    assert problem.traffic_from is not None
    assert problem.traffic_to is not None
    assert problem.traffic_rate is not None
    rows = zip(problem.traffic_from, problem.traffic_to, problem.traffic_rate, strict=True)
    return sum(float(r) for a, b, r in rows if assignment[a] == assignment[b])
