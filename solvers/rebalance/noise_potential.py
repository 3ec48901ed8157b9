"""The potential of a placement: how likely the next period measures every node within a level.

At a level x the probability that the measured load distance is at most x is a product over nodes
and resources, because their noise is independent (solvers/noise/load_distance_distribution.py).
The potential is minus its logarithm, a sum of one term for each node:

    potential(x) = sum over n of -log P(|deviation_n + sd_n z| <= x)

The median of the measured load distance is at most x exactly where the potential is at most log 2.
A move changes two terms. The mean and the noise of a key group count at once: a key group with a
noisy load raises the sd of its node, and costs least on the node with the most room for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr  # type: ignore[import-untyped]

from solvers.model import metrics
from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem
from solvers.rebalance.kernels.arrays import NOWHERE, FixedArrays
from solvers.rebalance.search_arrays import Layout

ENOUGH = float(np.log(2.0))
"""The potential at which the median of the measured load distance is the level."""
SMALLEST_SD = 1e-3
"""In units of the level: a node without noise has a term that is steep instead of a step."""
ROUNDING = 1e-12
"""Relative: sums that additions and subtractions built differ by less."""


def potential(deviation: FloatArray, sd: FloatArray, level: float) -> FloatArray:
    """-log P(abs(deviation + sd z) <= level), for each element; z is standard normal."""
    size, spread = np.abs(deviation), np.maximum(sd, SMALLEST_SD * level)
    upper = log_ndtr((level - size) / spread)
    lower = log_ndtr((-level - size) / spread)
    return np.asarray(-(upper + np.log1p(-np.exp(lower - upper))))


@dataclass(frozen=True, eq=False, slots=True)
class NodeTerms:
    """Fixed inputs of the potential: items, nodes, the noise of items, the level."""

    fixed: FixedArrays
    variance: FloatArray  # [K, B]: noise of the items, in squared units of load distance
    base: FloatArray  # [N, R]: load of the key groups that can never move
    base_variance: FloatArray  # [N, B]
    decides: FloatArray  # [N, B]: 1, or 0 where the deviation follows from another node's
    allowed: IntArray
    """Item x N + node of all entries in lists of allowed nodes, in ascending order."""
    level: float
    """As a share of the mean, as all deviations here."""

    @classmethod
    def of(cls, problem: Problem, layout: Layout, level: float) -> NodeTerms:
        """Return the terms of a problem with noise, at a level in percent of the mean."""
        item, base = _variances(problem, layout)
        fixed = layout.fixed
        owner = np.repeat(np.arange(len(layout.groups)), np.diff(fixed.allowed_start))
        allowed = np.sort(owner * problem.n_nodes + fixed.allowed_nodes)
        decides = np.ones_like(base)
        if problem.n_nodes == len(np.flatnonzero(problem.staying)) == 2:
            # What one node has more the other has less (load_distance_distribution.py).
            base[:] = 0.5 * (base.sum(axis=0) + item.sum(axis=0))
            item = np.zeros_like(item)
            largest = np.argmin(fixed.inverse[:, : fixed.n_balanced], axis=0)
            decides[largest, np.arange(fixed.n_balanced)] = 0.0
        return cls(fixed, item, layout.base, base, decides, allowed, level / 100.0)

    def values(self, nodes: IntArray, sums: FloatArray, variance: FloatArray) -> FloatArray:
        """Return the terms of nodes with these sums and variances of load, one for each row."""
        balanced = self.fixed.n_balanced
        inverse = self.fixed.inverse[nodes, :balanced]
        deviation = sums[:, :balanced] * inverse - self.fixed.centre[nodes, :balanced]
        sd = np.sqrt(np.maximum(variance, 0.0)) * inverse
        return np.asarray((potential(deviation, sd, self.level) * self.decides[nodes]).sum(axis=1))

    def peaks(self, nodes: IntArray, sums: FloatArray) -> FloatArray:
        """Return the largest deviation of nodes over the balanced resources, one for each row."""
        balanced = self.fixed.n_balanced
        inverse = self.fixed.inverse[nodes, :balanced]
        deviation = sums[:, :balanced] * inverse - self.fixed.centre[nodes, :balanced]
        return np.asarray(np.abs(deviation).max(axis=1, initial=0.0))


def _variances(problem: Problem, layout: Layout) -> tuple[FloatArray, FloatArray]:
    """([K, B], [N, B]): variances of the items, and of the key groups that never move."""
    mean = metrics.mean_load(problem)
    balanced = np.flatnonzero(problem.balanced_mask & (mean > 0))
    units = problem.weights[balanced] / mean[balanced]
    noise = problem.noise
    every = np.zeros_like(problem.load) if noise is None else noise.variance
    variance = np.ascontiguousarray(every[:, balanced] * units**2)
    stuck = np.ones(problem.n_key_groups, dtype=bool)
    stuck[layout.groups] = False
    base = np.zeros((problem.n_nodes, len(balanced)))
    for r in range(len(balanced)):
        base[:, r] = np.bincount(
            layout.rank[problem.current[stuck]],
            weights=variance[stuck, r],
            minlength=problem.n_nodes,
        )
    return variance[layout.groups], base


class NoisyPlacement:
    """A placement that a search changes, with its potential and what it uses of the budget.

    Items whose ``home`` is NOWHERE have to be somewhere else than they were, and cost nothing.
    """

    def __init__(self, terms: NodeTerms, place: IntArray, home: IntArray, ceiling: float) -> None:
        fixed = terms.fixed
        self.terms, self.home, self.ceiling = terms, home, ceiling
        self.cost: FloatArray = np.where((home == NOWHERE)[:, None], 0.0, fixed.cost)
        # Moves of items that never return are paid in advance.
        paid = fixed.cost[(home == NOWHERE) & (fixed.home != NOWHERE)].sum(axis=0)
        self.allowance: FloatArray = fixed.allowance - paid
        self.set(place)

    def set(self, place: IntArray) -> None:
        """Set the places of all items and compute all figures."""
        terms = self.terms
        self.place: IntArray = place.copy()
        self.sums: FloatArray = terms.base.copy()
        self.variance: FloatArray = terms.base_variance.copy()
        for r in range(self.sums.shape[1]):
            self.sums[:, r] += self._by_node(terms.fixed.load[:, r])
        for r in range(self.variance.shape[1]):
            self.variance[:, r] += self._by_node(terms.variance[:, r])
        self.term: FloatArray = terms.values(np.arange(len(self.sums)), self.sums, self.variance)
        self.used: FloatArray = self.cost[self.is_away].sum(axis=0)

    def _by_node(self, weights: FloatArray) -> FloatArray:
        sums = np.bincount(self.place, weights=weights, minlength=len(self.sums))
        return np.asarray(sums, dtype=np.float64)

    @property
    def is_away(self) -> BoolArray:
        """[K]: the item is not where it was."""
        return np.asarray(self.place != self.home)

    @property
    def total(self) -> float:
        """The potential: the sum of the terms of all nodes."""
        return float(self.term.sum())

    @property
    def is_enough(self) -> bool:
        """Whether the median of the measured load distance is within the level."""
        return self.total <= ENOUGH

    @property
    def price(self) -> tuple[int, float]:
        """Moves and bytes by choice."""
        return round(float(self.used[0])), float(self.used[1])

    def fees(self, items: IntArray, nodes: IntArray) -> FloatArray:
        """[candidates, 3]: the additional use of the budget if the items go to the nodes."""
        was, will = self.is_away[items], nodes != self.home[items]
        return np.asarray(self.cost[items] * (will.astype(np.float64) - was)[:, None])

    def may_go(self, items: IntArray, nodes: IntArray) -> BoolArray:
        """[candidates]: the node receives items, and the item is allowed there or at home."""
        fixed, allowed = self.terms.fixed, self.terms.allowed
        may = fixed.takes[nodes]
        if len(allowed):
            keys = items * len(self.sums) + nodes
            at = np.minimum(np.searchsorted(allowed, keys), len(allowed) - 1)
            may = may & (~fixed.limited[items] | (allowed[at] == keys))
        elif fixed.limited.any():
            may = may & ~fixed.limited[items]
        return np.asarray(may | (nodes == self.home[items]))

    def changes(self, items: IntArray, nodes: IntArray, back: IntArray | None = None) -> FloatArray:
        """[candidates]: the change of the potential if each item goes to its node.

        With ``back`` each swaps with an item of that node, or with none where it is NOWHERE.
        Infinite where a cap or the ceiling of the load distance would be broken.
        """
        terms, source = self.terms, self.place[items]
        load, noise = terms.fixed.load[items], terms.variance[items]
        if back is not None:
            real = (back != NOWHERE)[:, None]
            load = load - np.where(real, terms.fixed.load[back], 0.0)
            noise = noise - np.where(real, terms.variance[back], 0.0)
        change = np.zeros(len(items))
        for side, sign in ((source, -1.0), (nodes, 1.0)):
            sums = self.sums[side] + sign * load
            change += terms.values(side, sums, self.variance[side] + sign * noise)
            change -= self.term[side]
            change[~self._keeps_rules(side, sums)] = np.inf
        return change

    def _keeps_rules(self, nodes: IntArray, sums: FloatArray) -> BoolArray:
        """[candidates]: caps are exceeded by no more than now, and the ceiling is kept."""
        fixed, capped = self.terms.fixed, slice(self.terms.fixed.n_balanced, None)
        limit = np.maximum(fixed.limit[nodes, capped], self.sums[nodes, capped])
        fits = (sums[:, capped] <= limit * (1.0 + ROUNDING)).all(axis=1)
        return np.asarray(fits & (self.terms.peaks(nodes, sums) <= self.ceiling))

    def fits(self, fees: FloatArray) -> BoolArray:
        """[candidates]: the budget allows these additional uses."""
        return np.asarray((self.used + fees <= self.allowance).all(axis=1))

    def move(self, item: int, node: int) -> None:
        """Move an item, and update all figures."""
        if self.place[item] != node:
            self.move_all(np.array([item]), np.array([node]))

    def move_all(self, items: IntArray, nodes: IntArray) -> None:
        """Move items that have no node in common, neither the old ones nor the new ones."""
        terms, source = self.terms, self.place[items]
        self.used = self.used + self.fees(items, nodes).sum(axis=0)
        self.place[items] = nodes
        self.sums[source] -= terms.fixed.load[items]
        self.sums[nodes] += terms.fixed.load[items]
        self.variance[source] -= terms.variance[items]
        self.variance[nodes] += terms.variance[items]
        both = np.concatenate((source, nodes))
        self.term[both] = terms.values(both, self.sums[both], self.variance[both])
