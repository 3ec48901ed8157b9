"""Statistics under several decays, and a back-test that chooses between them.

[MW16-LOCALITY] resets its statistics at every reconfiguration (decay 0). Older periods help where
correlations last and hurt where they shift, so the stream itself decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.key_routing.key_graph import LEFT, RIGHT, KeyGraph
from solvers.key_routing.pair_statistics import PairStatistics, merge_statistics
from solvers.key_routing.route_quality import quality
from solvers.key_routing.routing_table import hash_server
from solvers.model.problem import FloatArray, IntArray

CANDIDATES = (0.0, 0.5, 0.7, 0.9)
FORGET = 0.7
"""Factor of a candidate's score per period: recent periods count more."""

Planner = Callable[[KeyGraph], IntArray]
"""Statistics as a graph in; a server for each of its keys out (a plan from scratch)."""


@dataclass(frozen=True, eq=False)
class DecayCandidate:
    """Statistics under one decay.

    Attributes:
        statistics: The decayed summaries.
        periods: Number of whole periods that the weights sum; weights over it are rates.
        graph: The statistics as a graph.
        plan: Makes a plan from the graph.
    """

    statistics: PairStatistics
    periods: float
    graph: KeyGraph
    plan: Planner

    @cached_property
    def fresh_plan(self) -> IntArray:
        """The plan by these statistics alone, made on first use."""
        return self.plan(self.graph)


class DecayedStatistics:
    """Statistics under several decays; the score of each is the locality of its plans.

    Each decay has one summary, decayed and merged at the end of every period, so memory does not
    grow with history. A plan for a period uses only the periods before it.

    Keys and pairs weigh their counts, which can be too high, or their lower bounds if ``proven``.
    """

    def __init__(
        self,
        plan: Planner,
        n_servers: int,
        candidates: Sequence[float] = CANDIDATES,
        *,
        proven: bool = False,
    ) -> None:
        if not candidates or not all(0.0 <= d <= 1.0 for d in candidates):
            raise InvalidInput(f"the decays are {tuple(candidates)}", allowed="numbers in [0, 1]")
        self._plan, self._n_servers, self._proven = plan, n_servers, proven
        self._under: dict[float, DecayCandidate] = {}
        self._scores = dict.fromkeys(candidates, 0.0)

    def observe(self, period: PairStatistics, gap: float = 1.0) -> None:
        """Score each decay by a period that ended, then add the period to the statistics.

        Args:
            period: Counts of the period.
            gap: Periods since the last observed one, 1 if none is missing; old weights decay in
                missing periods too.

        Raises:
            InvalidInput: ``gap`` is not a number above 0.
        """
        if not (math.isfinite(gap) and gap > 0):
            raise InvalidInput(f"the gap is {gap!r} periods", allowed="a number above 0")
        observed = KeyGraph.of(period, proven=self._proven)
        for decay in self._scores:
            before = self._under.get(decay)
            if before is not None:
                self._score(decay, before, observed)
            self._under[decay] = self._with(period, decay**gap, before)

    def _score(self, decay: float, before: DecayCandidate, observed: KeyGraph) -> None:
        routed = routed_by(before.graph, before.fresh_plan, observed, self._n_servers)
        served = quality(observed, routed, self._n_servers).locality
        self._scores[decay] = FORGET * self._scores[decay] + served

    def _with(
        self, period: PairStatistics, decay: float, before: DecayCandidate | None
    ) -> DecayCandidate:
        statistics, periods = period, 1.0
        if before is not None and decay > 0:
            statistics = merge_statistics(
                [before.statistics.scaled(decay), period],
                period.pairs.capacity,
                period.left.capacity,
            )
            periods += decay * before.periods
        graph = KeyGraph.of(statistics, proven=self._proven)
        return DecayCandidate(statistics, periods, graph, self._plan)

    @property
    def memories(self) -> Mapping[float, DecayCandidate]:
        """Statistics by decay; empty before the first period."""
        return MappingProxyType(self._under)

    @property
    def best_decay(self) -> float:
        """The decay with the best score; the smallest one among equals."""
        return max(self._scores, key=lambda d: (self._scores[d], -d))

    @property
    def best(self) -> DecayCandidate:
        """The statistics under the best decay."""
        return self.under(self.best_decay)

    def views(self, graph: KeyGraph) -> FloatArray:
        """Return [vertices of ``graph``, decays]: the records of the keys by each decay.

        The smallest decay shows a shift of load early. The largest one has keys without records for
        a while.
        """
        return np.stack([weights_in(m.graph, graph) for m in self._under.values()], axis=1)

    def under(self, decay: float) -> DecayCandidate:
        """Return the statistics under a decay.

        Raises:
            InvalidInput: no period was observed yet.
        """
        if decay not in self._under:
            raise InvalidInput("no period was observed yet", remedy="call observe first")
        return self._under[decay]


def routed_by(planned: KeyGraph, plan: IntArray, observed: KeyGraph, n_servers: int) -> IntArray:
    """Return [vertices of ``observed``]: the planned server of each key, or the hashed one."""
    routed = []
    for side in (LEFT, RIGHT):
        stage = planned.stage(side)
        known = dict(zip(planned.keys[stage], plan[stage].tolist(), strict=True))
        for key in observed.keys[observed.stage(side)]:
            server = known.get(key)
            routed.append(hash_server(key, n_servers) if server is None else server)
    return np.array(routed, dtype=np.int64)


def weights_in(counted: KeyGraph, graph: KeyGraph) -> FloatArray:
    """Return [vertices of ``graph``]: the weight of each key in ``counted``, 0 if unknown."""
    weights = []
    for side in (LEFT, RIGHT):
        stage = counted.stage(side)
        known = dict(zip(counted.keys[stage], counted.weight[stage].tolist(), strict=True))
        weights += [known.get(key, 0.0) for key in graph.keys[graph.stage(side)]]
    return np.array(weights, dtype=np.float64)
