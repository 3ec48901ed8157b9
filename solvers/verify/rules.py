"""Checks the rules of the policy by the names of operators, key groups and nodes.

The arrays ``pinned`` and ``allowed``, which the solvers make from the rules, are checked by
``placement_rules``. Here the rules themselves are applied, so an error in those arrays shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from solvers.verify.headroom import restores_headroom
from solvers.verify.violation import Violation, first_names

if TYPE_CHECKING:
    from solvers.model.problem import Problem
    from solvers.model.rules import ApartRule, MoveLimit, PlaceRule

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MOVE_LIMITS = "rules.move_limits"
"""The promise that is broken if too much of an operator moves. A rollback may break it."""
ROUNDING = 1e-6
"""Of a share of key groups."""


def check_rules(problem: Problem, plan: Ints, promises: Mapping[str, Any]) -> Iterator[Violation]:
    """The plan keeps every rule, and names the rules and those that it restores."""
    if problem.rules is None:
        if promises.get("rules") is not None:
            yield Violation("rules", f"promised {promises['rules']!r}, the policy has none")
        return
    yield from _check_place(problem, plan)
    yield from _check_several(problem, plan)
    wanted = {
        "rules": ",".join(problem.rules.names),
        "restored_rules": ",".join(restored_rules(problem, plan)) or None,
    }
    for promise, actual in wanted.items():
        if promise in promises and promises[promise] != actual:
            yield Violation(promise, f"promised {promises[promise]!r}, is {actual!r}")


def _check_place(problem: Problem, plan: Ints) -> Iterator[Violation]:
    """Key groups are where the rules for single key groups permit them."""
    for name, outside in _outside_of_rules(problem, plan).items():
        if outside.any():
            named = first_names(problem.key_group_ids, np.flatnonzero(outside))
            yield Violation(f"rules.{name}", f"not where the rule permits: {named}")
    for rule in () if problem.rules is None else problem.rules.place:
        left = _left_although_staying(problem, rule, plan)
        if left.any():
            named = first_names(problem.key_group_ids, np.flatnonzero(left))
            yield Violation(f"rules.{rule.name}", f"moved although they have to stay: {named}")


def _check_several(problem: Problem, plan: Ints) -> Iterator[Violation]:
    """The rules for several key groups at once are kept."""
    if problem.rules is None:
        return
    for apart in problem.rules.apart:
        for place, names in _shared_places(problem, apart, plan).items():
            yield Violation(f"rules.{apart.name}", f"share {place}: {first_names(names)}")
    for limit in problem.rules.move_limits:
        yield from _over_limit(problem, limit, plan)


def restored_rules(problem: Problem, plan: Ints) -> list[str]:
    """The rules that are broken without the plan on nodes that are not dead, and kept with it."""
    after = _broken_rules(problem, plan)
    found = [name for name in _broken_rules(problem, problem.current) if name not in after]
    headroom = None if problem.rules is None else problem.rules.headroom
    if headroom is not None and restores_headroom(problem, plan):
        found.append(headroom.name)
    return found


def restores_rule_of_several(problem: Problem, plan: Ints) -> bool:
    """Whether the plan restores a rule for several key groups: apart, or headroom.

    Which of them has to leave is the choice of the plan.
    """
    return restores_headroom(problem, plan) or any(
        _shared_places(problem, rule, np.asarray(problem.current))
        and not _shared_places(problem, rule, plan)
        for rule in (() if problem.rules is None else problem.rules.apart)
    )


def is_permitted(problem: Problem, plan: Ints) -> Bools:
    """[G]: every rule permits the key group on its node."""
    permitted = np.ones(len(plan), dtype=bool)
    for outside in _outside_of_rules(problem, plan).values():
        permitted &= ~outside
    return permitted


def _broken_rules(problem: Problem, plan: Ints) -> list[str]:
    state = np.array(problem.node_state)[plan]
    outside = _outside_of_rules(problem, plan)
    broken = [name for name, of in outside.items() if np.any(of & (state != "dead"))]
    apart = () if problem.rules is None else problem.rules.apart
    return broken + [rule.name for rule in apart if _shared_places(problem, rule, plan)]


def _shared_places(problem: Problem, rule: ApartRule, plan: Ints) -> dict[str, list[str]]:
    """The members on each node or rack that several share; those on dead nodes are left out."""
    members: dict[str, list[str]] = {}
    for name, node in zip(problem.key_group_ids, plan.tolist(), strict=True):
        if name in rule.key_groups and problem.node_state[node] != "dead":
            place = problem.rack[node] if rule.is_on_racks else problem.node_ids[node]
            members.setdefault(place, []).append(name)
    return {place: names for place, names in members.items() if len(names) > 1}


def _over_limit(problem: Problem, limit: MoveLimit, plan: Ints) -> Iterator[Violation]:
    """More of an operator moves than the limit; moves off dead nodes do not count."""
    was_alive = np.array(problem.node_state)[problem.current] != "dead"
    for operator in sorted(limit.operators):
        of_operator = np.array([name == operator for name in problem.operator_ids], dtype=bool)
        moved = of_operator & was_alive & (plan != problem.current)
        count, n_bytes = int(moved.sum()), int(problem.state_bytes[moved].sum())
        allowed = int(of_operator.sum()) * (1.0 if limit.share is None else limit.share)
        if limit.moves is not None:
            allowed = min(allowed, limit.moves)
        if count > allowed + ROUNDING:
            text = f"{limit.name}: {operator} moves {count} key groups, allowed {allowed:g}"
            yield Violation(MOVE_LIMITS, text)
        if limit.bytes is not None and n_bytes > limit.bytes:
            text = f"{limit.name}: {operator} moves {n_bytes} bytes, allowed {limit.bytes}"
            yield Violation(MOVE_LIMITS, text)


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
