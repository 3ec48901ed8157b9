"""A plan that knows no rules is repaired; what is left keeps them all, and words say so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.result import SolverRun, make_result
from solvers.rebalance.plan_repair import repair_plan
from solvers.rebalance.start import why_infeasible
from solvers.verify.assignment import verify
from tests.unit.solvers.instances import make, names, problems


def test_of_two_moves_the_one_that_levels_more_is_kept() -> None:
    problem = make([8, 2, 1, 1], [0, 0, 0, 0], nodes=2)
    repaired = repair_plan(problem, Budget(moves=1), np.array([1, 1, 0, 0]))
    assert repaired.assignment.tolist() == [1, 0, 0, 0]
    assert repaired.notes == ("1 moves that are worth least were undone to keep the budget",)


def test_worth_is_by_the_scarcest_unit_of_the_budget() -> None:
    problem = replace(
        make([5, 4, 1, 0], [0, 0, 0, 0], nodes=2), state_bytes=np.array([900, 10, 5, 5])
    )
    repaired = repair_plan(problem, Budget(bytes=100), np.array([1, 1, 0, 0]))
    assert repaired.assignment.tolist() == [0, 1, 0, 0]


def test_a_plan_worse_than_the_necessary_moves_is_not_used() -> None:
    problem = make([1, 1], [0, 1])
    repaired = repair_plan(problem, Budget(), np.array([1, 1]))
    assert repaired.assignment.tolist() == [0, 1]
    assert "is not used, because the load distance would be 100 %" in repaired.reason()


def test_a_joint_plan_keeps_the_move_that_saves_traffic() -> None:
    problem = replace(
        make([1, 1, 1, 1], [0, 0, 1, 1]),
        traffic_from=np.array([0]), traffic_to=np.array([2]), traffic_rate=np.array([10.0]),
    )  # fmt: skip
    wanted = np.array([1, 0, 1, 0])
    repaired = repair_plan(problem, Budget(moves=1), wanted, is_joint=True)
    assert repaired.assignment.tolist() == [1, 0, 1, 1]


@given(
    problem=problems(max_nodes=4, max_groups=10),
    moves=st.none() | st.integers(0, 6),
    n_bytes=st.none() | st.integers(0, 40),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=150, deadline=None)
def test_any_plan_of_any_problem_keeps_every_rule_after_repair(
    problem: Problem, moves: int | None, n_bytes: int | None, seed: int
) -> None:
    budget = Budget(moves=moves, bytes=n_bytes)
    if why_infeasible(problem, budget) is not None:
        return
    wanted = np.random.default_rng(seed).integers(0, problem.n_nodes, problem.n_key_groups)
    plan = repair_plan(problem, budget, wanted).assignment
    result = make_result(problem, plan, SolverRun("random", 0.0, 0.0))
    assert verify(problem, budget, names(problem, plan), result.to_dict()) == []
