"""Promised and measured figures as text: the same in reports, on the page and in the terminal."""

from __future__ import annotations

import math

from ballast.contracts.tables import INSIDE

PROMISED_SHARE_PCT = 90.0
"""Percent of the measured values that are promised to be inside of their interval."""
EARLIER_VERSION = "the plan is of an earlier version of Ballast, which did not estimate noise"
NOT_PROMISED = "the plan has no interval"
COUNTS = ("key groups", "keys")
"""Units of whole numbers."""
SYMBOLS = {"% of mean": "%", "% of before": "%", "us/record": "µs/record"}
BYTES = "bytes"
PREFIXES = ("", "k", "M", "G", "T", "P")
DIGITS, INTERVAL_DIGITS = 3, 2
"""Significant digits of a value, and of the width of an interval."""
MAX_DECIMALS = 6


def value_text(value: float, unit: str) -> str:
    """A figure with its unit, such as ``1.93 %``."""
    divisor, symbol = _scale(value, unit)
    is_whole = unit in COUNTS or symbol == "B"
    decimals = 0 if is_whole else _decimals(value / divisor, DIGITS)
    return f"{_number(value / divisor, decimals)} {symbol}"


def promised_text(expected: float, low: float | None, high: float | None, unit: str) -> str:
    """An expected value with its 90 % interval, such as ``1.9 % (0.9 to 3.4)``.

    Args:
        expected: the expected value.
        low: the lower end of the interval; None without an interval.
        high: its upper end.
        unit: the unit of the three.
    """
    if low is None or high is None or low == high:
        return value_text(expected, unit)
    divisor, symbol = _scale(max(abs(low), abs(high), abs(expected)), unit)
    decimals = _decimals((high - low) / divisor, INTERVAL_DIGITS)
    middle, left, right = (_number(value / divisor, decimals) for value in (expected, low, high))
    return f"{middle} {symbol} ({left} to {right})"


def measured_text(
    measured: float, low: float | None, high: float | None, side: str | None, unit: str
) -> str:
    """A measured value, and its side of the promised interval, such as ``4.13 % (above)``.

    It has one decimal more than the interval, so that it can be compared with the ends.
    """
    if side is None:
        return value_text(measured, unit)
    if low is None or high is None or low == high:
        return f"{value_text(measured, unit)} ({side})"
    divisor, symbol = _scale(max(abs(low), abs(high), abs(measured)), unit)
    decimals = _decimals((high - low) / divisor, INTERVAL_DIGITS) + 1
    return f"{_number(measured / divisor, decimals)} {symbol} ({side})"


def share_text(inside: int, measured: int) -> str:
    """How many versions kept their promise, beside the share that is promised."""
    if not measured:
        return "No version with an interval was measured yet"
    share = 100.0 * inside / measured
    versions = "version was" if measured == 1 else "versions were"
    return (
        f"{inside:,} of {measured:,} {versions} measured {INSIDE} ({share:.0f} %); "
        f"{PROMISED_SHARE_PCT:.0f} % are promised"
    )


def _scale(largest: float, unit: str) -> tuple[float, str]:
    """The divisor of values of this size, and the symbol of the unit with it."""
    if not unit.startswith(BYTES):
        return 1.0, SYMBOLS.get(unit, unit)
    power = min(len(PREFIXES) - 1, int(math.log10(abs(largest)) // 3)) if abs(largest) >= 1 else 0
    return 1000.0**power, f"{PREFIXES[power]}B{unit.removeprefix(BYTES)}"


def _decimals(size: float, digits: int) -> int:
    """Decimals that show a number of this size with as many significant digits."""
    if abs(size) < 10.0**-MAX_DECIMALS:
        return 0
    return min(MAX_DECIMALS, max(0, digits - 1 - math.floor(math.log10(abs(size)))))


def _number(value: float, decimals: int) -> str:
    # 0.0 is added so that a small negative number is not shown as -0.
    return f"{round(value, decimals) + 0.0:,.{decimals}f}"
