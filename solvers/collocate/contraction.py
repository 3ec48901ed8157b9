"""Contracts a problem: sets of key groups become units that move together [ICDE17, 4.3.2, 2-3].

A unit becomes one key group with the summed load, and a tie to a node becomes its list of allowed
nodes, so any rebalance method solves the contracted problem. A move of a unit costs what the moves
of its members cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from solvers.model.budget import Budget
from solvers.model.pause import move_pause_s
from solvers.model.problem import AllowedNodes, FloatArray, IntArray, Problem
from solvers.model.traffic_graph import sum_by

STEPS_OF_BUDGET = 10**9
"""Several limits become one, in billionths of the scarcest one, rounded up to stay within it."""


@dataclass(frozen=True, eq=False, slots=True)
class Contraction:
    """A contracted problem.

    Attributes:
        problem: The problem over units.
        budget: The budget over units.
        unit_of: [key groups] Unit of each key group.
    """

    problem: Problem
    budget: Budget
    unit_of: IntArray

    def expand(self, assignment: IntArray) -> IntArray:
        """Return [key groups]: the node of each key group's unit."""
        return np.asarray(assignment[self.unit_of])


def contract(
    problem: Problem, budget: Budget, sets: Sequence[IntArray], ties: Mapping[int, int]
) -> Contraction:
    """Contract disjoint sets of key groups.

    Args:
        problem: The problem over key groups.
        budget: Its budget.
        sets: Disjoint sets; the members of each are on one node.
        ties: Node that a key group must go to.
    """
    unit_of = _units(problem, sets)
    count = int(unit_of.max(initial=-1)) + 1
    first = np.zeros(count, dtype=np.int64)
    first[unit_of[::-1]] = np.arange(problem.n_key_groups)[::-1]
    load = np.zeros((count, problem.n_resources))
    np.add.at(load, unit_of, problem.load)
    pinned = np.zeros(count, dtype=bool)
    np.logical_or.at(pinned, unit_of, problem.pinned_mask)
    cost, limit = _one_budget(problem, budget, unit_of, count)
    contracted = Problem(
        node_ids=problem.node_ids,
        resources=problem.resources,
        capacity=problem.capacity,
        node_state=problem.node_state,
        key_group_ids=tuple(problem.key_group_ids[k] for k in first.tolist()),
        operator_ids=tuple(problem.operator_ids[k] for k in first.tolist()),
        load=load,
        state_bytes=cost,
        current=problem.current[first],
        pinned=pinned,
        allowed=_allowed(problem, unit_of, count, ties),
    )
    return Contraction(contracted, limit, unit_of)


def _units(problem: Problem, sets: Sequence[IntArray]) -> IntArray:
    unit_of = np.full(problem.n_key_groups, -1, dtype=np.int64)
    for number, members in enumerate(sets):
        unit_of[members] = number
    alone = np.flatnonzero(unit_of < 0)
    unit_of[alone] = len(sets) + np.arange(len(alone))
    return unit_of


def _one_budget(
    problem: Problem, budget: Budget, unit_of: IntArray, count: int
) -> tuple[IntArray, Budget]:
    """Return the cost of moving each unit as bytes, and a budget of bytes.

    A limit of moves alone is exact. With several limits the cost of a unit is the largest share
    it takes of any of them. The sum of these is never below the largest sum of shares, so no plan
    within the new budget exceeds a limit.
    """
    size = np.bincount(unit_of, minlength=count)
    if budget.bytes is None and budget.pause_s is None:
        return size, Budget(bytes=budget.moves)
    shares = [
        _share(used, limit)
        for used, limit in (
            (size.astype(np.float64), budget.moves),
            (_summed(problem.state_bytes.astype(np.float64), unit_of, count), budget.bytes),
            (_summed(move_pause_s(problem), unit_of, count), budget.pause_s),
        )
        if limit is not None
    ]
    worst = np.minimum(np.max(shares, axis=0), 2.0)
    return np.ceil(worst * STEPS_OF_BUDGET).astype(np.int64), Budget(bytes=STEPS_OF_BUDGET)


def _summed(values: FloatArray, unit_of: IntArray, count: int) -> FloatArray:
    return sum_by(unit_of, values, count)


def _share(used: FloatArray, limit: float) -> FloatArray:
    if limit > 0:
        share: FloatArray = used / limit
        return share
    return np.where(used > 0, 2.0, 0.0)


def _allowed(
    problem: Problem, unit_of: IntArray, count: int, ties: Mapping[int, int]
) -> AllowedNodes | None:
    """Return the nodes that all members of a unit may be on; a tied unit has one node."""
    listed: dict[int, set[int]] = {}
    if problem.allowed is not None:
        for k in np.flatnonzero(problem.allowed.restricted).tolist():
            nodes = set(problem.allowed.row(k).tolist())
            unit = int(unit_of[k])
            listed[unit] = listed.get(unit, nodes) & nodes
    for k, node in ties.items():
        unit = int(unit_of[k])
        listed[unit] = listed.get(unit, {node}) & {node}
    if not listed:
        return None
    restricted = np.zeros(count, dtype=bool)
    restricted[list(listed)] = True
    lengths = [len(listed.get(unit, ())) for unit in range(count)]
    nodes_in_order = [node for unit in sorted(listed) for node in sorted(listed[unit])]
    return AllowedNodes(
        np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        np.array(nodes_in_order, dtype=np.int64),
        restricted,
    )
