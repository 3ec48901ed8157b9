"""Searches for the fewest moves that bring the potential of a placement down to a value.

Three steps. *lower* makes the move or the swap that lowers the potential the most for each move of
the budget, until the potential is low enough. *undo_needless* takes back moves as long as it stays
low enough. *replace_moves* undoes a few moves that share nodes, lowers the potential again, and
keeps the result if it has fewer moves, or as many and fewer bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from solvers.model.problem import BoolArray, FloatArray, IntArray
from solvers.rebalance.kernels.arrays import NOWHERE
from solvers.rebalance.noise_potential import ENOUGH, NoisyPlacement

WORST = (2, 8)
"""Nodes with the largest terms that are tried; more of them if these have no candidate."""
PARTNERS = 16
"""Nodes that each of them exchanges items with: those of the opposite deviation, those with the
smallest terms, and some at random."""
PAIRS = 3_000
"""Swaps that are rated of one node; beyond that those whose difference in load fits best."""
FREE_MOVE = 0.25
"""Cost of a change that needs no move, in moves, when candidates are compared."""
LEAST_GAIN = 1e-4
"""Least change of the potential that is worth a step."""
FIRST_CHOICE = 0.7
"""Replacing moves: the chance that the best candidate is taken, else the next one, and so on."""
MOST_UNDONE = 5
"""Moves that are undone at once."""
BATCH = 300
"""Beyond so many moves several of them are taken back between two ratings."""

IsOver = Callable[[], bool]


@dataclass(frozen=True, eq=False, slots=True)
class Candidates:
    """Moves of one item to a node, and swaps with an item of that node."""

    first: IntArray
    to: IntArray
    second: IntArray
    """The item that comes back, or NOWHERE."""
    change: FloatArray
    """By how much the potential changes."""
    fees: FloatArray  # [candidates, 3]

    def where(self, mask: BoolArray) -> Candidates:
        """Return some of the candidates."""
        return Candidates(
            self.first[mask], self.to[mask], self.second[mask], self.change[mask], self.fees[mask]
        )


@dataclass(frozen=True, slots=True)
class Goal:
    """When lowering ends, and what it may cost."""

    potential: float = ENOUGH
    most_moves: float = np.inf
    """Moves that the whole placement may have."""
    is_free: bool = False
    """Whether only changes are made that cost neither moves nor bytes."""


def lower(
    at: NoisyPlacement, goal: Goal, is_over: IsOver, random: np.random.Generator | None = None
) -> None:
    """Lower the potential until the goal is met, no candidate lowers it, or the time is over."""
    while at.total > goal.potential and not is_over():
        for count in WORST:
            found = _rated(at, count, goal)
            if len(found.first):
                break
        else:
            return
        _apply(at, found, _chosen(at, found, goal, random))


def undo_needless(at: NoisyPlacement, is_over: IsOver) -> None:
    """Take back moves while the potential stays low enough, smallest rise first."""
    while not is_over():
        items = np.flatnonzero(at.is_away & (at.home != NOWHERE))
        if not len(items):
            return
        change = at.changes(items, at.home[items])
        order = np.lexsort((-at.cost[items, 1], change))
        if not _take_back(at, items[order], change[order], many=len(items) > BATCH):
            return


def _take_back(at: NoisyPlacement, items: IntArray, change: FloatArray, *, many: bool) -> bool:
    """Take back the first move of the list; with ``many`` all that share no node with earlier ones.

    With ``many`` they use at most half of what the potential may rise by: after them the other
    moves have other changes. Return whether a move was taken back.
    """
    left = ENOUGH - at.total
    if not change[0] <= left:
        return False
    if not many:
        at.move(int(items[0]), int(at.home[items[0]]))
        return True
    spare = max(left / 2.0, float(change[0]))
    disjoint = _disjoint_pairs(at.place[items], at.home[items])
    items, rises = items[disjoint], np.cumsum(np.maximum(change[disjoint], 0.0))
    chosen = items[rises <= spare]
    at.move_all(chosen, at.home[chosen])
    return True


def _disjoint_pairs(sources: IntArray, targets: IntArray) -> IntArray:
    """Return the positions of the pairs that share no node with an earlier one of them."""
    touched: set[int] = set()
    chosen = []
    for index, ends in enumerate(zip(sources.tolist(), targets.tolist(), strict=True)):
        if touched.isdisjoint(ends):
            chosen.append(index)
            touched.update(ends)
    return np.array(chosen, dtype=np.int64)


def replace_moves(
    at: NoisyPlacement, random: np.random.Generator, rounds: int, idle: int, is_over: IsOver
) -> None:
    """Undo some moves and lower the potential again; keep what has fewer moves or bytes.

    Of placements with as many of both the one with the lower potential is kept.


    Args:
        at: a placement whose potential is low enough. It is at the best one afterwards.
        random: for the choice of moves.
        rounds: most tries.
        idle: tries without fewer moves or bytes after which it ends.
        is_over: whether the time is over.
    """
    best, price, least = at.place.copy(), at.price, at.total
    waited = 0
    for _ in range(rounds):
        if is_over() or waited >= idle or price[0] == 0:
            break
        _undo_some(at, random)
        lower(at, Goal(most_moves=price[0]), is_over, random)
        if at.is_enough:
            undo_needless(at, is_over)
        waited += 1
        if at.is_enough and (*at.price, at.total) < (*price, least):
            waited = 0 if at.price < price else waited
            best, price, least = at.place.copy(), at.price, at.total
        else:
            at.set(best)
    at.set(best)


def _undo_some(at: NoisyPlacement, random: np.random.Generator) -> None:
    """Take back a few moves that have nodes in common. The potential may rise."""
    items = np.flatnonzero(at.is_away & (at.home != NOWHERE))
    first = items[random.integers(len(items))]
    ends = np.array([at.place[first], at.home[first]])
    near = np.isin(at.place[items], ends).astype(int) + np.isin(at.home[items], ends)
    order = np.argsort(-(near + random.random(len(items))), kind="stable")
    count = int(random.integers(1, min(MOST_UNDONE, len(items)) + 1))
    for item in {int(first), *items[order[:count]].tolist()}:
        at.move(item, int(at.home[item]))


def _rated(at: NoisyPlacement, count: int, goal: Goal) -> Candidates:
    """Return the affordable candidates of the worst nodes that lower the potential."""
    worst = np.argsort(-at.term, kind="stable")[:count]
    found = [part for node in worst.tolist() for part in _of_node(at, node)]
    first, to, second = (np.concatenate(parts) for parts in zip(*found, strict=True))
    fees = at.fees(first, to)
    swap = second != NOWHERE
    back = at.place[first]
    fees[swap] += at.fees(second[swap], back[swap])
    may = at.may_go(first, to) & at.fits(fees)
    may[swap] &= at.may_go(second[swap], back[swap])
    # What takes nothing more of the moves is always within the most moves.
    may &= (fees[:, 0] <= 0) | (at.used[0] + fees[:, 0] <= goal.most_moves)
    if goal.is_free:
        may &= (fees[:, 0] <= 0) & (fees[:, 1] <= 0)
    first, to, second, fees = first[may], to[may], second[may], fees[may]
    change = at.changes(first, to, second)
    found_all = Candidates(first, to, second, change, fees)
    return found_all.where(change < -LEAST_GAIN * max(ENOUGH, at.total))


def _of_node(at: NoisyPlacement, node: int) -> list[tuple[IntArray, IntArray, IntArray]]:
    """Return (items, nodes, items that come back): the node gives, takes and swaps."""
    partners = _partners(at, node)
    own = np.flatnonzero(at.place == node)
    others = np.flatnonzero(np.isin(at.place, partners))
    none = np.full(max(len(own) * len(partners), len(others)), NOWHERE)
    gives = np.repeat(own, len(partners)), np.tile(partners, len(own))
    takes = others, np.full(len(others), node)
    left, right = np.repeat(own, len(others)), np.tile(others, len(own))
    if len(left) > PAIRS:
        best = _best_pairs(at, node, left, right)
        left, right = left[best], right[best]
    return [
        (*gives, none[: len(gives[0])]),
        (*takes, none[: len(others)]),
        (left, at.place[right], right),
    ]


def _deviations(at: NoisyPlacement) -> FloatArray:
    fixed = at.terms.fixed
    balanced = slice(0, fixed.n_balanced)
    deviation = at.sums[:, balanced] * fixed.inverse[:, balanced] - fixed.centre[:, balanced]
    return np.asarray(deviation)


def _partners(at: NoisyPlacement, node: int) -> IntArray:
    """Return the nodes that the node exchanges items with."""
    n_nodes = len(at.sums)
    every = np.delete(np.arange(n_nodes), node)
    if len(every) <= PARTNERS:
        return every
    deviation = _deviations(at)
    r = int(np.argmax(np.abs(deviation[node])))
    side = 1.0 if deviation[node, r] > 0 else -1.0
    opposite = np.argsort(side * deviation[:, r], kind="stable")[: PARTNERS // 2]
    calm = np.argsort(at.term, kind="stable")[: PARTNERS // 4]
    step = max(1, n_nodes // (PARTNERS // 4))
    spread = np.arange(node % step, n_nodes, step)
    chosen: IntArray = np.unique(np.concatenate((opposite, calm, spread)))
    return np.asarray(chosen[chosen != node])


def _best_pairs(at: NoisyPlacement, node: int, left: IntArray, right: IntArray) -> IntArray:
    """Return the swaps whose difference in load comes closest to levelling both nodes."""
    fixed, deviation = at.terms.fixed, _deviations(at)
    r = int(np.argmax(np.abs(deviation[node])))
    partner = at.place[right]
    ideal = deviation[node, r] - deviation[partner, r]
    ideal = ideal / np.maximum(fixed.inverse[node, r] + fixed.inverse[partner, r], 1e-300)
    miss = np.abs(fixed.load[left, r] - fixed.load[right, r] - ideal)
    best: IntArray = np.argpartition(miss, PAIRS)[:PAIRS]
    return best


def _chosen(
    at: NoisyPlacement, found: Candidates, goal: Goal, random: np.random.Generator | None
) -> int:
    """Return the candidate that lowers the potential the most for each move.

    A change beyond the goal does not count. Of two candidates that both meet the goal the one
    with fewer moves is chosen, then the one with fewer bytes.
    """
    value = np.minimum(-found.change, at.total - goal.potential)
    rate = value / np.maximum(found.fees[:, 0], FREE_MOVE)
    order = np.lexsort((found.change, found.fees[:, 1], -rate))
    place = 0
    if random is not None:
        while random.random() > FIRST_CHOICE and place < len(order) - 1:
            place += 1
    return int(order[place])


def _apply(at: NoisyPlacement, found: Candidates, index: int) -> None:
    first, to, second = (int(x[index]) for x in (found.first, found.to, found.second))
    source = int(at.place[first])
    at.move(first, to)
    if second != NOWHERE:
        at.move(second, source)
