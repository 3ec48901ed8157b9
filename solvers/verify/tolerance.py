"""By how much a promised number may differ from the recomputed one, and what counts as a number."""

from __future__ import annotations

import math
import sys
from typing import Any

RELATIVE_TOLERANCE = 1e-6
ABSOLUTE_TOLERANCE = 1e-6
"""A promised number may differ from the recomputed one by 1e-6, absolute or relative."""


def is_close(a: float, b: float, rounding: float = 0.0) -> bool:
    """Whether two figures agree within the tolerances; ``rounding`` is an absolute one."""
    absolute = max(ABSOLUTE_TOLERANCE, rounding)
    return math.isclose(a, b, rel_tol=RELATIVE_TOLERANCE, abs_tol=absolute)


def is_number(value: Any) -> bool:
    """Whether the value is a finite number; True and False are not numbers here."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # The value is not converted: a whole number may be too large for a float.
    return is_number and -sys.float_info.max <= value <= sys.float_info.max
