"""The verifier applies rules by their names, not by the arrays that solvers made of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.rule_masks import with_rules
from solvers.model.rules import ApartRule, MoveLimit, PlacementRules, PlaceRule
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


def test_members_that_share_a_node_or_a_rack_are_found() -> None:
    rules = PlacementRules(
        apart=(ApartRule("nodes", ("k0", "k1")), ApartRule("racks", ("k0", "k2"), True))
    )
    problem = with_rules(make([1, 1, 1], [0, 1, 2], rack=("a", "a", "b")), rules)
    assert broken(problem, [0, 1, 2]) == {}
    assert set(broken(problem, [0, 0, 2])) == {"rules.nodes", "better_than_nothing"}
    assert broken(problem, [0, 2, 1])["rules.racks"] == "share a: 'k0', 'k2'"


def test_bringing_members_apart_may_cost_load_distance_and_is_named() -> None:
    rules = PlacementRules(apart=(ApartRule("pair", ("k0", "k1")),))
    problem = with_rules(make([1, 1, 2], [0, 0, 1]), rules)
    promises = {"rules": "pair", "restored_rules": "pair"}
    assert broken(problem, [0, 1, 1], **promises) == {}
    assert "rules.pair" in broken(problem, [0, 0, 1])


def test_an_operator_that_moves_more_than_its_limit_is_found() -> None:
    def limited(**limit: Any) -> dict[str, str]:
        rules = PlacementRules(move_limits=(MoveLimit("slow", frozenset({"op"}), **limit),))
        problem = with_rules(make([1, 1, 1, 1], [0, 0, 0, 0], nodes=2), rules)
        return broken(problem, [0, 0, 1, 1])

    assert limited(moves=2, bytes=20, share=0.5) == {}
    text = "slow: op moves 2 key groups, allowed 1"
    assert limited(moves=1) == {"rules.move_limits": text}
    assert set(limited(share=0.49)) == {"rules.move_limits"}
    assert limited(bytes=19)["rules.move_limits"] == "slow: op moves 20 bytes, allowed 19"


def test_moves_off_dead_nodes_are_outside_the_limit() -> None:
    rules = PlacementRules(move_limits=(MoveLimit("slow", frozenset({"op"}), moves=0),))
    problem = with_rules(make([1, 1], [0, 1], states=["alive", "dead"]), rules)
    assert broken(problem, [0, 0]) == {}
