"""Checks the rules of the policy by the names of operators, key groups and nodes.

The arrays ``pinned`` and ``allowed``, which the solvers make from the rules, are checked by
``placement_rules``. Here the rules themselves are applied, so an error in those arrays shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from solvers.verify.violation import Violation, first_names

if TYPE_CHECKING:
    from solvers.model.problem import Problem
    from solvers.model.rules import PlaceRule

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def check_rules(problem: Problem, plan: Ints, promises: Mapping[str, Any]) -> Iterator[Violation]:
    """The plan keeps every rule, and names the rules and those that it restores."""
    if problem.rules is None:
        if promises.get("rules") is not None:
            yield Violation("rules", f"promised {promises['rules']!r}, the policy has none")
        return
    for name, outside in _outside_of_rules(problem, plan).items():
        if outside.any():
            named = first_names(problem.key_group_ids, np.flatnonzero(outside))
            yield Violation(f"rules.{name}", f"not where the rule permits: {named}")
    for rule in problem.rules.place:
        left = _left_although_staying(problem, rule, plan)
        if left.any():
            named = first_names(problem.key_group_ids, np.flatnonzero(left))
            yield Violation(f"rules.{rule.name}", f"moved although they have to stay: {named}")
    wanted = {
        "rules": ",".join(problem.rules.names),
        "restored_rules": ",".join(restored_rules(problem, plan)) or None,
    }
    for promise, actual in wanted.items():
        if promise in promises and promises[promise] != actual:
            yield Violation(promise, f"promised {promises[promise]!r}, is {actual!r}")


def restored_rules(problem: Problem, plan: Ints) -> list[str]:
    """The rules that are broken without the plan on nodes that are not dead, and kept with it."""
    after = _broken_rules(problem, plan)
    return [name for name in _broken_rules(problem, problem.current) if name not in after]


def is_permitted(problem: Problem, plan: Ints) -> Bools:
    """[G]: every rule permits the key group on its node."""
    permitted = np.ones(len(plan), dtype=bool)
    for outside in _outside_of_rules(problem, plan).values():
        permitted &= ~outside
    return permitted


def _broken_rules(problem: Problem, plan: Ints) -> list[str]:
    state = np.array(problem.node_state)[plan]
    outside = _outside_of_rules(problem, plan)
    return [name for name, of in outside.items() if np.any(of & (state != "dead"))]


def _outside_of_rules(problem: Problem, plan: Ints) -> dict[str, Bools]:
    """[G] by the name of each rule that lists nodes: selected, and on none of these nodes."""
    found: dict[str, Bools] = {}
    for rule in () if problem.rules is None else problem.rules.place:
        if rule.nodes is None:
            continue
        is_listed = np.array([name in rule.nodes for name in problem.node_ids], dtype=bool)
        found[rule.name] = _selected(problem, rule) & ~is_listed[plan]
    return found


def _left_although_staying(problem: Problem, rule: PlaceRule, plan: Ints) -> Bools:
    if rule.nodes is not None:
        return np.zeros(len(plan), dtype=bool)
    was_alive = np.array(problem.node_state)[problem.current] != "dead"
    return np.asarray(_selected(problem, rule) & was_alive & (plan != problem.current))


def _selected(problem: Problem, rule: PlaceRule) -> Bools:
    by_operator = np.isin(np.array(problem.operator_ids), list(rule.operators))
    by_name = np.isin(np.array(problem.key_group_ids), list(rule.key_groups))
    return np.asarray(by_operator | by_name)
