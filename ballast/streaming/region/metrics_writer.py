"""Writes the windows of a region to ``metrics.connections``, each exactly once.

A thread of its own writes, so that measuring and balancing never wait for a table.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ballast.contracts.regions import ALIVE, DEAD
from ballast.contracts.settings import Settings
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append_once
from ballast.streaming.region.measurement import RegionMeasurement

Row = dict[str, Any]

log = logging.getLogger("ballast.streaming")
TABLE = "metrics.connections"
MOST_WAITING = 120
"""Windows that wait while the table cannot be reached; later ones would be rejected anyway."""
END_S = 30.0


class WindowWriter:
    """A context manager that is the ``on_window`` of a region."""

    def __init__(
        self, settings: Settings, job: str, region_id: str, version: Callable[[], int]
    ) -> None:
        """``version`` gives the plan version in force, for example that of a ``PlanFollower``."""
        self.settings, self.job, self.region_id = settings, job, region_id
        self._version = version
        self._queue: queue.SimpleQueue[tuple[int, list[Row]] | None] = queue.SimpleQueue()
        self._waiting: deque[tuple[int, list[Row]]] = deque(maxlen=MOST_WAITING)
        self._thread = threading.Thread(target=self._run, name=f"write {region_id}", daemon=True)

    def __enter__(self) -> WindowWriter:
        ensure_tables(self.settings, [TABLE])
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        """Writes the remaining windows, if the table can be reached."""
        self._queue.put(None)
        self._thread.join(END_S)

    def __call__(self, window: RegionMeasurement) -> None:
        # Windows of a region follow each other, so that their ends can number the writes.
        number = round(window.end * 1000)
        self._queue.put(
            (number, connection_rows(window, self.job, self.region_id, self._version()))
        )

    def _run(self) -> None:
        while (written := self._queue.get()) is not None:
            if len(self._waiting) == MOST_WAITING:
                log.warning("the oldest waiting window of region %s is dropped", self.region_id)
            self._waiting.append(written)
            self._send()
        self._send()

    def _send(self) -> None:
        """Writes waiting windows, oldest first; stops at one that cannot be written."""
        while self._waiting:
            number, rows = self._waiting[0]
            try:
                is_new = append_once(
                    self.settings, TABLE, rows, app_version=number,
                    app_id=f"ballast.{TABLE}/{self.job}/{self.region_id}",
                )  # fmt: skip
            except Exception as error:  # noqa: BLE001 - the stream continues; the window waits
                log.warning("a window of region %s could not be written yet: %s",
                            self.region_id, error)  # fmt: skip
                return
            if not is_new:
                log.warning(
                    "the window of region %s up to %d ms is there already, or a later one; does "
                    "another process run the region?", self.region_id, number,
                )  # fmt: skip
            self._waiting.popleft()


def connection_rows(
    window: RegionMeasurement, job: str, region_id: str, plan_version: int
) -> list[Row]:
    """Rows of ``metrics.connections`` for a window, one for each worker."""
    start, end = (datetime.fromtimestamp(at, UTC) for at in (window.start, window.end))
    return [
        {
            "job": job,
            "region_id": region_id,
            "worker_id": name,
            "window_date": end.date(),
            "window_start_at": start,
            "window_end_at": end,
            "first_batch_id": None,
            "last_batch_id": None,
            "plan_version": plan_version,
            "emitted_at": datetime.now(UTC),
            "state": ALIVE if window.alive[j] else DEAD,
            "sent": int(window.sent[j]),
            "blocked_ms": 1000.0 * float(window.blocked_s[j]),
            "weight": int(window.weights[j]),
            "done": int(window.done[j]),
            "busy_ms": 1000.0 * float(window.busy_s[j]),
        }
        for j, name in enumerate(window.connection_ids)
    ]
