"""Rules on node changes are checked by code that shares nothing with the solvers."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from ballast.contracts.records import ScalingRow
from solvers.model.node_set import NodeSpec
from solvers.model.problem import Problem
from solvers.planner.allocation import Allocation
from solvers.planner.round import ScalingRequest, plan_round
from solvers.scale import ScalingAction, ScalingDecision
from solvers.verify.scaling import ScalingRules, Spare, scaled_problem, scaling_violations

RULES = ScalingRules(
    spares={"x": Spare((1.0,), "r2")},
    clusters={"a": "m", "b": "m", "c": "m", "x": "m", "y": "m"},
    draining=frozenset({"c"}),
    min_nodes=1,
    max_nodes=3,
    key_groups={"op": 4},
)
AT = datetime(2026, 11, 18, tzinfo=UTC)
ACTIONS = {"a": "keep", "b": "keep", "c": "drain", "x": "add"}


def problem(current: tuple[int, ...] = (0, 0, 1, 2)) -> Problem:
    return Problem(
        node_ids=("a", "b", "c"),
        resources=("cpu",),
        capacity=np.ones((3, 1)),
        node_state=("alive", "alive", "draining"),
        key_group_ids=("op/0", "op/1", "op/2", "op/3"),
        operator_ids=("op",) * 4,
        load=np.full((4, 1), 0.2),
        state_bytes=np.full(4, 100),
        current=np.array(current),
        rack=("r1", "r1", "r2"),
    )


def row(subject: str, name: str, action: str, **fields: Any) -> ScalingRow:
    return ScalingRow(
        job="j", plan_id="p", subject=subject, subject_id=name, action=action, reason="",
        binding="", would_change="", period_end_at=AT, decided_at=AT, **fields,
    )  # fmt: skip


def rows(before: int = 2, after: int = 3, action: str = "out", **changes: Any) -> list[ScalingRow]:
    due = {"c": tuple(changes.pop("due", ()))}
    nodes = [
        row("node", name, act, due=due.get(name))
        for name, act in (ACTIONS | changes).items()
        if act
    ]
    return [*nodes, row("cluster", "m", action, wanted=after, before=before)]


def broken(of: Problem, given: list[ScalingRow], rules: ScalingRules = RULES) -> set[str]:
    return {violation.promise for violation in scaling_violations(of, rules, given)}


def test_what_keeps_the_rules_passes() -> None:
    assert scaling_violations(problem(), RULES, rows()) == []


@pytest.mark.parametrize(
    ("given", "promise"),
    [
        (rows(a=None), "scaling.nodes"),
        (rows(a="spare"), "scaling.nodes"),
        (rows(y="keep"), "scaling.nodes"),
        (rows(y="add"), "scaling.spares"),
        (rows(c="remove"), "scaling.remove"),
        (rows(1, 1, "hold", b="remove"), "scaling.remove"),
        (rows(c="keep"), "scaling.keep"),
        (rows(after=2), "scaling.clusters"),
        (rows(action="in"), "scaling.clusters"),
        (rows(due=["op/0"]), "scaling.due"),
        ([*rows(), rows()[0]], "scaling.exactly_once"),
        (rows()[:-1], "scaling.clusters"),
    ],
)
def test_each_broken_rule_is_named(given: list[Any], promise: str) -> None:
    assert promise in broken(problem(), given)


def test_a_dead_node_is_kept_also_where_the_policy_drains_it() -> None:
    dead = dataclasses.replace(problem(), node_state=("alive", "alive", "dead"))
    assert broken(dead, rows(c="keep")) == set()
    assert broken(dead, rows(c="drain")) == {"scaling.drain"}


def test_limits_on_nodes_are_kept_but_a_job_outside_of_them_may_come_nearer() -> None:
    tight = ScalingRules(RULES.spares, RULES.clusters, RULES.draining, 2, 2)
    assert "scaling.max_nodes" in broken(problem(), rows(), tight)
    lone = rows(2, 1, "in", b="drain", x="spare")
    assert "scaling.min_nodes" in broken(problem(), lone, tight)
    wide = ScalingRules(RULES.spares, RULES.clusters, RULES.draining, 1, 1)
    assert broken(problem(), rows(2, 1, "in", b="drain", x="spare"), wide) == set()


def test_operators_have_at_most_as_many_instances_as_key_groups() -> None:
    sized = row("operator", "op", "size", wanted=5)
    assert broken(problem(), [*rows(), sized]) == {"scaling.operators"}


def test_the_problem_it_states_is_the_one_that_was_solved() -> None:
    def scaling(p: Problem, potential: Any, hot: Any) -> ScalingDecision:
        return ScalingDecision(ScalingAction.OUT, {"": 2}, {"": 3}, "grow", "cpu", "less")

    given = problem(current=(0, 0, 1, 1))
    from solvers.model.budget import Budget
    from solvers.model.stop import Stop
    from solvers.rebalance.solve import solve

    plan = plan_round(
        given,
        Budget(moves=2),
        lambda p, b: Allocation(solve(p, b, Stop(seconds=1), 0, "search")),
        ScalingRequest(scaling, spares=[NodeSpec("x", (1.0,), "r2", "")]),
    )
    stated = scaled_problem(given, RULES, rows(c="remove"))
    assert (plan.ended, plan.added) == (("c",), ("x",))
    for name in ("node_ids", "node_state", "rack"):
        assert getattr(stated, name) == getattr(plan.problem, name)
    for name in ("capacity", "current", "load"):
        assert np.array_equal(getattr(stated, name), getattr(plan.problem, name))


def test_what_was_due_may_only_be_on_nodes_that_stay() -> None:
    stated = scaled_problem(problem(), RULES, rows(due=["op/3"]))
    assert stated.targets_of(3).tolist() == [0, 1, 3]
    assert not stated.permits(np.array([3]), np.array([2])).any()
