"""The power of two choices [ICDE17, 2.2 and 5.2.1] on the edits of Real Job 1.

Each article has two nodes, and every edit goes to the less loaded of the two. So an article's state
is split, and at the end of every minute the second half is merged into the node of the first. The
choice does not balance this work, and it is necessary even if the cluster is level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.simulator.real_job_1 import ARTICLES, CPU_MS, JobPeriod
from solvers.key_routing.two_choices import TwoChoices
from solvers.model.problem import FloatArray, IntArray

MERGE_MS_PER_EDIT = 0.5
"""Milliseconds to serialise, send and merge one edit of the second half; hashing it costs 0.8
ms."""
CHUNK = 50
"""Edits that are sent by one view of the loads: senders see loads with a delay."""


@dataclass(frozen=True)
class PotcPeriod:
    """The load of each node, in shares of a node, and the part of it that was merging."""

    node_loads: FloatArray
    merge_share: float

    def load_distance_points(self) -> float:
        return 100.0 * float(np.abs(self.node_loads - self.node_loads.mean()).max())


class Potc:
    """The articles of Real Job 1, routed by two choices."""

    def __init__(self, seed: int, nodes: int, node_ms: float) -> None:
        self.two = TwoChoices.drawn(seed, nodes, ARTICLES)
        self.nodes, self.node_ms = nodes, node_ms

    def period(self, period: JobPeriod) -> PotcPeriod:
        """Both stateful operators get their records by two choices; hashing locations is level
        already."""
        stateless = CPU_MS["geohash"] * sum(map(len, period.edits)) / self.nodes
        busy = np.full(self.nodes, stateless)
        merging = np.zeros(self.nodes)
        for minute in period.edits:
            sent = self.two.send(minute, at_once=CHUNK)
            busy += CPU_MS["topk_minute"] * np.bincount(sent, minlength=self.nodes)
            merging += self._merge(minute, sent)
            articles = np.unique(minute)
            counted = self.two.send(articles, at_once=CHUNK)
            busy += CPU_MS["topk_global"] * np.bincount(counted, minlength=self.nodes)
        total = busy + merging
        return PotcPeriod(total / self.node_ms, float(merging.sum() / busy.sum()))

    def _merge(self, articles: IntArray, sent: IntArray) -> FloatArray:
        """Milliseconds on each node for merging the second halves."""
        owner = self.two.choices[0, articles]
        elsewhere = sent != owner
        edits = np.bincount(owner[elsewhere], minlength=self.nodes)
        return np.asarray(MERGE_MS_PER_EDIT * edits, dtype=np.float64)
