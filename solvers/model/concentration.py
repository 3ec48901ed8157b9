"""How much of an amount is at one place: the load of an operator on a node, records on a rack.

A place with its fair share has as large a part of the amount as of the capacity. Pure.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from solvers.model.problem import BoolArray, FloatArray, IntArray

MOST_ITEMS = 50_000
"""Items that are placed one by one to see how level they can be; more take too long."""


@dataclass(frozen=True, slots=True)
class Concentration:
    """The place that has most of an amount, measured against its fair share."""

    place: int
    share: float
    """Part of the amount that is at the place, 0 to 1."""
    above_pct: float
    """How far that is above the fair share, in percent of the fair share."""
    sd_pct: float
    """Standard error of ``above_pct``; 0 if the noise of the amounts is not known."""


def fair_shares(capacity: FloatArray, staying: BoolArray) -> FloatArray:
    """Part of the capacity that each place has; 0 for a place that does not stay."""
    room = np.where(staying, capacity, 0.0)
    total = float(room.sum())
    return np.asarray(room / total if total > 0 else room)


def concentration(
    amount: FloatArray, place: IntArray, fair: FloatArray, variance: FloatArray | None = None
) -> Concentration | None:
    """The place that is furthest above its fair share.

    Args:
        amount: what each item has, such as the load of each key group; >= 0.
        place: the place of each item, as an index of ``fair``.
        fair: fair share of each place; 0 for a place that does not count. Amounts at such a place
            count in the total.
        variance: variance of each amount; None if it is not known.

    Returns:
        The concentration; None if there is no amount or no place that counts.
    """
    total = float(amount.sum())
    counts = fair > 0
    if total <= 0 or not counts.any():
        return None
    share = np.bincount(place, weights=amount, minlength=len(fair)) / total
    relative = np.where(counts, share / np.where(counts, fair, 1.0), -np.inf)
    fullest = int(np.argmax(relative))
    sd = 0.0
    if variance is not None:
        sd = _sd_of_share(variance, place == fullest, float(share[fullest])) / total
    return Concentration(
        place=fullest,
        share=float(share[fullest]),
        above_pct=100.0 * (float(relative[fullest]) - 1.0),
        sd_pct=100.0 * sd / float(fair[fullest]),
    )


def least_above_pct(amount: FloatArray, fair: FloatArray) -> float:
    """Lower bound of ``Concentration.above_pct`` over all placements.

    Among the ``j * n + 1`` largest items on ``n`` places, some place has ``j + 1`` or more. It has
    at least the ``j + 1`` smallest of them.
    """
    total, places = float(amount.sum()), int(np.count_nonzero(fair))
    if total <= 0 or not places:
        return 0.0
    ends = np.concatenate(([0.0], np.cumsum(-np.sort(-amount))))
    last = np.arange(0, len(amount), places)
    together = ends[last + 1] - ends[last - np.arange(len(last))]
    largest = float(together.max()) / (total * float(fair.max()))
    return max(0.0, 100.0 * (largest - 1.0))


def reachable_distance_pct(amount: FloatArray, fair: FloatArray) -> float:
    """Largest distance from the fair share, above or below, in percent of it, of a good placement.

    The placement gives each item, the largest first, to the place that is furthest below its fair
    share then. Many small items are taken for level.
    """
    total = float(amount.sum())
    if total <= 0 or not (fair > 0).any() or len(amount) > MOST_ITEMS:
        return 0.0
    filled = [(0.0, int(at)) for at in np.flatnonzero(fair > 0)]
    share = np.zeros(len(fair))
    for item in -np.sort(-amount):
        _, at = filled[0]
        share[at] += item / total
        heapq.heapreplace(filled, (float(share[at] / fair[at]), at))
    counts = fair > 0
    return 100.0 * float(np.abs(share[counts] / fair[counts] - 1.0).max())


def _sd_of_share(variance: FloatArray, is_here: BoolArray, share: float) -> float:
    """Standard deviation of (amount here / all) x all: noise here also changes the whole."""
    here = float(variance[is_here].sum())
    elsewhere = float(variance.sum()) - here
    return float(np.sqrt((1.0 - share) ** 2 * here + share**2 * max(0.0, elsewhere)))
