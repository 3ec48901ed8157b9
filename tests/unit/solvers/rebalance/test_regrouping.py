"""Regrouping: it keeps the arrays and the budget, and finds subsets that single exchanges miss."""

from __future__ import annotations

import numpy as np
import pytest

from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.stop import Stop
from solvers.rebalance.kernels.arrays import AnnealingSchedule, BestPlan, SearchRule
from solvers.rebalance.kernels.deviation import worst_node
from solvers.rebalance.kernels.regrouping import regroup
from solvers.rebalance.search_arrays import Layout, plan_at, sums_of
from solvers.rebalance.solve import solve
from tests.unit.solvers.instances import make


def _cluster(seed: int, groups: int = 60, nodes: int = 5) -> Problem:
    rng = np.random.default_rng(seed)
    return make(rng.lognormal(0, 0.8, (groups, 1)), rng.integers(0, nodes, groups))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("moves", [0, 3, 12])
def test_regrouping_keeps_every_array_of_the_plan_and_the_budget(seed: int, moves: int) -> None:
    problem = _cluster(seed)
    layout = Layout.of(problem, Budget(moves=moves))
    plan = plan_at(layout, layout.places_of(problem.current))
    start, _ = worst_node(layout.fixed, plan)
    best = BestPlan(plan.place.copy(), np.array([start]))
    random = np.array([seed + 1], dtype=np.uint64)
    schedule = AnnealingSchedule(3_000, 1, 0.1, 0.001)
    regroup(schedule, SearchRule(0.0, True), random, layout.fixed, plan, best)
    again = plan_at(layout, plan.place)
    assert plan.sums == pytest.approx(again.sums, abs=1e-9)
    assert plan.used == pytest.approx(again.used)
    assert np.array_equal(plan.n_visitors, again.n_visitors)
    assert sorted(plan.moved[: plan.n_moved[0]]) == sorted(again.moved[: again.n_moved[0]])
    assert plan.used[0] <= moves
    assert best.deviation[0] <= start
    if moves:
        of_best = plan_at(layout, best.place)
        assert best.deviation[0] == pytest.approx(worst_node(layout.fixed, of_best)[0], abs=1e-9)
        assert sums_of(layout, best.place) == pytest.approx(of_best.sums)
        assert best.deviation[0] < start


def test_the_one_subset_that_levels_two_nodes_is_found() -> None:
    """Ten key groups of a dead node: their loads are powers of two, so one division is level."""
    loads = [float(2**at) for at in range(9)] + [1.0]
    problem = make(loads, [2] * 10, states=["alive", "alive", "dead"])
    layout = Layout.of(problem, Budget(moves=0))
    a, b = layout.rank[0], layout.rank[1]
    plan = plan_at(layout, np.where(np.arange(10) % 2 == 0, a, b))
    best = BestPlan(plan.place.copy(), np.array([worst_node(layout.fixed, plan)[0]]))
    schedule = AnnealingSchedule(50, 1, 1e-6, 1e-6)
    random = np.array([1], dtype=np.uint64)
    regroup(schedule, SearchRule(0.0, True), random, layout.fixed, plan, best)
    assert best.deviation[0] == pytest.approx(0.0, abs=1e-12)


def test_many_small_loads_come_within_a_hundredth_of_a_thousandth_of_level() -> None:
    problem = _cluster(7, groups=600, nodes=12)
    result = solve(problem, Budget(moves=36), Stop(steps=12), seed=1, method="search")
    assert result.moves <= 36
    assert result.load_distance < 1e-2
    assert result.load_distance == pytest.approx(metrics.load_distance(problem, result.assignment))
