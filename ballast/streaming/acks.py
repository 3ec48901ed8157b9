"""Acknowledgements of plan versions: each (version, status) is written once per job folder.

Of a take-up in steps, each step is written once.

An acknowledgement is first a file, then a row of ``plans.acks``. The commit of the row has an id of
its own, so that a repetition after a crash adds no second row. While the table cannot be reached,
the file stays. A job whose folder was lost starts again from the hash placement and acknowledges
again with its new batch ids; the newest row counts.

A region may be restarted with other workers, and later with the old ones. Its answer to a version
can then change and change back, and each change is a row.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ballast.contracts.log_events import ACK_PROGRESS, ACK_STATUSES
from ballast.contracts.settings import Settings
from ballast.store.tables import append_once
from ballast.streaming.atomic_files import read_json, write_json
from ballast.streaming.batch_versions import MoveFigures
from ballast.streaming.bounded_call import BoundedCall
from ballast.streaming.routing import FIRST_VERSION

log = logging.getLogger("ballast.streaming")
NOTHING_MOVED = MoveFigures(0, 0, 0.0)


@dataclass(frozen=True)
class StepReport:
    """How far a take-up is, and what it moved.

    Attributes:
        step: steps made so far.
        steps: steps of the take-up.
        figures: what was moved: in this step, or in all of them if no other follows.
        moved: names of the key groups that this step moved; only for a step that is not the last.
    """

    step: int
    steps: int
    figures: MoveFigures = NOTHING_MOVED
    moved: tuple[str, ...] | None = None


class AckBook:
    """Writes the acknowledgements of one job, or of one of its regions, to ``plans.acks``.

    Args:
        folder: where acknowledgements wait until they are sent.
        settings: where the table is.
        job: the job.
        region_id: the region; None for the operators of the job.
        wait_s: most seconds that a caller waits for the table; None is without a limit.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        job: str,
        region_id: str | None = None,
        wait_s: float | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.settings, self.job = folder, settings, job
        self.region_id = region_id
        self.folder_id = self._folder_id()
        self._send_waiting = BoundedCall("sending acknowledgements", self._send_all, wait_s)

    def record(
        self,
        version: int,
        plan_id: str,
        status: str,
        batch_id: int,
        *,
        reason: str = "",
        report: StepReport | None = None,
    ) -> None:
        """Makes an acknowledgement durable and sends all that wait.

        Raises:
            ValueError: the version or the status cannot be acknowledged.
        """
        if version <= FIRST_VERSION or status not in ACK_STATUSES:
            raise ValueError(f"version {version} cannot be acknowledged as {status!r}")
        step = f"-{report.step:09d}" if report and status == ACK_PROGRESS else ""
        path = self.folder / f"ack-{version:012d}-{ACK_STATUSES.index(status)}{step}.json"
        if not path.exists():
            figures = report.figures if report else NOTHING_MOVED
            row = {
                "job": self.job,
                "version": version,
                "plan_id": plan_id,
                "status": status,
                "region_id": self.region_id,
                "batch_id": batch_id,
                "reason": reason,
                "moved_key_groups": figures.moved_key_groups,
                "bytes_moved": figures.bytes_moved,
                "pause_ms": figures.pause_ms,
                **_step_columns(report),
                "acked_at": datetime.now(UTC).isoformat(),
            }
            write_json(path, row)
        self.send()

    def send(self) -> None:
        """Sends the waiting acknowledgements."""
        if any(self.folder.glob("ack-*.json")):
            self._send_waiting()

    def finish(self) -> None:
        """Sends what waits when the job stops; only the table's own limits bound it."""
        self._send_waiting.run_to_end()

    def _send_all(self) -> None:
        """Sends the oldest first; stops at one that cannot be sent."""
        for path in sorted(self.folder.glob("ack-*.json")):
            row = read_json(path)
            try:
                self._append(row)
            except Exception as error:  # noqa: BLE001 - the job continues; the file stays
                log.warning("acknowledgement %s could not be sent yet: %s", path.stem, error)
                return
            path.unlink(missing_ok=True)

    def _folder_id(self) -> str:
        """An id that all processes with this folder share; a new folder gets a new id."""
        path = self.folder / "life.json"
        if not path.exists():
            write_json(path, uuid.uuid4().hex)
        return str(read_json(path))

    def _append(self, row: Any) -> None:
        writer = f"{self.job}/{self.folder_id}"
        if self.region_id:
            writer += f"/{self.region_id}/{row['acked_at']}"
        step = f"/{row['step']}" if row["status"] == ACK_PROGRESS else ""
        append_once(
            self.settings,
            "plans.acks",
            [row | {"acked_at": datetime.fromisoformat(row["acked_at"])}],
            app_id=f"ballast.acks/{writer}/{row['version']}/{row['status']}{step}",
            app_version=1,
        )


def _step_columns(report: StepReport | None) -> dict[str, Any]:
    """Columns of a take-up; without a report they are NULL."""
    if report is None:
        return {}
    return {
        "step": report.step,
        "steps": report.steps,
        "longest_pause_ms": report.figures.longest_pause_ms,
        "moved": None if report.moved is None else list(report.moved),
    }
