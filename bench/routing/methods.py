"""The compared methods: how each routes new keys, and how it plans after a period."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np

from bench.routing.streams import Stream, StreamPeriod
from bench.routing.world import NOWHERE, RoutedServers
from solvers.key_routing.decayed_statistics import DecayCandidate, DecayedStatistics
from solvers.key_routing.key_graph import LEFT, KeyGraph
from solvers.key_routing.metis_routes import match_labels, metis_routes
from solvers.key_routing.pair_statistics import PairStatistics
from solvers.key_routing.sticky_search import CurrentServers, StickyParams, sticky_routes
from solvers.model.amortisation import (
    OBSERVED_PLANS,
    RECORDS_PER_BYTE,
    AmortisationGate,
    AmortisationMemory,
)
from solvers.model.problem import IntArray

HASH, ONCE, PAPER, DECAYED = "hash", "offline once", "the paper's", "the paper's, decayed"
OURS, UNGATED = "ours", "ours without the gate"
PAPERS_DECAY = 0.9


@dataclass(frozen=True, eq=False)
class Knowledge:
    """The information that a method has at the end of a period."""

    stream: Stream
    statistics: DecayedStatistics
    n_servers: int
    seed: int


@dataclass
class SeasonCourse:
    """Figures of a method for each period after the first plan; moves after the second plan."""

    locality: list[float] = field(default_factory=list)
    imbalance: list[float] = field(default_factory=list)
    moved: list[float] = field(default_factory=list)
    decay: list[float] = field(default_factory=list)
    lifetime: list[float] = field(default_factory=list)
    trust: list[float] = field(default_factory=list)
    entries: int = 0  # of the routing tables in force at the end


class RoutingMethod:
    """Hash routing, and the base of the other methods."""

    name = HASH
    starts_offline = False

    def __init__(self, stream: Stream, n_servers: int) -> None:
        self.world = RoutedServers(stream, n_servers)
        self.course = SeasonCourse()

    def serve(self, period: StreamPeriod, *, counts: bool) -> None:
        self.admit(period)
        came = self.world.serve(period)
        if counts:
            self.course.locality.append(came.locality)
            self.course.imbalance.append(came.imbalance)
            self.course.entries = self.world.entries

    def admit(self, period: StreamPeriod) -> None:
        self.world.admit_by_table(period)

    def begin(self, place: IntArray) -> None:
        """Start from the offline plan, as all methods but hashing do; its moves do not count."""
        if self.starts_offline:
            self.world.follow(place)

    def plan(self, known: Knowledge) -> None:
        """Plan nothing; other methods override this."""


class Once(RoutingMethod):
    name = ONCE
    starts_offline = True


class Paper(RoutingMethod):
    """[MW16-LOCALITY, 3.2-3.3]: METIS on the pairs kept, all other keys by hash.

    With a decay, the older statistics are kept as well, and the parts renamed to move less.
    """

    name = PAPER
    starts_offline = True

    def __init__(self, stream: Stream, n_servers: int, decay: float = 0.0) -> None:
        super().__init__(stream, n_servers)
        self.decay = decay
        if decay > 0:
            self.name = DECAYED

    def plan(self, known: Knowledge) -> None:
        graph = pairs_alone(known.statistics.under(self.decay).statistics)
        ids = known.stream.ids_of(graph)
        server = metis_routes(graph, known.n_servers, seed=known.seed)
        if self.decay > 0:
            held = replace(graph, state=self.world.state[ids])
            server = match_labels(held, server, self.world.place[ids], known.n_servers)
        place = self.world.hashed.copy()
        place[ids] = server
        self.course.moved.append(self.world.follow(place))


class Ours(RoutingMethod):
    """The method of Ballast: the sticky search with the best decay and the gate."""

    name = OURS
    starts_offline = True

    def __init__(self, stream: Stream, n_servers: int, price: float = RECORDS_PER_BYTE) -> None:
        super().__init__(stream, n_servers)
        self.price = price
        self.memory = AmortisationMemory(floor=100.0 / n_servers)
        self.before = self.world.place
        self.watched: deque[IntArray] = deque(maxlen=OBSERVED_PLANS)
        if price == 0:
            self.name = UNGATED

    def admit(self, period: StreamPeriod) -> None:
        if self.watched:
            self.world.admit_by_partner(period)
        else:
            self.world.admit_by_table(period)

    def begin(self, place: IntArray) -> None:
        super().begin(place)
        self._came_into_force(self.world.place, predicted=0.0)

    def serve(self, period: StreamPeriod, *, counts: bool) -> None:
        super().serve(period, counts=counts)
        if self.watched:
            came = [self._locality(period, place) for place in self.watched]
            self.memory.record_period(came, came[-1] - self._locality(period, self.before))

    def plan(self, known: Knowledge) -> None:
        best = known.statistics.best
        ids = known.stream.ids_of(best.graph)
        graph = replace(best.graph, state=self.world.state[ids])
        before = self.world.place[ids]
        plan = sticky_routes(
            graph,
            CurrentServers(before, before != NOWHERE, known.n_servers),
            StickyParams(gate=self._gate(best)),
            seed=known.seed,
            fresh=best.fresh_plan,
            views=known.statistics.views(best.graph),
        )
        gain = locality(graph, plan.server) - locality(graph, before)
        self.course.decay.append(known.statistics.best_decay)
        self.course.lifetime.append(self.memory.lifetime)
        self.course.trust.append(self.memory.trust)
        place = self.world.place.copy()
        place[ids] = plan.server
        old = self.world.place
        self.course.moved.append(self.world.follow(place))
        self._came_into_force(old, gain)

    def _gate(self, best: DecayCandidate) -> AmortisationGate:
        """Return the gate with its lifetime in weights of the graph, which sum several periods."""
        gate = self.memory.gate(self.price)
        return replace(gate, lifetime=gate.lifetime / best.periods)

    def _came_into_force(self, before: IntArray, predicted: float) -> None:
        # Copies, because keys that appear later are in neither plan.
        self.before = before.copy()
        self.watched.append(self.world.place.copy())
        self.memory.record_plan(predicted)

    def _locality(self, period: StreamPeriod, place: IntArray) -> float:
        """Return the locality if keys had stayed on these servers and new keys had gone by hash."""
        server = np.where(place == NOWHERE, self.world.hashed, place)[period.ids]
        return locality(period.graph, server)


def locality(graph: KeyGraph, server: IntArray) -> float:
    """Return the locality in percent of all records, those without a counted pair included."""
    return 100.0 * graph.local_weight(server) / float(graph.weight[graph.stage(LEFT)].sum())


def pairs_alone(statistics: PairStatistics) -> KeyGraph:
    """Return the graph with keys weighed by their counted pairs [MW16-LOCALITY]."""
    return KeyGraph.from_counts((a, b, n) for (a, b), n in statistics.pairs.counts.items())


def offline_place(known: Knowledge, world: RoutedServers, statistics: PairStatistics) -> IntArray:
    """Return [keys]: a plan by the paper's method from all records so far; other keys by hash."""
    graph = pairs_alone(statistics)
    place = world.hashed.copy()
    place[known.stream.ids_of(graph)] = metis_routes(graph, known.n_servers, seed=known.seed)
    return place
