"""Packs clusters onto nodes: few migrations, and the load of every node within a bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.collocate.partition import cut_off
from solvers.model.budget import Budget
from solvers.model.metrics import forced_mask
from solvers.model.pause import move_pause_s
from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem
from solvers.model.traffic_graph import TrafficGraph

NOWHERE = -1
MOST_VAIN_CUTS = 8
"""Cuts in a row that may bring the placement no nearer to the bound."""
OVERLOAD_PRICE = 40.0
"""Moves that an excess of one mean node load is worth; no single move relieves as much."""
LOST_MEMBER = 3.0
"""Moves that a member outside of its cluster costs: its traffic stays remote."""
SMALLEST_GAIN = 1e-9
SWAPS_TRIED = 60


@dataclass(frozen=True, eq=False)
class ClusterTarget:
    """A placement to move toward.

    Attributes:
        node_of: [key groups] Node where the key group should end, or NOWHERE.
        cluster_of: [key groups] Cluster of the key group, or -1.
        excess: By how much the worst node breaks the bound, as a share of the mean.
    """

    node_of: IntArray
    cluster_of: IntArray
    excess: float

    def migrations(self, assignment: IntArray) -> int:
        """Return how many key groups are not at the target yet."""
        return int(np.count_nonzero((self.node_of != assignment) & (self.node_of != NOWHERE)))


def move_costs(problem: Problem, budget: Budget) -> FloatArray:
    """Return [key groups]: the share of the scarcest budget that a move takes, 1 on average."""
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
    # A move is an interruption, so even a tiny state costs something.
    return np.maximum(cost / mean, 0.05)


@dataclass(frozen=True, eq=False, slots=True)
class ClusterCut:
    """How clusters are cut: along few records, by weight.

    Attributes:
        graph: Traffic between the key groups.
        weight: [key groups] Load of a key group in units of the mean node load.
        seed: Seed of the graph partitioning.
    """

    graph: TrafficGraph
    weight: FloatArray
    seed: int

    def piece(self, members: IntArray, wanted: float) -> tuple[float, BoolArray] | None:
        """Cut a piece of about the wanted weight off a cluster.

        Returns:
            The traffic that the cut makes remote, and which members are in the piece; None for a
            single key group or a cluster without weight.
        """
        total = float(self.weight[members].sum())
        if len(members) < 2 or total <= 0:
            return None
        inner = self.graph.subgraph(members)
        share = min(max(wanted / total, 1e-3), 0.5)
        inside = cut_off(inner, self.weight[members], share, seed=self.seed)
        parted = inside[inner.rows()] != inside[inner.partner]
        return float(inner.rate[parted].sum()), inside


class ClusterPacking:
    """Units on nodes: clusters, and single key groups outside of clusters.

    The packing minimises the cost of moves plus the price of excess load.
    """

    def __init__(
        self,
        problem: Problem,
        budget: Budget,
        assignment: IntArray,
        shares: FloatArray,
        bound: float,
    ) -> None:
        self.problem, self.bound = problem, bound
        self.assignment, self.shares = assignment, shares
        self.nodes = np.flatnonzero(problem.staying)
        staying = problem.capacity[self.nodes][:, problem.balanced_mask]
        self.room = staying / staying.mean(axis=0)
        self.move_cost = np.where(forced_mask(problem), 0.0, move_costs(problem, budget))
        self.may_come = _may_come(problem, self.nodes)
        self.price = OVERLOAD_PRICE * float(self.move_cost.mean() or 1.0)

    def pack(self, clusters: list[IntArray]) -> None:
        """Put each unit on its cheapest node, then relocate and swap while that lowers the cost."""
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
        """Return [staying nodes]: what it costs to have the whole unit there."""
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
        """Return by how much the worst node breaks the bound."""
        return float(self._excess(self.sums, slice(None)).max(initial=0.0))

    def _descend(self) -> None:
        for _ in range(4 * len(self.units) + 100):
            if not (self._relocate() or self._swap()):
                return

    def _relocate(self) -> bool:
        """Make the best move of one unit. Returns whether one was made."""
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
        if not delta[unit, node] < -SMALLEST_GAIN:
            return False
        self._put(int(unit), int(node))
        return True

    def _swap(self) -> bool:
        """Exchange a badly placed unit with the best other one. Returns whether it was done."""
        everyone = np.arange(len(self.units))
        now = self.price * self._excess(self.sums, slice(None))
        regret = self.cost[everyone, self.where] - self.cost.min(axis=1)
        urgent = regret + now[self.where]
        best = (-SMALLEST_GAIN, -1, -1)
        for unit in np.argsort(-urgent, kind="stable")[:SWAPS_TRIED]:
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
        """Return [units]: the change of cost and excess if ``unit`` is exchanged with each."""
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

    def cut_until_it_fits(self, cut: ClusterCut) -> None:
        """Cut pieces off clusters while that brings the placement nearer to the bound."""
        least, cuts_since = np.inf, 0
        while self.excess() > 0 and cuts_since < MOST_VAIN_CUTS:
            excess = float(self._excess(self.sums, slice(None)).sum())
            least, cuts_since = (
                (excess, 0) if excess < least - SMALLEST_GAIN else (least, cuts_since + 1)
            )
            if not self._cut_to_fit(cut):
                return

    def _cut_to_fit(self, cut: ClusterCut) -> bool:
        """Cut a piece off a cluster of the fullest node and put it on the emptiest node.

        Returns:
            Whether a piece was cut; False if no node that is too full has a cluster to cut.
        """
        away = self.sums / self.room - 1.0
        fill, level = away.max(axis=1), away.min(axis=1)
        emptiest = int(np.argmin(level))
        for fullest in np.argsort(-fill, kind="stable").tolist():
            if fullest == emptiest or fill[fullest] <= 0:
                return False
            too_much = fill[fullest] * self.room[fullest].max()
            fits = (self.bound - level[emptiest]) * self.room[emptiest].min()
            piece = self._cheapest_piece(cut, fullest, min(too_much, fits))
            if piece is not None:
                self._divide(*piece, emptiest)
                self._descend()
                return True
        return False

    def _cheapest_piece(
        self, cut: ClusterCut, node: int, wanted: float
    ) -> tuple[int, BoolArray] | None:
        """Return (unit, which members are cut off) of the cut through the least traffic."""
        best: tuple[float, int, BoolArray] | None = None
        for unit in np.flatnonzero(self.where == node).tolist():
            piece = cut.piece(self.units[unit], wanted)
            if piece is not None and (best is None or piece[0] < best[0]):
                best = piece[0], unit, piece[1]
        return None if best is None else (best[1], best[2])

    def _divide(self, unit: int, inside: BoolArray, node: int) -> None:
        """Make the members ``inside`` a unit of their own, on another node."""
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
        """Return the packing as a target. A member that may not come has no target node."""
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
    """Return [key groups, staying nodes]: whether a key group may come to a node."""
    may = np.repeat(~problem.pinned_mask[:, None], len(nodes), axis=1)
    if problem.allowed is not None:
        for k in np.flatnonzero(problem.allowed.restricted).tolist():
            may[k] &= np.isin(nodes, problem.allowed.row(k))
    return may
