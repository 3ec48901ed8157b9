"""Steps of maintenance that fail on their own: a broken table does not stop the other steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deltalake.exceptions import DeltaError

from ballast.contracts.errors import BallastError
from spark_jobs.program.run import progress


class MaintenanceFailed(BallastError):
    """Some tables could not be maintained."""


class MaintenanceSteps:
    """Runs steps one after the other, and collects the tables whose steps failed."""

    def __init__(self) -> None:
        self.problems: dict[str, str] = {}

    def run(self, table: str, action: Callable[[], None]) -> bool:
        """Run a step of a table; returns False, and records the error, if the step failed."""
        try:
            action()
        except (DeltaError, BallastError, OSError) as error:
            text = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            self.problems.setdefault(table, text)
            progress.info("%s: %s", table, text)
            return False
        return True

    def failed_any(self, tables: Sequence[str]) -> bool:
        """Whether a step of one of the tables failed."""
        return any(table in self.problems for table in tables)

    def raise_failures(self) -> None:
        """Raise MaintenanceFailed if a step failed."""
        if self.problems:
            failures = "; ".join(f"{table}: {problem}" for table, problem in self.problems.items())
            raise MaintenanceFailed(
                f"{len(self.problems)} tables could not be maintained: {failures}; to fix it: "
                "run it again, and restore the table (RESTORE TABLE) if it fails again"
            )
