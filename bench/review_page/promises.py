"""Promises and noise of a generated job: rows of plans.promises and snapshots.noise, and sides.

The first versions are as an earlier version of Ballast wrote them, without noise. One version is
made while loads have a trend, so that it has no interval. Of the others most are measured inside.
"""

from __future__ import annotations

from typing import Any

from ballast.contracts.tables import ABOVE, BELOW, INSIDE, STEADY, TREND

Row = dict[str, Any]
OLD_VERSIONS = 2
TREND_VERSION = 4
WINDOWS = 12
TREND_REASON = "loads of the nodes moved by 8.4 % of the mean within the period"
STEADY_REASON = "no trend beyond the noise"
LOW, HIGH = 0.5, 1.8
"""Ends of intervals, as shares of the expected value."""
NODE_SPREAD = 0.06
"""Half the width of a node's interval, as a share of its load."""


def has_noise(version: int) -> bool:
    """Whether the version was made with an estimate of the noise."""
    return version > OLD_VERSIONS


def measured_share(version: int) -> float:
    """The measured value as a share of the expected one; sometimes outside of the interval."""
    if version % 7 == 0:
        return 2.1
    if version % 11 == 0:
        return 0.4
    return 0.7 + 0.12 * (version % 6)


def promise(plan: Row, version: int, figure: str, unit: str, expected: float) -> Row:
    """A row of plans.promises."""
    low, high = (
        (1 - NODE_SPREAD, 1 + NODE_SPREAD) if "/" in figure else (LOW, HIGH)
    )  # fmt: skip
    has_interval = version != TREND_VERSION
    ends = (expected * share for share in (low, high, low * 0.5, high * 1.6))
    names = ("low", "high", "lowest", "highest")
    return {
        "job": plan["job"], "plan_id": plan["plan_id"], "figure": figure, "unit": unit,
        "expected": expected,
        **(dict(zip(names, ends, strict=True)) if has_interval else dict.fromkeys(names)),
        "calibration_below": 1.0 if has_interval else None,
        "calibration_above": 1.0 if has_interval else None,
        "reason": "" if has_interval else TREND_REASON,
    }  # fmt: skip


def compared(outcome: Row, found: Row) -> Row:
    """An outcome with the interval of a promise, and its side."""
    low, high, measured = found["low"], found["high"], outcome["measured"]
    promised = outcome | {"promised": found["expected"], "low": low, "high": high}
    if low is None:
        return promised
    return promised | {"side": BELOW if measured < low else ABOVE if measured > high else INSIDE}


def noise(ids: Row, version: int) -> Row:
    """A row of snapshots.noise."""
    is_trend = version == TREND_VERSION
    return {
        **ids, "resource": "cpu", "status": TREND if is_trend else STEADY,
        "reason": TREND_REASON if is_trend else STEADY_REASON, "windows": WINDOWS,
        "wild_windows": 1, "common_sd_pct": 4.2, "node_variance_ratio": 1.3,
        "period_variance_ratio": 1.6, "trend_pct": 8.4 if is_trend else None,
    }  # fmt: skip
