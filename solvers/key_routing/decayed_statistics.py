"""How fast statistics should forget, chosen by back-test: what would have served best lately.

[MW16-LOCALITY] resets its statistics at every reconfiguration (decay 0). Older periods help where
correlations last and hurt where they shift, so the choice is made from the stream itself.
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
"""Of a candidate's score per period: what served best lately counts more than long ago."""

Planner = Callable[[KeyGraph], IntArray]
"""From statistics, as a graph, to a server for each of its keys: a plan from nothing."""


@dataclass(frozen=True, eq=False)
class DecayCandidate:
    """Statistics under one decay, and the plan that they alone would make.

    ``periods`` is how many whole periods the statistics weigh: rates are weights over it.
    """

    statistics: PairStatistics
    periods: float
    graph: KeyGraph
    plan: Planner

    @cached_property
    def fresh_plan(self) -> IntArray:
        """Made when it is first asked for: the last period's may never be."""
        return self.plan(self.graph)


class DecayedStatistics:
    """Statistics under several decays at once, each judged by how its plan served next.

    One summary a candidate, decayed and merged as periods end, so that the memory does not grow
    with history. A period is predicted only from those before it.

    Keys and pairs weigh their counts, which may be too high, or, where ``proven``, what is sure.
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
        """A period is over: judge each candidate by it, then let it in.

        ``gap`` is how many periods ended since the last that was observed, itself among them:
        what was not observed fades nevertheless.
        """
        if not (math.isfinite(gap) and gap > 0):
            raise InvalidInput(f"the gap is {gap!r} periods", allowed="a number above 0")
        came = KeyGraph.of(period, proven=self._proven)
        for decay in self._scores:
            before = self._under.get(decay)
            if before is not None:
                self._judge(decay, before, came)
            self._under[decay] = self._with(period, decay**gap, before)

    def _judge(self, decay: float, before: DecayCandidate, came: KeyGraph) -> None:
        routed = routed_by(before.graph, before.fresh_plan, came, self._n_servers)
        served = quality(came, routed, self._n_servers).locality
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
        """By decay; empty before the first period."""
        return MappingProxyType(self._under)

    @property
    def best_decay(self) -> float:
        """The best so far; the least memory among equals."""
        return max(self._scores, key=lambda d: (self._scores[d], -d))

    @property
    def best(self) -> DecayCandidate:
        """The statistics under it."""
        return self.under(self.best_decay)

    def views(self, graph: KeyGraph) -> FloatArray:
        """[vertices of ``graph``, candidates]: what each memory says of the keys' records.

        The shortest one follows a shift of load that the one with the best locality still averages
        away, and the longest one knows keys that were away for a while.
        """
        return np.stack([weights_in(m.graph, graph) for m in self._under.values()], axis=1)

    def under(self, decay: float) -> DecayCandidate:
        if decay not in self._under:
            raise InvalidInput("no period was observed yet", remedy="call observe first")
        return self._under[decay]


def routed_by(planned: KeyGraph, plan: IntArray, came: KeyGraph, n_servers: int) -> IntArray:
    """[vertices of ``came``]: by the plan where it knows the key, else by hash."""
    routed = []
    for side in (LEFT, RIGHT):
        stage = planned.stage(side)
        known = dict(zip(planned.keys[stage], plan[stage].tolist(), strict=True))
        for key in came.keys[came.stage(side)]:
            server = known.get(key)
            routed.append(hash_server(key, n_servers) if server is None else server)
    return np.array(routed, dtype=np.int64)


def weights_in(counted: KeyGraph, graph: KeyGraph) -> FloatArray:
    """[vertices of ``graph``]: what their keys weigh in ``counted``, and 0 if it has them not."""
    found = []
    for side in (LEFT, RIGHT):
        stage = counted.stage(side)
        known = dict(zip(counted.keys[stage], counted.weight[stage].tolist(), strict=True))
        found += [known.get(key, 0.0) for key in graph.keys[graph.stage(side)]]
    return np.array(found, dtype=np.float64)
