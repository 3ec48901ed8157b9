"""One root for every error Ballast raises on purpose; each message says what to do."""

from __future__ import annotations

from typing import Any


class BallastError(Exception):
    """Root of all errors raised on purpose. ``exit_code`` is what a command ends with."""

    exit_code = 1


class InvalidInput(BallastError):
    """Something a person or another program handed in cannot be used."""

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
    """A job policy file does not say what a policy must say."""

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


class FeatureNotBuilt(PolicyError):
    """A policy asks for something this version does not do; better refused than ignored."""


class ProblemError(InvalidInput):
    """A problem folder or a result folder cannot be read as one."""


class SettingsError(InvalidInput):
    """A setting from the environment has a value that cannot be used."""


class NotFound(InvalidInput):
    """A job, table, plan or version was asked for that does not exist."""


class BrokenTable(BallastError):
    """A table is there and cannot be read: files missing, a log cut short, no access."""

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


class Infeasible(BallastError):
    """No plan keeps every rule within the budget."""

    exit_code = 3


class GateFailed(BallastError):
    """Metrics are missing or broken, so no plan may be made from them."""

    exit_code = 4


class VerificationFailed(BallastError):
    """A plan does not keep what it promises; it must not be published."""

    exit_code = 5


class PublishConflict(BallastError):
    """Another publish moved the head first; the old or the other plan is in force."""

    exit_code = 6


class PlanStale(PublishConflict):
    """A plan waited, and the job is no longer as it was when the plan was made."""


class PlanRefused(BallastError):
    """A streaming job cannot take a plan up; it keeps the one it has."""

    exit_code = 7


class InvariantBroken(BallastError):
    """Heads, plans and log do not fit together; a person has to look."""

    exit_code = 8


class RollbackRefused(PlanRefused):
    """The content of an earlier version does not fit the job as it is today."""
