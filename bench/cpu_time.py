"""How precisely CPU time tells work: the same work again and again, raw and evened out.

    python bench/cpu_time.py [--seconds 30]

Six tasks in turn do the same work, as six nodes with the same key groups would in a batch. The
table says by how much their CPU times differ in one batch and added up over 30 batches, raw and
as ``ballast.streaming.speed`` evens them out, and what the probes cost.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ballast.streaming.speed import Pace, evened, probe_ns
from examples.flights.operators import extract_delays

TASKS, KEY_GROUPS, RECORDS = 6, 7, 150
PERIOD_BATCHES = 30
LINE = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"

Times = npt.NDArray[np.float64]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    seconds = parser.parse_args(argv).seconds
    raw, even, probe_share = measure(seconds)
    print(f"{len(raw)} batches of {TASKS} equal tasks, {raw.mean():.1f} ms of CPU time each; "
          f"probes cost {probe_share:.1%}")  # fmt: skip
    print(f"{'':10}{'one batch':>24}{f'{PERIOD_BATCHES} batches':>26}")
    print(f"{'':10}{'spread':>12}{'worst':>12}{'spread':>14}{'worst':>12}")
    for name, times in (("raw", raw), ("evened", even)):
        one, period = deviations(times, 1), deviations(times, PERIOD_BATCHES)
        print(f"{name:10}{one.std():12.1%}{np.abs(one).max():12.1%}"
              f"{period.std():14.1%}{np.abs(period).max():12.1%}")  # fmt: skip
    return 0


def measure(seconds: float) -> tuple[Times, Times, float]:
    """[batches, tasks] of CPU time in ms, raw and evened, and the share of the probes."""
    raw, even = [], []
    gc.disable()
    end = time.monotonic() + seconds
    probe_ms = np.median([probe_ns() for _ in range(100)]) / 1e6
    probes = 0
    while time.monotonic() < end or len(raw) < PERIOD_BATCHES:
        times, paces = zip(*(_task() for _ in range(TASKS)), strict=True)
        flat = evened([t for task in times for t in task], [p for task in paces for p in task])
        probes += sum(1 + round(sum(task) / 2e6) for task in times)
        raw.append([sum(task) / 1e6 for task in times])
        even.append(np.array(flat).reshape(TASKS, KEY_GROUPS).sum(axis=1) / 1e6)
        time.sleep(0.05)
    gc.enable()
    return np.array(raw), np.array(even), float(probes * probe_ms / np.sum(raw))


def _task() -> tuple[list[float], list[int]]:
    pace, times = Pace(), []
    for _ in range(KEY_GROUPS):
        began = time.thread_time_ns()
        for _ in range(RECORDS):
            list(extract_delays({}, "", {"value": LINE}))
        times.append(float(time.thread_time_ns() - began))
        pace.ran(int(times[-1]))
    return times, pace.ended()


def deviations(times: Times, batches: int) -> Times:
    """How far each task is from the mean of its period, for every whole period."""
    periods = len(times) // batches
    sums = times[: periods * batches].reshape(periods, batches, TASKS).sum(axis=1)
    return np.asarray(sums / sums.mean(axis=1, keepdims=True) - 1)


if __name__ == "__main__":
    sys.exit(main())
