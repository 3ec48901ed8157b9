"""Moves left in the budget of a joint plan level its load, and lose no traffic."""

from __future__ import annotations

import dataclasses

import numpy as np

from solvers.collocate.joint import JointPlan, plan
from solvers.collocate.joint_params import JointParams
from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.stop import Stop
from solvers.model.traffic_costs import TrafficCosts
from tests.unit.solvers.collocate.instances import with_traffic

LOOSE = 60.0


def _pairs_together(**rest: object) -> Problem:
    """Twelve pairs on four nodes, each pair on one node; the load of nodes is 5, 4, 3 and 2."""
    load, current, edges = [], [], []
    for node, each in enumerate((5.0, 4.0, 3.0, 2.0)):
        for pair in range(3):
            size = each * (0.5, 0.3, 0.2)[pair] / 2
            edges.append((len(load), len(load) + 1, 10.0))
            load += [size, size]
            current += [node, node]
    return with_traffic(load, current, edges, nodes=4, **rest)


def _plan(problem: Problem, budget: Budget, **params: object) -> JointPlan:
    options = JointParams(max_load_distance=LOOSE, **params)  # type: ignore[arg-type]
    return plan(problem, budget, Stop(), 1, options)


def test_moves_that_are_left_level_the_load_and_keep_all_traffic_within_nodes() -> None:
    result = _plan(_pairs_together(), Budget(moves=8)).result
    assert result.collocation_factor == 100.0
    assert result.load_distance < result.load_distance_before / 2
    assert 0 < result.moves <= 8
    assert "level the load" in result.reason


def test_no_more_than_the_budget_is_used() -> None:
    for moves in range(6):
        result = _plan(_pairs_together(), Budget(moves=moves)).result
        assert result.moves <= moves
        assert result.collocation_factor == 100.0
    assert _plan(_pairs_together(), Budget(bytes=0)).result.bytes == 0


def test_a_load_that_is_level_enough_stays() -> None:
    result = _plan(_pairs_together(), Budget(), level_to=LOOSE).result
    assert result.moves == 0


def test_pinned_key_groups_and_their_partners_stay() -> None:
    problem = _pairs_together()
    pinned = np.zeros(problem.n_key_groups, dtype=bool)
    pinned[::2] = True
    result = _plan(dataclasses.replace(problem, pinned=pinned), Budget()).result
    assert result.moves == 0


def test_a_weighted_plan_is_not_levelled_beyond_its_weights() -> None:
    params = {"objective": "weighted", "traffic_weight": 1.0, "load_weight": 0.0}
    assert _plan(_pairs_together(), Budget(moves=8), **params).result.moves == 0


def test_the_target_of_the_next_round_is_where_levelled_clusters_went() -> None:
    made = _plan(_pairs_together(), Budget(moves=8))
    assert made.target is not None
    problem = _pairs_together()
    moved = np.flatnonzero(made.result.assignment != problem.current).tolist()
    assert moved
    for k in moved:
        node = problem.node_ids[int(made.result.assignment[k])]
        assert made.target.node_of[problem.key_group_ids[k]] == node


def test_a_second_round_with_the_same_loads_moves_nothing() -> None:
    problem = _pairs_together()
    made = _plan(problem, Budget())
    settled = dataclasses.replace(problem, current=made.result.assignment.copy())
    again = _plan(settled, Budget(), target=made.target).result
    assert again.load_distance <= made.result.load_distance + 1e-9
    assert again.moves == 0


def test_where_serialisation_costs_load_the_levelled_plan_keeps_its_traffic() -> None:
    costs = TrafficCosts(send=(0.01,), receive=(0.01,))
    result = _plan(_pairs_together(), Budget(moves=8), costs=costs).result
    assert result.collocation_factor == 100.0
    assert result.load_distance < result.load_distance_before / 2
