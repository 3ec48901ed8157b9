"""Errors between a client and Airflow; each class has an exit code for scripts."""

from __future__ import annotations

from ballast.contracts.errors import BallastError


class ApiError(BallastError):
    """Airflow's REST API refused a request."""

    def __init__(self, message: str, *, status: int | None = None, detail: str = "") -> None:
        self.status = status
        self.detail = detail
        super().__init__(message)


class NoAnswer(ApiError):
    """No Airflow API server answers at the address."""

    exit_code = 20


class LoginRefused(ApiError):
    """Airflow does not accept the user, the password or the token."""

    exit_code = 21


class NoRight(ApiError):
    """The user is known, but does not have the right."""

    exit_code = 22


class DagNotReady(BallastError):
    """The DAG does not exist or is paused, so that a run would not start."""

    exit_code = 23


class NothingWaiting(BallastError):
    """No question waits for an answer; another user may have answered it."""

    exit_code = 24


class RunFailed(BallastError):
    """The run that a command waited for has failed."""

    exit_code = 25


class WaitedTooLong(BallastError):
    """An event that a command waited for did not happen in time."""

    exit_code = 26
