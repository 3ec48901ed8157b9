"""A call that a batch waits for during a bounded time, such as one of a store that may hang."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("ballast.streaming")

WAIT_S = 10.0
"""Most time that a batch waits for a store. One on another machine answers within 0.1 s."""


class BoundedCall:
    """Runs a function in a thread of its own, one call at a time.

    Args:
        name: what the function does, for the thread and the log.
        function: the function. It handles its own errors.
        wait_s: most seconds that a caller waits for its end; None is without a limit.
    """

    def __init__(
        self, name: str, function: Callable[[], None], wait_s: float | None = WAIT_S
    ) -> None:
        self.name, self.wait_s = name, wait_s
        self._function = function
        self._running = False
        self._changed = threading.Condition()

    def __call__(self) -> bool:
        """Runs the function, unless an earlier call still hangs.

        Returns:
            Whether the function ran and ended in time. If not, the thread goes on alone.
        """
        with self._changed:
            if self._running:
                # An earlier caller has waited for it already.
                return False
            self._running = True
            threading.Thread(target=self._run, name=self.name, daemon=True).start()
            ended = self._changed.wait_for(lambda: not self._running, self.wait_s)
        if not ended:
            log.warning(
                "%s has not ended within %.0f s; the job goes on without it", self.name, self.wait_s
            )
        return ended

    def run_to_end(self) -> None:
        """Waits for a call that still runs, then runs the function in this thread."""
        with self._changed:
            self._changed.wait_for(lambda: not self._running)
        self._function()

    def _run(self) -> None:
        try:
            self._function()
        finally:
            with self._changed:
                self._running = False
                self._changed.notify_all()
