"""Checks the node changes of a plan, and builds the problem with the changed nodes.

Like ``solvers.verify.assignment`` it shares no code with any solver: it takes the measured problem
and the plan's rows, and imports only the types of the problem from ``solvers``.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ballast.contracts.records import ScalingRow
from solvers.model.problem import AllowedNodes, Problem
from solvers.verify.violation import Violation

IN_PROBLEM = ("keep", "drain", "remove")
OUTSIDE = ("add", "spare")


@dataclass(frozen=True)
class Spare:
    """A node of the policy that is not in use: capacity in the problem's order, and rack."""

    capacity: tuple[float, ...]
    rack: str


@dataclass(frozen=True)
class ScalingRules:
    """Limits of the policy on node changes."""

    spares: Mapping[str, Spare]
    clusters: Mapping[str, str]
    """Cluster of each node of the policy."""
    draining: frozenset[str] = frozenset()
    """Nodes that the policy drains."""
    min_nodes: int = 1
    max_nodes: int | None = None
    key_groups: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Key groups of each operator."""
    sizes: Mapping[str, int] | None = None
    """Instances of each operator now, if plans say how many there are."""


def scaling_violations(
    problem: Problem, rules: ScalingRules, rows: Sequence[ScalingRow]
) -> list[Violation]:
    """Return every rule that the rows of plans.scaling break."""
    twice = [n for n, c in Counter((r.subject, r.subject_id) for r in rows).items() if c > 1]
    if twice:
        return [Violation("scaling.exactly_once", f"more than once: {twice[:3]}")]
    actions = {row.subject_id: row.action for row in rows if row.subject == "node"}
    broken = list(_check_names(problem, rules, actions))
    if broken:
        return broken
    return [
        *_check_states(problem, rules, actions),
        *_check_counts(problem, rules, actions, rows),
        *_check_due(problem, actions, rows),
        *_check_operators(rules, rows),
    ]


def scaled_problem(problem: Problem, rules: ScalingRules, rows: Sequence[ScalingRow]) -> Problem:
    """Return the problem with the nodes under the plan; the plan's figures are computed on it.

    Key groups that must leave draining nodes in this round are allowed only on nodes that stay.
    """
    actions = {row.subject_id: row.action for row in rows if row.subject == "node"}
    kept = [i for i, name in enumerate(problem.node_ids) if actions[name] != "remove"]
    added = [name for name, action in actions.items() if action == "add"]
    names = (*(problem.node_ids[i] for i in kept), *added)
    place = {name: i for i, name in enumerate(names)}
    state = (*(_state(problem, i, actions) for i in kept), *("alive" for _ in added))
    capacity = [*problem.capacity[kept].tolist(), *(rules.spares[n].capacity for n in added)]
    return dataclasses.replace(
        problem,
        node_ids=names,
        node_state=state,
        capacity=np.array(capacity, dtype=np.float64),
        rack=(*(problem.rack[i] for i in kept), *(rules.spares[n].rack for n in added)),
        current=np.array([place[problem.node_ids[i]] for i in problem.current.tolist()]),
        allowed=_allowed(problem, state, _due(rows)),
    )


def _state(problem: Problem, node: int, actions: Mapping[str, str]) -> str:
    if problem.node_state[node] == "dead":
        return "dead"
    return "draining" if actions[problem.node_ids[node]] == "drain" else "alive"


def _due(rows: Sequence[ScalingRow]) -> set[str]:
    return {name for row in rows for name in row.due or ()}


def _allowed(problem: Problem, state: Sequence[str], due: set[str]) -> AllowedNodes | None:
    if not due:
        return None
    staying = [i for i, of in enumerate(state) if of == "alive"]
    restricted = np.array([name in due for name in problem.key_group_ids])
    lengths = np.where(restricted, len(staying), 0)
    nodes = np.tile(np.array(staying, dtype=np.int64), int(restricted.sum()))
    return AllowedNodes(np.concatenate(([0], np.cumsum(lengths))), nodes, restricted)


def _check_names(
    problem: Problem, rules: ScalingRules, actions: Mapping[str, str]
) -> Iterator[Violation]:
    """Every node in use has an action; other nodes are spare nodes that are added or stay spare."""
    for name in problem.node_ids:
        if actions.get(name) not in IN_PROBLEM:
            action = actions.get(name, "none")
            yield Violation(
                "scaling.nodes", f"node {name!r} is in use; action in the plan: {action}"
            )
    for name, action in actions.items():
        if name in problem.node_ids:
            continue
        if action not in OUTSIDE:
            yield Violation(
                "scaling.nodes", f"node {name!r} is not in use; action in the plan: {action}"
            )
        elif action == "add" and name not in rules.spares:
            yield Violation("scaling.spares", f"node {name!r} is added, but is not a spare node")


def _check_states(
    problem: Problem, rules: ScalingRules, actions: Mapping[str, str]
) -> Iterator[Violation]:
    occupied = {problem.node_ids[i] for i in np.unique(problem.current).tolist()}
    for name, was in zip(problem.node_ids, problem.node_state, strict=True):
        action = actions[name]
        if action == "remove" and name in occupied:
            yield Violation("scaling.remove", f"node {name!r} is removed, but has key groups")
        if action == "remove" and was != "draining":
            yield Violation("scaling.remove", f"node {name!r} is removed, but was {was}")
        if action == "keep" and name in rules.draining and was != "dead":
            yield Violation("scaling.keep", f"node {name!r} is kept, but the policy drains it")
        if action == "drain" and was == "dead":
            yield Violation("scaling.drain", f"node {name!r} is drained, but is dead")


def _check_counts(
    problem: Problem, rules: ScalingRules, actions: Mapping[str, str], rows: Sequence[ScalingRow]
) -> Iterator[Violation]:
    """The numbers of nodes keep the limits; a count outside of the limits may not get worse."""
    state = dict(zip(problem.node_ids, problem.node_state, strict=True))
    before = Counter(rules.clusters[name] for name, of in state.items() if of == "alive")
    after = Counter(
        rules.clusters[name]
        for name, action in actions.items()
        if action in ("add", "keep") and state.get(name, "alive") != "dead"
    )
    names = {rules.clusters[name] for name in state} | after.keys()
    for name in sorted(names):
        if after[name] < min(rules.min_nodes, before[name]):
            least = rules.min_nodes
            yield Violation("scaling.min_nodes", f"{after[name]} nodes in {name}, least {least}")
    most = rules.max_nodes
    if most is not None and after.total() > max(most, before.total()):
        yield Violation("scaling.max_nodes", f"{after.total()} nodes, allowed {most}")
    clusters = {row.subject_id: row for row in rows if row.subject == "cluster"}
    for name in sorted(names | clusters.keys()):
        row = clusters.get(name)
        if row is None or (row.before, row.wanted) != (before[name], after[name]):
            promised = "nothing" if row is None else f"{row.before} to {row.wanted}"
            actual = f"{before[name]} to {after[name]}"
            yield Violation("scaling.clusters", f"{name}: promised {promised}, is {actual}")
        elif row.action != _direction(after[name] - before[name]):
            yield Violation("scaling.clusters", f"{name}: wrong action {row.action}")


def _direction(change: int) -> str:
    return "out" if change > 0 else "in" if change < 0 else "hold"


def _check_due(
    problem: Problem, actions: Mapping[str, str], rows: Sequence[ScalingRow]
) -> Iterator[Violation]:
    """Only key groups on draining nodes may be due, because these may worsen the balance."""
    node_of = dict(zip(problem.key_group_ids, problem.current.tolist(), strict=True))
    for name in sorted(_due(rows)):
        node = node_of.get(name)
        if node is None or actions[problem.node_ids[node]] != "drain":
            yield Violation("scaling.due", f"key group {name!r} is due, but on no draining node")


def _check_operators(rules: ScalingRules, rows: Sequence[ScalingRow]) -> Iterator[Violation]:
    if rules.sizes is not None:
        yield from _check_sizes(rules.sizes, rows)
    for row in rows:
        if row.subject != "operator":
            continue
        most = rules.key_groups.get(row.subject_id, 0)
        if row.wanted is None or not 1 <= row.wanted <= most:
            yield Violation(
                "scaling.operators",
                f"operator {row.subject_id!r} in {row.wanted} instances, allowed 1 to {most}",
            )


def _check_sizes(sizes: Mapping[str, int], rows: Sequence[ScalingRow]) -> Iterator[Violation]:
    """Every operator has a size, and the one before is that of today."""
    found = {row.subject_id: row for row in rows if row.subject == "operator"}
    for name in sorted(sizes.keys() ^ found.keys()):
        problem = "has no size" if name in sizes else "is unknown to the job"
        yield Violation("scaling.operators", f"operator {name!r} {problem}")
    for name in sorted(sizes.keys() & found.keys()):
        before = found[name].before
        if before is not None and before != sizes[name]:
            text = f"operator {name!r}: {before} instances before the plan, are {sizes[name]}"
            yield Violation("scaling.operators", text)
