"""Compares the figures that a plan promises with the recomputed ones."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from solvers.verify.plan_figures import PlanFigures
from solvers.verify.violation import Violation

RELATIVE_TOLERANCE = 1e-6
ABSOLUTE_TOLERANCE = 1e-6
"""A promised number may differ from the recomputed one by 1e-6, absolute or relative."""
OPTIMAL_GAP = 1e-4
"""Percentage points by which a plan called optimal may be above its bound."""
STATUSES = ("optimal", "feasible", "unchanged", "infeasible")


def check_figures(promises: Mapping[str, Any], figures: PlanFigures) -> Iterator[Violation]:
    """Each promised figure is the recomputed one; counts and bytes exactly."""
    for name, actual in figures.values.items():
        if name not in promises:
            continue
        promised = promises[name]
        if promised is None and actual is None:
            continue
        if actual is None or not is_number(promised):
            yield Violation(name, f"promised {promised!r}, is {actual!r}")
        elif isinstance(actual, int) and promised != actual:
            yield Violation(name, f"promised {promised}, is {actual}")
        elif not is_close(float(promised), float(actual), figures.rounding.get(name, 0.0)):
            yield Violation(name, f"promised {promised:.9g}, is {actual:.9g}")


def check_bound(promises: Mapping[str, Any], figures: PlanFigures) -> Iterator[Violation]:
    """The bound is not above the load distance, and the gap is the difference of the two."""
    distance = figures.number("load_distance")
    bound, gap = promises.get("bound"), promises.get("gap")
    if bound is None:
        return
    if not is_number(bound) or bound < 0:
        yield Violation("bound", f"promised {bound!r}, which is not a number >= 0")
        return
    if bound > distance and not is_close(bound, distance):
        yield Violation("bound", f"{bound:.9g} is above the load distance {distance:.9g}")
    if gap is not None and (
        not is_number(gap) or abs(gap - max(0.0, distance - bound)) > OPTIMAL_GAP
    ):
        yield Violation("gap", f"promised {gap!r}, is {max(0.0, distance - bound):.9g}")


def check_status(
    promises: Mapping[str, Any], figures: PlanFigures, *, is_rerouted: bool
) -> Iterator[Violation]:
    """The status agrees with the moves, the routes and the bound."""
    status = promises.get("status")
    if status is None:
        return
    if status not in STATUSES:
        yield Violation("status", f"{status!r} is none of {', '.join(STATUSES)}")
    if status == "infeasible":
        yield Violation("status", "says infeasible, but there is an assignment")
    if status == "unchanged" and is_rerouted:
        yield Violation("status", "says unchanged, but routes changed")
    if status == "unchanged" and figures.moved.any():
        yield Violation(
            "status", f"says unchanged, but {np.count_nonzero(figures.moved)} key groups moved"
        )
    bound = promises.get("bound")
    distance = figures.number("load_distance")
    is_proven = bound is not None and is_number(bound) and distance - bound <= OPTIMAL_GAP
    if status == "optimal" and not is_proven:
        yield Violation("status", f"says optimal at {distance:.9g}, but the bound is {bound!r}")


def is_close(a: float, b: float, rounding: float = 0.0) -> bool:
    """Whether two figures agree within the tolerances; ``rounding`` is an absolute one."""
    absolute = max(ABSOLUTE_TOLERANCE, rounding)
    return math.isclose(a, b, rel_tol=RELATIVE_TOLERANCE, abs_tol=absolute)


def is_number(value: Any) -> bool:
    """Whether the value is a finite number; True and False are not numbers here."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # The value is not converted: a whole number may be too large for a float.
    return is_number and -sys.float_info.max <= value <= sys.float_info.max
