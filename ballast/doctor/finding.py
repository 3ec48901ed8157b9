"""The result of one check of a deployment."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CheckStatus(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Finding:
    """What a check saw, and what to do about it."""

    check: str
    status: CheckStatus
    seen: str
    remedy: str = ""
    """What to do; empty where there is nothing to do."""


def ok(check: str, seen: str) -> Finding:
    """A check that found what it should."""
    return Finding(check, CheckStatus.OK, seen)


def warning(check: str, seen: str, remedy: str) -> Finding:
    """A check that found something a person should know."""
    return Finding(check, CheckStatus.WARNING, seen, remedy)


def failed(check: str, seen: str, remedy: str) -> Finding:
    """A check that found what will not work."""
    return Finding(check, CheckStatus.FAILED, seen, remedy)


def not_checked(check: str, reason: str) -> Finding:
    """A check that does not apply here, with the reason."""
    return Finding(check, CheckStatus.NOT_CHECKED, reason)
