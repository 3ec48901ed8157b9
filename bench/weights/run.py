"""One method on one setting: a real region on loopback TCP until its work is done."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ballast.streaming.region import OrderedRegion, RegionMeasurement, RegionSettings
from bench.weights.methods import FIXED, ORACLE, REROUTING, WeightMethod, control_s, method_of
from bench.weights.service import TimedWork, shared_moment
from bench.weights.settings import LIFTED, RegionSetting, best_weights
from solvers.model.problem import FloatArray

RECORD_BYTES = 1_011
"""Bytes of a record; 1,024 with its header."""
SEND_BUFFER, RECEIVE_BUFFER = 4_096, 2_048
"""Requested size of a socket buffer, which the kernel doubles: about nine records of a worker
wait."""
SHORTER = 4
"""Divisor of the work for weights that never change, because each second of such a run is alike."""
CAP_S = 150.0


@dataclass
class RegionRound:
    """Figures of each worker in a second of a run, or in a window of plans."""

    at_s: float
    weights: list[int]
    sent: list[int]
    done: list[int]
    blocked_s: list[float]
    clusters: list[int]


@dataclass
class RegionRun:
    """A run; ``lifted_s``: when an eighth of the work was done and the load was lifted."""

    setting: str
    method: str
    records: int
    merged: int = 0
    seconds: float = 0.0
    lifted_s: float | None = None
    cpu_s: float = 0.0
    """Of the splitter and the merge."""
    rounds: list[RegionRound] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> RegionRun:
        return cls(**{**found, "rounds": [RegionRound(**r) for r in found["rounds"]]})

    @property
    def is_done(self) -> bool:
        return self.merged >= self.records

    def seconds_for(self, records: int) -> float:
        """Time for the whole work of the setting; for a run that was cut off, at its rate so
        far."""
        return self.seconds * records / max(self.merged, 1)

    def done_a_second(self) -> FloatArray:
        """Records that came back from workers, by second of the run."""
        done = np.zeros(int(np.ceil(self.seconds)) + 1)
        before = 0.0
        for found in self.rounds:
            rate = sum(found.done) / max(found.at_s - before, 1e-9)
            for second in range(int(before), min(int(found.at_s) + 1, len(done))):
                inside = min(found.at_s, second + 1) - max(before, second)
                done[second] += rate * max(inside, 0.0)
            before = found.at_s
        return done[: int(before)]


def work_of(setting: RegionSetting, method: str) -> int:
    return setting.records // (SHORTER if method in FIXED else 1)


def run(setting: RegionSetting, name: str) -> RegionRun:
    """Run until the work is done, at most for ``CAP_S`` seconds."""
    found = RegionRun(setting.name, name, work_of(setting, name))
    lifted = shared_moment()
    method = method_of(name, setting)
    start = [float("inf")]
    region = OrderedRegion(
        TimedWork(setting.service_s, setting.factors, lifted),
        setting.workers,
        weights=method.first,
        settings=RegionSettings(
            send_buffer=SEND_BUFFER,
            receive_buffer=RECEIVE_BUFFER,
            control_s=control_s(name),
            reroute=name == REROUTING,
        ),
        control=lambda window: _after(found, method, window, start[0]),
    )
    with region:
        before = _cpu_s()
        cap = threading.Timer(CAP_S, region.stop)
        cap.start()
        start[0] = time.monotonic()
        lift_after = int(found.records * LIFTED) if setting.is_lifted else found.records + 1
        for number, _ in enumerate(region.run(_source()), 1):
            if number == lift_after:
                lifted.value = time.monotonic()
                found.lifted_s = lifted.value - start[0]
                if name == ORACLE:
                    region.set_weights(best_weights(setting.final_capacities).tolist())
            if number >= found.records:
                region.stop()
                break
        cap.cancel()
        found.seconds = time.monotonic() - start[0]
        found.merged = region.merged
        found.cpu_s = _cpu_s() - before
    return found


def _after(
    found: RegionRun, method: WeightMethod, window: RegionMeasurement, start: float
) -> list[int] | None:
    weights = method.after(window)
    found.rounds.append(
        RegionRound(
            time.monotonic() - start,
            window.weights.tolist(),
            window.sent.tolist(),
            window.done.tolist(),
            window.blocked_s.tolist(),
            method.clusters,
        )
    )
    return None if weights is None else list(weights)


def _source() -> Iterator[bytes]:
    record = bytes(RECORD_BYTES)
    while True:
        yield record


def _cpu_s() -> float:
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime
