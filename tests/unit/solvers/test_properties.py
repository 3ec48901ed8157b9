"""Every method, on every kind of tiny problem: rules kept, promises true, bounds proven."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import solvers
from solvers import Budget, Problem, Status, Stop
from solvers.rebalance.bound import counting_bound
from solvers.verify import verify, verify_infeasible
from tests.unit.solvers.instances import budgets, exhaustive_optimum, make, names, problems

QUICK = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
MANY = settings(QUICK, max_examples=100)


@pytest.mark.parametrize("method", ["auto", "milp", "flux", "unchanged"])
@given(problem=problems(), budget=budgets)
@QUICK
def test_every_result_passes_the_verifier(method: str, problem: Problem, budget: Budget) -> None:
    result = solvers.solve(problem, budget, Stop(steps=50), method=method)
    if result.status is Status.INFEASIBLE:
        assert result.reason
        assert verify_infeasible(problem, budget) == []
        assert exhaustive_optimum(problem, budget) is None
    else:
        broken = verify(problem, budget, names(problem, result.assignment), result.to_dict())
        assert broken == []


@given(problem=problems(), budget=budgets)
@settings(QUICK, max_examples=70)
def test_the_milp_finds_the_optimum_of_the_exhaustive_search(
    problem: Problem, budget: Budget
) -> None:
    optimum = exhaustive_optimum(problem, budget)
    result = solvers.solve(problem, budget, Stop(), method="milp")
    if optimum is None:
        assert result.status is Status.INFEASIBLE
        return
    assert result.load_distance == pytest.approx(optimum, abs=1e-5)
    assert result.gap == 0
    assert result.bound is not None
    assert result.bound <= optimum + 1e-9


@given(problem=problems(max_groups=5), budget=budgets)
@MANY
def test_the_counting_bound_is_never_above_the_optimum(problem: Problem, budget: Budget) -> None:
    optimum = exhaustive_optimum(problem, budget)
    if optimum is not None:
        assert counting_bound(problem, budget) <= optimum + 1e-9


@given(problem=problems(max_nodes=4, max_groups=12), budget=budgets)
@MANY
def test_flux_is_never_worse_than_unchanged(problem: Problem, budget: Budget) -> None:
    flux = solvers.solve(problem, budget, Stop(), method="flux")
    nothing = solvers.solve(problem, budget, Stop(), method="unchanged")
    assert flux.is_solved == nothing.is_solved
    assert flux.load_distance <= nothing.load_distance + 1e-6


@given(problem=problems(), budget=budgets, scale=st.sampled_from([1e-9, 1e-3, 7.0, 1e9]))
@settings(QUICK, max_examples=15)
def test_the_optimum_does_not_depend_on_the_unit_of_load(
    problem: Problem, budget: Budget, scale: float
) -> None:
    scaled = dataclasses.replace(problem, load=problem.load * scale)
    one = solvers.solve(problem, budget, Stop(), method="milp")
    other = solvers.solve(scaled, budget, Stop(), method="milp")
    assert one.status == other.status
    assert one.load_distance == pytest.approx(other.load_distance, abs=1e-4)


@given(problem=problems(), budget=budgets, random=st.randoms(use_true_random=False))
@settings(QUICK, max_examples=15)
def test_the_optimum_does_not_depend_on_the_order_of_key_groups(
    problem: Problem, budget: Budget, random: object
) -> None:
    order = list(range(problem.n_key_groups))
    random.shuffle(order)  # type: ignore[attr-defined]
    index = np.array(order, dtype=np.int64)
    mask = None
    if problem.allowed is not None:
        groups, nodes = np.divmod(
            np.arange(problem.n_key_groups * problem.n_nodes), problem.n_nodes
        )
        mask = problem.permits(groups, nodes).reshape(problem.n_key_groups, -1)[index]
    shuffled = dataclasses.replace(
        problem,
        key_group_ids=tuple(problem.key_group_ids[k] for k in order),
        load=problem.load[index],
        state_bytes=problem.state_bytes[index],
        current=problem.current[index],
        pinned=problem.pinned_mask[index],
        allowed=mask,
    )
    one = solvers.solve(problem, budget, Stop(), method="milp")
    other = solvers.solve(shuffled, budget, Stop(), method="milp")
    assert one.is_solved == other.is_solved
    assert one.load_distance == pytest.approx(other.load_distance, abs=1e-4)


@given(problem=problems(max_nodes=4, max_groups=8), moves=st.integers(0, 3))
@settings(QUICK, max_examples=15)
def test_one_more_move_never_hurts(problem: Problem, moves: int) -> None:
    fewer = solvers.solve(problem, Budget(moves=moves), Stop(), method="milp")
    more = solvers.solve(problem, Budget(moves=moves + 1), Stop(), method="milp")
    if fewer.is_solved:
        assert more.load_distance <= fewer.load_distance + 1e-5


@pytest.mark.parametrize("method", ["auto", "milp", "flux"])
def test_a_stop_by_steps_repeats_exactly(method: str) -> None:
    rng = np.random.default_rng(5)
    problem = make(rng.lognormal(0, 0.8, 24), rng.integers(0, 3, 24))
    one, other = (
        solvers.solve(problem, Budget(moves=4), Stop(steps=5), seed=3, method=method)
        for _ in range(2)
    )
    assert np.array_equal(one.assignment, other.assignment)
    assert one.bound == other.bound
