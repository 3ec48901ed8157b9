"""Freeze windows of a policy: calendar dates between which no plan of a job is published.

The functions are pure: the time is an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BeforeValidator, Field, model_validator

from ballast.contracts.strict_model import StrictModel

ALLOWED_TIME = "a date like 2026-12-24, or a date and time like 2026-12-24 18:00, without a zone"


def _local_text(value: object) -> str:
    """A date or a local time as text. YAML reads some of them as dates and some as texts."""
    if isinstance(value, datetime):
        value = value.isoformat(" ")
    elif isinstance(value, date):
        value = value.isoformat()
    if not isinstance(value, str):
        raise ValueError(f"is {value!r}; it must be {ALLOWED_TIME}")
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError as error:
        raise ValueError(f"is {value!r}; it must be {ALLOWED_TIME}") from error
    if parsed.tzinfo is not None:
        raise ValueError(f"is {value!r}, which has a zone; it must be {ALLOWED_TIME}")
    return value


LocalTime = Annotated[str, BeforeValidator(_local_text)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,62}$")]


class FreezePolicy(StrictModel):
    """A time in which plans are drafted and not published."""

    name: Name
    begin: LocalTime
    """A local date, from its start, or a local date and time."""
    end: LocalTime
    """A local date, to the end of that day, or a local date and time."""
    time_zone: str = "UTC"
    """The time zone of begin and end, such as Europe/Copenhagen."""
    reason: str = ""

    @model_validator(mode="after")
    def _check_order(self) -> FreezePolicy:
        try:
            ZoneInfo(self.time_zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(
                f"time_zone is {self.time_zone!r}; it must be a zone like UTC or Europe/Copenhagen"
            ) from error
        if self.ends_at <= self.begins_at:
            raise ValueError(f"end is {self.end}; it must be after begin, {self.begin}")
        return self

    @property
    def begins_at(self) -> datetime:
        """The first moment of the freeze, in UTC."""
        return self._in_utc(datetime.fromisoformat(self.begin))

    @property
    def ends_at(self) -> datetime:
        """The first moment after the freeze, in UTC."""
        end = datetime.fromisoformat(self.end)
        if _is_date(self.end):
            end = datetime.combine(end.date() + timedelta(days=1), time())
        return self._in_utc(end)

    def _in_utc(self, local: datetime) -> datetime:
        return local.replace(tzinfo=ZoneInfo(self.time_zone)).astimezone(UTC)


def active_freeze(freezes: Sequence[FreezePolicy], now: datetime) -> FreezePolicy | None:
    """The freeze at a time; None if there is none. Of several, the one that ends last.

    Args:
        freezes: the freezes of a policy.
        now: the time, with a time zone.
    """
    found = [freeze for freeze in freezes if freeze.begins_at <= now < freeze.ends_at]
    return max(found, key=lambda freeze: freeze.ends_at, default=None)


def freeze_text(freeze: FreezePolicy) -> str:
    """A freeze and its end, in words."""
    local = freeze.ends_at.astimezone(ZoneInfo(freeze.time_zone))
    reason = f" ({freeze.reason})" if freeze.reason else ""
    return f"freeze {freeze.name}{reason} until {local:%Y-%m-%d %H:%M} {freeze.time_zone}"


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
