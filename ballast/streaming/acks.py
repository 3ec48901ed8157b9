"""The job's word on plan versions: each (version, status) once in the life of the job's folder.

A region may be started with other workers and with the old ones again, so its word on a version
may change and change back: each is a row, and whoever speaks for it repeats no last word.

An acknowledgement is first a file, then a row; the row's commit carries a mark of its own, so a
repetition after a crash adds nothing. If the table cannot be reached the file waits. A job whose
folder was lost starts anew from the hash placement: it says everything again, with its new batch
ids, and the last word counts.
"""

from __future__ import annotations

import logging
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ballast.contracts.log_events import ACK_STATUSES
from ballast.contracts.settings import Settings
from ballast.store.tables import append_once
from ballast.streaming.atomic_files import read_json, write_json
from ballast.streaming.decisions import MoveFigures
from ballast.streaming.routing import FIRST_VERSION

log = logging.getLogger("ballast.streaming")
NOTHING_MOVED = MoveFigures(0, 0, 0.0)


class AckBook:
    """Acknowledgements of one job, or of one of its regions, on their way into ``plans.acks``."""

    def __init__(
        self, folder: Path, settings: Settings, job: str, region_id: str | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.settings, self.job = folder, settings, job
        self.region_id = region_id
        self.life = self._life()

    def record(
        self,
        version: int,
        plan_id: str,
        status: str,
        batch_id: int,
        *,
        reason: str = "",
        figures: MoveFigures = NOTHING_MOVED,
    ) -> None:
        """Put an acknowledgement down durably and send what is waiting."""
        if version <= FIRST_VERSION or status not in ACK_STATUSES:
            raise ValueError(f"no acknowledgement {status!r} of version {version}")
        path = self.folder / f"ack-{version:012d}-{ACK_STATUSES.index(status)}.json"
        if not path.exists():
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
                "acked_at": datetime.now(UTC).isoformat(),
            }
            write_json(path, row)
        self.send()

    def send(self) -> None:
        """Send what is waiting, oldest first; what cannot be sent keeps waiting."""
        for path in sorted(self.folder.glob("ack-*.json")):
            row = read_json(path)
            try:
                self._append(row)
            except Exception as error:  # noqa: BLE001 - the job goes on; the file waits
                log.warning("acknowledgement %s could not be sent yet: %s", path.stem, error)
                return
            path.unlink(missing_ok=True)

    def _life(self) -> str:
        """A name for all processes that share this folder, and for none that lost it."""
        path = self.folder / "life.json"
        if not path.exists():
            write_json(path, uuid.uuid4().hex)
        return str(read_json(path))

    def _append(self, row: Any) -> None:
        who = f"{self.job}/{self.life}"
        if self.region_id:
            who += f"/{self.region_id}/{row['acked_at']}"
        append_once(
            self.settings,
            "plans.acks",
            [row | {"acked_at": datetime.fromisoformat(row["acked_at"])}],
            app_id=f"ballast.acks/{who}/{row['version']}/{row['status']}",
            app_version=1,
        )
