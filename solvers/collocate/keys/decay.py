"""How fast statistics should forget, chosen by back-test: what would have served best lately.

Seed 004 resets its statistics at every reconfiguration (decay 0). Older periods help where
correlations last and hurt where they shift, so the choice is made from the stream itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.collocate.keys.evaluate import quality
from solvers.collocate.keys.key_graph import LEFT, RIGHT, KeyGraph
from solvers.collocate.keys.statistics import PairStatistics, merge_statistics
from solvers.collocate.keys.table import hash_server
from solvers.problem import FloatArray, IntArray

CANDIDATES = (0.0, 0.5, 0.7, 0.9)
FORGET = 0.7
"""Of a candidate's score per period: what served best lately counts more than long ago."""

Planner = Callable[[KeyGraph], IntArray]
"""From statistics, as a graph, to a server for each of its keys: a plan from nothing."""


@dataclass(frozen=True, eq=False, slots=True)
class Remembered:
    """Statistics under one decay, and the plan that they alone would make.

    ``periods`` is how many whole periods the statistics weigh: rates are weights over it.
    """

    statistics: PairStatistics
    periods: float
    graph: KeyGraph
    fresh_plan: IntArray


class DecayedStatistics:
    """Statistics under several decays at once, each judged by how its plan served next.

    One summary a candidate, decayed and merged as periods end, so that the memory does not grow
    with history. A period is predicted only from those before it.
    """

    def __init__(
        self, plan: Planner, n_servers: int, candidates: Sequence[float] = CANDIDATES
    ) -> None:
        if not candidates or not all(0.0 <= d <= 1.0 for d in candidates):
            raise InvalidInput(f"the decays are {tuple(candidates)}", allowed="numbers in [0, 1]")
        self._plan, self._n_servers = plan, n_servers
        self._under: dict[float, Remembered] = {}
        self._scores = dict.fromkeys(candidates, 0.0)

    def observe(self, period: PairStatistics) -> None:
        """A period is over: judge each candidate by it, then let it in."""
        came = KeyGraph.of(period)
        for decay in self._scores:
            before = self._under.get(decay)
            if before is not None:
                self._judge(decay, before, came)
            self._under[decay] = self._with(period, decay, before)

    def _judge(self, decay: float, before: Remembered, came: KeyGraph) -> None:
        routed = routed_by(before.graph, before.fresh_plan, came, self._n_servers)
        served = quality(came, routed, self._n_servers).locality
        self._scores[decay] = FORGET * self._scores[decay] + served

    def _with(self, period: PairStatistics, decay: float, before: Remembered | None) -> Remembered:
        statistics, periods = period, 1.0
        if before is not None and decay > 0:
            statistics = merge_statistics(
                [before.statistics.scaled(decay), period],
                period.pairs.capacity,
                period.left.capacity,
            )
            periods += decay * before.periods
        graph = KeyGraph.of(statistics)
        return Remembered(statistics, periods, graph, self._plan(graph))

    @property
    def best_decay(self) -> float:
        """The best so far; the least memory among equals."""
        return max(self._scores, key=lambda d: (self._scores[d], -d))

    @property
    def best(self) -> Remembered:
        """The statistics under it."""
        return self.under(self.best_decay)

    def views(self, graph: KeyGraph) -> FloatArray:
        """[vertices of ``graph``, candidates]: what each memory says of the keys' records.

        The shortest one follows a shift of load that the one with the best locality still averages
        away, and the longest one knows keys that were away for a while.
        """
        return np.stack([weights_in(m.graph, graph) for m in self._under.values()], axis=1)

    def under(self, decay: float) -> Remembered:
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
