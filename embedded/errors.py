"""Errors of the embedded stack; each says what to do."""

from __future__ import annotations

from ballast.contracts.errors import BallastError


class EmbeddedError(BallastError):
    """The stack on this machine cannot start or did not stay up."""


class PreflightFailed(EmbeddedError):
    """Something that the stack needs is missing; nothing was started."""

    exit_code = 2


class AlreadyRunning(PreflightFailed):
    """Another stack of the same home folder is up."""


class ApiError(EmbeddedError):
    """Airflow's REST API refused a request or did not answer."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class WaitedTooLong(EmbeddedError):
    """Something that was waited for did not happen in time."""
