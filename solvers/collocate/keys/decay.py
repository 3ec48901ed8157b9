"""How fast statistics should forget, chosen by back-test: what would have served best lately.

Seed 004 resets its statistics at every reconfiguration (decay 0). Older periods help where
correlations last and hurt where they shift, so the choice is made from the stream itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ballast.contracts.errors import InvalidInput
from solvers.collocate.keys.evaluate import quality
from solvers.collocate.keys.key_graph import KeyGraph
from solvers.collocate.keys.statistics import PairStatistics, merge_statistics
from solvers.problem import IntArray

CANDIDATES = (0.0, 0.5, 0.7, 0.9)
FORGET = 0.7
"""Of a candidate's score per period: what served best lately counts more than long ago."""

Router = Callable[[KeyGraph], IntArray]
Planner = Callable[[PairStatistics], Router]
"""From statistics to routes, as a function from a graph's keys to servers."""


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
        self._summaries: dict[float, PairStatistics] = {}
        self._scores = dict.fromkeys(candidates, 0.0)

    def observe(self, period: PairStatistics) -> None:
        """A period is over: judge each candidate by it, then let it in."""
        came = KeyGraph.of(period)
        for decay in self._scores:
            if decay not in self._summaries:
                self._summaries[decay] = period.scaled(1.0)
                continue
            router = self._plan(self._summaries[decay])
            served = quality(came, router(came), self._n_servers).locality
            self._scores[decay] = FORGET * self._scores[decay] + served
            self._summaries[decay] = merge_statistics(
                [self._summaries[decay].scaled(decay), period],
                period.pairs.capacity,
                period.left.capacity,
            )

    @property
    def best_decay(self) -> float:
        """The best so far; the least memory among equals."""
        return max(self._scores, key=lambda d: (self._scores[d], -d))

    @property
    def best(self) -> PairStatistics:
        """The statistics under it."""
        if not self._summaries:
            raise InvalidInput("no period was observed yet", remedy="call observe first")
        return self._summaries[self.best_decay]
