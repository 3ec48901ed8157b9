"""The windows of a round: blocks of a recording, or a generated load."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from bench.promises.load_process import NODES, SHAPES, LoadProcess, LoadState
from bench.promises.recorded_windows import NAMES, RecordedWindows, recording
from solvers.model.problem import FloatArray, IntArray

WINDOWS = 12
"""Windows of a period."""
ORACLE_SAMPLES = 400
SOURCES = (*NAMES, *SHAPES)


class LoadSource(Protocol):
    """A job whose windows are read period by period."""

    name: str
    capacity: FloatArray  # [N]
    start: IntArray  # [G]
    """The placement before the first plan."""
    state_bytes: IntArray  # [G]
    is_stationary: bool

    def next_round(self) -> tuple[FloatArray, FloatArray]:
        """([G, W], [G, W]): the period that a plan is made from, and the one that follows it."""

    def true_mean(self) -> FloatArray:
        """[G]: mean loads of the generating process, now."""

    def oracle_means(self) -> FloatArray:
        """[S, G]: samples of the mean loads of the following period.

        They are drawn from the generating process and its state after the first period. The random
        numbers of the period itself are not used.
        """


class SimulatedLoads:
    """A generated load; each period follows the one before."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self._process = LoadProcess(SHAPES[name], seed)
        self._oracle = np.random.default_rng([seed, 16])
        self.capacity = np.ones(NODES)
        self.start = self._process.start
        self.state_bytes = self._process.state_bytes
        self.is_stationary = SHAPES[name].is_stationary
        self._last = self._process.windows(WINDOWS)
        self._before_last = self._process.state()

    def next_round(self) -> tuple[FloatArray, FloatArray]:
        past = self._last
        self._before_last = self._process.state()
        self._last = self._process.windows(WINDOWS)
        return past, self._last

    def true_mean(self) -> FloatArray:
        return np.asarray(self._samples(self._process.state()).mean(axis=0))

    def oracle_means(self) -> FloatArray:
        return self._samples(self._before_last)

    def _samples(self, state: LoadState) -> FloatArray:
        return self._process.period_means(state, WINDOWS, ORACLE_SAMPLES, self._oracle)


class RecordedLoads:
    """Blocks of a recording: two consecutive periods, starting at a random window.

    The oracle uses the means of the whole recording, and the variation of the means of all its
    periods.
    """

    def __init__(self, recorded: RecordedWindows, name: str, seed: int) -> None:
        self.name = name
        self._rng = np.random.default_rng([seed, 17])
        self._loads = recorded.cpu_ms / (1000 * recorded.window_s)
        self.capacity = np.ones(recorded.nodes)
        self.start = recorded.node_of
        self.state_bytes = recorded.state_bytes
        self.is_stationary = True
        sums = np.cumsum(np.pad(self._loads, ((0, 0), (1, 0))), axis=1)
        self._means = ((sums[:, WINDOWS:] - sums[:, :-WINDOWS]) / WINDOWS).T

    def next_round(self) -> tuple[FloatArray, FloatArray]:
        blocks = self._loads.shape[1] - 2 * WINDOWS + 1
        at = int(self._rng.integers(0, blocks))
        middle = at + WINDOWS
        return self._loads[:, at:middle], self._loads[:, middle : middle + WINDOWS]

    def true_mean(self) -> FloatArray:
        return np.asarray(self._loads.mean(axis=1))

    def oracle_means(self) -> FloatArray:
        return np.asarray(self._means)


def load_source(name: str, seed: int) -> LoadSource:
    """The source of that name."""
    if name in SHAPES:
        return SimulatedLoads(name, seed)
    return RecordedLoads(recording(name), name, seed)
