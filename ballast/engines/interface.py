"""What every engine provides to ``ballast engine run``."""

from __future__ import annotations

from typing import Protocol


class Collector(Protocol):
    """Writes the metrics of a job."""

    def collect(self) -> int:
        """Append each window that is finished to the tables of metrics, once.

        Windows are aligned to the clock. What was not measured has no row: a gap stays a gap.

        Returns:
            The number of windows that were written.
        """
        ...


class Applier(Protocol):
    """Brings a job under the plan in force."""

    def apply(self) -> None:
        """Do the next step of the take-up of the head, if there is one.

        Each version gets one final row in ``plans.acks``: ``applied`` with the measured pause, or
        ``refused`` with the reason. A step that was interrupted is repeated without effect.
        """
        ...


class EngineSession(Protocol):
    """A connection to the engine of one job."""

    @property
    def collector(self) -> Collector:
        """The collector of the job."""
        ...

    @property
    def applier(self) -> Applier:
        """The applier of the job."""
        ...

    def wait_for_turn(self) -> bool:
        """Wait for news of the job for a moment.

        Returns:
            Whether this process may act. Of several sessions for a job, one may.
        """
        ...

    def close(self) -> None:
        """Disconnect, so that another session may act at once."""
        ...
