"""What the rules of a job say about a plan, in words and as figures. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from solvers.model.problem import BoolArray, IntArray, Problem
from solvers.model.rule_masks import selected_mask
from solvers.model.rules import PlaceRule


@dataclass(frozen=True, slots=True)
class RuleReport:
    """Which rules apply to a plan, and what it does about them. All are None without rules."""

    names: str | None = None
    """The names of all rules, separated by commas."""
    restored: str | None = None
    """The names of the rules that are broken without the plan and kept with it."""
    text: str | None = None
    """One line for each rule."""


def rule_report(problem: Problem, assignment: IntArray) -> RuleReport:
    """Return the report of a plan that keeps the rules of its problem."""
    rules = problem.rules
    if rules is None:
        return RuleReport()
    restored = [rule.name for rule in rules.place if _is_restored(problem, rule)]
    lines = [_place_line(problem, rule, assignment) for rule in rules.place]
    return RuleReport(",".join(rules.names), ",".join(restored) or None, "\n".join(lines))


def must_move_by_rules(problem: Problem) -> BoolArray:
    """[G]: the key group is on a live node where it may not be."""
    every = np.arange(problem.n_key_groups)
    return ~problem.permits(every, problem.current) & ~problem.dead[problem.current]


def _is_restored(problem: Problem, rule: PlaceRule) -> bool:
    return bool(_outside(problem, rule, problem.current).any())


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


def _selected_text(rule: PlaceRule, count: int) -> str:
    return f"{count} key groups of {_listed(list(_selected_names(rule)))}"


def _selected_names(rule: PlaceRule) -> Iterator[str]:
    yield from sorted(rule.operators)
    yield from sorted(rule.key_groups)


def _listed(names: list[str], most: int = 6) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
