"""Draining nodes over several rounds: which may go, and what must leave them in this round.

Drain and balance compete under one budget and neither has priority [ICDE17, 4.1], but a policy
bounds the rounds that a drain may take. Enough has to leave in each round for the rest to fit
into the rounds that are left; everything beyond that is the allocation's own choice.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from operator import add, truediv

import numpy as np

from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.node_set import with_states
from solvers.model.problem import DRAINING, BoolArray, FloatArray, IntArray, Problem

SLACK = 1e-9
"""Seconds of pause are sums of floats."""
LOOK_AT = 4
"""Of the emptiest nodes, how many are compared for each key group."""


def cost_table(problem: Problem) -> FloatArray:
    """[G, 3]: what moving each key group costs in moves, bytes and seconds."""
    return np.column_stack(
        [
            np.ones(problem.n_key_groups),
            problem.state_bytes.astype(np.float64),
            metrics.move_pause_s(problem),
        ]
    )


def limits_of(budget: Budget) -> FloatArray:
    """[3]: the budget in the same order; infinite where nothing limits."""
    return np.array(
        [math.inf if b is None else float(b) for b in (budget.moves, budget.bytes, budget.pause_s)]
    )


def can_leave(problem: Problem, budget: Budget) -> BoolArray:
    """[G]: not pinned, with somewhere to go, and no larger than a whole round's budget."""
    fits = (cost_table(problem) <= limits_of(budget) + SLACK).all(axis=1)
    leaves = fits & ~problem.pinned_mask
    if problem.allowed is not None:
        for k in np.flatnonzero(leaves & problem.allowed.restricted):
            leaves[k] = len(problem.targets_of(int(k))) > 0
    return leaves


def due_now(
    problem: Problem, budget: Budget, drains: Mapping[str, int], max_rounds: int
) -> IntArray:
    """Key groups that have to leave draining nodes in this round, earliest deadline first.

    ``drains`` has the rounds that each node has been draining before this one. The rounds after
    this one can take their budgets' worth until each deadline; the rest is due now.
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
    """What does not fit into the rounds after this one: first fit, earliest deadline first.

    Exact for a budget of moves. For bytes and seconds it is first-fit decreasing, so a drain that
    was found to fit still does when the key groups named here have left.
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
    """[N]: rounds that a draining node still has, this one included; at least this one."""
    done = [drains.get(name, 0) for name in problem.node_ids]
    return np.maximum(1, max_rounds - np.array(done, dtype=np.int64))


def _misplaced(problem: Problem) -> IntArray:
    """Key groups that have to move anyway, and take their part of the budget first."""
    groups = np.arange(problem.n_key_groups)
    out = ~problem.permits(groups, problem.current) & ~problem.dead[problem.current]
    return np.flatnonzero(out)


def choose_to_drain(
    problem: Problem,
    candidates: Sequence[str],
    count: int,
    budget: Budget,
    *,
    max_rounds: int,
    upper: float,
) -> tuple[tuple[str, ...], str]:
    """Up to ``count`` nodes that can be drained in time and whose load the others can carry.

    The cheapest to drain first: rounds that the budget makes necessary, then bytes, then key
    groups. Fewer, or none, with the reason.
    """
    index = {name: i for i, name in enumerate(problem.node_ids)}
    leaves = can_leave(problem, budget)
    stuck = set(problem.current[~leaves].tolist())
    free = [name for name in candidates if name in index and index[name] not in stuck]
    costs, limits = cost_table(problem), limits_of(budget)

    def price(name: str) -> tuple[float, float, float, str]:
        moves, n_bytes, pause_s = costs[problem.current == index[name]].sum(axis=0)
        rounds = _fewest_rounds(np.array([moves, n_bytes, pause_s]), limits)
        return rounds, float(n_bytes), float(moves), name

    order = sorted(free, key=price)
    why = "" if len(free) >= count else _why_stuck(problem, leaves, candidates)
    possible, impossible = 0, min(count, len(free)) + 1
    n = impossible - 1
    # Fewer nodes are never harder to let go; each trial levels the whole load, so halve.
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
    """Rounds below which so much cannot be done within the budget, whatever fits into each."""
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
    """The fullest staying node's utilisation if moves cost nothing: largest first, emptiest node.

    A plan that exists, so never better than what could be reached; pins and allowed nodes kept.
    """
    staying = np.flatnonzero(problem.staying)
    if not len(staying):
        return math.inf
    fixed = problem.pinned_mask | _is_restricted(problem)
    sums = np.zeros((problem.n_nodes, problem.n_resources))
    np.add.at(sums, problem.current[fixed], problem.load[fixed])
    share = problem.load / problem.capacity[staying].mean(axis=0)
    order = np.flatnonzero(~fixed)[np.argsort(-share[~fixed].max(axis=1), kind="stable")]
    # Plain lists: a few numbers at a time are ten times faster without numpy.
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
    """[G]: has a list of nodes, and is taken to stay where it is (on a node that stays)."""
    if problem.allowed is None:
        return np.zeros(problem.n_key_groups, dtype=bool)
    return problem.allowed.restricted & problem.staying[problem.current]
