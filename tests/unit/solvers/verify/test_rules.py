"""The verifier applies rules by their names, not by the arrays that solvers made of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.rule_masks import with_rules
from solvers.model.rules import PlacementRules, PlaceRule
from solvers.verify.assignment import verify
from tests.unit.solvers.instances import make, names

ON_N1 = PlaceRule("on-n1", frozenset({"op"}), frozenset(), frozenset({"n1"}))
STAY = PlaceRule("stay", frozenset(), frozenset({"k0"}), None)


def broken(problem: Problem, plan: Sequence[int], **promises: Any) -> dict[str, str]:
    found = verify(problem, Budget(), names(problem, plan), promises)
    return {each.promise: each.message for each in found}


def without_masks(problem: Problem) -> Problem:
    """The problem as an error in the arrays of the solvers would leave it."""
    return dataclasses.replace(problem, pinned=None, allowed=None)


def test_a_key_group_on_a_node_that_its_rule_does_not_list_is_found_without_the_masks() -> None:
    problem = without_masks(with_rules(make([1, 1], [0, 1]), PlacementRules((ON_N1,))))
    assert "'k0'" in broken(problem, [0, 1])["rules.on-n1"]
    assert broken(problem, [1, 1]) == {}


def test_a_key_group_that_has_to_stay_is_found_without_the_masks() -> None:
    problem = without_masks(with_rules(make([1, 1], [0, 0], nodes=2), PlacementRules((STAY,))))
    assert "have to stay: 'k0'" in broken(problem, [1, 0])["rules.stay"]
    assert broken(problem, [0, 1]) == {}


def test_what_stays_may_leave_a_dead_node() -> None:
    states = ["alive", "dead"]
    problem = with_rules(make([1, 1], [1, 0], states=states), PlacementRules((STAY,)))
    assert broken(problem, [0, 0]) == {}


def test_names_of_rules_and_restored_rules_are_recomputed() -> None:
    problem = with_rules(make([1, 1, 1], [0, 1, 1]), PlacementRules((ON_N1, STAY)))
    problem = dataclasses.replace(problem, rules=PlacementRules((ON_N1,)))
    good = {"rules": "on-n1", "restored_rules": "on-n1"}
    assert broken(without_masks(problem), [1, 1, 1], **good) == {}
    for wrong in ({"rules": None}, {"restored_rules": None}, {"restored_rules": "other"}):
        assert set(broken(without_masks(problem), [1, 1, 1], **{**good, **wrong})) == set(wrong)


def test_a_plan_of_a_policy_without_rules_names_none() -> None:
    assert set(broken(make([1, 1], [0, 1]), [0, 1], rules="x")) == {"rules"}


def test_a_restored_rule_may_cost_load_distance() -> None:
    problem = with_rules(make([1, 1], [0, 1]), PlacementRules((ON_N1,)))
    assert broken(problem, [1, 1]) == {}
