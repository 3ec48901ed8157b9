"""The arrays that the loops of the bound work on, in named tuples that numba accepts."""

from __future__ import annotations

from typing import NamedTuple

from solvers.model.problem import FloatArray, IntArray


class ResourceColumn(NamedTuple):
    """One resource: the loads of the S staying nodes, and of all key groups that may move."""

    sums: FloatArray  # [S]: the load of the staying nodes now
    loads: FloatArray  # of the key groups that may leave, by node, largest first
    prefix: FloatArray  # running sums of ``loads``
    begin: IntArray  # [S]: the first position of the node in ``loads``
    end: IntArray  # [S]
    pool: FloatArray  # loads of all that may move, ascending
    pool_home: IntArray  # the staying node of each, or -1
    pool_rank: IntArray  # the position of each in its node, largest first
    pool_prefix: FloatArray  # of the largest 1, 2, 3, ...


class EventCounts(NamedTuple):
    """[S] each: the fewest departures, arrivals, and both together, of each node."""

    departures: IntArray
    arrivals: IntArray
    events: IntArray


class PriceList(NamedTuple):
    """The key groups that may move, by price per load, cheapest first."""

    load: FloatArray
    price: FloatArray
    home: IntArray  # the staying node of each, or -1
    before: FloatArray  # the load of the cheaper ones on the same node
