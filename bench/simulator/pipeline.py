"""A pipeline of operators in a fluid model: the fullest node limits the whole throughput.

[DODO]: extractor, count and report, top N, over topics by a Zipf law. Records wait at the source
while fewer are processed than arrive, and the records of a key group that moves wait for its state.
The fullest node determines how many pass. A node's use is in nodes, so 1 is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solvers.model.problem import FloatArray, IntArray

OPERATORS = ("extractor", "count", "top-n")
TOPICS = 5_000
ZIPF_EXPONENT = 0.5
KEY_GROUPS_EACH = 120
BYTES_PER_TOPIC = 10_000


@dataclass(frozen=True, eq=False)
class PassedRecords:
    """What key groups processed in a time, as a streaming job would measure it
    (``rows.Measured``)."""

    load: FloatArray  # [G], in nodes
    records: IntArray
    state_bytes: IntArray


@dataclass(frozen=True, eq=False)
class PipelineTopology:
    """Key groups of all operators: the share of the tweets that each processes, and its cost."""

    operator: IntArray  # [G]
    share: FloatArray  # [G], sums to 1 for each operator
    work_s: FloatArray  # [G], seconds of a node for each tweet that enters
    state_bytes: IntArray  # [G]

    @property
    def operator_names(self) -> tuple[str, ...]:
        return tuple(OPERATORS[i] for i in self.operator)

    def passed(self, rate: float, seconds: float) -> PassedRecords:
        """The work of a time at this many tweets per second."""
        records = np.rint(rate * seconds * self.share).astype(np.int64)
        return PassedRecords(rate * self.work_s, records, self.state_bytes)

    def bound(self, nodes: float) -> float:
        """Tweets per second that this number of nodes could process if work were a fluid."""
        return nodes / float(self.work_s.sum())

    def sustained(self, node: IntArray, nodes: int) -> float:
        """Tweets per second at which the fullest of these nodes is full."""
        return 1.0 / float(np.bincount(node, weights=self.work_s, minlength=nodes).max())


def topic_popularity() -> FloatArray:
    return np.asarray(np.arange(1, TOPICS + 1) ** -ZIPF_EXPONENT, dtype=np.float64)


def topology(seed: int, cost_ms: Sequence[float]) -> PipelineTopology:
    """Tweets go to extractors evenly; topics are hashed to the key groups of the other
    operators."""
    rng = np.random.default_rng([seed, 3])
    popularity = topic_popularity()
    group = rng.integers(0, KEY_GROUPS_EACH, TOPICS)
    seen = np.bincount(group, weights=popularity, minlength=KEY_GROUPS_EACH)
    topics = np.bincount(group, minlength=KEY_GROUPS_EACH)
    even = np.full(KEY_GROUPS_EACH, 1.0 / KEY_GROUPS_EACH)
    shares = np.concatenate((even, *[seen / seen.sum()] * 2))
    costs = np.repeat(np.array(cost_ms) / 1000.0, KEY_GROUPS_EACH)
    held = np.concatenate((np.zeros(KEY_GROUPS_EACH, dtype=np.int64), topics, topics))
    return PipelineTopology(
        np.repeat(np.arange(len(OPERATORS)), KEY_GROUPS_EACH),
        shares,
        shares * costs,
        BYTES_PER_TOPIC * held,
    )


@dataclass
class Source:
    """Tweets that arrived and were not processed yet."""

    backlog: float = 0.0

    def step(self, arriving: float, capable: float, seconds: float, held: float = 0.0) -> float:
        """Tweets per second that pass; ``held`` of them waited for the state of their key group."""
        wanted = arriving + self.backlog / seconds
        passed = max(0.0, min(capable, wanted) - held / seconds)
        self.backlog = max(0.0, self.backlog + (arriving - passed) * seconds)
        return passed


@dataclass(frozen=True)
class Ramp:
    """A rate that begins at ``start`` and rises by ``step`` after each interval."""

    start: float
    step: float
    every_s: float

    def at(self, at_s: float) -> float:
        return self.start + self.step * at_s / self.every_s
