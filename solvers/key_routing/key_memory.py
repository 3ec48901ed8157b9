"""Statistics of an edge over several periods, under the decay that a back-test chooses.

The statistics of this round and earlier ones go through the back-test of the benchmarks
(decayed_statistics.py). They are rates and not counts, so every period weighs the same, however
long it was.
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
"""Side and key in; the state that moves with the key out."""


@dataclass(frozen=True, eq=False)
class KeyMemory:
    """Statistics of an edge under every candidate decay.

    Attributes:
        statistics: The decayed statistics, with the score of each decay.
        periods: Number of periods that counted pairs of the edge.
    """

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
        """Return the statistics of all periods that counted pairs of the edge.

        Raises:
            InvalidInput: no period counted pairs of the edge.
        """
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
        """The decay with the best score: what is left of a period's weight a round later."""
        return self.statistics.best_decay

    def graph(self, state_of: StateOf | None = None) -> KeyGraph:
        """Return the graph of rates under the best decay, with the keys of every decay.

        A key that occurs only under other decays has a weight of 0, but counts in their views of
        the balance.

        Args:
            state_of: State of each key; 1 for every key if None.
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
        """Return [vertices, decays]: the records of the graph's keys by each decay."""
        return self.statistics.views(graph)

    @cached_property
    def balance_views(self) -> tuple[KeyGraph, FloatArray]:
        """The graph without state, and the views of its keys."""
        graph = self.graph()
        return graph, self.views(graph)

    def __str__(self) -> str:
        return f"keys by {self.periods} periods of statistics, decay {self.decay:g}"


def _capacity(periods: list[KeyStatistics], edge: RoutedEdge) -> int:
    """Return a capacity for all items of all periods; each period is bounded already."""
    held = 1
    for counted in periods:
        keys = [len(counted.keys.get(operator, {})) for operator in edge.ends]
        held += max(*keys, len(counted.pairs.get(edge.ends, {})))
    return held


def pair_statistics(counted: KeyStatistics, edge: RoutedEdge, capacity: int) -> PairStatistics:
    """Return the rates of one period as summaries with error bounds."""
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
