"""What a loss makes of a placement, by two programs, and what it takes to have headroom."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from solvers.model.problem import Problem
from solvers.model.rule_masks import with_rules
from solvers.model.rules import HeadroomRule, PlacementRules, PlaceRule
from solvers.rules.failover import failovers, losses_of, worst
from solvers.rules.headroom import (
    NodesNeeded,
    breaks_headroom,
    has_headroom,
    is_required,
    nodes_needed,
    restores_headroom,
    why_no_headroom,
    with_reserves,
    worst_failover,
)
from solvers.rules.rule_text import rule_report
from solvers.verify.headroom import fullest_after_loss
from tests.unit.solvers.instances import make

BOTH = HeadroomRule("survive", ("node", "rack"), 0.8)


def ruled(problem: Problem, rule: HeadroomRule = BOTH, *place: PlaceRule) -> Problem:
    return with_rules(problem, PlacementRules(place=place, headroom=rule))


def racked(load: Any, current: Any, racks: str, **rest: Any) -> Problem:
    """A problem whose nodes are in the racks that the letters name."""
    return make(load, current, nodes=len(racks), rack=tuple(racks), **rest)


@pytest.mark.parametrize("seed", range(20))
def test_solver_and_verifier_find_the_same_fullest_node(seed: int) -> None:
    random = np.random.default_rng(seed)
    nodes, groups, resources = 8, 40, int(random.integers(1, 3))
    place = PlaceRule("some", frozenset(), frozenset(f"k{k}" for k in range(6)),
                      frozenset({"n0", "n3", "n5"}))  # fmt: skip
    states = ["alive"] * nodes
    if seed % 3 == 0:
        states[7], states[6] = "dead", "draining"
    load = random.choice([random.random((groups, resources)), np.ones((groups, resources))])
    problem = ruled(
        racked(load, random.integers(6, size=groups), "aabbccdd", states=states,
               capacity=random.choice([1.0, 2.0], size=(nodes, resources))),
        BOTH, place,
    )  # fmt: skip
    for plan in (problem.current, random.integers(6, size=groups)):
        found = worst(failovers(problem, plan, BOTH))
        assert found is not None
        assert fullest_after_loss(problem, plan) == pytest.approx(found.utilisation)


def test_lost_key_groups_go_largest_first_to_the_emptiest_node() -> None:
    problem = racked([0.5, 0.3, 0.2, 0.2, 0.4], [0, 0, 0, 1, 2], "abc")
    rack_a = next(
        one for one in failovers(problem, problem.current, BOTH) if str(one.loss) == "rack a"
    )
    # 0.5 joins 0.2, 0.3 joins 0.4, and 0.2 joins one of two nodes at 0.7.
    assert rack_a.utilisation == pytest.approx(0.9)
    assert [str(loss) for loss in losses_of(problem, BOTH)] == [
        "node n0", "node n1", "node n2", "rack a", "rack b", "rack c",
    ]  # fmt: skip


def test_a_key_group_whose_nodes_are_all_lost_has_no_node() -> None:
    pin = PlaceRule("pin", frozenset(), frozenset({"k0"}), frozenset({"n0"}))
    problem = ruled(racked([0.1, 0.1], [0, 1], "ab"), BOTH, pin)
    found = worst_failover(problem, problem.current)
    assert found is not None
    assert math.isinf(found.utilisation)
    assert math.isinf(fullest_after_loss(problem, problem.current))
    assert "rule pin leaves 0 of r0 for 0.1" in (why_no_headroom(problem) or "")
    assert rule_report(problem, problem.current).headroom_pct is None


def test_headroom_is_restored_or_broken_by_an_assignment() -> None:
    problem = ruled(racked([0.4, 0.4, 0.4], [0, 0, 1], "abc"))
    level, worse = np.array([0, 1, 2]), np.array([0, 0, 0])
    assert has_headroom(problem, level)
    assert restores_headroom(problem, level) == (not has_headroom(problem, problem.current))
    assert breaks_headroom(problem, problem.current, worse)
    assert not breaks_headroom(problem, problem.current, level)


def test_headroom_is_not_required_while_a_node_is_dead_or_drains() -> None:
    for state in ("dead", "draining"):
        problem = ruled(racked([0.9, 0.9], [0, 1], "abc", states=["alive", "alive", state]))
        assert not is_required(problem)
        assert why_no_headroom(problem) is None
        assert "it is not required while" in (rule_report(problem, problem.current).text or "")


def test_the_number_of_nodes_that_it_takes_is_the_least_that_was_found() -> None:
    problem = ruled(racked([0.5] * 6, [0, 0, 1, 1, 2, 2], "abc"))
    # Of six nodes four are left for 3 cores. A node carries one key group at 0.8, so a level
    # placement needs six that are left: nine in three racks.
    reason = why_no_headroom(problem) or ""
    assert "after the loss of node n0 the nodes left carry 150.0 %" in reason
    assert "it would take at least 6 nodes, 3 more than now" in reason
    assert "with 9 nodes a level placement has it" in reason
    assert nodes_needed(problem, BOTH) == NodesNeeded(6, 9)


def test_a_key_group_that_is_too_large_for_a_node_is_named() -> None:
    reason = why_no_headroom(ruled(racked([0.9, 0.1], [0, 1], "abcdef"))) or ""
    assert (
        "key group k0 alone is 90.0 % of a node, allowed 80 %; no number of nodes helps" in reason
    )


def test_reserves_look_smaller_and_are_spread_over_the_racks() -> None:
    load = [0.4, 0.4] + [0.05] * 40
    tight = HeadroomRule("survive", ("rack",), 0.69)
    problem = ruled(racked(load, [0, 1] + [k % 6 for k in range(40)], "aabbcc"), tight)
    shaped = with_reserves(problem, problem.current, 1.0)
    assert shaped is not None
    smaller = np.flatnonzero(shaped.capacity[:, 0] < 1.0)
    assert len({problem.rack[i] for i in smaller.tolist()}) >= 2
    level = np.arange(6).repeat(7)
    assert with_reserves(ruled(racked([0.05] * 42, level, "aabbcc")), level, 1.0) is None
