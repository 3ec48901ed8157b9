"""The power of two choices [ICDE17, 2.2 and 5.2.1] on the edits of Real Job 1.

Each article may go to two nodes; every edit goes to the less loaded of the two. So an article's
state is split, and at the end of every minute the second half is merged into the first one's node:
work that no choice can balance, and that is due however level the cluster is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.simulator.real_job_1 import ARTICLES, CPU_MS, JobPeriod
from solvers.key_routing.two_choices import TwoChoices
from solvers.model.problem import FloatArray, IntArray

MERGE_MS_PER_EDIT = 0.5
"""To serialise, send and merge one edit of the second half; hashing it cost 0.8 ms."""
CHUNK = 50
"""Edits that are sent on one view of the loads: senders learn of them with a delay."""


@dataclass(frozen=True)
class PotcPeriod:
    """What each node carried, in shares of a node, and how much of it was merging."""

    node_loads: FloatArray
    merge_share: float

    def load_distance_points(self) -> float:
        return 100.0 * float(np.abs(self.node_loads - self.node_loads.mean()).max())


class Potc:
    """The articles of Real Job 1 by two choices."""

    def __init__(self, seed: int, nodes: int, node_ms: float) -> None:
        self.two = TwoChoices.drawn(seed, nodes, ARTICLES)
        self.nodes, self.node_ms = nodes, node_ms

    def period(self, period: JobPeriod) -> PotcPeriod:
        """Both stateful operators are fed by two choices; hashing locations is level already."""
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
        """Milliseconds on each node for taking in the second halves."""
        owner = self.two.choices[0, articles]
        elsewhere = sent != owner
        edits = np.bincount(owner[elsewhere], minlength=self.nodes)
        return np.asarray(MERGE_MS_PER_EDIT * edits, dtype=np.float64)
