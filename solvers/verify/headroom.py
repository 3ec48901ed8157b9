"""Checks headroom: how full nodes would be if a node or a rack were lost.

The definition is that of docs/rules.md, applied here in plain Python to the names of the problem:
the key groups of the lost nodes go, the largest first, each to the node that is then the least
full, of those that stay and that the rules for its place permit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from solvers.verify.tolerance import is_close, is_number
from solvers.verify.violation import Violation

if TYPE_CHECKING:
    from solvers.model.problem import Problem
    from solvers.model.rules import HeadroomRule

Ints = npt.NDArray[np.int64]

HEADROOM = "rules.headroom"
"""The promise that is broken if nodes become too full. A rollback may break it."""
DECIMALS = 9
TOLERANCE = 2e-9


_fullest: WeakKeyDictionary[Problem, dict[bytes, float]] = WeakKeyDictionary()
"""Computed so far: several checks of a plan ask for the same placement."""


def check_headroom(
    problem: Problem, plan: Ints, promises: Mapping[str, Any]
) -> Iterator[Violation]:
    """The plan keeps the limit, or is no further from it than the placement without it.

    The limit is not required while a node is dead or drains.
    """
    rule = None if problem.rules is None else problem.rules.headroom
    if rule is None:
        for name in ("headroom_limit", "headroom_before", "headroom"):
            if promises.get(name) is not None:
                yield Violation(name, f"promised {promises[name]!r}, the policy has no such rule")
        return
    before, after = fullest_after_loss(problem, problem.current), fullest_after_loss(problem, plan)
    is_over = after > rule.max_utilisation * (1 + TOLERANCE)
    if is_required(problem) and is_over and after > before and not is_close(after, before):
        yield Violation(
            HEADROOM,
            f"{rule.name}: the fullest node after a loss is at {100 * after:.6g} %, allowed "
            f"{100 * rule.max_utilisation:g} %, and without the plan {100 * before:.6g} %",
        )
    found = {
        "headroom_limit": 100 * rule.max_utilisation,
        "headroom_before": 100 * before,
        "headroom": 100 * after,
    }
    for name, actual in found.items():
        if name in promises and not _is_kept(promises[name], actual):
            yield Violation(name, f"promised {promises[name]!r}, is {actual:.9g}")


def restores_headroom(problem: Problem, plan: Ints) -> bool:
    """Whether the limit is broken without the plan and kept with it, and required."""
    rule = None if problem.rules is None else problem.rules.headroom
    if rule is None or not is_required(problem):
        return False
    limit = rule.max_utilisation * (1 + TOLERANCE)
    if fullest_after_loss(problem, problem.current) <= limit:
        return False
    return fullest_after_loss(problem, plan) <= limit


def is_required(problem: Problem) -> bool:
    """Whether no node is dead or drains."""
    return all(state == "alive" for state in problem.node_state)


def fullest_after_loss(problem: Problem, plan: Ints) -> float:
    """Utilisation of the fullest node after the worst loss; infinite if a key group has no node."""
    rule = None if problem.rules is None else problem.rules.headroom
    if rule is None:
        return 0.0
    known = _fullest.setdefault(problem, {})
    key = np.asarray(plan, dtype=np.int64).tobytes()
    if key not in known:
        members: dict[int, list[int]] = {}
        for k, node in enumerate(plan.tolist()):
            members.setdefault(node, []).append(k)
        survey = _Survey(problem, members)
        known[key] = max((survey.fullest(lost) for lost in _losses(problem, rule)), default=0.0)
    return known[key]


def _losses(problem: Problem, rule: HeadroomRule) -> Iterator[set[int]]:
    live = [i for i, state in enumerate(problem.node_state) if state != "dead"]
    if "node" in rule.loss_of:
        yield from ({i} for i in live)
    if "rack" in rule.loss_of:
        for rack in sorted({problem.rack[i] for i in live}):
            yield {i for i in live if problem.rack[i] == rack}


class _Survey:
    """The loads of nodes and key groups under a plan, to try losses on."""

    def __init__(self, problem: Problem, members: Mapping[int, list[int]]) -> None:
        self.problem, self.members = problem, members
        self.capacity = problem.capacity
        mean = problem.capacity.mean(axis=0)
        self.size = [round(max(row), DECIMALS) for row in (problem.load / mean).tolist()]
        self.sums = np.zeros_like(problem.capacity)
        for node, groups in members.items():
            for k in groups:
                self.sums[node] += problem.load[k]
        self.permitted: dict[int, Ints] = {}

    def fullest(self, lost: set[int]) -> float:
        """Utilisation of the fullest node after a loss."""
        state = self.problem.node_state
        takers = np.array([s == "alive" and i not in lost for i, s in enumerate(state)])
        left = [i for i, s in enumerate(state) if s != "dead" and i not in lost]
        sums = self.sums.copy()
        groups = [k for node in lost for k in self.members.get(node, ())]
        for k in sorted(groups, key=lambda k: (-self.size[k], k)):
            nodes = np.flatnonzero(takers & self._permits(k))
            if not len(nodes):
                return math.inf
            filled = ((sums[nodes] + self.problem.load[k]) / self.capacity[nodes]).max(axis=1)
            sums[nodes[int(np.round(filled, DECIMALS).argmin())]] += self.problem.load[k]
        if not left:
            return math.inf
        return float((sums[left] / self.capacity[left]).max())

    def _permits(self, k: int) -> npt.NDArray[np.bool_]:
        """[N]: every rule for the place of the key group lists the node."""
        problem = self.problem
        listed = np.ones(len(problem.node_ids), dtype=bool)
        for rule in () if problem.rules is None else problem.rules.place:
            name, operator = problem.key_group_ids[k], problem.operator_ids[k]
            if rule.nodes is not None and (name in rule.key_groups or operator in rule.operators):
                listed &= np.array([node in rule.nodes for node in problem.node_ids])
        return listed


def _is_kept(promised: Any, actual: float) -> bool:
    if math.isinf(actual):
        return promised is None
    return is_number(promised) and is_close(float(promised), actual)
