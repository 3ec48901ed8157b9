"""Makes ``pinned`` and ``allowed`` of a problem from its rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.model.problem import AllowedNodes, BoolArray, IntArray, Problem
from solvers.model.rules import PlacementRules, PlaceRule

_NONE: IntArray = np.zeros(0, dtype=np.int64)


def with_rules(problem: Problem, rules: PlacementRules | None) -> Problem:
    """Return the problem with rules, which decide what is pinned and what is allowed where.

    Raises:
        InvalidInput: the problem has pins or allowed nodes of its own.
    """
    if rules is None:
        return problem
    if problem.allowed is not None or problem.pinned_mask.any():
        raise InvalidInput("the problem has rules, and pins or allowed nodes beside them")
    return with_masks_of_rules(dataclasses.replace(problem, rules=rules))


def with_masks_of_rules(problem: Problem) -> Problem:
    """Return the problem with the masks that its rules have on its nodes; itself without rules."""
    rules = problem.rules
    if rules is None:
        return problem
    listing = [rule for rule in rules.place if not rule.stays]
    return dataclasses.replace(
        problem,
        pinned=_pinned(problem, [rule for rule in rules.place if rule.stays]),
        allowed=_allowed(problem, listing) if listing else None,
    )


def selected_mask(problem: Problem, rule: PlaceRule) -> BoolArray:
    """[G]: the key groups that the rule is about."""
    pairs = zip(problem.operator_ids, problem.key_group_ids, strict=True)
    return np.array(
        [operator in rule.operators or name in rule.key_groups for operator, name in pairs],
        dtype=bool,
    )


def _pinned(problem: Problem, rules: Sequence[PlaceRule]) -> BoolArray:
    pinned = np.zeros(problem.n_key_groups, dtype=bool)
    for rule in rules:
        pinned |= selected_mask(problem, rule)
    return pinned & ~problem.dead[problem.current]


def _allowed(problem: Problem, rules: Sequence[PlaceRule]) -> AllowedNodes:
    """The nodes that all rules of a key group list; a key group without a rule has no list."""
    masks = np.array([selected_mask(problem, rule) for rule in rules])
    sets, which = np.unique(masks, axis=1, return_inverse=True)
    rows = [_common_nodes(problem, rules, chosen) for chosen in sets.T]
    restricted: BoolArray = np.asarray(masks.any(axis=0))
    lengths = np.array([len(row) for row in rows], dtype=np.int64)[which] * restricted
    listed = [rows[of] for of in which[restricted].tolist()]
    nodes = np.concatenate(listed) if listed else _NONE
    return AllowedNodes(np.concatenate(([0], np.cumsum(lengths))), nodes, restricted)


def _common_nodes(problem: Problem, rules: Sequence[PlaceRule], chosen: BoolArray) -> IntArray:
    common = set(problem.node_ids)
    for at in np.flatnonzero(chosen).tolist():
        common &= rules[at].nodes or frozenset()
    return np.array(
        [i for i, name in enumerate(problem.node_ids) if name in common], dtype=np.int64
    )
