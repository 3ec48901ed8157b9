"""How precisely CPU time measures work: the same work repeated, raw and corrected.

    python -m bench.cpu_time [--seconds 60]

Six tasks in turn do the same work, as six nodes with the same key groups would in a batch: first
alone, then beside processes that copy memory by fits and starts, as neighbours on a host do. The
table says by how much CPU times of one task differ over a statistics period of 30 batches, raw
and as ``ballast.streaming.processor_speed`` evens them out, and what the probes cost.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from ballast.streaming.processor_speed import PROBE_EVERY_NS, ProcessorSpeed, evened, probe_ns
from bench.common.runner import short_parser
from examples.flights.operators import extract_delays

TASKS, KEY_GROUPS, RECORDS = 6, 30, 150
PERIOD_BATCHES = 30
WARM_UP_BATCHES = 3
COPIED_BYTES = 64 * 1024**2
LONGEST_FIT_S = 0.3
LINE = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"

Times = npt.NDArray[np.float64]


def main(argv: list[str] | None = None) -> int:
    parser = short_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each of the two parts")
    seconds = parser.parse_args(argv).seconds
    neighbours = os.cpu_count() or 1
    print(f"{'':24}{'one batch':>22}{f'{PERIOD_BATCHES} batches':>22}")
    print(f"{'':24}{'spread':>11}{'worst':>11}{'spread':>11}{'worst':>11}")
    for words, count in (("alone", 0), (f"{neighbours} neighbours", neighbours)):
        with restless(count):
            raw, even, probe_share = measure(seconds)
        for name, times in ((f"{words}, raw", raw), (f"{words}, evened", even)):
            one, period = deviations(times, 1), deviations(times, PERIOD_BATCHES)
            print(f"{name:24}{one.std():11.1%}{np.abs(one).max():11.1%}"
                  f"{period.std():11.1%}{np.abs(period).max():11.1%}")  # fmt: skip
        print(f"  {len(raw)} batches of {TASKS} equal tasks of {KEY_GROUPS} key groups, "
              f"{np.median(raw):.1f} ms of CPU time a task; probes cost {probe_share:.1%}",
              flush=True)  # fmt: skip
    return 0


@contextmanager
def restless(count: int) -> Iterator[None]:
    """Start processes that repeatedly copy memory for up to 0.3 s and then pause for as long."""
    others = [multiprocessing.Process(target=_copy, args=(i,), daemon=True) for i in range(count)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        for other in others:
            other.terminate()
            other.join()


def _copy(seed: int) -> None:
    draw = random.Random(seed)
    source = np.ones(COPIED_BYTES // 8)
    target = np.empty_like(source)
    while True:
        end = time.monotonic() + draw.uniform(0, LONGEST_FIT_S)
        while time.monotonic() < end:
            np.copyto(target, source)
        time.sleep(draw.uniform(0, LONGEST_FIT_S))


def measure(seconds: float) -> tuple[Times, Times, float]:
    """[batches, tasks] of CPU time in ms, raw and evened, and the share of the probes."""
    raw, even = [], []
    gc.disable()
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(raw) < PERIOD_BATCHES + WARM_UP_BATCHES:
        times, paces = zip(*(_task() for _ in range(TASKS)), strict=True)
        flat = evened([t for task in times for t in task], [p for task in paces for p in task])
        raw.append([sum(task) / 1e6 for task in times])
        even.append(np.array(flat).reshape(TASKS, KEY_GROUPS).sum(axis=1) / 1e6)
        time.sleep(0.05)
    gc.enable()
    probe = float(np.median([probe_ns() for _ in range(100)]))
    return (
        np.array(raw[WARM_UP_BATCHES:]),
        np.array(even[WARM_UP_BATCHES:]),
        probe / PROBE_EVERY_NS,
    )


def _task() -> tuple[list[float], list[int]]:
    speed, times = ProcessorSpeed(), []
    for _ in range(KEY_GROUPS):
        began = time.thread_time_ns()
        for _ in range(RECORDS):
            list(extract_delays({}, "", {"value": LINE}))
        times.append(float(time.thread_time_ns() - began))
        speed.add(int(times[-1]))
    return times, speed.probes_by_key_group()


def deviations(times: Times, batches: int) -> Times:
    """How far each task is from the mean of its period, for every whole period."""
    periods = len(times) // batches
    sums = times[: periods * batches].reshape(periods, batches, TASKS).sum(axis=1)
    return np.asarray(sums / sums.mean(axis=1, keepdims=True) - 1)


if __name__ == "__main__":
    sys.exit(main())
