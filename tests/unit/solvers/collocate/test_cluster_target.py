"""The target is within the load bound, with few cuts and few migrations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solvers.collocate.cluster_packing import ClusterTarget
from solvers.collocate.cluster_target import TIGHTER, TargetParams, propose_target
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.traffic_costs import TrafficCosts
from solvers.model.traffic_graph import TrafficGraph

BOUND = 0.1


def chains(lanes: int, length: int, nodes: int, weight: np.ndarray) -> Problem:
    """Chain ``i`` is key groups i x length and on; scattered over the nodes at random."""
    groups = lanes * length
    first = np.flatnonzero(np.arange(groups) % length < length - 1)
    rng = np.random.default_rng(1)
    return Problem(
        node_ids=tuple(f"n{i}" for i in range(nodes)),
        resources=("cpu",),
        capacity=np.ones((nodes, 1)),
        node_state=("alive",) * nodes,
        key_group_ids=tuple(f"g{k}" for k in range(groups)),
        operator_ids=tuple(f"o{k % length}" for k in range(groups)),
        load=(np.repeat(weight, length) / length)[:, None],
        state_bytes=np.ones(groups, dtype=np.int64),
        current=rng.integers(0, nodes, groups),
        traffic_from=first,
        traffic_to=first + 1,
        traffic_rate=np.repeat(weight, length)[first],
    )


def target_of(problem: Problem) -> ClusterTarget:
    found = propose_target(
        problem,
        TrafficGraph.of(problem),
        TrafficCosts(),
        Budget(moves=5),
        problem.current,
        TargetParams(bound=BOUND, score_factor=1.5, seed=2),
    )
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("weight", "nodes", "cuts"),
    [
        (np.ones(8), 8, 0),
        # Three nodes hold two chains of one and a half: one cut each.
        (np.full(8, 1.5), 12, 8),
        (np.array([2.6, 0.7, 0.3, 1.4, 0.2, 0.8]), 6, 6),
    ],
)
def test_chains_of_any_weight_are_cut_to_fill_the_nodes(
    weight: np.ndarray, nodes: int, cuts: int
) -> None:
    problem = chains(len(weight), 30, nodes, weight)
    target = target_of(problem)
    assert target.excess == 0
    assert metrics.load_distance(problem, target.node_of) <= 100 * BOUND * TIGHTER + 1e-6
    assert problem.traffic_from is not None
    assert problem.traffic_to is not None
    apart = target.node_of[problem.traffic_from] != target.node_of[problem.traffic_to]
    assert apart.sum() <= cuts


def test_a_part_of_a_chain_is_a_cluster_of_its_own() -> None:
    problem = chains(4, 30, 6, np.full(4, 1.5))
    target = target_of(problem)
    for cluster in np.unique(target.cluster_of):
        assert len(set(target.node_of[target.cluster_of == cluster].tolist())) == 1


def test_what_cannot_be_cut_ends_with_an_excess() -> None:
    problem = chains(3, 2, 4, np.array([3.0, 0.5, 0.5]))
    assert target_of(problem).excess > 0


def test_where_everything_is_in_place_the_target_is_to_stay() -> None:
    problem = chains(6, 10, 6, np.ones(6))
    together = replace(problem, current=np.repeat(np.arange(6), 10))
    assert target_of(together).migrations(together.current) == 0
