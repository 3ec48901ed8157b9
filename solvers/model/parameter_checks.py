"""Checks that budgets, stops, seeds and the parameters of methods share.

Numbers are compared and not converted: a whole number may be beyond what a float can hold.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, TypeVar

from ballast.contracts.errors import InvalidInput

Options = TypeVar("Options")


def is_whole(value: object, *, at_least: int, below: float = float("inf")) -> bool:
    """A whole number in that range; True and False are none."""
    is_number = isinstance(value, Integral) and not isinstance(value, bool)
    return is_number and at_least <= value < below  # type: ignore[operator]


def is_finite(value: object) -> bool:
    """Whether the value is a finite number; True and False are not numbers here."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    largest = sys.float_info.max
    return is_number and -largest <= value <= largest  # type: ignore[operator]


def is_finite_and_not_negative(value: object) -> bool:
    """Whether the value is a finite number >= 0; True and False are not numbers here."""
    return is_finite(value) and value >= 0  # type: ignore[operator]


def options_of(kind: type[Options], method: str, params: Mapping[str, Any]) -> Options:
    """The parameters of a method as its own dataclass, which checks their values."""
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    unknown = sorted(set(params) - set(known))
    if unknown:
        raise InvalidInput(
            f"method {method!r} does not know the parameters {unknown}", allowed=", ".join(known)
        )
    return kind(**params)
