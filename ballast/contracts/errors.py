"""The errors that Ballast raises on purpose. Each message says what to do."""

from __future__ import annotations

from typing import Any


class BallastError(Exception):
    """Root of all errors raised on purpose. ``exit_code`` is what a command ends with."""

    exit_code = 1


class InvalidInput(BallastError):
    """Input of a person or another program cannot be used.

    Args:
        message: what is wrong.
        value: the value that cannot be used.
        allowed: what is allowed instead.
        remedy: what to do.
    """

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        value: Any = None,
        allowed: str | None = None,
        remedy: str | None = None,
    ) -> None:
        self.value = value
        self.allowed = allowed
        self.remedy = remedy
        parts = [message]
        if allowed is not None:
            parts.append(f"allowed: {allowed}")
        if remedy is not None:
            parts.append(f"to fix it: {remedy}")
        super().__init__("; ".join(parts))


class PolicyError(InvalidInput):
    """A job policy file is not a valid policy."""

    def __init__(
        self,
        file: str,
        field: str,
        problem: str,
        *,
        value: Any = None,
        allowed: str | None = None,
        remedy: str | None = None,
    ) -> None:
        self.file = file
        self.field = field
        super().__init__(f"{file}: {field}: {problem}", value=value, allowed=allowed, remedy=remedy)


class ProblemError(InvalidInput):
    """A problem folder or a result folder cannot be read as one."""


class SettingsError(InvalidInput):
    """A setting from the environment has a value that cannot be used."""


class NotFound(InvalidInput):
    """A job, table, plan or version does not exist."""


class BrokenTable(BallastError):
    """A table exists and cannot be read: files are missing, the log is cut, or access is denied."""

    def __init__(self, table: str, warehouse: str, cause: str) -> None:
        self.table = table
        self.remedy = (
            "look at the cause in the log; restore the table's folder from a copy, or move it "
            "away, so that it is made anew by the next run"
        )
        super().__init__(
            f"table {table} in warehouse {warehouse} cannot be read: {cause}; "
            f"to fix it: {self.remedy}"
        )


class ContractMismatch(BallastError):
    """A table was written by a later version of Ballast, which this one would misread.

    Args:
        table: the name of the table.
        found: the contract version in its properties.
        known: the newest contract version that this process understands.
    """

    exit_code = 12

    def __init__(self, table: str, found: str, known: int) -> None:
        self.table, self.found, self.known = table, found, known
        self.problem = (
            f"table {table} has contract version {found}, and this version of Ballast understands "
            f"0 to {known}: a later version has written to the warehouse"
        )
        self.remedy = (
            "install that version here too (job, pipeline and command line), or set "
            "BALLAST_WAREHOUSE to the warehouse of this version"
        )
        super().__init__(f"{self.problem}; to fix it: {self.remedy}")


class Infeasible(BallastError):
    """No plan within the budget keeps every rule."""

    exit_code = 3


class GateFailed(BallastError):
    """Metrics are missing or wrong, so no plan may be made from them."""

    exit_code = 4


class VerificationFailed(BallastError):
    """A plan does not have the figures that it promises; it must not be published."""

    exit_code = 5


class PublishConflict(BallastError):
    """Another publisher changed the head first, so this plan was not published."""

    exit_code = 6


class PlanStale(PublishConflict):
    """The job changed too much while a plan waited for a person."""


class PlanFrozen(PublishConflict):
    """The job's policy has a freeze, in which no plan is published."""


class PlanRefused(BallastError):
    """A streaming job cannot apply a plan and keeps the plan that it has."""

    exit_code = 7


class StateNotShared(BallastError):
    """A task or a driver does not see the state folder that the job writes."""

    exit_code = 9


class JobStalled(BallastError):
    """A streaming job has no executor, or a batch does not end; a supervisor starts it again."""

    exit_code = 10


class ClusterUnavailable(BallastError):
    """A program got no executor within its limit, or Spark ended it; later it may run."""

    exit_code = 11


class InvariantBroken(BallastError):
    """Heads, plans and log contradict each other; a person has to look."""

    exit_code = 8


class RollbackRefused(PlanRefused):
    """The content of an earlier version does not fit the job of today."""
