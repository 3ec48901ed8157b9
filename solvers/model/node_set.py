"""A copy of a rebalance problem with nodes added, removed or in another state."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.model.problem import ALIVE, AllowedNodes, BoolArray, IntArray, Problem
from solvers.model.rule_masks import with_masks_of_rules


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node that can be added, with its capacity in the order of the problem's resources."""

    node_id: str
    capacity: tuple[float, ...]
    rack: str = ""
    cluster: str = ""


def without_nodes(problem: Problem, leaving: Collection[str]) -> Problem:
    """Return the problem without these nodes.

    Raises:
        InvalidInput: A key group is on one of them.
    """
    stays = np.array([name not in leaving for name in problem.node_ids])
    if stays.all():
        return problem
    left = np.flatnonzero(~stays[problem.current])
    if len(left):
        k = int(left[0])
        raise InvalidInput(
            f"node {problem.node_ids[problem.current[k]]!r} still has key group "
            f"{problem.key_group_ids[k]!r}",
            remedy="drain a node before it is ended",
        )
    new_index = np.cumsum(stays) - 1
    return dataclasses.replace(
        problem,
        node_ids=_kept(problem.node_ids, stays),
        capacity=problem.capacity[stays],
        node_state=_kept(problem.node_state, stays),
        rack=_kept(problem.rack, stays),
        current=new_index[problem.current],
        allowed=_renumbered(problem.allowed, stays, new_index),
    )


def with_nodes(problem: Problem, added: Sequence[NodeSpec]) -> Problem:
    """Return the problem with these nodes, alive and empty.

    Key groups with a list of allowed nodes keep their list; a rule may list the nodes too.
    """
    if not added:
        return problem
    more = dataclasses.replace(
        problem,
        node_ids=(*problem.node_ids, *(n.node_id for n in added)),
        capacity=np.vstack([problem.capacity, [n.capacity for n in added]]),
        node_state=(*problem.node_state, *(ALIVE for _ in added)),
        rack=(*problem.rack, *(n.rack for n in added)),
    )
    return with_masks_of_rules(more)


def with_states(problem: Problem, states: Mapping[str, str]) -> Problem:
    """Return the problem with some nodes in another state."""
    if not states:
        return problem
    new = tuple(
        states.get(name, state)
        for name, state in zip(problem.node_ids, problem.node_state, strict=True)
    )
    return with_masks_of_rules(dataclasses.replace(problem, node_state=new))


def that_must_move(problem: Problem, key_groups: IntArray) -> Problem:
    """Return the problem in which these key groups are allowed only on nodes that stay.

    Every method moves a key group off a node that its list does not name (docs/solvers.md), so
    these key groups leave draining nodes, within the budget.
    """
    if not len(key_groups):
        return problem
    chosen = set(key_groups.tolist())
    restricted = np.zeros(problem.n_key_groups, dtype=bool)
    restricted[key_groups] = True
    if problem.allowed is not None:
        restricted |= problem.allowed.restricted
    rows: list[IntArray] = [
        problem.targets_of(k)
        if k in chosen
        else (problem.allowed.row(k) if problem.allowed is not None else _NONE)
        for k in range(problem.n_key_groups)
    ]
    indptr = np.concatenate(([0], np.cumsum([len(row) for row in rows])))
    return dataclasses.replace(
        problem, allowed=AllowedNodes(indptr, np.concatenate(rows), restricted)
    )


_NONE: IntArray = np.zeros(0, dtype=np.int64)


def _kept(values: Sequence[str], stays: BoolArray) -> tuple[str, ...]:
    return tuple(v for v, keep in zip(values, stays, strict=True) if keep)


def _renumbered(
    allowed: AllowedNodes | None, stays: BoolArray, new_index: IntArray
) -> AllowedNodes | None:
    if allowed is None:
        return None
    keep = stays[allowed.nodes]
    owner = np.repeat(np.arange(len(allowed.restricted)), np.diff(allowed.indptr))
    counts = np.bincount(owner[keep], minlength=len(allowed.restricted))
    return AllowedNodes(
        np.concatenate(([0], np.cumsum(counts))),
        new_index[allowed.nodes[keep]],
        allowed.restricted.copy(),
    )
