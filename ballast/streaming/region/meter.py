"""Measures a region: a period for each step of the local loop, and the windows of the metrics."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ballast.contracts.errors import BallastError
from ballast.streaming.clock import ForwardClock
from ballast.streaming.region.in_flight import InFlight
from ballast.streaming.region.measurement import Reading, RegionMeasurement, window_between
from ballast.streaming.region.settings import RegionSettings

log = logging.getLogger(__name__)

Control = Callable[[RegionMeasurement], Sequence[int] | None]
"""A local loop: gives new weights for the last measurement; None leaves them unchanged."""
Answer = TypeVar("Answer")


class WeightTime:
    """The integral of the weights over time."""

    def __init__(self, flight: InFlight, clock: ForwardClock) -> None:
        self._flight = flight
        self._clock = clock
        self._lock = threading.Lock()
        self._total = np.zeros(len(flight.alive))
        self._since = 0.0

    def begin(self) -> None:
        self._since = self._clock.now()

    def change(self, how: Callable[[], Answer]) -> Answer:
        """Calls ``how``, which changes weights; the time until now counts for the old ones."""
        with self._lock:
            self._add_up()
            return how()

    def now(self) -> tuple[float, NDArray[np.float64]]:
        with self._lock:
            self._add_up()
            return self._since, np.array(self._total)

    def _add_up(self) -> None:
        now = self._clock.now()
        self._total += (now - self._since) * self._flight.weights
        self._since = now


class Meter:
    """Calls the local loop every ``control_s`` and ``on_window`` every ``window_s``."""

    def __init__(
        self,
        names: tuple[str, ...],
        settings: RegionSettings,
        clock: ForwardClock,
        read: Callable[[], Reading],
        control: Control | None,
        on_window: Callable[[RegionMeasurement], None] | None,
    ) -> None:
        self._names = names
        self._settings = settings
        self._clock = clock
        self._read = read
        self._control = control
        self._on_window = on_window

    def run(self, stop: threading.Event, set_weights: Callable[[Sequence[int]], None]) -> None:
        size = self._settings
        loop = window = self._read()
        edge = next_edge(window.at, size.window_s)
        # A window in which the region did not run from edge to edge is left out.
        is_whole = False
        while True:
            due = min(loop.at + size.control_s, edge)
            if stop.wait(max(0.001, min(due - self._clock.now(), size.control_s))):
                return
            reading = self._read()
            if reading.at >= loop.at + size.control_s:
                self._follow_loop(window_between(self._names, loop, reading), set_weights)
                # The next period has the new weights only.
                loop = self._read()
            if reading.at >= edge:
                if is_whole and reading.at < edge + size.window_s:
                    self._emit(window_between(self._names, window, reading), edge)
                window, edge, is_whole = reading, next_edge(reading.at, size.window_s), True

    def _follow_loop(
        self, seen: RegionMeasurement, set_weights: Callable[[Sequence[int]], None]
    ) -> None:
        """Calls the local loop; if it fails, the weights stay and the stream continues."""
        if self._control is None:
            return
        try:
            weights = self._control(seen)
            if weights is not None:
                set_weights(weights)
        except (BallastError, ArithmeticError, LookupError, TypeError, ValueError):
            log.exception("the local loop failed; the weights are unchanged")

    def _emit(self, seen: RegionMeasurement, edge: float) -> None:
        if self._on_window is not None:
            self._on_window(replace(seen, start=edge - self._settings.window_s, end=edge))


def next_edge(at: float, length: float) -> float:
    """The first multiple of the length after a moment."""
    return (at // length + 1) * length
