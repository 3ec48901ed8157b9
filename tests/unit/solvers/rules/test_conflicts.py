"""Rules that leave no placement: the reason has the smallest set of them, by name."""

from __future__ import annotations

from typing import Any

from solvers.model.problem import Problem
from solvers.model.rule_masks import with_rules
from solvers.model.rules import PlacementRules, PlaceRule
from solvers.rules.conflicts import why_rules_conflict
from tests.unit.solvers.instances import make


def rule(name: str, key_groups: set[str], nodes: set[str] | None = None) -> PlaceRule:
    listed = None if nodes is None else frozenset(nodes)
    return PlaceRule(name, frozenset(), frozenset(key_groups), listed)


def ruled(*rules: PlaceRule, load: Any = (0.1, 0.1, 0.1), **rest: Any) -> Problem:
    return with_rules(make(list(load), [0, 1, 2], **rest), PlacementRules(rules))


def test_rules_that_can_be_kept_are_no_conflict() -> None:
    assert why_rules_conflict(ruled(rule("here", {"k0"}, {"n1", "n2"}))) is None
    assert why_rules_conflict(make([0.1], [0])) is None


def test_a_pin_onto_a_dead_node_is_named_with_the_state_of_the_node() -> None:
    problem = ruled(rule("pin", {"k0"}, {"n2"}), states=["alive", "alive", "dead"])
    assert why_rules_conflict(problem) == (
        "rule pin leaves key group k0 no node: it is on n0 (alive), and the rules list n2 (dead); "
        "list another node, or take a rule out"
    )


def test_a_pin_onto_a_draining_node_holds_only_what_is_there() -> None:
    states = ["alive", "alive", "draining"]
    assert why_rules_conflict(ruled(rule("pin", {"k2"}, {"n2"}), states=states)) is None
    moved = why_rules_conflict(ruled(rule("pin", {"k0"}, {"n2"}), states=states))
    assert moved is not None
    assert "n2 (draining)" in moved


def test_a_key_group_that_stays_where_another_rule_forbids_it_names_both_rules() -> None:
    found = why_rules_conflict(
        ruled(rule("wide", {"k0"}, {"n0", "n1"}), rule("far", {"k0"}, {"n1"}), rule("stay", {"k0"}))
    )
    assert found is not None
    assert found.startswith("rules far and stay leave key group k0 no node: it is on n0 (alive)")


def test_what_stays_may_leave_a_dead_node() -> None:
    problem = ruled(rule("stay", {"k2", "k0"}), states=["alive", "alive", "dead"])
    assert problem.pinned_mask.tolist() == [True, False, False]
    assert why_rules_conflict(problem) is None


def test_a_node_that_is_not_in_use_is_named_as_such() -> None:
    found = why_rules_conflict(ruled(rule("pin", {"k0"}, {"spare-1"})))
    assert found is not None
    assert "the rules list spare-1 (not in use)" in found


def test_load_that_does_not_fit_the_listed_nodes_names_the_rules_and_the_load() -> None:
    load = [0.6, 0.6, 0.1]
    one = why_rules_conflict(ruled(rule("both", {"k0", "k1"}, {"n0"}), load=load))
    assert one == "rule both keeps 1.2 of r0 on nodes that have 1: n0; list more nodes"
    two = why_rules_conflict(
        ruled(rule("p", {"k0"}, {"n0"}), rule("q", {"k1"}, {"n0"}), rule("r", {"k2"}, {"n1"}),
              load=load)
    )  # fmt: skip
    assert two == "rules p and q keep 1.2 of r0 on nodes that have 1: n0; list more nodes"


def test_a_job_that_is_too_large_for_all_its_nodes_has_no_conflict_of_rules() -> None:
    assert why_rules_conflict(ruled(rule("p", {"k0"}, {"n0"}), load=[2.0, 2.0, 2.0])) is None


def test_too_much_load_on_listed_nodes_does_not_keep_key_groups_on_dead_nodes() -> None:
    problem = ruled(rule("p", {"k0", "k2"}, {"n0"}), load=[0.6, 0.1, 0.6],
                    states=["alive", "alive", "dead"])  # fmt: skip
    assert why_rules_conflict(problem) is None
