"""Drain nodes over several rounds: choose them, and name the key groups that must leave now.

Draining and balancing compete under one budget and neither has priority [ICDE17, 4.1], but the
policy bounds the rounds that a drain may take. In each round enough key groups must leave so that
the rest fits into the rounds that are left. The allocation decides about all other moves.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import add, truediv

import numpy as np

from solvers.model.budget import Budget
from solvers.model.node_set import with_states
from solvers.model.pause import move_pause_s
from solvers.model.problem import DRAINING, BoolArray, FloatArray, IntArray, Problem

SLACK = 1e-9
"""Seconds of pause are sums of floats."""
LOOK_AT = 4
"""How many of the emptiest nodes are compared for each key group."""


def cost_table(problem: Problem) -> FloatArray:
    """[G, 3]: what moving each key group costs in moves, bytes and seconds."""
    return np.column_stack(
        [
            np.ones(problem.n_key_groups),
            problem.state_bytes.astype(np.float64),
            move_pause_s(problem),
        ]
    )


def limits_of(budget: Budget) -> FloatArray:
    """[3]: the budget in the same order; infinite where the budget has no limit."""
    return np.array(
        [math.inf if b is None else float(b) for b in (budget.moves, budget.bytes, budget.pause_s)]
    )


def can_leave(problem: Problem, budget: Budget) -> BoolArray:
    """[G]: is not pinned, has a node to go to, and costs no more than the budget of a round."""
    fits = (cost_table(problem) <= limits_of(budget) + SLACK).all(axis=1)
    leaves = fits & ~problem.pinned_mask
    if problem.allowed is not None:
        for k in np.flatnonzero(leaves & problem.allowed.restricted):
            leaves[k] = len(problem.targets_of(int(k))) > 0
    return leaves


def due_now(
    problem: Problem, budget: Budget, drains: Mapping[str, int], max_rounds: int
) -> IntArray:
    """Key groups that must leave draining nodes in this round.

    Each later round until a node's deadline can take as much as its budget allows. The rest is
    due now.

    Args:
        problem: the nodes now, and where key groups are.
        budget: the budget of each round.
        drains: rounds that each node has been draining before this one.
        max_rounds: rounds within which a draining node must be empty.

    Returns:
        Indices of key groups, in ascending order.
    """
    left = _rounds_left(problem, drains, max_rounds)
    on_draining = np.flatnonzero(problem.draining[problem.current] & can_leave(problem, budget))
    if not len(on_draining):
        return on_draining
    costs, limits = cost_table(problem), limits_of(budget)
    spent = costs[_misplaced(problem)].sum(axis=0)
    chosen = []
    for k in _overflow(on_draining, costs, left[problem.current], limits):
        if (spent + costs[k] <= limits + SLACK).all():
            spent = spent + costs[k]
            chosen.append(k)
    return np.array(sorted(chosen), dtype=np.int64)


def _overflow(
    groups: IntArray, costs: FloatArray, rounds_left: IntArray, limits: FloatArray
) -> list[int]:
    """Key groups that do not fit into later rounds: first fit, earliest deadline first.

    The result is exact for a budget of moves. For bytes and seconds it is first-fit decreasing. A
    drain that fitted when it was chosen therefore still fits when these key groups have left.
    """
    order = sorted(groups.tolist(), key=lambda k: (rounds_left[k], *(-costs[k]), k))
    later: list[FloatArray] = []
    now = []
    for k in order:
        for used in later[: rounds_left[k] - 1]:
            if (used + costs[k] <= limits + SLACK).all():
                used += costs[k]
                break
        else:
            if len(later) < rounds_left[k] - 1:
                later.append(costs[k].copy())
            else:
                now.append(k)
    return now


def _rounds_left(problem: Problem, drains: Mapping[str, int], max_rounds: int) -> IntArray:
    """[N]: rounds that are left to a draining node, with this one; at least 1."""
    done = [drains.get(name, 0) for name in problem.node_ids]
    return np.maximum(1, max_rounds - np.array(done, dtype=np.int64))


def _misplaced(problem: Problem) -> IntArray:
    """Key groups that must move for other reasons. The budget pays for them first."""
    groups = np.arange(problem.n_key_groups)
    out = ~problem.permits(groups, problem.current) & ~problem.dead[problem.current]
    return np.flatnonzero(out)


@dataclass(frozen=True, slots=True)
class DrainLimits:
    """The budget of a round, the rounds of a drain, and the utilisation of the other nodes."""

    budget: Budget
    max_rounds: int
    upper: float


def choose_to_drain(
    problem: Problem, candidates: Sequence[str], count: int, limits: DrainLimits
) -> tuple[tuple[str, ...], str]:
    """Choose nodes that can be drained in time and whose load the other nodes can carry.

    The nodes that are cheapest to drain come first: fewest rounds within the budget, then fewest
    bytes, then fewest key groups.

    Args:
        problem: the nodes now, and where key groups are.
        candidates: names of the nodes that may be drained.
        count: how many nodes should be drained.
        limits: the budget of a round and the bounds that the policy sets.

    Returns:
        At most ``count`` names, and the reason if there are fewer.
    """
    budget, max_rounds, upper = limits.budget, limits.max_rounds, limits.upper
    index = {name: i for i, name in enumerate(problem.node_ids)}
    leaves = can_leave(problem, budget)
    stuck = set(problem.current[~leaves].tolist())
    free = [name for name in candidates if name in index and index[name] not in stuck]
    costs, bounds = cost_table(problem), limits_of(budget)

    def price(name: str) -> tuple[float, float, float, str]:
        moves, n_bytes, pause_s = costs[problem.current == index[name]].sum(axis=0)
        rounds = _fewest_rounds(np.array([moves, n_bytes, pause_s]), bounds)
        return rounds, float(n_bytes), float(moves), name

    order = sorted(free, key=price)
    why = "" if len(free) >= count else _why_stuck(problem, leaves, candidates)
    possible, impossible = 0, min(count, len(free)) + 1
    n = impossible - 1
    # Fewer nodes are never harder to drain. A trial is expensive, so the search halves the range.
    while possible < n < impossible:
        states = dict.fromkeys(order[:n], DRAINING)
        obstacle = _obstacle(with_states(problem, states), budget, max_rounds, upper)
        if obstacle:
            impossible, why = n, obstacle
        else:
            possible = n
        n = (possible + impossible) // 2
    names = tuple(order[:possible])
    return names, why or ("" if names else "no node can be drained")


def _fewest_rounds(cost: FloatArray, limits: FloatArray) -> float:
    """A lower bound on the rounds that this cost takes within the budget."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rounds = np.where(cost > 0, cost / limits, 0.0)
    return float(np.ceil(rounds.max() - SLACK))


def _why_stuck(problem: Problem, leaves: BoolArray, candidates: Sequence[str]) -> str:
    for k in np.flatnonzero(~leaves):
        node = problem.node_ids[problem.current[k]]
        if node in candidates:
            what = "is pinned" if problem.pinned_mask[k] else "cannot leave within the budget"
            return f"key group {problem.key_group_ids[k]} on node {node} {what}"
    return "fewer nodes may go than should"


def _obstacle(problem: Problem, budget: Budget, max_rounds: int, upper: float) -> str:
    if not problem.staying.any():
        return "no node would be left"
    leaving = np.flatnonzero(problem.draining[problem.current])
    costs = cost_table(problem)
    whole_time: IntArray = np.full(problem.n_key_groups, max_rounds, dtype=np.int64)
    now = _overflow(leaving, costs, whole_time, limits_of(budget))
    if not (costs[now].sum(axis=0) <= limits_of(budget) + SLACK).all():
        return f"draining would take more than {max_rounds} rounds within the budget"
    reached = levelled(problem)
    if reached > upper:
        return f"the nodes left could not be balanced below {100 * reached:.0f} %"
    return ""


def levelled(problem: Problem) -> float:
    """Utilisation of the fullest staying node if moves cost nothing.

    Key groups are placed largest first on the emptiest node. Pins and lists of allowed nodes hold.
    The value is that of an existing plan, so the best plan is at least as good.
    """
    staying = np.flatnonzero(problem.staying)
    if not len(staying):
        return math.inf
    fixed = problem.pinned_mask | _is_restricted(problem)
    sums = np.zeros((problem.n_nodes, problem.n_resources))
    np.add.at(sums, problem.current[fixed], problem.load[fixed])
    share = problem.load / problem.capacity[staying].mean(axis=0)
    order = np.flatnonzero(~fixed)[np.argsort(-share[~fixed].max(axis=1), kind="stable")]
    # For a few numbers at a time, plain lists are ten times faster than numpy.
    used, room, load = sums.tolist(), problem.capacity.tolist(), problem.load.tolist()
    heap: list[tuple[float, int]] = [
        (max(map(truediv, used[i], room[i])), i) for i in staying.tolist()
    ]
    heapq.heapify(heap)
    for k in order.tolist():
        nearest = [heapq.heappop(heap) for _ in range(min(LOOK_AT, len(heap)))]
        after = [max(map(truediv, map(add, used[i], load[k]), room[i])) for _, i in nearest]
        best = after.index(min(after))
        i = nearest[best][1]
        used[i] = list(map(add, used[i], load[k]))
        nearest[best] = (after[best], i)
        for entry in nearest:
            heapq.heappush(heap, entry)
    return max(utilisation for utilisation, _ in heap)


def _is_restricted(problem: Problem) -> BoolArray:
    """[G]: has a list of allowed nodes and is on a staying node; it counts as fixed there."""
    if problem.allowed is None:
        return np.zeros(problem.n_key_groups, dtype=bool)
    return problem.allowed.restricted & problem.staying[problem.current]
