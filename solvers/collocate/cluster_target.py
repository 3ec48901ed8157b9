"""Where everything should be in the end: clusters on nodes for the fewest migrations.

A budget of a few moves a round cannot bring a chain of operators together at once, and a search
that looks one round ahead scatters pieces of it that are too heavy to join later. So whole
clusters (heavy edges, split to fit a node) are placed first, at the least cost to come, under the
load bound; the rounds then walk there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.collocate.clusters import connected_sets, heavy_mask, split_to_fit
from solvers.collocate.partition import cut_off
from solvers.model.budget import Budget
from solvers.model.metrics import forced_mask, move_pause_s
from solvers.model.predicted_load import predicted_load
from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem
from solvers.model.traffic_costs import TrafficCosts
from solvers.model.traffic_graph import TrafficGraph

NOWHERE = -1
TIGHTER = 0.7
"""Share of the load bound that a target may use: loads drift before it is reached."""
MOST_VAIN_CUTS = 8
"""Pieces cut off clusters, one after another, that bring the placement no nearer to the bound."""
MOST_CHOICES = 5_000_000
"""Units times nodes; beyond it no target is made and the rounds go by gain alone."""
OVERLOAD_PRICE = 40.0
"""Moves that one node's mean load of excess is worth; far more than one move can relieve."""
LOST_MEMBER = 3.0
"""A member that may not come along costs as much as this many moves: its traffic stays apart."""


@dataclass(frozen=True, eq=False)
class ClusterTarget:
    """``node_of[k]`` is where key group k should end; ``cluster_of[k]`` its cluster, or -1."""

    node_of: IntArray
    cluster_of: IntArray
    excess: float  # by how much the worst node breaks the bound, as a share of the mean

    def migrations(self, assignment: IntArray) -> int:
        return int(np.count_nonzero((self.node_of != assignment) & (self.node_of != NOWHERE)))


def move_costs(problem: Problem, budget: Budget) -> FloatArray:
    """[G]: the share of the scarcest budget that moving a key group takes, 1 on average."""
    shares = [np.zeros(problem.n_key_groups)]
    if budget.moves:
        shares.append(np.full(problem.n_key_groups, 1.0 / budget.moves))
    if budget.bytes:
        shares.append(problem.state_bytes / budget.bytes)
    if budget.pause_s:
        shares.append(move_pause_s(problem) / budget.pause_s)
    cost: FloatArray = np.max(shares, axis=0)
    mean = float(cost.mean()) if len(cost) else 0.0
    if mean <= 0:
        return np.ones(problem.n_key_groups)
    # A tiny state is never free: a move is an interruption, whatever its size.
    return np.maximum(cost / mean, 0.05)


def propose_target(
    problem: Problem,
    graph: TrafficGraph,
    costs: TrafficCosts,
    budget: Budget,
    assignment: IntArray,
    *,
    bound: float,
    score_factor: float,
    seed: int,
) -> ClusterTarget | None:
    """A placement of all clusters; None without any, or with too many.

    ``bound`` is a share of the mean.
    """
    heavy = heavy_mask(problem, graph, score_factor)
    sets = connected_sets(graph.n_vertices, graph.rows()[heavy], graph.partner[heavy])
    clustered = sum(len(members) - 1 for members in sets)
    n_units = problem.n_key_groups - clustered
    if not sets or n_units * int(problem.staying.sum()) > MOST_CHOICES:
        return None
    joined = _as_if_together(problem, sets)
    shares = _mean_shares(problem, predicted_load(problem, graph, costs, joined))
    shares = shares[:, problem.balanced_mask]
    heaviest = shares.max(axis=1)
    tight = bound * TIGHTER
    clusters = [
        part
        for members in sets
        for part in split_to_fit(graph, members, heaviest[members], 1.0 + tight, seed, piece=1.0)
    ]
    packing = _Packing(problem, budget, assignment, shares, tight)
    packing.pack(clusters)
    packing.cut_until_it_fits(graph, heaviest, seed)
    return packing.target()


def _as_if_together(problem: Problem, sets: list[IntArray]) -> IntArray:
    """An assignment in which no two sets share a node: loads with only inner traffic saved."""
    apart = np.arange(problem.n_key_groups) + len(sets)
    for i, members in enumerate(sets):
        apart[members] = i
    return apart


def _mean_shares(problem: Problem, load: FloatArray) -> FloatArray:
    """[G, R]: loads in units of what an average staying node would carry of them."""
    mean = load.sum(axis=0) / max(1, int(problem.staying.sum()))
    shares: FloatArray = np.zeros_like(load)
    np.divide(load, mean, out=shares, where=mean > 0)
    return shares


class _Packing:
    """Units (clusters, and key groups of none) on nodes: cost of coming plus price of excess."""

    def __init__(
        self,
        problem: Problem,
        budget: Budget,
        assignment: IntArray,
        shares: FloatArray,
        bound: float,
    ) -> None:
        self.problem, self.bound, self.assignment, self.shares = (
            problem, bound, assignment, shares,
        )  # fmt: skip
        self.nodes = np.flatnonzero(problem.staying)
        staying = problem.capacity[self.nodes][:, problem.balanced_mask]
        self.room = staying / staying.mean(axis=0)
        self.move_cost = np.where(forced_mask(problem), 0.0, move_costs(problem, budget))
        self.may_come = _may_come(problem, self.nodes)
        self.price = OVERLOAD_PRICE * float(self.move_cost.mean() or 1.0)

    def pack(self, clusters: list[IntArray]) -> None:
        """Cheapest node each, then relocations and swaps while they lower cost and excess."""
        in_cluster = np.zeros(self.problem.n_key_groups, dtype=bool)
        for members in clusters:
            in_cluster[members] = True
        singles = [np.array([k]) for k in np.flatnonzero(~in_cluster)]
        self.units = [*clusters, *singles]
        self.load = np.array([self.shares[unit].sum(axis=0) for unit in self.units])
        self.cost = np.array([self._cost_row(unit) for unit in self.units])
        self.where = np.argmin(self.cost, axis=1)
        self.sums = np.zeros((len(self.nodes), self.shares.shape[1]))
        np.add.at(self.sums, self.where, self.load)
        self._descend()

    def _cost_row(self, unit: IntArray) -> FloatArray:
        """[staying nodes]: what it costs to have the whole unit there."""
        comes = self.may_come[unit]
        is_there = self.assignment[unit][:, None] == self.nodes
        cost = self.move_cost[unit][:, None] * ~is_there
        row: FloatArray = np.where(comes | is_there, cost, LOST_MEMBER + cost).sum(axis=0)
        return row

    def _excess(self, sums: FloatArray, node: IntArray | slice) -> FloatArray:
        away = np.abs(sums / self.room[node] - 1.0) - self.bound
        worst: FloatArray = np.maximum(0.0, away).max(axis=-1)
        return worst

    def excess(self) -> float:
        return float(self._excess(self.sums, slice(None)).max(initial=0.0))

    def _descend(self) -> None:
        for _ in range(4 * len(self.units) + 100):
            if not (self._relocate() or self._swap()):
                return

    def _relocate(self) -> bool:
        everyone = np.arange(len(self.units))
        now = self.price * self._excess(self.sums, slice(None))
        without = self.price * self._excess(self.sums[self.where] - self.load, self.where)
        joined = self.sums[None, :, :] + self.load[:, None, :]
        with_unit = self.price * self._excess(joined, slice(None))
        delta = (
            self.cost
            - self.cost[everyone, self.where][:, None]
            + (without - now[self.where])[:, None]
            + with_unit
            - now[None, :]
        )
        delta[everyone, self.where] = 0.0
        unit, node = np.unravel_index(int(np.argmin(delta)), delta.shape)
        if not delta[unit, node] < -1e-9:
            return False
        self._put(int(unit), int(node))
        return True

    def _swap(self) -> bool:
        """The best exchange between a unit that sits badly and any other unit."""
        everyone = np.arange(len(self.units))
        now = self.price * self._excess(self.sums, slice(None))
        regret = self.cost[everyone, self.where] - self.cost.min(axis=1)
        urgent = regret + now[self.where]
        best = (-1e-9, -1, -1)
        for unit in np.argsort(-urgent, kind="stable")[:60]:
            if urgent[unit] <= 0:
                break
            delta = self._swap_deltas(int(unit), now)
            other = int(np.argmin(delta))
            best = min(best, (float(delta[other]), int(unit), other))
        _, unit, other = best
        if unit < 0:
            return False
        here, there = int(self.where[unit]), int(self.where[other])
        self._put(unit, there)
        self._put(other, here)
        return True

    def _swap_deltas(self, unit: int, now: FloatArray) -> FloatArray:
        here = int(self.where[unit])
        difference = self.load - self.load[unit]
        cost = (
            self.cost[unit, self.where]
            - self.cost[unit, here]
            + self.cost[:, here]
            - self.cost[np.arange(len(self.units)), self.where]
        )
        mine = self._excess(self.sums[here] + difference, np.full(len(self.units), here))
        theirs = self._excess(self.sums[self.where] - difference, self.where)
        delta: FloatArray = cost + self.price * (mine + theirs) - now[here] - now[self.where]
        delta[self.where == here] = 0.0
        return delta

    def _put(self, unit: int, node: int) -> None:
        self.sums[self.where[unit]] -= self.load[unit]
        self.sums[node] += self.load[unit]
        self.where[unit] = node

    def cut_until_it_fits(self, graph: TrafficGraph, weight: FloatArray, seed: int) -> None:
        """Cut pieces off clusters while that brings the placement nearer to the bound."""
        least, cuts_since = np.inf, 0
        while self.excess() > 0 and cuts_since < MOST_VAIN_CUTS:
            excess = float(self._excess(self.sums, slice(None)).sum())
            least, cuts_since = (excess, 0) if excess < least - 1e-9 else (least, cuts_since + 1)
            if not self._cut_to_fit(graph, weight, seed):
                return

    def _cut_to_fit(self, graph: TrafficGraph, weight: FloatArray, seed: int) -> bool:
        """Cut off a cluster of the fullest node what the emptiest lacks, and put it there.

        False if no node that is too full has a cluster to cut.
        """
        away = self.sums / self.room - 1.0
        fill, level = away.max(axis=1), away.min(axis=1)
        emptiest = int(np.argmin(level))
        for fullest in np.argsort(-fill, kind="stable").tolist():
            if fullest == emptiest or fill[fullest] <= 0:
                return False
            too_much = fill[fullest] * self.room[fullest].max()
            fits = (self.bound - level[emptiest]) * self.room[emptiest].min()
            cut = self._cheapest_cut(graph, weight, fullest, min(too_much, fits), seed)
            if cut is not None:
                self._divide(*cut, emptiest)
                self._descend()
                return True
        return False

    def _cheapest_cut(
        self, graph: TrafficGraph, weight: FloatArray, node: int, wanted: float, seed: int
    ) -> tuple[int, BoolArray] | None:
        """(unit, which of its members are cut off): the cut through the least traffic."""
        best: tuple[float, int, BoolArray] | None = None
        for unit in np.flatnonzero(self.where == node).tolist():
            members = self.units[unit]
            total = float(weight[members].sum())
            if len(members) < 2 or total <= 0:
                continue
            inner = graph.subgraph(members)
            share = min(max(wanted / total, 1e-3), 0.5)
            inside = cut_off(inner, weight[members], share, seed=seed)
            parted = inside[inner.rows()] != inside[inner.partner]
            lost = float(inner.rate[parted].sum())
            if best is None or lost < best[0]:
                best = lost, unit, inside
        return None if best is None else (best[1], best[2])

    def _divide(self, unit: int, inside: BoolArray, node: int) -> None:
        """The members inside become a unit of their own, on another node."""
        members = self.units[unit]
        self.sums[self.where[unit]] -= self.load[unit]
        for i, part, place in (
            (unit, members[~inside], int(self.where[unit])),
            (len(self.units), members[inside], node),
        ):
            if i == len(self.units):
                self.units.append(part)
                self.load = np.vstack((self.load, np.zeros_like(self.load[:1])))
                self.cost = np.vstack((self.cost, np.zeros_like(self.cost[:1])))
                self.where = np.append(self.where, place)
            self.units[i] = part
            self.load[i] = self.shares[part].sum(axis=0)
            self.cost[i] = self._cost_row(part)
            self.where[i] = place
            self.sums[place] += self.load[i]

    def target(self) -> ClusterTarget:
        node_of = np.full(self.problem.n_key_groups, NOWHERE, dtype=np.int64)
        cluster_of = np.full(self.problem.n_key_groups, -1, dtype=np.int64)
        for i, unit in enumerate(self.units):
            place = int(self.where[i])
            comes = self.may_come[unit, place] | (self.assignment[unit] == self.nodes[place])
            node_of[unit[comes]] = self.nodes[place]
            if len(unit) > 1:
                cluster_of[unit] = i
        return ClusterTarget(node_of, cluster_of, self.excess())


def _may_come(problem: Problem, nodes: IntArray) -> BoolArray:
    """[G, staying nodes]: not pinned, and allowed there."""
    may = np.repeat(~problem.pinned_mask[:, None], len(nodes), axis=1)
    if problem.allowed is not None:
        for k in np.flatnonzero(problem.allowed.restricted).tolist():
            may[k] &= np.isin(nodes, problem.allowed.row(k))
    return may
