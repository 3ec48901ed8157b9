"""What several periods together say of the keys of an edge, forgotten as fast as serves best.

The statistics of a round and of the rounds before it go through the same back-test as in the
benchmarks (decay.py). Rates, not counts: a period that was twice as long counts as much as others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from ballast.contracts.errors import InvalidInput
from solvers.key_routing.decayed_statistics import CANDIDATES, DecayedStatistics
from solvers.key_routing.key_graph import LEFT, RIGHT, KeyGraph
from solvers.key_routing.pair_statistics import PairStatistics
from solvers.key_routing.space_saving import Estimate, Item, SpaceSaving
from solvers.key_routing.sticky_search import IMBALANCE, fresh_routes
from solvers.model.key_statistics import KeyStatistics, RoutedEdge
from solvers.model.problem import FloatArray

StateOf = Callable[[int, bytes], float]
"""From a side and a key to what moving the key moves."""


@dataclass(frozen=True, eq=False)
class KeyMemory:
    """Statistics of an edge under every candidate decay, and which of them serves best."""

    statistics: DecayedStatistics
    periods: int

    @classmethod
    def of(
        cls,
        statistics: KeyStatistics,
        edge: RoutedEdge,
        n_servers: int,
        imbalance: float = IMBALANCE,
        *,
        seed: int = 0,
    ) -> KeyMemory:
        """Of the periods in which pairs of the edge were counted; there must be one."""
        planner = partial(fresh_routes, n_servers=n_servers, imbalance=imbalance, seed=seed)
        memory = DecayedStatistics(planner, n_servers, CANDIDATES, proven=True)
        periods = [(e.rounds_ago, e.counted) for e in statistics.earlier] + [(0.0, statistics)]
        known = [(ago, counted) for ago, counted in periods if counted.pairs.get(edge.ends)]
        if not known:
            raise InvalidInput(f"no pairs of keys were counted from {' to '.join(edge.ends)}")
        before = None
        for ago, counted in known:
            period = pair_statistics(counted, edge, _capacity([c for _, c in known], edge))
            memory.observe(period, 1.0 if before is None else before - ago)
            before = ago
        return cls(memory, len(known))

    @property
    def decay(self) -> float:
        """What is left of a period's weight a round later, by the candidate that serves best."""
        return self.statistics.best_decay

    def graph(self, state_of: StateOf | None = None) -> KeyGraph:
        """Rates a second under the best decay, over every key that any memory knows.

        One that the best has forgotten weighs nothing in it, but counts where balance is kept in
        the memories that have not.
        """
        best = self.statistics.best
        scale = 1.0 / best.periods
        keys, ends = best.graph.keys, (best.graph.edge_left, best.graph.edge_right)
        rows = zip(*(end.tolist() for end in ends), best.graph.edge_weight.tolist(), strict=True)
        pairs = [(keys[a], keys[b], scale * weight) for a, b, weight in rows]
        left, right = (self._rates(side, scale) for side in (LEFT, RIGHT))
        state = None
        if state_of is not None:
            sides = ((LEFT, left), (RIGHT, right))
            state = {(side, key): state_of(side, key) for side, rates in sides for key in rates}
        return KeyGraph.from_counts(pairs, left, right, state)

    def _rates(self, side: int, scale: float) -> dict[bytes, float]:
        best = self.statistics.best.graph
        stage = best.stage(side)
        rates = dict(zip(best.keys[stage], (scale * best.weight[stage]).tolist(), strict=True))
        for remembered in self.statistics.memories.values():
            graph = remembered.graph
            for key in graph.keys[graph.stage(side)]:
                rates.setdefault(key, 0.0)
        return rates

    def views(self, graph: KeyGraph) -> FloatArray:
        """[vertices, memories]: what each memory says of the keys of :meth:`graph`."""
        return self.statistics.views(graph)

    @cached_property
    def weighed(self) -> tuple[KeyGraph, FloatArray]:
        """The graph, whatever keys hold, and what each memory says of its keys."""
        graph = self.graph()
        return graph, self.views(graph)

    def __str__(self) -> str:
        return f"keys by {self.periods} periods of statistics, decay {self.decay:g}"


def _capacity(periods: list[KeyStatistics], edge: RoutedEdge) -> int:
    """Room for whatever is held: each period's part is bounded already, so nothing is dropped."""
    held = 1
    for counted in periods:
        keys = [len(counted.keys.get(operator, {})) for operator in edge.ends]
        held += max(*keys, len(counted.pairs.get(edge.ends, {})))
    return held


def pair_statistics(counted: KeyStatistics, edge: RoutedEdge, capacity: int) -> PairStatistics:
    """One period's rates as summaries: what is sure, and what may have been missed, as bounds."""
    pairs = {(a.encode(), b.encode()): r for (a, b), r in counted.pairs.get(edge.ends, {}).items()}
    errors = counted.pair_errors.get(edge.ends, {})
    pair_errors = {(a.encode(), b.encode()): error for (a, b), error in errors.items()}
    missed = counted.missed.get(edge.ends, 0.0)
    return PairStatistics(
        _summary(pairs, pair_errors, missed, capacity),
        *(_keys(counted, operator, capacity) for operator in edge.ends),
    )


def _keys(counted: KeyStatistics, operator: str, capacity: int) -> SpaceSaving[bytes]:
    rates = {key.encode(): rate for key, rate in counted.keys.get(operator, {}).items()}
    errors = {key.encode(): error for key, error in counted.errors.get(operator, {}).items()}
    return _summary(rates, errors, counted.missed.get(operator, 0.0), capacity)


def _summary(
    rates: Mapping[Item, float], errors: Mapping[Item, float], missed: float, capacity: int
) -> SpaceSaving[Item]:
    estimates = {
        item: Estimate(rate + errors.get(item, 0.0), errors.get(item, 0.0))
        for item, rate in rates.items()
    }
    return SpaceSaving.of(capacity, estimates, unseen=missed, total=sum(rates.values()))
