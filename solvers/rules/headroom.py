"""Headroom: whether a placement can have it, how many nodes it needs, and problems that aim at it.

A plan that levels the load has headroom where the mean load leaves room and key groups are small.
Large key groups need more: nodes that are emptier than the others, so that a large one fits there.
``with_reserves`` states the problem with less capacity on such nodes, so that a method puts less
load on them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from solvers.model.node_set import NodeSpec, with_nodes
from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem
from solvers.model.rule_masks import selected_mask, with_masks_of_rules
from solvers.model.rules import HeadroomRule
from solvers.rules.failover import (
    Failover,
    Loss,
    failovers,
    keeps_headroom,
    losses_of,
    over_limit,
    worst,
)

MOST_PLACED = 20_000
"""Key groups up to which the number of nodes is tried by placing all of them."""
MOST_NODES = 100_000
MARGIN = 1.02
"""Room of a reserve, as a multiple of the largest key group that it is for."""
EMPTIEST = 0.01
"""Least share of its capacity that a reserve has in the problem of a method."""


_worst: WeakKeyDictionary[Problem, dict[bytes, Failover | None]] = WeakKeyDictionary()
"""Results so far: several steps of a plan ask for the same assignment."""


def is_required(problem: Problem) -> bool:
    """Return whether headroom has to be kept: no node is dead or drains.

    After a loss the job may use its headroom.
    """
    return bool(problem.staying.all())


def worst_failover(problem: Problem, assignment: IntArray) -> Failover | None:
    """Return the loss that fills a node most under an assignment; None without the rule."""
    rule = None if problem.rules is None else problem.rules.headroom
    if rule is None:
        return None
    known = _worst.setdefault(problem, {})
    key = np.asarray(assignment, dtype=np.int64).tobytes()
    if key not in known:
        known[key] = worst(failovers(with_masks_of_rules(problem), assignment, rule))
    return known[key]


def has_headroom(problem: Problem, assignment: IntArray) -> bool:
    """Return whether an assignment keeps the headroom of its rules; true without the rule."""
    rule = None if problem.rules is None else problem.rules.headroom
    found = worst_failover(problem, assignment)
    return rule is None or found is None or keeps_headroom(rule, found.utilisation)


def restores_headroom(problem: Problem, assignment: IntArray) -> bool:
    """Return whether headroom is required, missing now, and kept by an assignment."""
    if problem.rules is None or problem.rules.headroom is None or not is_required(problem):
        return False
    return not has_headroom(problem, problem.current) and has_headroom(problem, assignment)


def breaks_headroom(problem: Problem, before: IntArray, after: IntArray) -> bool:
    """Return whether an assignment fills a node more after a loss than the rule and another one do.

    Args:
        problem: a problem, with or without a rule for headroom.
        before: the assignment that is compared with.
        after: the assignment in question.
    """
    if problem.rules is None or problem.rules.headroom is None or np.array_equal(before, after):
        return False
    if has_headroom(problem, after):
        return False
    full = [worst_failover(problem, plan) for plan in (before, after)]
    return full[0] is None or full[1] is None or full[1].utilisation > full[0].utilisation


def why_no_headroom(problem: Problem) -> str | None:
    """Return why no placement has the headroom that a rule asks for; None if no reason was found.

    A reason is a proof: loads and capacities alone, whatever the placement.
    """
    rule = None if problem.rules is None else problem.rules.headroom
    if rule is None or not is_required(problem):
        return None
    for loss in losses_of(problem, rule):
        reason = _no_room_after(problem, rule, loss)
        if reason is not None:
            return f"rule {rule.name} cannot be kept: after the loss of {loss} {reason}"
    return None


def _no_room_after(problem: Problem, rule: HeadroomRule, loss: Loss) -> str | None:
    left = problem.staying.copy()
    left[list(loss.nodes)] = False
    if not left.any():
        return f"no node is left; {_needed_text(problem, rule)}"
    room = problem.capacity[left].sum(axis=0)
    full = problem.load.sum(axis=0) / room
    r = int(np.argmax(full))
    if not keeps_headroom(rule, float(full[r])):
        return (
            f"the nodes left carry {100 * full[r]:.1f} % of their {problem.resources[r]} on "
            f"average, allowed {100 * rule.max_utilisation:g} %; {_needed_text(problem, rule)}"
        )
    return _too_large(problem, rule, left) or _bound_to_lost_nodes(problem, rule, left)


def _too_large(problem: Problem, rule: HeadroomRule, left: BoolArray) -> str | None:
    """Why a key group is too large for every node that is left."""
    alone = (problem.load / problem.capacity[left].max(axis=0)).max(axis=1)
    k = int(np.argmax(alone)) if len(alone) else 0
    if not len(alone) or keeps_headroom(rule, float(alone[k])):
        return None
    return (
        f"key group {problem.key_group_ids[k]} alone is {100 * alone[k]:.1f} % of a node, allowed "
        f"{100 * rule.max_utilisation:g} %; no number of nodes helps: split its operator into more "
        "key groups, or allow more"
    )


def _bound_to_lost_nodes(problem: Problem, rule: HeadroomRule, left: BoolArray) -> str | None:
    """Why rules for the place of key groups leave them too little room on the nodes left."""
    for place in () if problem.rules is None else problem.rules.place:
        if place.nodes is None:
            continue
        listed = np.array([name in place.nodes for name in problem.node_ids], dtype=bool) & left
        load = problem.load[selected_mask(problem, place)].sum(axis=0)
        room = problem.capacity[listed].sum(axis=0)
        for r in np.flatnonzero(load > rule.max_utilisation * (1.0 + 1e-9) * room).tolist():
            return (
                f"rule {place.name} leaves {room[r]:.4g} of {problem.resources[r]} for "
                f"{load[r]:.4g}, allowed {100 * rule.max_utilisation:g} %; list more nodes in "
                f"{place.name}, or allow more in {rule.name}"
            )
    return None


@dataclass(frozen=True, slots=True)
class NodesNeeded:
    """How many nodes a rule for headroom needs in total."""

    least: int
    """Fewer cannot carry the load, wherever key groups are."""
    found: int | None
    """A level placement on so many nodes has it. None if no number was found, or if there are too
    many key groups to try."""


def _needed_text(problem: Problem, rule: HeadroomRule) -> str:
    needed, now = nodes_needed(problem, rule), int(problem.staying.sum())
    if needed is None:
        return "no number of nodes was found that would be enough"
    least = f"it would take at least {needed.least} nodes, {needed.least - now} more than now"
    if needed.found is None or needed.found == needed.least:
        return f"{least}, spread over the racks; add them, or allow more"
    return (
        f"{least}, spread over the racks; with {needed.found} nodes a level placement has it, with "
        "fewer some of them have to be kept emptier; add nodes, or allow more"
    )


def nodes_needed(problem: Problem, rule: HeadroomRule) -> NodesNeeded | None:
    """Return how many nodes the headroom of a rule needs; None if no number is enough.

    Added nodes have the median capacity and join the rack that has least. For the level placement
    key groups are placed from scratch, the largest first on the emptiest node.
    """
    free = with_masks_of_rules(dataclasses.replace(problem, rules=None, allowed=None, pinned=None))
    now = int(free.staying.sum())
    least = _least_more(lambda more: _carries_total(_grown(free, more), rule), 0)
    if least is None:
        return None
    found = None
    if free.n_key_groups <= MOST_PLACED:
        found = _least_more(lambda more: _is_level_enough(_grown(free, more), rule), least)
    return NodesNeeded(now + least, None if found is None else now + found)


def _least_more(is_enough: Callable[[int], bool], low: int) -> int | None:
    """The least number from ``low`` on that is enough, if all larger ones are."""
    step, high = 1, low
    while not is_enough(high):
        if high > MOST_NODES:
            return None
        low, high, step = high + 1, high + step, 2 * step
    while low < high:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle + 1
    return high


def _carries_total(problem: Problem, rule: HeadroomRule) -> bool:
    """Whether the nodes that are left after each loss have the capacity for all load."""
    for loss in losses_of(problem, rule):
        left = problem.staying.copy()
        left[list(loss.nodes)] = False
        room = problem.capacity[left].sum(axis=0)
        if (problem.load.sum(axis=0) > rule.max_utilisation * room).any():
            return False
    return True


def _is_level_enough(problem: Problem, rule: HeadroomRule) -> bool:
    found = worst(failovers(problem, _from_scratch(problem), rule))
    return found is None or keeps_headroom(rule, found.utilisation)


def _grown(problem: Problem, more: int) -> Problem:
    typical = tuple(np.median(problem.capacity[problem.staying], axis=0).tolist())
    room = dict.fromkeys(problem.rack, 0.0)
    for node in np.flatnonzero(problem.staying).tolist():
        room[problem.rack[node]] += float(problem.capacity[node, 0])
    added = []
    for number in range(more):
        rack = min(room, key=lambda name: room[name])
        room[rack] += typical[0]
        added.append(NodeSpec(f"+{number}", typical, rack))
    return with_nodes(problem, added)


def _from_scratch(problem: Problem) -> IntArray:
    """The largest key group first, each on the node that is then the least full."""
    plan = problem.current.copy()
    nodes = np.flatnonzero(problem.staying)
    sums, room = np.zeros((len(nodes), problem.n_resources)), problem.capacity[nodes]
    share: FloatArray = (problem.load / problem.capacity.mean(axis=0)).max(axis=1)
    for k in np.argsort(-share, kind="stable").tolist():
        at = int(np.argmin(((sums + problem.load[k]) / room).max(axis=1)))
        sums[at] += problem.load[k]
        plan[k] = nodes[at]
    return plan


def with_reserves(problem: Problem, assignment: IntArray, factor: float) -> Problem | None:
    """Return the problem with some nodes made smaller, so that a level plan leaves room on them.

    Args:
        problem: a problem with a rule for headroom.
        assignment: a plan that does not keep it.
        factor: on the number of nodes that are needed at least.

    Returns:
        The problem for a method that levels; None if no node can be kept emptier, or none needs to.
    """
    rule = None if problem.rules is None else problem.rules.headroom
    if rule is None:
        return None
    masked = with_masks_of_rules(problem)
    failing = list(over_limit(rule, failovers(masked, assignment, rule)))
    size = max((one.largest for one in failing), default=0.0)
    capacity = problem.capacity[problem.staying].sum(axis=0)
    level = float((problem.load.sum(axis=0) / capacity).max())
    if not failing or size <= 0 or level >= rule.max_utilisation:
        return None
    count = factor * max(
        _large_ones(problem, assignment, one.loss, rule.max_utilisation - level) for one in failing
    )
    reserves = _reserve_nodes(problem, assignment, math.ceil(count))
    target = max(0.0, rule.max_utilisation - MARGIN * size)
    kept = float((problem.capacity[reserves] / capacity).max(axis=1).sum())
    others = 1.0 - kept
    level_of_others = (level - target * kept) / others if others > 0 else math.inf
    if level_of_others >= rule.max_utilisation:
        return None
    smaller = problem.capacity.copy()
    smaller[reserves] *= max(EMPTIEST, target / level_of_others)
    return dataclasses.replace(problem, capacity=smaller)


def _large_ones(problem: Problem, assignment: IntArray, loss: Loss, room: float) -> int:
    """How many key groups of a loss do not fit into the room that a level node has; at least 1."""
    share: FloatArray = (problem.load / problem.capacity.mean(axis=0)).max(axis=1)
    return max(1, int((share[np.isin(assignment, loss.nodes)] > room).sum()))


def _reserve_nodes(problem: Problem, assignment: IntArray, needed: int) -> IntArray:
    """Choose nodes of which ``needed`` are left after any loss: the emptiest of each rack in
    turn."""
    used = np.bincount(assignment, weights=problem.load.max(axis=1), minlength=problem.n_nodes)
    fill = used / problem.capacity[:, 0]
    by_rack: dict[str, list[int]] = {}
    for node in np.flatnonzero(problem.staying)[np.argsort(fill[problem.staying], kind="stable")]:
        by_rack.setdefault(problem.rack[node], []).append(int(node))
    chosen: list[int] = []
    most = int(problem.staying.sum()) // 2
    for turn in range(max(map(len, by_rack.values()), default=0)):
        for nodes in by_rack.values():
            if turn < len(nodes) and len(chosen) < most:
                chosen.append(nodes[turn])
        if len(chosen) - (turn + 1) >= needed:
            break
    return np.array(chosen, dtype=np.int64)


def headroom_text(rule: HeadroomRule, one: Failover) -> str:
    """Return in words which loss fills a node most, and how much."""
    if math.isinf(one.utilisation):
        return f"after the loss of {one.loss} a key group has no node that its rules permit"
    return (
        f"after the loss of {one.loss} the fullest node is at {100 * one.utilisation:.1f} %, "
        f"allowed {100 * rule.max_utilisation:g} %"
    )
