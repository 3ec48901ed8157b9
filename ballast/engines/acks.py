"""Writes the acknowledgements of plan versions to ``plans.acks``, each once for a version."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from ballast.contracts.records import Ack, Head
from ballast.contracts.settings import Settings
from ballast.store.plans import read_acks
from ballast.store.tables import append_once


@dataclass(frozen=True)
class TakeUpFigures:
    """What a take-up did, as the engine measured it."""

    batch_id: int
    """The first window, by number, that ran wholly under the version."""
    moved_key_groups: int = 0
    bytes_moved: int = 0
    pause_ms: float = 0.0


class AckWriter:
    """Acknowledges versions of one job.

    The commit of a row has the id of job, version, status and plan. Two appliers that acknowledge
    the same thing, or one that repeats its last step, so write one row.
    """

    def __init__(self, settings: Settings, job: str) -> None:
        self._settings, self._job = settings, job

    def statuses(self, version: int) -> set[str]:
        """The statuses that the version was acknowledged with."""
        return {ack.status for ack in read_acks(self._settings, self._job, version)}

    def write(self, head: Head, status: str, figures: TakeUpFigures, reason: str = "") -> None:
        """Append the acknowledgement, unless it is there.

        Args:
            head: the version.
            status: accepted, applied or refused.
            figures: what was measured.
            reason: why it is refused.
        """
        ack = Ack(
            job=self._job,
            version=head.version,
            plan_id=head.plan_id,
            status=status,
            batch_id=figures.batch_id,
            reason=reason,
            moved_key_groups=figures.moved_key_groups,
            bytes_moved=figures.bytes_moved,
            pause_ms=figures.pause_ms,
            acked_at=datetime.now(UTC),
        )
        app_id = f"ballast.acks/{self._job}/engine/{head.version}/{head.plan_id}/{status}"
        append_once(self._settings, "plans.acks", [ack.to_row()], app_id=app_id, app_version=1)
