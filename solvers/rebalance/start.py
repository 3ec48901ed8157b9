"""The necessary moves of every plan, the check that they are possible, and the start plan.

A key group must move off a dead node (forced, without a cost) and off a node that its
``allowed_nodes`` do not list (within the budget). The start plan makes only these moves. With caps
it may need further moves (see ``caps``).
"""

from __future__ import annotations

import heapq
from weakref import WeakKeyDictionary

import numpy as np

from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.pause import move_pause_s, total_pause_s
from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem
from solvers.rebalance.caps import CapRepair

FEW_SIZES = 32
"""Number of different capacities up to which one heap per capacity is faster than a look at every
node."""

_greedy: WeakKeyDictionary[Problem, IntArray] = WeakKeyDictionary()


def misplaced_mask(problem: Problem) -> BoolArray:
    """[G]: the key group is on a live node that its allowed nodes do not list."""
    groups = np.arange(problem.n_key_groups)
    return ~problem.permits(groups, problem.current) & ~problem.dead[problem.current]


def must_move_mask(problem: Problem) -> BoolArray:
    """[G]: the key group is on a dead or a forbidden node."""
    return metrics.forced_mask(problem) | misplaced_mask(problem)


def why_infeasible(problem: Problem, budget: Budget) -> str | None:
    """Return the reason why no assignment keeps all the rules, or None if one does.

    With caps the search for an assignment is limited; the reason then says that none was found.
    """
    if not problem.staying.any():
        return "no node is alive and not draining, so nothing can be placed; add a node"
    must_move = must_move_mask(problem)
    return (
        _pinned_but_must_move(problem, must_move)
        or _nowhere_to_go(problem, must_move)
        or _budget_too_small(problem, budget)
        or _no_room_under_caps(problem, budget)
    )


def _pinned_but_must_move(problem: Problem, must_move: BoolArray) -> str | None:
    stuck = np.flatnonzero(must_move & problem.pinned_mask)
    if not len(stuck):
        return None
    k = int(stuck[0])
    node = int(problem.current[k])
    where = "which is dead" if problem.dead[node] else "which is not among its allowed nodes"
    return (
        f"{len(stuck)} pinned key group(s) cannot stay, first {problem.key_group_ids[k]!r} on "
        f"{problem.node_ids[node]!r}, {where}; unpin it"
    )


def _nowhere_to_go(problem: Problem, must_move: BoolArray) -> str | None:
    if problem.allowed is None:
        return None
    for k in np.flatnonzero(must_move & problem.allowed.restricted):
        if not len(problem.targets_of(int(k))):
            return (
                f"key group {problem.key_group_ids[k]!r} has to leave "
                f"{problem.node_ids[problem.current[k]]!r}, and none of its allowed nodes is "
                "alive and not draining; allow it another node"
            )
    return None


def _budget_too_small(problem: Problem, budget: Budget) -> str | None:
    misplaced = misplaced_mask(problem)
    needed = Cost.of(problem, misplaced)
    if needed.fits(budget):
        return None
    return (
        f"{needed.moves} key group(s) are on nodes that their allowed nodes do not list, and "
        f"moving them ({needed.bytes} bytes, {needed.pause_s:g} s of pause) is over the budget; "
        "raise the budget or allow them where they are"
    )


def _no_room_under_caps(problem: Problem, budget: Budget) -> str | None:
    """Return why the necessary moves do not fit under the caps; None if they do.

    A node that is over its cap now may stay as it is.
    """
    if problem.balanced_mask.all() or not must_move_mask(problem).any():
        return None
    plan, is_complete = _place_under_caps(problem, budget)
    over = metrics.over_cap(problem, plan)
    if not over.any():
        return None
    resource = problem.resources[int(np.flatnonzero(over.any(axis=0))[0])]
    fact = "no plan within the budget" if is_complete else "no plan was found that"
    return (
        f"{int(must_move_mask(problem).sum())} key group(s) have to move, and {fact} keeps every "
        f"node under its cap on {resource!r}; add a node, raise the capacity or the budget, or "
        "balance the resource instead of capping it"
    )


class Cost:
    """The cost of moves in each unit of the budget."""

    __slots__ = ("bytes", "moves", "pause_s")

    def __init__(self, moves: int = 0, n_bytes: int = 0, pause_s: float = 0.0) -> None:
        self.moves = moves
        self.bytes = n_bytes
        self.pause_s = pause_s

    @classmethod
    def of(cls, problem: Problem, moved: BoolArray) -> Cost:
        """Return the cost of moving these key groups."""
        return cls(
            int(moved.sum()),
            int(problem.state_bytes[moved].sum()),
            total_pause_s(problem, moved),
        )

    def fits(self, budget: Budget) -> bool:
        """Return whether the cost is within the budget."""
        return (
            (budget.moves is None or self.moves <= budget.moves)
            and (budget.bytes is None or self.bytes <= budget.bytes)
            and (budget.pause_s is None or self.pause_s <= budget.pause_s + budget.pause_slack_s)
        )


def within_budget(problem: Problem, budget: Budget, assignment: IntArray) -> bool:
    """Return whether the voluntary moves of the assignment are within the budget."""
    return Cost.of(problem, metrics.voluntary_mask(problem, assignment)).fits(budget)


def movable_mask(problem: Problem, budget: Budget) -> BoolArray:
    """[G]: a plan within the budget can move the key group."""
    movable = ~problem.pinned_mask
    affordable = np.full(problem.n_key_groups, budget.moves is None or budget.moves > 0)
    if budget.bytes is not None:
        affordable &= problem.state_bytes <= budget.bytes
    if budget.pause_s is not None:
        affordable &= move_pause_s(problem) <= budget.pause_s + budget.pause_slack_s
    return movable & (affordable | must_move_mask(problem))


def place_must_moves(problem: Problem, budget: Budget | None = None) -> IntArray:
    """Return the plan with only the necessary moves.

    The largest key group is placed first, each on the node where the load stays lowest. With caps,
    other key groups may be moved to make room.

    Args:
        problem: A problem for which ``why_infeasible`` is None.
        budget: Limits of the moves that make room; None allows none of them.
    """
    if problem.balanced_mask.all():
        return _place_greedily(problem)
    return _place_under_caps(problem, Budget(moves=0) if budget is None else budget)[0]


def _place_under_caps(problem: Problem, budget: Budget) -> tuple[IntArray, bool]:
    """Return a plan, and whether the search was complete.

    If it was, a plan that breaks a cap means that no plan keeps the caps.
    """
    greedy = _place_greedily(problem)
    if not metrics.over_cap(problem, greedy).any():
        return greedy, True
    repair = CapRepair(
        problem,
        budget,
        greedy,
        free=must_move_mask(problem),
        movable=movable_mask(problem, budget),
    )
    is_repaired = repair.run()
    return (repair.assignment if is_repaired else greedy), repair.is_complete


def _place_greedily(problem: Problem) -> IntArray:
    """Return the greedy placement, from the cache if it is there.

    The plan is cached with the problem, because ``auto`` runs several methods on it.
    """
    if problem not in _greedy:
        _greedy[problem] = _placed_greedily(problem)
    return _greedy[problem].copy()


def _placed_greedily(problem: Problem) -> IntArray:
    """Place each on the node where the weighted load stays lowest, if possible under the caps."""
    assignment = problem.current.copy()
    must_move = np.flatnonzero(must_move_mask(problem))
    if not len(must_move):
        return assignment
    shares = normalised_loads(problem)[:, problem.balanced_mask]
    room = problem.capacity / problem.capacity[problem.staying].mean(axis=0)
    room = room[:, problem.balanced_mask]
    weights = problem.weights[problem.balanced_mask]
    sums = _sums_without(problem, must_move, shares)
    caps = _CapCheck(problem, must_move)
    anywhere = np.flatnonzero(problem.staying)
    order = must_move[np.argsort(-shares[must_move].max(axis=1), kind="stable")]
    is_plain = shares.shape[1] == 1 and not caps.load.shape[1] and problem.allowed is None
    if is_plain and len(np.unique(room[anywhere])) <= FEW_SIZES:
        assignment[order] = _emptiest_nodes(shares[order, 0], room[:, 0], sums[:, 0], anywhere)
        return assignment
    for k in order:
        targets = anywhere if problem.allowed is None else problem.targets_of(int(k))
        above = (((sums[targets] + shares[k]) / room[targets] - 1.0) * weights).max(axis=1)
        target = int(targets[int(np.argmin(caps.prefer_room(above, k, targets)))])
        assignment[k] = target
        sums[target] += shares[k]
        caps.carried[target] += caps.load[k]
    return assignment


def _emptiest_nodes(
    shares: FloatArray, room: FloatArray, sums: FloatArray, targets: IntArray
) -> IntArray:
    """Return the node of each key group, one after another.

    Among nodes of one capacity only the emptiest can be the best, so a key group needs one look
    at a heap for each capacity.
    """
    heaps: list[tuple[float, list[tuple[float, int]]]] = []
    for size in np.unique(room[targets]).tolist():
        nodes = targets[room[targets] == size]
        heaps.append((size, list(zip(sums[nodes].tolist(), nodes.tolist(), strict=True))))
        heapq.heapify(heaps[-1][1])
    chosen = []
    for share in shares.tolist():
        fills = [((heap[0][0] + share) / size, heap[0][1]) for size, heap in heaps]
        heap = heaps[fills.index(min(fills))][1]
        load, node = heap[0]
        heapq.heapreplace(heap, (load + share, node))
        chosen.append(node)
    return np.array(chosen, dtype=np.int64)


class _CapCheck:
    """The load of each node in the capped resources while key groups are placed."""

    def __init__(self, problem: Problem, left_out: IntArray) -> None:
        capped = ~problem.balanced_mask
        self.load: FloatArray = problem.load[:, capped]
        self.limit: FloatArray = problem.cap_limit[:, capped] * (1 + metrics.CAP_TOLERANCE)
        self.carried = _sums_without(problem, left_out, self.load)

    def prefer_room(self, cost: FloatArray, group: int, targets: IntArray) -> FloatArray:
        """Return the costs, infinite for targets over a cap; unchanged if all are over a cap."""
        if not self.load.shape[1]:
            return cost
        fits = (self.carried[targets] + self.load[group] <= self.limit[targets]).all(axis=1)
        return np.where(fits, cost, np.inf) if fits.any() else cost


def normalised_loads(problem: Problem) -> FloatArray:
    """[G, R]: loads in units of the mean load of a staying node; 0 for unused resources."""
    mean = metrics.mean_load(problem) * problem.capacity[problem.staying].mean(axis=0)
    shares: FloatArray = np.zeros_like(problem.load)
    np.divide(problem.load, mean, out=shares, where=mean > 0)
    return shares


def _sums_without(problem: Problem, left_out: IntArray, loads: FloatArray) -> FloatArray:
    """[N, columns of loads]: the load of each node without some key groups."""
    kept = np.ones(problem.n_key_groups, dtype=bool)
    kept[left_out] = False
    sums = np.zeros((problem.n_nodes, loads.shape[1]))
    for r in range(loads.shape[1]):
        sums[:, r] = np.bincount(
            problem.current[kept], weights=loads[kept, r], minlength=problem.n_nodes
        )
    return sums
