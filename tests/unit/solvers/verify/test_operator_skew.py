"""A plan that levels an operator keeps its limit, and its promised skew is recomputed."""

from __future__ import annotations

import numpy as np
import pytest

from solvers.model.budget import Budget
from solvers.model.objective import Objective
from solvers.model.problem import Problem
from solvers.verify.assignment import verify
from solvers.verify.operator_skew import operator_skew

# Two nodes with a load of 3 each; all of ``join`` is on the first one.
PROBLEM = Problem(
    node_ids=("a", "b"), resources=("cpu",), capacity=np.full((2, 1), 10.0),
    node_state=("alive", "alive"), key_group_ids=("join/0", "join/1", "parse/0", "parse/1"),
    operator_ids=("join", "join", "parse", "parse"), load=np.array([[2.0], [1.0], [1.0], [2.0]]),
    state_bytes=np.ones(4, dtype=np.int64), current=np.array([0, 0, 1, 1]),
)  # fmt: skip
# Exchanging join/0 and parse/0: loads of 2 and 4, a load distance of 33 %.
PLAN = ["b", "a", "a", "b"]
PROMISES = {"levelled_operator": "join", "operator_skew_before": 100.0, "operator_skew": 100 / 3}


def broken(promises, limit=40.0, plan=PLAN):
    rows = list(PROBLEM.key_group_ids), plan
    found = verify(PROBLEM, Budget(), rows, promises, Objective(levelling_limit=limit))
    return {violation.promise for violation in found}


def test_a_plan_that_levels_an_operator_may_raise_the_load_distance_up_to_the_limit():
    assert broken(PROMISES) == set()


def test_beyond_the_limit_it_may_not():
    assert broken(PROMISES, limit=33.0) == {"better_than_nothing"}


def test_a_plan_that_names_no_operator_may_not_raise_the_load_distance():
    assert broken({}) == {"better_than_nothing"}


@pytest.mark.parametrize("figure", ["operator_skew_before", "operator_skew"])
@pytest.mark.parametrize("value", [12.0, None, "much"])
def test_the_promised_skew_is_recomputed(figure, value):
    assert broken(PROMISES | {figure: value}) == {figure}


def test_the_named_operator_must_exist_and_become_more_level():
    assert broken(PROMISES | {"levelled_operator": "nobody"}) == {
        "levelled_operator", "better_than_nothing",
    }  # fmt: skip
    parse = {"levelled_operator": "parse", "operator_skew_before": 100.0, "operator_skew": 100 / 3}
    assert broken(parse) == set()
    unlevelled = {**PROMISES, "operator_skew": 100.0}
    assert broken(unlevelled, plan=["a", "a", "b", "b"]) == {"levelled_operator"}


def test_a_skew_without_an_operator_is_refused():
    assert "operator_skew" in broken({"operator_skew": 3.0}, plan=["a", "a", "b", "b"])


def test_nodes_that_go_have_no_fair_share_and_an_idle_operator_no_skew():
    plan = np.array([0, 0, 1, 1])
    assert operator_skew(PROBLEM, plan, "join") == pytest.approx(100.0)
    assert operator_skew(PROBLEM, plan, "nobody") == 0.0
