"""Makes the flat arrays of the search from a rebalance problem, and an assignment from them.

Nodes are sorted by their key groups and not by their index, so that the result does not depend on
the names of nodes. Loads are divided by the mean and multiplied by the weight of the resource, so
deviations are in units of load distance. A factor on all loads changes only the rounding, and a
power of two changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.pause import move_pause_s
from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem
from solvers.rebalance.kernels.arrays import NOWHERE, FixedArrays, PlanArrays
from solvers.rebalance.start import Cost, movable_mask, must_move_mask

SPARE = 16
"""Free slots of a node above its even share of the items. A full node receives no item."""


@dataclass(frozen=True, eq=False, slots=True)
class Layout:
    """The items and the nodes of a search, in the order that the loops use."""

    current: IntArray  # [G]: the node index of each key group today
    groups: IntArray  # [K]: the key group of each item
    nodes: IntArray  # [N]: the node index of the problem
    rank: IntArray  # [N]: position in ``nodes`` of each node index
    base: FloatArray  # [N, R]: load of the key groups that can never move
    fixed: FixedArrays

    @classmethod
    def of(cls, problem: Problem, budget: Budget) -> Layout:
        """Arrange the key groups that a plan within the budget can move."""
        nodes = _own_order(problem)
        rank = np.empty_like(nodes)
        rank[nodes] = np.arange(len(nodes))
        groups = np.flatnonzero(movable_mask(problem, budget))
        used, units = _columns(problem)
        load = np.ascontiguousarray(problem.load[:, used] * units)
        must_move = must_move_mask(problem)[groups]
        home = np.where(must_move, NOWHERE, rank[problem.current[groups]])
        # Sorted by home, and within it by load. Items that have to move come last.
        first_load = load[groups, 0] if len(used) else np.zeros(len(groups))
        order = np.lexsort((first_load, home % (len(nodes) + 1)))
        groups, home, must_move = groups[order], home[order], must_move[order]
        n_balanced = int(problem.balanced_mask[used].sum())
        counts = problem.staying[nodes][:, None] & (np.arange(len(used)) < n_balanced)
        weight = np.where(problem.balanced_mask, problem.weights, 0.0)[used]
        limited, start, listed = _allowed(problem, groups, rank)
        cost = _costs(problem, groups, must_move)
        fixed = FixedArrays(
            load=load[groups],
            inverse=np.where(counts, 1.0 / problem.capacity[nodes][:, used], 0.0),
            centre=np.where(counts, weight, 0.0),
            limit=np.ascontiguousarray(
                problem.cap_limit[nodes][:, used] * units * (1 + metrics.CAP_TOLERANCE / 2)
            ),
            n_balanced=n_balanced,
            takes=problem.staying[nodes],
            limited=limited,
            allowed_start=start,
            allowed_nodes=listed,
            home=home,
            home_begin=np.searchsorted(home[~must_move], np.arange(len(nodes) + 1)),
            cost=cost,
            allowance=_without_idle_limits(_allowance(problem, budget), cost),
        )
        base = _base(problem, load, groups, rank)
        return cls(problem.current, groups, nodes, rank, base, fixed)

    def places_of(self, assignment: IntArray) -> IntArray:
        """[K]: the node of every item, as a position in ``nodes``."""
        return self.rank[assignment[self.groups]]

    def assignment_of(self, places: IntArray) -> IntArray:
        """[G]: the node index of every key group of the problem."""
        assignment = self.current.copy()
        assignment[self.groups] = self.nodes[places]
        return assignment


def plan_at(layout: Layout, places: IntArray) -> PlanArrays:
    """The arrays of the plan in which each item is on its node of ``places``."""
    fixed = layout.fixed
    n_items, n_nodes = len(layout.groups), len(layout.nodes)
    away = np.flatnonzero(places != fixed.home)
    count = np.bincount(places[away], minlength=n_nodes)
    share = -(-n_items // max(1, int(fixed.takes.sum())))
    room = np.maximum(count, np.minimum(n_items, 4 * share)) + SPARE
    # One slot more than the room, because the first move of a swap needs it.
    begin = np.concatenate(([0], np.cumsum(room + 1)))[:-1]
    by_place = away[np.argsort(places[away], kind="stable")]
    first = np.concatenate(([0], np.cumsum(count)))[:-1]
    slot = np.zeros(n_items, dtype=np.int64)
    slot[by_place] = np.arange(len(away)) - first[places[by_place]]
    visitors = np.zeros(int((room + 1).sum()), dtype=np.int64)
    visitors[begin[places[by_place]] + slot[by_place]] = by_place
    moved = np.zeros(n_items + 1, dtype=np.int64)
    moved[: len(away)] = away
    moved_slot = np.full(n_items, -1, dtype=np.int64)
    moved_slot[away] = np.arange(len(away))
    return PlanArrays(
        place=places.copy(),
        sums=sums_of(layout, places),
        visitors=visitors,
        begin=begin,
        room=room,
        n_visitors=count.astype(np.int64),
        slot=slot,
        used=fixed.cost[away].sum(axis=0),
        moved=moved,
        moved_slot=moved_slot,
        n_moved=np.array([len(away)], dtype=np.int64),
    )


def sums_of(layout: Layout, places: IntArray) -> FloatArray:
    """[N, R]: the load of each node."""
    sums = layout.base.copy()
    for r in range(sums.shape[1]):
        sums[:, r] += np.bincount(places, weights=layout.fixed.load[:, r], minlength=len(sums))
    return sums


def _own_order(problem: Problem) -> IntArray:
    """Return the nodes sorted by their first key group; empty nodes by capacity."""
    first = np.full(problem.n_nodes, problem.n_key_groups, dtype=np.int64)
    np.minimum.at(first, problem.current, np.arange(problem.n_key_groups))
    keys = [problem.capacity[:, r] for r in range(problem.n_resources)]
    return np.lexsort((*keys, problem.draining, problem.staying, first))


def _columns(problem: Problem) -> tuple[IntArray, FloatArray]:
    """Return the resources in use, balanced ones first, and the factor of each one's loads."""
    mean = metrics.mean_load(problem)
    balanced = np.flatnonzero(problem.balanced_mask & (mean > 0))
    caps = np.flatnonzero(~problem.balanced_mask & (mean > 0))
    units = np.concatenate((problem.weights[balanced] / mean[balanced], np.ones(len(caps))))
    return np.concatenate((balanced, caps)).astype(np.int64), units


def _base(problem: Problem, load: FloatArray, groups: IntArray, rank: IntArray) -> FloatArray:
    stuck = np.ones(problem.n_key_groups, dtype=bool)
    stuck[groups] = False
    base = np.zeros((problem.n_nodes, load.shape[1]))
    for r in range(load.shape[1]):
        base[:, r] = np.bincount(
            rank[problem.current[stuck]], weights=load[stuck, r], minlength=problem.n_nodes
        )
    return base


def _allowed(
    problem: Problem, groups: IntArray, rank: IntArray
) -> tuple[BoolArray, IntArray, IntArray]:
    if problem.allowed is None:
        return np.zeros(len(groups), bool), np.zeros(len(groups) + 1, np.int64), rank[:0].copy()
    allowed = problem.allowed
    limited = allowed.restricted[groups]
    lengths = np.where(limited, np.diff(allowed.indptr)[groups], 0)
    start = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    owner = np.repeat(np.arange(len(groups)), lengths)
    offset = np.arange(len(owner)) - start[owner]
    return limited, start, rank[allowed.nodes[allowed.indptr[groups[owner]] + offset]]


def _costs(problem: Problem, groups: IntArray, must_move: BoolArray) -> FloatArray:
    cost = np.empty((len(groups), 3))
    cost[:, 0] = 1.0
    cost[:, 1] = problem.state_bytes[groups]
    cost[:, 2] = move_pause_s(problem)[groups]
    cost[must_move] = 0.0
    return cost


def _allowance(problem: Problem, budget: Budget) -> FloatArray:
    """[3]: the rest of the budget after the moves that ``allowed_nodes`` make necessary."""
    necessary = Cost.of(problem, must_move_mask(problem) & ~metrics.forced_mask(problem))
    limits = (
        (budget.moves, necessary.moves),
        (budget.bytes, necessary.bytes),
        (budget.pause_s, necessary.pause_s),
    )
    left = np.array([np.inf if limit is None else float(limit - spent) for limit, spent in limits])
    # The running sum of pauses is rounded. The finished plan is checked exactly.
    left[2] += budget.pause_slack_s / 2
    return left


def _without_idle_limits(allowance: FloatArray, cost: FloatArray) -> FloatArray:
    """Drop limits of bytes and pauses that no set of moves can reach: the search is then faster."""
    most_moves = int(min(allowance[0], len(cost)))
    costliest = -np.sort(-cost, axis=0)[: max(0, most_moves)].sum(axis=0)
    idle = costliest <= allowance
    idle[0] = False
    return np.where(idle, np.inf, allowance)
