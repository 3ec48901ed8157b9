"""Text for messages: times, and long lists cut to a readable length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

MOST_NAMES = 6


def utc_text(time: datetime) -> str:
    """A time as ISO text in UTC."""
    text = time.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace(".000", "").replace("+00:00", "Z")


def shortened_list(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - len(names[:MOST_NAMES])
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def number_ranges(numbers: Iterable[int]) -> list[str]:
    """Sorted numbers, consecutive ones joined to a range: 0-3, 7."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return [str(first) if first == last else f"{first}-{last}" for first, last in runs]
