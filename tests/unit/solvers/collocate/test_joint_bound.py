"""Bounds of joint plans: never beyond what any plan reaches, and of use where they can be."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from solvers.collocate.joint import plan
from solvers.collocate.joint_bound import collocation_bound, load_distance_bound
from solvers.collocate.joint_params import JointParams
from solvers.collocate.lower_bound import most_local_rate
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.predicted_load import predicted_load
from solvers.model.problem import IntArray, Problem
from solvers.model.stop import Stop
from solvers.model.traffic_costs import TrafficCosts
from solvers.model.traffic_graph import TrafficGraph
from solvers.rebalance.start import why_infeasible, within_budget
from tests.unit.solvers.collocate.instances import budgets, pairs_apart, problems, with_traffic

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
ROUNDING = 1e-6


def _plans(problem: Problem, budget: Budget) -> list[IntArray]:
    """Every assignment that keeps budget, states of nodes, pins and allowed nodes."""
    choices = []
    for k in range(problem.n_key_groups):
        home = int(problem.current[k])
        nodes = set() if problem.pinned_mask[k] else set(problem.targets_of(k).tolist())
        if not problem.dead[home] and problem.permits(np.array([k]), np.array([home]))[0]:
            nodes.add(home)
        choices.append(sorted(nodes))
    every = (np.array(one, dtype=np.int64) for one in itertools.product(*choices))
    return [one for one in every if within_budget(problem, budget, one)]


@QUICK
@given(
    problems(max_nodes=3, max_groups=5),
    budgets,
    st.sampled_from([0.0, 0.05, 1.0]),
    st.floats(1.0, 100.0),
)
def test_the_bounds_hold_for_every_plan_and_so_for_the_joint_one(
    problem: Problem, budget: Budget, cost: float, allowed: float
) -> None:
    assume(why_infeasible(problem, budget) is None)
    assume(problem.traffic_rate is not None and problem.traffic_rate.sum() > 0)
    resources = problem.n_resources
    costs = TrafficCosts(send=(cost,) * resources, receive=(cost / 2,) * resources)
    params = JointParams(max_load_distance=allowed, costs=costs)
    made = plan(problem, budget, Stop(), 1, params).result
    assume(made.is_solved)
    graph = TrafficGraph.of(problem)
    plans = _plans(problem, budget)
    distances = [
        metrics.load_distance(_with_load(problem, graph, costs, one), one) for one in plans
    ]
    shares = [metrics.collocation_factor(problem, one) or 0.0 for one in plans]
    assert made.bound is not None
    assert made.collocation_bound is not None
    assert load_distance_bound(problem, budget, costs) <= min(distances) + ROUNDING
    assert made.bound <= min(distances) + ROUNDING
    assert min(distances) <= made.load_distance + ROUNDING
    assert made.collocation_bound >= max(shares) - ROUNDING
    assert max(shares) >= (made.collocation_factor or 0.0) - ROUNDING


def _with_load(
    problem: Problem, graph: TrafficGraph, costs: TrafficCosts, assignment: IntArray
) -> Problem:
    from dataclasses import replace

    return replace(problem, load=predicted_load(problem, graph, costs, assignment))


def test_the_bound_of_the_traffic_is_exact_for_pairs_apart() -> None:
    problem = pairs_apart(8, 4)
    for moves in range(9):
        assert collocation_bound(problem, Budget(moves=moves)) == pytest.approx(100.0 * moves / 8)


def test_a_bound_without_the_forest_still_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = pairs_apart(8, 4)
    graph = TrafficGraph.of(problem)
    tight = most_local_rate(problem, graph, 3)
    monkeypatch.setattr("solvers.collocate.lower_bound.MOST_CHOICES", 1)
    assert most_local_rate(problem, graph, 3) >= tight - ROUNDING


def test_without_traffic_there_is_no_bound_of_it() -> None:
    assert collocation_bound(with_traffic([1.0, 1.0], [0, 0], [], nodes=2), Budget()) is None


def test_a_heavy_key_group_keeps_the_bound_above_zero_with_costs_of_serialisation() -> None:
    problem = with_traffic([9.0, 1.0, 1.0, 1.0], [0, 1, 2, 3], [(1, 2, 1.0)], nodes=4)
    costs = TrafficCosts(send=(0.1,), receive=(0.1,))
    assert load_distance_bound(problem, Budget(moves=2), costs) > 150.0
