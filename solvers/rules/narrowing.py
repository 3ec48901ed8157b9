"""Narrows the masks of a problem until every assignment within them keeps all of its rules.

A rule that key groups share no node or rack, and a limit on the moves of an operator, are about
several key groups at once, and no method knows them. Each member of an ``apart`` rule gets nodes of
its own that no other member may be on. Of an operator with a limit on moves, only as many key
groups may move as the limit allows. Every method, and every later step that undoes some moves, then
keeps these rules as well.

A guide, the plan that a search found without them, decides which nodes and which key groups.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from solvers.model import metrics
from solvers.model.problem import AllowedNodes, BoolArray, FloatArray, IntArray, Problem
from solvers.model.rules import ApartRule, MoveLimit
from solvers.rules.rule_text import must_move_by_rules

TINY = 1e-9
STEPS = 20_000
"""Trials of the search for nodes that keep members apart."""


@dataclass(frozen=True, eq=False, slots=True)
class NarrowedProblem:
    """A problem whose masks keep all rules, or the reason why there is none."""

    problem: Problem
    reason: str | None = None


def narrowed(problem: Problem, guide: IntArray, seed: int = 0) -> NarrowedProblem:
    """Narrow the masks of a problem until they keep all of its rules.

    Args:
        problem: a problem with rules.
        guide: a plan that may break them; the masks permit as much of it as the rules do.
        seed: for the nodes that neither guide nor current placement decide on.

    Returns:
        The problem with narrower masks, or the problem as it is and the reason.
    """
    rules = problem.rules
    if rules is None:
        return NarrowedProblem(problem)
    apart = problem
    if rules.apart:
        separation = _Separation(problem, rules.apart, guide)
        if not separation.anchor():
            return NarrowedProblem(problem, separation.reason())
        separation.share_out(np.random.default_rng(seed))
        apart = separation.with_masks()
    return _with_limited_moves(apart, rules.move_limits, guide)


def within_move_limits(problem: Problem, key_groups: IntArray) -> IntArray:
    """Return those of the key groups, in their order, that the limits on moves let move at once.

    Key groups that a rule forces to move count first, and are not returned.
    """
    rules = problem.rules
    if rules is None or not rules.move_limits:
        return key_groups
    operators, must = np.array(problem.operator_ids), must_move_by_rules(problem)
    kept = np.ones(len(key_groups), dtype=bool)
    for limit in rules.move_limits:
        for operator in sorted(limit.operators):
            of = np.flatnonzero(operators == operator)
            first = of[must[of]]
            wanted = np.concatenate((first, key_groups[operators[key_groups] == operator]))
            chosen = _within(problem, wanted, most_moves(limit, len(of)), limit.bytes, must)
            kept &= (operators[key_groups] != operator) | np.isin(key_groups, chosen)
    return key_groups[kept]


def is_within_masks(problem: Problem, assignment: IntArray) -> bool:
    """Return whether an assignment keeps the pins and the allowed nodes of a problem."""
    every = np.arange(problem.n_key_groups)
    stays = ~problem.pinned_mask | (assignment == problem.current)
    return bool((problem.permits(every, assignment) & stays).all())


class _Separation:
    """Chooses nodes for the members of ``apart`` rules: members in conflict have no node in
    common."""

    def __init__(self, problem: Problem, rules: Sequence[ApartRule], guide: IntArray) -> None:
        self.problem, self.rules, self.guide = problem, rules, guide
        index = {name: k for k, name in enumerate(problem.key_group_ids)}
        racks = {name: number for number, name in enumerate(dict.fromkeys(problem.rack))}
        self.rack_of = [racks[name] for name in problem.rack]
        self.nodes_of: dict[int, set[int]] = {}
        self.racks_of: dict[int, set[int]] = {}
        self.not_on_node: dict[int, set[int]] = {}
        self.not_on_rack: dict[int, set[int]] = {}
        for rule in rules:
            of_rule = self.not_on_rack if rule.is_on_racks else self.not_on_node
            members = [index[name] for name in rule.key_groups if name in index]
            for k in members:
                self.nodes_of.setdefault(k, set())
                self.racks_of.setdefault(k, set())
                of_rule.setdefault(k, set()).update(m for m in members if m != k)
        # The member with most state keeps its node; pinned ones have no other.
        self.members = sorted(
            self.nodes_of,
            key=lambda k: (not problem.pinned_mask[k], -int(problem.state_bytes[k]), k),
        )
        self.failed: int | None = None

    def anchor(self) -> bool:
        """Give each member one node, its own where possible; False if none was found for all."""
        candidates = {k: list(self._candidates(k)) for k in self.members}
        self.members.sort(key=lambda k: len(candidates[k]) > 1)
        at = [0] * len(self.members)
        depth = steps = 0
        while depth < len(self.members):
            k, steps = self.members[depth], steps + 1
            tried = range(at[depth], len(candidates[k]))
            found = next((i for i in tried if self._fits(k, candidates[k][i])), None)
            if found is not None:
                at[depth] = found + 1
                self._give(k, candidates[k][found])
                depth += 1
                continue
            self.failed = k if self.failed is None else self.failed
            if depth == 0 or steps > STEPS:
                return False
            at[depth] = 0
            depth -= 1
            self._clear(self.members[depth])
        return True

    def share_out(self, random: np.random.Generator) -> None:
        """Give the node of the guide, and then all others, to members that may have them."""
        for k in self.members:
            node = int(self.guide[k])
            if self._may_go(k, node) and self._fits(k, node):
                self._give(k, node)
        for node in random.permutation(np.flatnonzero(self.problem.staying)).tolist():
            for k in random.permutation(self.members).tolist():
                if self._may_go(k, node) and self._fits(k, node):
                    self._give(k, node)

    def with_masks(self) -> Problem:
        """The problem in which members are allowed only on the nodes that they were given."""
        allowed = self.problem.allowed
        groups = self.problem.n_key_groups
        restricted = (
            np.zeros(groups, dtype=bool) if allowed is None else np.array(allowed.restricted)
        )
        rows = [_NONE if allowed is None else allowed.row(k) for k in range(groups)]
        for k, nodes in self.nodes_of.items():
            restricted[k], rows[k] = True, np.array(sorted(nodes), dtype=np.int64)
        indptr = np.concatenate(([0], np.cumsum([len(row) for row in rows])))
        narrow = AllowedNodes(indptr, np.concatenate(rows), restricted)
        return dataclasses.replace(self.problem, allowed=narrow)

    def reason(self) -> str:
        """Why no nodes were found."""
        k = 0 if self.failed is None else self.failed
        names = [r.name for r in self.rules if self.problem.key_group_ids[k] in r.key_groups]
        return (
            f"no nodes were found that keep the key groups of {' and '.join(names)} apart, first "
            f"{self.problem.key_group_ids[k]}: of the nodes that stay and that other rules permit "
            "there are too few; add a node or a rack, or take a key group out of a rule"
        )

    def _candidates(self, k: int) -> Iterator[int]:
        problem, here = self.problem, int(self.problem.current[k])
        if self._may_stay(k):
            yield here
        if problem.pinned_mask[k]:
            return
        wanted = int(self.guide[k])
        others = problem.targets_of(k)
        if wanted != here and wanted in others:
            yield wanted
        load = metrics.node_loads(problem, self.guide).max(axis=1)[others]
        for node in others[np.argsort(load, kind="stable")].tolist():
            if node not in (here, wanted):
                yield node

    def _may_stay(self, k: int) -> bool:
        here = self.problem.current[k : k + 1]
        return not self.problem.dead[here[0]] and bool(self.problem.permits(np.array([k]), here)[0])

    def _may_go(self, k: int, node: int) -> bool:
        if node == self.problem.current[k]:
            return self._may_stay(k)
        return (
            not self.problem.pinned_mask[k]
            and bool(self.problem.staying[node])
            and bool(self.problem.permits(np.array([k]), np.array([node]))[0])
        )

    def _fits(self, k: int, node: int) -> bool:
        """Whether no member in conflict with k has the node, or a node of its rack."""
        if any(node in self.nodes_of[other] for other in self.not_on_node.get(k, ())):
            return False
        rack = self.rack_of[node]
        return all(rack not in self.racks_of[other] for other in self.not_on_rack.get(k, ()))

    def _give(self, k: int, node: int) -> None:
        self.nodes_of[k].add(node)
        self.racks_of[k].add(self.rack_of[node])

    def _clear(self, k: int) -> None:
        self.nodes_of[k].clear()
        self.racks_of[k].clear()


_NONE: IntArray = np.zeros(0, dtype=np.int64)


def _with_limited_moves(
    problem: Problem, limits: Sequence[MoveLimit], guide: IntArray
) -> NarrowedProblem:
    """Pin key groups of operators with a limit, until those left cannot exceed it."""
    if not limits:
        return NarrowedProblem(problem)
    pinned = np.array(problem.pinned_mask)
    operators = np.array(problem.operator_ids)
    order = _by_use(problem, guide)
    must = must_move_by_rules(problem)
    for limit in limits:
        for operator in sorted(limit.operators):
            groups = order[operators[order] == operator]
            most = most_moves(limit, len(groups))
            groups = groups[~problem.dead[problem.current[groups]] & ~problem.pinned_mask[groups]]
            chosen = _within(problem, groups, most, limit.bytes, must)
            over = np.setdiff1d(groups[must[groups]], chosen)
            if len(over):
                return NarrowedProblem(problem, _over_limit(problem, limit, operator, over))
            pinned[np.setdiff1d(groups, chosen)] = True
    return NarrowedProblem(dataclasses.replace(problem, pinned=pinned))


def _by_use(problem: Problem, guide: IntArray) -> IntArray:
    """Sort key groups: first those that must move, then those that the guide moves, then by
    deviation."""
    deviation = metrics.weighted_deviation(problem, problem.current).max(axis=1)
    share: FloatArray = np.asarray((problem.load / problem.capacity.mean(axis=0)).max(axis=1))
    is_moved: BoolArray = guide != problem.current
    must = must_move_by_rules(problem)
    return np.lexsort((-share, -deviation[problem.current], ~is_moved, ~must))


def most_moves(limit: MoveLimit, key_groups: int) -> int:
    """Return how many of its key groups an operator with this number of them may move."""
    most = key_groups if limit.moves is None else limit.moves
    return most if limit.share is None else min(most, math.floor(limit.share * key_groups + TINY))


def _within(
    problem: Problem, groups: IntArray, most: int, most_bytes: int | None, must: BoolArray
) -> IntArray:
    """Return as many of the first key groups as keep the limit; those that must move come first."""
    room = math.inf if most_bytes is None else most_bytes
    chosen: list[int] = []
    for k in groups.tolist():
        n_bytes = int(problem.state_bytes[k])
        if len(chosen) < most and n_bytes <= room:
            chosen.append(k)
            room -= n_bytes
        elif must[k]:
            break
    return np.array(chosen, dtype=np.int64)


def _over_limit(problem: Problem, limit: MoveLimit, operator: str, over: IntArray) -> str:
    names: Mapping[int, str] = dict(enumerate(problem.key_group_ids))
    return (
        f"rule {limit.name} lets too few key groups of {operator} move at once: other rules make "
        f"{len(over)} more leave their nodes, first {names[int(over[0])]}; raise the limit, or "
        "permit them where they are"
    )
