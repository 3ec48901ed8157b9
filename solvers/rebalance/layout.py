"""A rebalance problem as the flat arrays that the search's compiled loops work on.

Nodes are put into an order of their own, by what is on them and not by their index, so that
renaming nodes changes nothing. Loads are divided by the mean and multiplied by the resource's
weight: deviations come out in units of load distance, and scaling all loads by a power of two
changes nothing (by another factor, no more than rounding does).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem
from solvers.rebalance.kernels import NOWHERE
from solvers.rebalance.start import Cost, movable_mask, must_move_mask

SPARE = 16
"""Free slots of every node beside its share; a node that is full takes no more."""


@dataclass(frozen=True, eq=False, slots=True)
class Layout:
    """What does not change during a search. ``k`` is an item, ``i`` a node in our order."""

    groups: IntArray  # [K]: the key group of each item
    nodes: IntArray  # [N]: the node index of the problem
    rank: IntArray  # [N]: the other way round
    load: FloatArray  # [K, R], normalised; balanced resources first, then caps
    inverse: FloatArray  # [N, R]: 1 / capacity; 0 where the node does not count
    centre: FloatArray  # [N, R]: where the deviation is 0
    limit: FloatArray  # [N, R]: caps; infinite for balanced resources
    base: FloatArray  # [N, R]: load of what can never move
    n_balanced: int
    takes: BoolArray  # [N]: may receive
    limited: BoolArray  # [K]: has allowed nodes
    allowed_start: IntArray  # [K + 1]
    allowed_nodes: IntArray
    home: IntArray  # [K]: node now, or NOWHERE for what has to move
    home_begin: IntArray  # [N + 1]: the items at home on node i are home_begin[i] and on
    cost: FloatArray  # [K, 3]: moves, bytes, pause; 0 for what has to move
    allowance: FloatArray  # [3]

    @classmethod
    def of(cls, problem: Problem, budget: Budget) -> Layout:
        nodes = _own_order(problem)
        rank = np.empty_like(nodes)
        rank[nodes] = np.arange(len(nodes))
        groups = np.flatnonzero(movable_mask(problem, budget))
        used, units = _columns(problem)
        load = np.ascontiguousarray(problem.load[:, used] * units)
        must_move = must_move_mask(problem)[groups]
        home = np.where(must_move, NOWHERE, rank[problem.current[groups]])
        # By home, and within it by load; what has to move comes last.
        first_load = load[groups, 0] if len(used) else np.zeros(len(groups))
        order = np.lexsort((first_load, home % (len(nodes) + 1)))
        groups, home, must_move = groups[order], home[order], must_move[order]
        n_balanced = int(problem.balanced_mask[used].sum())
        counts = problem.staying[nodes][:, None] & (np.arange(len(used)) < n_balanced)
        weight = np.where(problem.balanced_mask, problem.weights, 0.0)[used]
        limited, start, listed = _allowed(problem, groups, rank)
        cost = _costs(problem, groups, must_move)
        return cls(
            groups=groups,
            nodes=nodes,
            rank=rank,
            load=load[groups],
            inverse=np.where(counts, 1.0 / problem.capacity[nodes][:, used], 0.0),
            centre=np.where(counts, weight, 0.0),
            limit=np.ascontiguousarray(
                problem.cap_limit[nodes][:, used] * units * (1 + metrics.CAP_TOLERANCE / 2)
            ),
            base=_base(problem, load, groups, rank),
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

    def arrays(self) -> tuple[object, ...]:
        """In the order in which the kernels take them."""
        return (
            self.load, self.inverse, self.centre, self.limit, self.n_balanced, self.takes,
            self.limited, self.allowed_start, self.allowed_nodes, self.home, self.home_begin,
            self.cost, self.allowance,
        )  # fmt: skip

    def places_of(self, assignment: IntArray) -> IntArray:
        """[K]: the node, in our order, of every item."""
        return self.rank[assignment[self.groups]]

    def assignment_of(self, problem: Problem, places: IntArray) -> IntArray:
        assignment = problem.current.copy()
        assignment[self.groups] = self.nodes[places]
        return assignment


class State:
    """What changes: where every item is, and what follows from that."""

    def __init__(self, layout: Layout, places: IntArray) -> None:
        n_items, n_nodes = len(layout.groups), len(layout.nodes)
        self.place = places.copy()
        self.sums = sums_of(layout, places)
        away = np.flatnonzero(places != layout.home)
        count = np.bincount(places[away], minlength=n_nodes)
        share = -(-n_items // max(1, int(layout.takes.sum())))
        self.room = np.maximum(count, np.minimum(n_items, 4 * share)) + SPARE
        # One slot beyond the room: in a swap a node holds one more for a moment.
        self.begin = np.concatenate(([0], np.cumsum(self.room + 1)))[:-1]
        self.count = count.astype(np.int64)
        self.visitors = np.zeros(int((self.room + 1).sum()), dtype=np.int64)
        by_place = away[np.argsort(places[away], kind="stable")]
        first = np.concatenate(([0], np.cumsum(count)))[:-1]
        self.slot = np.zeros(n_items, dtype=np.int64)
        self.slot[by_place] = np.arange(len(away)) - first[places[by_place]]
        self.visitors[self.begin[places[by_place]] + self.slot[by_place]] = by_place
        self.moved = np.zeros(n_items + 1, dtype=np.int64)
        self.moved[: len(away)] = away
        self.moved_slot = np.full(n_items, -1, dtype=np.int64)
        self.moved_slot[away] = np.arange(len(away))
        self.n_moved = np.array([len(away)], dtype=np.int64)
        self.used = layout.cost[away].sum(axis=0)

    def arrays(self) -> tuple[object, ...]:
        """In the order in which the kernels take them."""
        return (
            self.place, self.sums, self.visitors, self.begin, self.room, self.count, self.slot,
            self.used, self.moved, self.moved_slot, self.n_moved,
        )  # fmt: skip


def sums_of(layout: Layout, places: IntArray) -> FloatArray:
    sums = layout.base.copy()
    for r in range(sums.shape[1]):
        sums[:, r] += np.bincount(places, weights=layout.load[:, r], minlength=len(sums))
    return sums


def _own_order(problem: Problem) -> IntArray:
    """By the first key group on a node, which no renaming changes; empty nodes by capacity."""
    first = np.full(problem.n_nodes, problem.n_key_groups, dtype=np.int64)
    np.minimum.at(first, problem.current, np.arange(problem.n_key_groups))
    keys = [problem.capacity[:, r] for r in range(problem.n_resources)]
    return np.lexsort((*keys, problem.draining, problem.staying, first))


def _columns(problem: Problem) -> tuple[IntArray, FloatArray]:
    """The resources that matter, balanced ones first, and what to multiply their loads by."""
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
    cost[:, 2] = metrics.move_pause_s(problem)[groups]
    cost[must_move] = 0.0
    return cost


def _allowance(problem: Problem, budget: Budget) -> FloatArray:
    """What the budget leaves after what ``allowed_nodes`` make necessary."""
    necessary = Cost.of(problem, must_move_mask(problem) & ~metrics.forced_mask(problem))
    limits = (
        (budget.moves, necessary.moves),
        (budget.bytes, necessary.bytes),
        (budget.pause_s, necessary.pause_s),
    )
    left = np.array([np.inf if limit is None else float(limit - spent) for limit, spent in limits])
    # The running sum of pauses rounds; the plan itself is checked exactly in the end.
    left[2] += budget.pause_slack_s / 2
    return left


def _without_idle_limits(allowance: FloatArray, cost: FloatArray) -> FloatArray:
    """Bytes and pauses that not even the dearest moves can use up are no limit.

    The search is faster where it need not weigh them.
    """
    most_moves = int(min(allowance[0], len(cost)))
    dearest = -np.sort(-cost, axis=0)[: max(0, most_moves)].sum(axis=0)
    idle = dearest <= allowance
    idle[0] = False
    return np.where(idle, np.inf, allowance)
