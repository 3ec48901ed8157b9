"""Steps that may fail by themselves: a broken table must not keep the others from being tidied."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deltalake.exceptions import DeltaError

from ballast.contracts.errors import BallastError
from spark_jobs.program.run import progress


class MaintenanceFailed(BallastError):
    """Some tables could not be tidied."""


class Steps:
    """Runs steps one after the other and remembers which tables' failed."""

    def __init__(self) -> None:
        self.problems: dict[str, str] = {}

    def take(self, table: str, action: Callable[[], None]) -> bool:
        """Run a step; what a broken table raises is kept for the end."""
        try:
            action()
        except (DeltaError, BallastError, OSError) as error:
            text = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            self.problems.setdefault(table, text)
            progress.info("%s: %s", table, text)
            return False
        return True

    def failed_any(self, tables: Sequence[str]) -> bool:
        return any(table in self.problems for table in tables)

    def raise_failures(self) -> None:
        if self.problems:
            told = "; ".join(f"{table}: {problem}" for table, problem in self.problems.items())
            raise MaintenanceFailed(
                f"{len(self.problems)} tables could not be tidied: {told}; to fix it: "
                "run it again, and restore the table (RESTORE TABLE) if it fails again"
            )
