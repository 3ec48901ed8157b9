"""Finds the smallest set of rules that leaves a job no placement, and says why. Pure.

A method also finds that a problem has no plan, but it only gets masks of key groups and nodes and
cannot name the rules. The rules are therefore checked first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from ballast.contracts.rules import smallest_conflict
from solvers.model.problem import BoolArray, IntArray, Problem
from solvers.model.rule_masks import selected_mask
from solvers.model.rules import PlaceRule

FULL = 1.0 + 1e-9
"""Utilisation above which nodes cannot carry a load, with room for rounding."""
MOST_COMBINED = 3
"""Most rules whose loads are added up to find nodes that are too small for them."""
SHOWN_NODES = 6


def why_rules_conflict(problem: Problem) -> str | None:
    """Return why no placement keeps the rules, in a sentence; None if no reason was found."""
    rules = problem.rules
    if rules is None or not rules.place or not problem.staying.any():
        return None
    return _no_node(problem, rules.place) or _too_much_load(problem, rules.place)


def _no_node(problem: Problem, rules: Sequence[PlaceRule]) -> str | None:
    """Why a key group has no node: it stays where it may not be, or no listed node is alive."""
    every = np.arange(problem.n_key_groups)
    must_leave = problem.dead[problem.current] | ~problem.permits(every, problem.current)
    for k in np.flatnonzero(must_leave).tolist():
        if problem.pinned_mask[k] or not len(problem.targets_of(k)):
            return _conflict_at(problem, rules, k)
    return None


def _conflict_at(problem: Problem, rules: Sequence[PlaceRule], k: int) -> str:
    """The smallest set of rules that leaves this key group no node."""
    here = problem.node_ids[problem.current[k]]
    staying = {problem.node_ids[i] for i in np.flatnonzero(problem.staying).tolist()}
    permitted = {
        rule.name: {here} if rule.nodes is None else set(rule.nodes) & (staying | {here})
        for rule in rules
        if _is_selected(problem, rule, k)
        and (rule.nodes is not None or not problem.dead[problem.current[k]])
    }
    if problem.dead[problem.current[k]] or not problem.pinned_mask[k]:
        permitted = {name: nodes - {here} for name, nodes in permitted.items()}
    names = smallest_conflict(permitted)
    listed = sorted({n for r in rules if r.name in names and r.nodes for n in r.nodes})
    which = f"rule {names[0]} leaves" if len(names) == 1 else f"rules {_and(names)} leave"
    return (
        f"{which} key group {problem.key_group_ids[k]} no node: it is on {_state_of(problem, here)}"
        f", and the rules list {', '.join(_state_of(problem, n) for n in listed[:SHOWN_NODES])}; "
        "list another node, or take a rule out"
    )


def _is_selected(problem: Problem, rule: PlaceRule, k: int) -> bool:
    return problem.operator_ids[k] in rule.operators or problem.key_group_ids[k] in rule.key_groups


def _state_of(problem: Problem, node_id: str) -> str:
    if node_id not in problem.node_ids:
        return f"{node_id} (not in use)"
    state = problem.node_state[problem.node_ids.index(node_id)]
    return f"{node_id} ({state})"


def _too_much_load(problem: Problem, rules: Sequence[PlaceRule]) -> str | None:
    """Why nodes cannot carry the load that rules keep on them, although all nodes together could.

    Key groups that may be on these nodes alone must fit there. If the load of the whole job is
    above the capacity of all nodes, the rules are not the cause, and plans are made as usual. While
    nodes are dead, too much load on the nodes left is better than no plan.
    """
    if problem.dead[problem.current].any():
        return None
    capacity = problem.capacity[problem.staying].sum(axis=0)
    if (problem.load.sum(axis=0) > capacity * FULL).any():
        return None
    listing = [rule for rule in rules if rule.nodes is not None]
    for names, load, nodes in _bound_loads(problem, listing):
        room = problem.capacity[nodes].sum(axis=0)
        for r in np.flatnonzero(load > room * FULL).tolist():
            which = f"rule {names[0]} keeps" if len(names) == 1 else f"rules {_and(names)} keep"
            return (
                f"{which} {load[r]:.4g} of {problem.resources[r]} on nodes that have "
                f"{room[r]:.4g}: {_first([problem.node_ids[i] for i in nodes.tolist()])}; "
                "list more nodes"
            )
    return None


def _bound_loads(
    problem: Problem, rules: Sequence[PlaceRule]
) -> Iterator[tuple[tuple[str, ...], IntArray, IntArray]]:
    """Yield small sets of rules: their names, the load that they keep on their nodes, the nodes."""
    chosen = {rule.name: selected_mask(problem, rule) for rule in rules}
    for size in range(1, min(MOST_COMBINED, len(rules)) + 1):
        for some in combinations(rules, size):
            listed = frozenset[str]().union(*(rule.nodes or () for rule in some))
            on = np.array([name in listed for name in problem.node_ids]) & ~problem.dead
            bound: BoolArray = np.logical_or.reduce([chosen[rule.name] for rule in some])
            load = problem.load[bound].sum(axis=0)
            yield tuple(rule.name for rule in some), load, np.flatnonzero(on)


def _and(names: Sequence[str]) -> str:
    return " and ".join(names)


def _first(names: Sequence[str]) -> str:
    more = len(names) - SHOWN_NODES
    return ", ".join(names[:SHOWN_NODES]) + (f" and {more} more" if more > 0 else "")
