"""[AUTODASP17]'s simulation: every method on the same records, window after window, with queues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.common.seeds import seed_of
from bench.scaling.placing import PKG, WARM_UP, step_of, universal_hash
from bench.simulator.cluster import PauseModel
from bench.simulator.potc import CHUNK
from bench.simulator.queues import Queues
from bench.simulator.substreams import RATE_PER_S, STATE_S, WINDOW_S, Substreams
from solvers.key_routing.two_choices import TwoChoices
from solvers.model.problem import FloatArray, IntArray

INSTANCES = 10
SPEED_UPS = (5, 10, 20)
WINDOWS = 120
UTILISATION = 0.6
"""Utilisation of an instance with its even share; one at 1.7 times that is overloaded."""
PAUSE = PauseModel(c0_s=0.02, s_per_byte=1e-7)
"""Pause model: an average substream of 150 kB is paused for 35 ms."""


@dataclass(frozen=True)
class StreamOutcome:
    """One method on one stream. Loads are over their mean, latencies in ms."""

    law: str
    method: str
    index: int
    instances: int
    variance: tuple[float, ...]
    spread: tuple[float, ...]
    moved: float
    """State moved (with PKG: merged), over all state."""
    speed_up: float
    latency: dict[str, float]

    def figures(self) -> dict[str, float]:
        return {
            "variance": float(np.mean(self.variance)),
            "max - min": float(np.mean(self.spread)),
            "state moved": self.moved,
        }

    def to_dict(self) -> dict[str, Any]:
        return {
            "law": self.law,
            "method": self.method,
            "seed": self.index,
            "instances": self.instances,
            **self.figures(),
            "speed-up": self.speed_up,
            "latency_ms": self.latency,
        }


class StreamRun:
    """The run of one method: assignment, queues, and measurements after the warm-up."""

    def __init__(self, law: str, method: str, seed: int, instances: int, *, queues: bool) -> None:
        self.stream = Substreams(law, seed)
        self.method, self.instances = method, instances
        groups = self.stream.substreams
        self.assignment = universal_hash(groups, instances, seed)
        self.step = step_of(method, instances, self.stream.state_bytes, seed)
        self.two = TwoChoices.drawn(seed, instances, groups) if method == PKG else None
        self.queues = Queues(np.ones(instances), groups) if queues else None
        self.windows: list[IntArray] = []
        self.loads: list[FloatArray] = []
        self.latencies: list[FloatArray] = []
        self.bytes = 0.0
        self._second = np.zeros(groups)

    def go(self, count: int) -> None:
        for _ in range(count):
            self._window()

    def _window(self) -> None:
        arrivals = self.stream.next_window()
        key = arrivals.substream
        node = self.assignment[key] if self.two is None else self.two.send(key, at_once=CHUNK)
        self.windows.append(arrivals.counts(self.stream.substreams))
        measured = len(self.windows) > WARM_UP
        if measured:
            load = np.bincount(node, minlength=self.instances)
            self.loads.append(load / load.mean())
        if self.queues is not None:
            service_s = UTILISATION * self.instances / RATE_PER_S
            waits = self.queues.serve(arrivals.at_s, key, node, service_s)
            if measured:
                self.latencies.append(waits.astype(np.float32))
        if self.two is not None:
            self._merge(key, node)
        elif len(self.windows) >= WARM_UP:
            self._follow(self.step(self.windows, self.assignment))

    def _follow(self, after: IntArray) -> None:
        moved = after != self.assignment
        self.bytes += float(self.stream.state_bytes[moved].sum())
        if self.queues is not None:
            at_s = len(self.windows) * WINDOW_S
            self.queues.move(self.assignment, after, self.stream.state_bytes, PAUSE, at_s)
        self.assignment = after

    def _merge(self, key: IntArray, node: IntArray) -> None:
        """PKG: at the end of each minute the second half of a count moves to the first."""
        if self.two is None:
            return
        elsewhere = node != self.two.choices[0, key]
        self._second += np.bincount(key[elsewhere], minlength=len(self._second))
        if len(self.windows) * WINDOW_S % STATE_S == 0:
            seen = np.sum(self.windows[-round(STATE_S / WINDOW_S) :], axis=0)
            share = self._second / np.maximum(seen, 1)
            if len(self.windows) > WARM_UP:
                self.bytes += float((share * self.stream.state_bytes).sum())
            self._second[:] = 0.0


def outcome_of(
    seed_base: int, law: str, method: str, index: int, instances: int = INSTANCES
) -> StreamOutcome:
    """Simulate queues at the usual number of instances, and at others the loads alone."""
    seed = seed_of(seed_base, law, index)
    run = StreamRun(law, method, seed, instances, queues=instances == INSTANCES)
    run.go(WINDOWS)
    loads = np.array(run.loads)
    return StreamOutcome(
        law,
        method,
        index,
        instances,
        tuple(loads.var(axis=1).tolist()),
        tuple((loads.max(axis=1) - loads.min(axis=1)).tolist()),
        run.bytes / float(run.stream.state_bytes.sum()),
        # The fullest instance is full at this multiple of what one instance alone processes.
        float((instances / loads.max(axis=1)).mean()),
        _latency(run.latencies),
    )


def _latency(found: list[FloatArray]) -> dict[str, float]:
    if not found:
        return {}
    ms = 1000.0 * np.concatenate(found)
    return {
        "max": float(ms.max()),
        "mean": float(ms.mean(dtype=np.float64)),
        "median": float(np.median(ms)),
        "95 %": float(np.percentile(ms, 95)),
    }
