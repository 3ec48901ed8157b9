"""Runs the collector and the applier of a job until it is asked to stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ballast.contracts.errors import InvalidInput
from ballast.engines.interface import EngineSession

log = logging.getLogger("ballast.engines")
LONGEST_WAIT_S = 30.0


class EngineService:
    """The loop of ``ballast engine run``.

    A step that fails is logged and tried again, after a longer wait each time it fails: a broker or
    a warehouse that is away for a while must not need a person. ``InvalidInput`` ends the service,
    because another attempt cannot help.

    Args:
        session: the connection to the engine.
        stopping: ends the loop when it is set.
    """

    def __init__(self, session: EngineSession, stopping: threading.Event) -> None:
        self._session, self._stopping = session, stopping
        self._failures = 0

    def run(self) -> None:
        """Collect and apply until stopped, then disconnect."""
        try:
            while not self._stopping.is_set():
                self._round()
        finally:
            self._session.close()

    def _round(self) -> None:
        is_turn = self._guarded(self._session.wait_for_turn)
        if not is_turn:
            return
        collected = self._guarded(self._session.collector.collect)
        # The applier waits for a figure that the collector reads; it acts without it as well.
        applied = self._guarded(self._apply)
        if collected is not None and applied:
            self._failures = 0

    def _apply(self) -> bool:
        self._session.applier.apply()
        return True

    def _guarded(self, step: Callable[[], int | None]) -> int | None:
        """Run a step; None if it failed."""
        try:
            return step()
        except InvalidInput:
            raise
        except Exception as error:  # noqa: BLE001 - the job goes on, and the step is tried again
            self._failures += 1
            wait = min(LONGEST_WAIT_S, 0.5 * 2 ** min(self._failures, 10))
            log.warning("%s: %s; tried again in %.0f s", type(error).__name__, error, wait)
            self._stopping.wait(wait)
            return None
