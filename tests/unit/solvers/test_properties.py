"""Every method, on every kind of small problem: rules kept, promises true, bounds proven."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.result import Status
from solvers.model.stop import Stop
from solvers.rebalance import METHODS as REBALANCE_METHODS
from solvers.rebalance.bound import counting_bound
from solvers.rebalance.solve import solve
from solvers.verify.assignment import verify
from solvers.verify.infeasible import verify_infeasible
from tests.unit.solvers.instances import (
    breaks_a_cap,
    budgets,
    exhaustive_optimum,
    make,
    names,
    plain_distance,
    problems,
)
from tests.unit.solvers.noisy_instances import noisy_problems
from tools.check_instances import check

QUICK = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    # The instances are tiny as they are; making them smaller takes longer than the test may.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
MANY = settings(QUICK, max_examples=100)


METHODS = list(REBALANCE_METHODS)


@pytest.mark.parametrize("method", METHODS)
@given(problem=problems(), budget=budgets)
@QUICK
def test_every_result_passes_the_verifier(method: str, problem: Problem, budget: Budget) -> None:
    result = solve(problem, budget, Stop(steps=50), method=method)
    if result.status is Status.INFEASIBLE:
        assert result.reason
        assert verify_infeasible(problem, budget) == []
        assert exhaustive_optimum(problem, budget) is None
    else:
        broken = verify(problem, budget, names(problem, result.assignment), result.to_dict())
        assert broken == []


@pytest.mark.parametrize("method", METHODS)
@given(problem=problems(max_nodes=5, max_groups=14), budget=budgets)
@settings(QUICK, max_examples=40)
def test_no_rule_is_broken_in_plain_words(method: str, problem: Problem, budget: Budget) -> None:
    """The rules again, without the verifier, so that a rule missing there is detected."""
    result = solve(problem, budget, Stop(steps=50), method=method)
    if not result.is_solved:
        return
    chosen = 0
    for k, (before, after) in enumerate(
        zip(problem.current.tolist(), result.assignment.tolist(), strict=True)
    ):
        assert problem.node_state[after] != "dead"
        if after == before:
            continue
        assert problem.node_state[after] == "alive"
        assert not problem.pinned_mask[k]
        chosen += problem.node_state[before] != "dead"
    assert chosen == result.moves
    assert budget.moves is None or chosen <= budget.moves
    assert not breaks_a_cap(problem, result.assignment)
    assert result.load_distance == pytest.approx(plain_distance(problem, result.assignment))
    assert result.bound is not None
    assert result.bound <= result.load_distance


@pytest.mark.parametrize("method", ["auto", "fewest_moves"])
@given(problem=noisy_problems(max_nodes=4, max_groups=10), budget=budgets)
@settings(QUICK, max_examples=40)
def test_plans_from_noisy_loads_keep_every_rule(
    method: str, problem: Problem, budget: Budget
) -> None:
    """With the fewest moves as with the least load distance, and drains are not slower."""
    measured = {"precision": "measured"} if method == "auto" else {}
    few = solve(problem, budget, Stop(steps=20), method=method, params=measured)
    best = "auto" if method == "auto" else "search"
    exact = solve(problem, budget, Stop(steps=20), method=best)
    assert few.is_solved == exact.is_solved
    if few.is_solved:
        broken = verify(problem, budget, names(problem, few.assignment), few.to_dict())
        assert broken == []
        assert not breaks_a_cap(problem, few.assignment)
        assert few.draining_load <= exact.draining_load + 1e-6


@given(problem=problems(max_nodes=4, max_groups=10), budget=budgets)
@settings(QUICK, max_examples=40)
def test_auto_is_never_worse_than_any_other_method(problem: Problem, budget: Budget) -> None:
    auto = solve(problem, budget, Stop(steps=20))
    for method in METHODS:
        other = solve(problem, budget, Stop(steps=20), method=method)
        assert auto.is_solved == other.is_solved
        assert auto.load_distance <= other.load_distance + 1e-5


@given(problem=problems(), budget=budgets)
@settings(QUICK, max_examples=70)
def test_the_milp_finds_the_optimum_of_the_exhaustive_search(
    problem: Problem, budget: Budget
) -> None:
    optimum = exhaustive_optimum(problem, budget)
    result = solve(problem, budget, Stop(), method="milp")
    if optimum is None:
        assert result.status is Status.INFEASIBLE
        return
    assert result.load_distance == pytest.approx(optimum, abs=1e-5)
    assert result.gap == 0
    assert result.bound is not None
    assert result.bound <= optimum + 1e-9


@given(problem=problems(max_groups=5), budget=budgets)
@settings(QUICK, max_examples=400)
def test_the_counting_bound_is_never_above_the_optimum(problem: Problem, budget: Budget) -> None:
    optimum = exhaustive_optimum(problem, budget)
    if optimum is not None:
        assert counting_bound(problem, budget) <= optimum + 1e-9


@given(problem=problems(max_nodes=4, max_groups=12), budget=budgets)
@MANY
def test_flux_is_never_worse_than_unchanged(problem: Problem, budget: Budget) -> None:
    flux = solve(problem, budget, Stop(), method="flux")
    nothing = solve(problem, budget, Stop(), method="unchanged")
    assert flux.is_solved == nothing.is_solved
    assert flux.load_distance <= nothing.load_distance + 1e-6


def in_another_unit(problem: Problem, scale: float) -> Problem:
    """The same problem with loads in another unit, the limits of caps included."""
    capacity = problem.capacity * np.where(problem.balanced_mask, 1.0, scale)
    return dataclasses.replace(problem, load=problem.load * scale, capacity=capacity)


@given(problem=problems(), budget=budgets, scale=st.sampled_from([1e-9, 1e-3, 7.0, 1e9]))
@settings(QUICK, max_examples=15)
def test_the_optimum_does_not_depend_on_the_unit_of_load(
    problem: Problem, budget: Budget, scale: float
) -> None:
    one = solve(problem, budget, Stop(), method="milp")
    other = solve(in_another_unit(problem, scale), budget, Stop(), method="milp")
    assert one.status == other.status
    assert one.load_distance == pytest.approx(other.load_distance, abs=1e-4)


@pytest.mark.parametrize("method", METHODS)
@given(problem=problems(max_nodes=4, max_groups=12), budget=budgets)
@settings(QUICK, max_examples=15)
def test_a_unit_that_is_a_power_of_two_changes_no_plan(
    method: str, problem: Problem, budget: Budget
) -> None:
    one, other = (
        solve(given_problem, budget, Stop(steps=20), seed=1, method=method)
        for given_problem in (problem, in_another_unit(problem, 2.0**20))
    )
    # The plan, not the bound: loads that are small whole numbers may have a higher bound.
    assert np.array_equal(one.assignment, other.assignment)


@pytest.mark.parametrize("method", METHODS)
@given(problem=problems(max_nodes=4, max_groups=12), budget=budgets)
@settings(QUICK, max_examples=15)
def test_the_names_of_nodes_and_key_groups_change_nothing(
    method: str, problem: Problem, budget: Budget
) -> None:
    renamed = dataclasses.replace(
        problem,
        node_ids=tuple(f"host-{99 - i}" for i in range(problem.n_nodes)),
        key_group_ids=tuple(f"shard-{999 - k}" for k in range(problem.n_key_groups)),
    )
    one, other = (
        solve(given_problem, budget, Stop(steps=20), seed=1, method=method)
        for given_problem in (problem, renamed)
    )
    assert np.array_equal(one.assignment, other.assignment)
    assert one.bound == other.bound


@given(problem=problems(), budget=budgets, random=st.randoms(use_true_random=False))
@settings(QUICK, max_examples=15)
def test_the_optimum_does_not_depend_on_the_order_of_nodes(
    problem: Problem, budget: Budget, random: object
) -> None:
    order = list(range(problem.n_nodes))
    random.shuffle(order)  # type: ignore[attr-defined]
    place = np.argsort(order)
    shuffled = dataclasses.replace(
        problem,
        node_ids=tuple(problem.node_ids[i] for i in order),
        node_state=tuple(problem.node_state[i] for i in order),
        rack=tuple(problem.rack[i] for i in order),
        capacity=problem.capacity[order],
        current=place[problem.current],
        allowed=None if problem.allowed is None else mask_of(problem)[:, order],
    )
    one = solve(problem, budget, Stop(), method="milp")
    other = solve(shuffled, budget, Stop(), method="milp")
    assert one.is_solved == other.is_solved
    assert one.load_distance == pytest.approx(other.load_distance, abs=1e-4)
    assert counting_bound(problem, budget) == pytest.approx(counting_bound(shuffled, budget))


def mask_of(problem: Problem) -> np.ndarray:
    """[G, N]: the allowed nodes as a table."""
    groups, nodes = np.divmod(np.arange(problem.n_key_groups * problem.n_nodes), problem.n_nodes)
    return problem.permits(groups, nodes).reshape(problem.n_key_groups, -1)


@given(problem=problems(), budget=budgets, random=st.randoms(use_true_random=False))
@settings(QUICK, max_examples=15)
def test_the_optimum_does_not_depend_on_the_order_of_key_groups(
    problem: Problem, budget: Budget, random: object
) -> None:
    order = list(range(problem.n_key_groups))
    random.shuffle(order)  # type: ignore[attr-defined]
    index = np.array(order, dtype=np.int64)
    mask = None if problem.allowed is None else mask_of(problem)[index]
    shuffled = dataclasses.replace(
        problem,
        key_group_ids=tuple(problem.key_group_ids[k] for k in order),
        load=problem.load[index],
        state_bytes=problem.state_bytes[index],
        current=problem.current[index],
        pinned=problem.pinned_mask[index],
        allowed=mask,
    )
    one = solve(problem, budget, Stop(), method="milp")
    other = solve(shuffled, budget, Stop(), method="milp")
    assert one.is_solved == other.is_solved
    assert one.load_distance == pytest.approx(other.load_distance, abs=1e-4)


@given(problem=problems(max_nodes=4, max_groups=8), moves=st.integers(0, 3))
@settings(QUICK, max_examples=15)
def test_one_more_move_never_hurts(problem: Problem, moves: int) -> None:
    fewer = solve(problem, Budget(moves=moves), Stop(), method="milp")
    more = solve(problem, Budget(moves=moves + 1), Stop(), method="milp")
    if fewer.is_solved:
        assert more.load_distance <= fewer.load_distance + 1e-5


@pytest.mark.parametrize("method", METHODS)
def test_a_stop_by_steps_repeats_exactly(method: str) -> None:
    rng = np.random.default_rng(5)
    problem = make(rng.lognormal(0, 0.8, 24), rng.integers(0, 3, 24))
    one, other = (
        solve(problem, Budget(moves=4), Stop(steps=5), seed=3, method=method) for _ in range(2)
    )
    assert np.array_equal(one.assignment, other.assignment)
    assert one.bound == other.bound


@pytest.mark.parametrize("number", range(150))
def test_random_clusters_of_every_kind_keep_every_promise(number: int) -> None:
    """A part of what ``python -m tools.check_instances`` runs ten thousand of."""
    finding = check(number, seed=7, method="auto", stop=Stop(seconds=0.02))
    assert finding.violations == ()


@pytest.mark.parametrize("number", range(60))
def test_joint_plans_of_every_kind_of_cluster_keep_every_promise(number: int) -> None:
    """A part of what ``python -m tools.check_instances --objective joint`` runs."""
    finding = check(number, seed=7, method="auto", stop=Stop(steps=2), objective="joint")
    assert finding.violations == ()


@pytest.mark.parametrize("number", range(0, 60, 2))
def test_weighted_plans_of_every_kind_of_cluster_keep_every_promise(number: int) -> None:
    """A part of what ``python -m tools.check_instances --objective weighted`` runs."""
    finding = check(number, seed=7, method="auto", stop=Stop(steps=2), objective="weighted")
    assert finding.violations == ()
