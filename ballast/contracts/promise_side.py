"""On which side of its promised interval a measured value is. Pure."""

from __future__ import annotations

from ballast.contracts.tables import ABOVE, BELOW, INSIDE

ROUNDING = 1e-6
"""A measured value that is outside by less is inside: relative, and absolute for values below 1."""


def promise_side(measured: float, low: float, high: float) -> str:
    """Whether a measured value is ``inside``, ``below`` or ``above`` its interval.

    Rounding does not count: without noise the interval is a point.
    """
    if measured < low - ROUNDING * max(1.0, low):
        return BELOW
    return ABOVE if measured > high + ROUNDING * max(1.0, high) else INSIDE
