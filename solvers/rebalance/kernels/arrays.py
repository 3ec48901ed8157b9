"""The arrays that the loops of the search work on, in named tuples that numba accepts.

An *item* is a key group that may move. A *node* is one that is alive or draining. ``K`` is the
number of items, ``N`` of nodes, ``R`` of resources. Loads are normalised: the deviation of a node is
``sums * inverse - centre`` in units of the mean. Columns from ``n_balanced`` on are caps.

Items are numbered by home node and, within it, by load. The items that node ``i`` had at the start
are ``range(home_begin[i], home_begin[i + 1])``, and those of them with ``place == i`` are still there.
Only items on other nodes ("visitors") are kept in lists. So a move takes constant time, and the item
of the best size is found by bisection.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from solvers.model.problem import BoolArray, FloatArray, IntArray

RandomState = npt.NDArray[np.uint64]
"""[1]: the state of a random number generator."""

NOWHERE = -1
"""No item, or no node. An item whose home is NOWHERE has to move: its cost is 0, because the limits
are already lowered by it."""
UNITS = 3
"""Units of the budget: moves, bytes, seconds of pause."""

EXCHANGES = 5
"""Kinds of proposals below this one relocate or swap."""
COARSE = 8
"""Kinds below this one make large changes, for large loads and byte budgets."""
PAIRED = 12
"""Kinds below this one include a replacement between the same two nodes."""
ALL_KINDS = 18
"""All kinds, with rings of three nodes. If the budget is used up, only replacements between two
nodes and rings still make small changes."""


class FixedArrays(NamedTuple):
    """The arrays that do not change during a search."""

    load: FloatArray  # [K, R], normalised; balanced resources first, then caps
    inverse: FloatArray  # [N, R]: 1 / capacity; 0 where the node does not count
    centre: FloatArray  # [N, R]: where the deviation is 0
    limit: FloatArray  # [N, R]: caps; infinite for balanced resources
    n_balanced: int
    takes: BoolArray  # [N]: the node may receive items
    limited: BoolArray  # [K]: the item has a list of allowed nodes
    allowed_start: IntArray  # [K + 1]
    allowed_nodes: IntArray
    home: IntArray  # [K]: the node at the start, or NOWHERE for items that have to move
    home_begin: IntArray  # [N + 1]: the items at home on node i are home_begin[i] and on
    cost: FloatArray  # [K, 3]: moves, bytes, pause; 0 for items that have to move
    allowance: FloatArray  # [3]: the limits of the budget


class PlanArrays(NamedTuple):
    """The arrays of the current plan: the node of every item, and values computed from that."""

    place: IntArray  # [K]: the node of each item
    sums: FloatArray  # [N, R]: the load of each node
    visitors: IntArray  # the visitors of each node, in slots
    begin: IntArray  # [N]: the first slot of the node
    room: IntArray  # [N]: the most visitors of the node
    n_visitors: IntArray  # [N]: the visitors of the node
    slot: IntArray  # [K]: the slot of a visitor, counted from the first of its node
    used: FloatArray  # [3]: the part of the budget that the plan uses
    moved: IntArray  # [K + 1]: the items that are not at home
    moved_slot: IntArray  # [K]: the position of the item in ``moved``, or -1
    n_moved: IntArray  # [1]


class BestPlan(NamedTuple):
    """The best plan so far, which a loop overwrites."""

    place: IntArray  # [K]
    deviation: FloatArray  # [1]: the largest deviation of the plan


class SearchRule(NamedTuple):
    """The target of exchanges, and how items are chosen for them."""

    target: float
    """Deviations up to this cost nothing."""
    by_size: bool
    """True for one resource with a budget of moves only: items near the best size are tried."""


class AnnealingSchedule(NamedTuple):
    """The length and the temperatures of one annealing."""

    proposals: int
    kinds: int
    """Number of kinds of proposals that are drawn: COARSE, PAIRED or ALL_KINDS."""
    hot: float
    cold: float


class Gap(NamedTuple):
    """The two nodes for which an item is wanted that moves from the giver to the taker."""

    giver: int
    taker: int
    give: FloatArray  # [R]: the sums of the giver before that move
    take: FloatArray  # [R]: the sums of the taker before that move
    left: FloatArray  # [3]: the rest of the budget for that move
    skip: int
    """An item that may not go, or NOWHERE."""


class Proposal(NamedTuple):
    """Up to three moves and their change of the energy. Without a first item there is no move."""

    first: int
    first_to: int
    second: int
    second_to: int
    third: int
    third_to: int
    delta: float


class Scratch(NamedTuple):
    """Random numbers and memory for one proposal at a time."""

    random: RandomState
    left: FloatArray  # [3]
    value_i: FloatArray  # [R], as all below
    value_j: FloatArray
    value_h: FloatArray
    value_x: FloatArray
