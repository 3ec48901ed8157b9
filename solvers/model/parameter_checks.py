"""Checks that budgets, stops, seeds and the parameters of methods share.

Numbers are compared and not converted: a whole number may be beyond what a float can hold.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from typing import Any, TypeVar, get_type_hints

from ballast.contracts.errors import InvalidInput

Options = TypeVar("Options")


def is_whole(value: object, *, at_least: int, below: float = float("inf")) -> bool:
    """Return whether the value is a whole number in this range; booleans are not whole numbers."""
    is_number = isinstance(value, Integral) and not isinstance(value, bool)
    return is_number and at_least <= value < below  # type: ignore[operator]


def is_finite(value: object) -> bool:
    """Return whether the value is a finite number; booleans are not numbers."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    largest = sys.float_info.max
    return is_number and -largest <= value <= largest  # type: ignore[operator]


def is_finite_and_not_negative(value: object) -> bool:
    """Return whether the value is a finite number >= 0; booleans are not numbers."""
    return is_finite(value) and value >= 0  # type: ignore[operator]


def options_of(kind: type[Options], method: str, params: Mapping[str, Any]) -> Options:
    """Make the parameters of a method from a mapping, as from JSON.

    Args:
        kind: The dataclass of the parameters. It checks their values. A field may be a dataclass
            of parameters itself; it is then given as a mapping too.
        method: The name of the method, for messages.
        params: The parameters by name. Those that are left out keep their defaults.

    Raises:
        InvalidInput: A name is unknown, or a value is not allowed.
    """
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    unknown = sorted(set(params) - set(known))
    if unknown:
        raise InvalidInput(
            f"method {method!r} does not know the parameters {unknown}",
            allowed=", ".join(known) or "no parameters",
        )
    types = get_type_hints(kind)
    return kind(**{name: _parsed(types[name], name, value) for name, value in params.items()})


def _parsed(kind: Any, name: str, value: Any) -> Any:
    is_nested = is_dataclass(kind) and isinstance(value, Mapping)
    return options_of(kind, name, value) if is_nested else value
