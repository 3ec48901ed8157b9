"""A target is kept over rounds by name, and the rules of each round have priority."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solvers.collocate.joint import plan
from solvers.collocate.joint_params import JointParams
from solvers.collocate.target_memory import STALLED_AFTER, TargetMemory
from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.result import Status
from solvers.model.stop import Stop
from solvers.verify.assignment import verify
from tests.unit.solvers.collocate.instances import budgets, pairs_apart, problems
from tests.unit.solvers.instances import names


@given(problem=problems(), budget=budgets, data=st.data())
@settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
def test_any_kept_target_leaves_the_rules_intact(
    problem: Problem, budget: Budget, data: st.DataObject
) -> None:
    """Pins, allowed nodes and drains that are newer than the target hold."""
    nodes = st.sampled_from([*problem.node_ids, "gone"])
    clusters = st.integers(-1, 2)
    target = TargetMemory(
        {k: data.draw(nodes) for k in problem.key_group_ids},
        {k: data.draw(clusters) for k in problem.key_group_ids},
    )
    options = JointParams(max_load_distance=60, target=target)
    result = plan(problem, budget, Stop(), 1, options).result
    if result.status is Status.INFEASIBLE:
        return
    broken = verify(problem, budget, names(problem, result.assignment), result.to_dict())
    assert [v for v in broken if v.promise != "better_than_nothing"] == []


def first_target(problem: Problem) -> TargetMemory:
    made = plan(problem, Budget(moves=2), Stop(), 1, JointParams(max_load_distance=40))
    assert made.target is not None
    return made.target


def test_a_target_survives_renumbering() -> None:
    problem = pairs_apart(8, 4)
    target = first_target(problem)
    back = np.arange(problem.n_key_groups)[::-1]
    assert problem.traffic_from is not None
    assert problem.traffic_to is not None
    turned = dataclasses.replace(
        problem,
        key_group_ids=tuple(reversed(problem.key_group_ids)),
        operator_ids=tuple(reversed(problem.operator_ids)),
        load=problem.load[back],
        current=problem.current[back],
        traffic_from=back[problem.traffic_from],
        traffic_to=back[problem.traffic_to],
    )
    before, after = target.resolve(problem), target.resolve(turned)
    assert before is not None
    assert after is not None
    assert after.node_of.tolist() == before.node_of[back].tolist()


def test_a_target_on_a_node_that_drains_is_given_up() -> None:
    problem = pairs_apart(8, 4)
    target = first_target(problem)
    draining = dataclasses.replace(problem, node_state=("draining", "alive", "alive", "alive"))
    assert target.resolve(draining) is None


def test_a_target_whose_key_groups_are_gone_is_given_up() -> None:
    target = first_target(pairs_apart(8, 4))
    assert target.resolve(pairs_apart(3, 4)) is None


def test_rounds_without_progress_stall_the_target() -> None:
    target = first_target(pairs_apart(8, 4))
    assert not target.is_stalled
    for _ in range(STALLED_AFTER):
        target = target.after(target.best_saved, 80.0)
    assert target.is_stalled
    assert not target.after(target.best_saved + 1.0, 80.0).is_stalled
