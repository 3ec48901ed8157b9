"""Reports how a plan keeps the rules of a job, as text and as figures. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from solvers.model import metrics
from solvers.model.problem import BoolArray, IntArray, Problem
from solvers.model.rule_masks import selected_mask
from solvers.model.rules import ApartRule, HeadroomRule, MoveLimit, PlaceRule
from solvers.rules.failover import Failover, keeps_headroom
from solvers.rules.headroom import (
    headroom_text,
    is_required,
    restores_headroom,
    worst_failover,
)


@dataclass(frozen=True, slots=True)
class RuleReport:
    """The rules that apply to a plan, and how it keeps them. All fields are None without rules."""

    names: str | None = None
    """The names of all rules, separated by commas."""
    restored: str | None = None
    """The names of the rules that are broken without the plan and kept with it."""
    text: str | None = None
    """One line for each rule."""
    headroom_limit_pct: float | None = None
    """Allowed load of the fullest node after a loss, in percent; None without a rule for
    headroom."""
    headroom_before_pct: float | None = None
    """The load of the fullest node after the worst loss, without the plan; None if it has none."""
    headroom_pct: float | None = None
    """The same with the plan."""


def rule_report(problem: Problem, assignment: IntArray) -> RuleReport:
    """Return the report of a plan that keeps the rules of its problem."""
    rules = problem.rules
    if rules is None:
        return RuleReport()
    restored = broken_rules(problem, problem.current)
    headroom = rules.headroom
    before, after = (worst_failover(problem, plan) for plan in (problem.current, assignment))
    if headroom is None or before is None or after is None:
        headroom_lines = []
    else:
        headroom_lines = [_headroom_line(problem, headroom, before, after)]
        if restores_headroom(problem, assignment):
            restored.append(headroom.name)
    lines = [
        *(_place_line(problem, rule, assignment) for rule in rules.place),
        *(_apart_line(problem, rule, assignment) for rule in rules.apart),
        *(_limit_line(problem, rule, assignment) for rule in rules.move_limits),
        *headroom_lines,
    ]
    return RuleReport(
        ",".join(rules.names),
        ",".join(restored) or None,
        "\n".join(lines),
        None if headroom is None else 100.0 * headroom.max_utilisation,
        _percent(before),
        _percent(after),
    )


def _percent(found: Failover | None) -> float | None:
    """The utilisation in percent; None if a key group would have no node."""
    if found is None or math.isinf(found.utilisation):
        return None
    return 100.0 * found.utilisation


def _headroom_line(problem: Problem, rule: HeadroomRule, before: Failover, after: Failover) -> str:
    line = f"{rule.name}: with the plan {headroom_text(rule, after)}"
    was = _percent(before)
    line += f"; without it {'no node' if was is None else f'{was:.1f} %'}"
    if keeps_headroom(rule, after.utilisation):
        return line
    why = (
        "no plan within the budget was found that keeps it"
        if is_required(problem)
        else "it is not required while a node is dead or drains"
    )
    return f"{line}; {why}"


def broken_rules(problem: Problem, assignment: IntArray) -> list[str]:
    """Return the rules of places and of key groups apart that an assignment breaks, by name.

    Key groups on dead nodes break none: they have to move anyway.
    """
    rules = problem.rules
    if rules is None:
        return []
    return [
        *(rule.name for rule in rules.place if _outside(problem, rule, assignment).any()),
        *(rule.name for rule in rules.apart if _together(problem, rule, assignment)),
    ]


def must_move_by_rules(problem: Problem) -> BoolArray:
    """[G]: the key group is on a live node where it may not be."""
    every = np.arange(problem.n_key_groups)
    return ~problem.permits(every, problem.current) & ~problem.dead[problem.current]


def _outside(problem: Problem, rule: PlaceRule, assignment: IntArray) -> BoolArray:
    """[G]: selected by the rule, and on a live node that it does not list."""
    if rule.nodes is None:
        return np.zeros(problem.n_key_groups, dtype=bool)
    listed = np.array([name in rule.nodes for name in problem.node_ids], dtype=bool)
    is_outside = ~listed[assignment] & ~problem.dead[assignment]
    return selected_mask(problem, rule) & is_outside


def _place_line(problem: Problem, rule: PlaceRule, assignment: IntArray) -> str:
    chosen = selected_mask(problem, rule)
    count = int(chosen.sum())
    what = _selected_text(rule, count)
    if rule.nodes is None:
        return f"{rule.name}: {what} stay on their nodes"
    used = sorted({problem.node_ids[i] for i in np.unique(assignment[chosen]).tolist()})
    line = f"{rule.name}: {what} are on {_listed(used)}, of {len(rule.nodes)} nodes that it lists"
    came = int(_outside(problem, rule, problem.current).sum())
    return f"{line}; {came} of them come from other nodes" if came else line


def _together(problem: Problem, rule: ApartRule, assignment: IntArray) -> bool:
    """Whether two members share a node, or a rack, that is not dead."""
    places = [
        place for k, place in _places(problem, rule, assignment) if not problem.dead[assignment[k]]
    ]
    return len(set(places)) < len(places)


def _places(problem: Problem, rule: ApartRule, assignment: IntArray) -> Iterator[tuple[int, str]]:
    """Each member with its node, or its rack."""
    index = {name: k for k, name in enumerate(problem.key_group_ids)}
    of_nodes = problem.rack if rule.is_on_racks else problem.node_ids
    for name in rule.key_groups:
        if name in index:
            yield index[name], of_nodes[assignment[index[name]]]


def _apart_line(problem: Problem, rule: ApartRule, assignment: IntArray) -> str:
    places = [place for _, place in _places(problem, rule, assignment)]
    kind = "racks" if rule.is_on_racks else "nodes"
    line = f"{rule.name}: {_listed(list(rule.key_groups))} are on different {kind}"
    came = " and share one now" if _together(problem, rule, problem.current) else ""
    return f"{line}, {_listed(places)}{came}"


def _limit_line(problem: Problem, rule: MoveLimit, assignment: IntArray) -> str:
    chosen = metrics.voluntary_mask(problem, assignment)
    operators = np.array(problem.operator_ids)
    each = []
    for operator in sorted(rule.operators):
        moved = chosen & (operators == operator)
        n_bytes = int(problem.state_bytes[moved].sum())
        each.append(f"{operator} {int(moved.sum())} key groups and {n_bytes:,} bytes")
    limits = [
        *([] if rule.moves is None else [f"{rule.moves} key groups"]),
        *([] if rule.share is None else [f"{100 * rule.share:g} % of the key groups"]),
        *([] if rule.bytes is None else [f"{rule.bytes:,} bytes"]),
    ]
    return (
        f"{rule.name}: at most {' and '.join(limits)} may move; the plan moves of {_listed(each)}"
    )


def _selected_text(rule: PlaceRule, count: int) -> str:
    return f"{count} key groups of {_listed(list(_selected_names(rule)))}"


def _selected_names(rule: PlaceRule) -> Iterator[str]:
    yield from sorted(rule.operators)
    yield from sorted(rule.key_groups)


def _listed(names: list[str], most: int = 6) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
