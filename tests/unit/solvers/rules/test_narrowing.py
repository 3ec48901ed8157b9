"""Within narrowed masks every assignment keeps the rules for several key groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from solvers.model.problem import IntArray, Problem
from solvers.model.rule_masks import with_rules
from solvers.model.rules import ApartRule, MoveLimit, PlacementRules, PlaceRule
from solvers.rules.narrowing import is_within_masks, narrowed, within_move_limits
from tests.unit.solvers.instances import make

RACKS = ("r0", "r0", "r1", "r1", "r2", "r2")


def cluster(groups: int = 12, **rules: Any) -> Problem:
    """Six nodes in three racks; key group k is on node k mod 6."""
    bare = make(np.linspace(1, 2, groups), np.arange(groups) % 6, nodes=6, rack=RACKS)
    return with_rules(bare, PlacementRules(**rules))


def random_assignment(problem: Problem, random: np.random.Generator) -> IntArray:
    """Any assignment within the masks: key groups that need not move stay half of the time."""
    plan = np.array(problem.current)
    for k in range(problem.n_key_groups):
        may_stay = bool(problem.permits(np.array([k]), problem.current[k : k + 1])[0])
        if not problem.pinned_mask[k] and not (may_stay and random.random() < 0.5):
            plan[k] = random.choice(problem.targets_of(k))
    return plan


@pytest.mark.parametrize("is_on_racks", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_members_never_share_a_place_whatever_a_method_does(is_on_racks: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    members = tuple(f"k{k}" for k in random.permutation(12)[:3])
    pair = (members[0], f"k{random.integers(12)}")
    rules = [ApartRule("three", members, is_on_racks)]
    if pair[0] != pair[1]:
        rules.append(ApartRule("pair", pair))
    problem = cluster(apart=tuple(rules))
    found = narrowed(problem, random.integers(6, size=12), seed)
    assert found.reason is None
    for _ in range(50):
        plan = random_assignment(found.problem, random)
        place = np.array(RACKS)[plan] if is_on_racks else plan
        assert len({place[int(name[1:])] for name in members}) == 3
        for rule in rules:
            assert len({plan[int(name[1:])] for name in rule.key_groups}) == len(rule.key_groups)


def test_a_placement_that_keeps_the_rule_is_within_the_masks() -> None:
    problem = cluster(apart=(ApartRule("pair", ("k0", "k2"), True),))
    found = narrowed(problem, problem.current)
    assert is_within_masks(found.problem, problem.current)


def test_a_guide_that_keeps_the_rules_is_within_the_masks() -> None:
    problem = cluster(apart=(ApartRule("pair", ("k0", "k6")),),
                      move_limits=(MoveLimit("slow", frozenset({"op"}), moves=2),))  # fmt: skip
    guide = problem.current.copy()
    guide[[6, 7]] = 3, 4
    assert is_within_masks(narrowed(problem, guide).problem, guide)
    guide[8] = 5
    assert not is_within_masks(narrowed(problem, guide).problem, guide)


def test_the_member_with_less_state_leaves() -> None:
    bare = make([1, 1], [0, 0], nodes=2, state_bytes=np.array([10, 20]))
    problem = with_rules(bare, PlacementRules(apart=(ApartRule("pair", ("k0", "k1")),)))
    found = narrowed(problem, problem.current).problem
    assert [found.targets_of(k).tolist() for k in range(2)] == [[1], [0]]


def test_members_that_have_to_stay_together_have_no_places() -> None:
    stay = PlaceRule("stay", frozenset({"op"}), frozenset(), None)
    problem = cluster(place=(stay,), apart=(ApartRule("pair", ("k0", "k6")),))
    reason = narrowed(problem, problem.current).reason
    assert reason is not None
    assert reason.startswith("no nodes were found that keep the key groups of pair apart")


def test_more_members_than_places_are_found_by_search() -> None:
    four = ApartRule("four", ("k0", "k1", "k2", "k3"), True)
    problem = cluster(apart=(four,))
    assert "add a node or a rack" in (narrowed(problem, problem.current).reason or "")


@pytest.mark.parametrize(
    ("limit", "most", "most_bytes"),
    [({"moves": 3}, 3, 120), ({"share": 0.3}, 3, 120), ({"bytes": 45}, 4, 45),
     ({"moves": 3, "bytes": 25}, 2, 25), ({"moves": 0}, 0, 0)],
)  # fmt: skip
def test_no_assignment_moves_more_than_the_limit(
    limit: dict[str, Any], most: int, most_bytes: int
) -> None:
    problem = cluster(move_limits=(MoveLimit("slow", frozenset({"op"}), **limit),))
    guide = (problem.current + 1) % 6
    found = narrowed(problem, guide).problem
    free = ~found.pinned_mask
    assert int(free.sum()) == most
    assert int(problem.state_bytes[free].sum()) <= most_bytes


def test_moves_off_dead_nodes_are_outside_the_limit() -> None:
    bare = make(np.ones(4), [0, 0, 1, 1], states=["alive", "dead", "alive"])
    limit = MoveLimit("slow", frozenset({"op"}), moves=0)
    found = narrowed(with_rules(bare, PlacementRules(move_limits=(limit,))), bare.current).problem
    assert found.pinned_mask.tolist() == [True, True, False, False]


def test_a_limit_that_other_rules_exceed_is_named() -> None:
    place = PlaceRule("away", frozenset({"op"}), frozenset(), frozenset({"n1"}))
    limit = MoveLimit("slow", frozenset({"op"}), moves=2)
    bare = make(np.ones(4), [0, 0, 0, 1])
    problem = with_rules(bare, PlacementRules(place=(place,), move_limits=(limit,)))
    reason = narrowed(problem, bare.current).reason or ""
    assert reason.startswith("rule slow lets too few key groups of op move at once: other rules ")


def test_what_is_due_on_draining_nodes_is_cut_to_the_limit() -> None:
    problem = cluster(move_limits=(MoveLimit("slow", frozenset({"op"}), moves=2),))
    assert within_move_limits(problem, np.array([3, 4, 5])).tolist() == [3, 4]
    assert within_move_limits(cluster(), np.array([3, 4, 5])).tolist() == [3, 4, 5]
