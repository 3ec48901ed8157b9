"""Measures the processor's speed, and corrects the CPU times of key groups for it.

On a shared host the same loop takes 0.6 to 1.3 times its usual CPU time from one moment to the
next, and no counter of this machine shows it. A fixed piece of work, timed between key groups,
does show it. CPU times are divided by its time and then scaled so that the total of a batch does
not change (ADR 13).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

# Between two probes the processor's speed is their mean: it hardly changes in 2 ms of CPU time, and
# a probe of 0.08 ms costs 4 % of that.
PROBE_EVERY_NS = 2_000_000

# Text, numbers and small objects, as operators use them. Arithmetic alone would be slowed down by
# other programs than code that allocates memory.
_TEXT = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,10:00"
_NAMES = tuple("abcdefghijklmnopqrs")
_ROUNDS = 20

# Limits of a probe relative to the median of its batch, because a probe that was interrupted
# measures the interruption.
LEAST, MOST = 0.4, 2.5


def probe_ns() -> int:
    """CPU time of the fixed piece of work."""
    began = time.thread_time_ns()
    kept = []
    for _ in range(_ROUNDS):
        fields = dict(zip(_NAMES, _TEXT.split(","), strict=True))
        kept.append((fields["a"], fields["j"], int(fields["d"])))
    return time.thread_time_ns() - began


class ProcessorSpeed:
    """The probes of one task, and the probes before and after each key group."""

    def __init__(self) -> None:
        self._probes = [probe_ns()]
        self._since = 0
        self._before: list[int] = []

    def add(self, cpu_ns: int) -> None:
        """Records that a key group ran; probes again when enough CPU time has passed."""
        self._before.append(len(self._probes) - 1)
        self._since += cpu_ns
        if self._since >= PROBE_EVERY_NS:
            self._probes.append(probe_ns())
            self._since = 0

    def probes_by_key_group(self) -> list[int]:
        """For each key group that ran, in order, the mean of the probes before and after it."""
        if self._since:
            self._probes.append(probe_ns())
        last = len(self._probes) - 1
        return [
            (self._probes[before] + self._probes[min(before + 1, last)]) // 2
            for before in self._before
        ]


def evened(cpu_ns: Sequence[float], probes_ns: Sequence[float]) -> list[float]:
    """CPU times as if the processor had had one speed throughout; the sum is unchanged."""
    total = sum(cpu_ns)
    usual = sorted(probes_ns)[len(probes_ns) // 2] if probes_ns else 0
    # A coarse clock may give 0 for a probe; then there is nothing to correct by.
    if total <= 0 or usual <= 0:
        return list(cpu_ns)
    work = [
        cpu / min(max(probe / usual, LEAST), MOST)
        for cpu, probe in zip(cpu_ns, probes_ns, strict=True)
    ]
    scale = total / sum(work)
    return [amount * scale for amount in work]
