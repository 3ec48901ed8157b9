"""Errors of the embedded stack; each says what to do."""

from __future__ import annotations

from ballast.airflow.errors import ApiError, WaitedTooLong
from ballast.contracts.errors import BallastError

__all__ = ["AlreadyRunning", "ApiError", "EmbeddedError", "PreflightFailed", "WaitedTooLong"]


class EmbeddedError(BallastError):
    """The stack on this machine cannot start or did not stay up."""


class PreflightFailed(EmbeddedError):
    """Something that the stack needs is missing; no process was started."""

    exit_code = 2


class AlreadyRunning(PreflightFailed):
    """Another stack runs in the same home folder."""
