"""One method on one setting: a real region on loopback TCP for a set time."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ballast.streaming.region import OrderedRegion, RegionSettings, Window
from bench.weights.methods import ORACLE, REROUTING, Method, control_s, method_of
from bench.weights.service import TimedWork
from bench.weights.settings import Setting, best_weights
from solvers.problem import FloatArray

RECORD_BYTES = 1_011
"""1,024 with its header."""
SEND_BUFFER, RECEIVE_BUFFER = 4_096, 2_048
"""As asked of the kernel, which doubles them: about nine records of a worker wait in them."""


@dataclass
class Round:
    """A second of a run, or a window of plans: figures a worker."""

    at_s: float
    weights: list[int]
    sent: list[int]
    done: list[int]
    blocked_s: list[float]
    clusters: list[int]


@dataclass
class Run:
    setting: str
    method: str
    seconds: float
    merged: int = 0
    late_s: float = 0.0
    cpu_s: float = 0.0
    """Of the splitter and the merge."""
    rounds: list[Round] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Run:
        rounds = [Round(**r) for r in found.pop("rounds")]
        return cls(**found, rounds=rounds)

    def done_a_second(self) -> FloatArray:
        """Records that came back from workers, by second of the run."""
        done = np.zeros(int(np.ceil(self.seconds)))
        before = 0.0
        for found in self.rounds:
            begin, end = before, min(found.at_s, self.seconds)
            for second in range(int(begin), int(np.ceil(end))):
                inside = min(end, second + 1) - max(begin, second)
                done[second] += sum(found.done) * inside / max(found.at_s - begin, 1e-9)
            before = found.at_s
        return done


def run(setting: Setting, name: str, seconds: float, start: float) -> Run:
    """Records flow from the moment ``start`` of ``time.monotonic()`` on, for ``seconds``."""
    found = Run(setting.name, name, seconds)
    lifted_at = start + seconds * setting.lifted_share if setting.is_lifted else float("inf")
    method = method_of(name, setting)
    region = OrderedRegion(
        TimedWork(setting.service_s, setting.factors, lifted_at),
        setting.workers,
        weights=method.first,
        settings=RegionSettings(
            send_buffer=SEND_BUFFER,
            receive_buffer=RECEIVE_BUFFER,
            control_s=control_s(name),
            reroute=name == REROUTING,
        ),
        control=lambda window: _after(found, method, window, start),
    )
    with region:
        found.late_s = max(0.0, time.monotonic() - start)
        before = _cpu_s()
        timers = [threading.Timer(start + seconds - time.monotonic(), region.stop)]
        if name == ORACLE and setting.is_lifted:
            final = best_weights(setting.final_capacities).tolist()
            timers.append(
                threading.Timer(lifted_at - time.monotonic(), region.set_weights, (final,))
            )
        for timer in timers:
            timer.start()
        for _ in region.run(_source(start)):
            pass
        found.merged = region.merged
        found.cpu_s = _cpu_s() - before
    return found


def _after(found: Run, method: Method, window: Window, start: float) -> list[int] | None:
    at_s = time.monotonic() - start
    if at_s < window.seconds / 2:
        return None
    weights = method.after(window)
    found.rounds.append(
        Round(
            at_s,
            window.weights.tolist(),
            window.sent.tolist(),
            window.done.tolist(),
            window.blocked_s.tolist(),
            method.clusters,
        )
    )
    return None if weights is None else list(weights)


def _source(start: float) -> Iterator[bytes]:
    record = bytes(RECORD_BYTES)
    time.sleep(max(0.0, start - time.monotonic()))
    while True:
        yield record


def _cpu_s() -> float:
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime
