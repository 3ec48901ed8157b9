"""Parsers of the values of what-if options, shared by the command line and the pipeline. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ballast.contracts.errors import InvalidInput

NO_LIMIT = "none"
Number = TypeVar("Number", int, float)


def split_names(text: str) -> tuple[str, ...]:
    """Names separated by commas, each once."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def parse_factors(option: str, texts: Sequence[str]) -> dict[str, float]:
    """Parse factors by name.

    Args:
        option: the option, for the error.
        texts: texts of the form NAME=FACTOR.

    Raises:
        InvalidInput: a text does not have this form.
    """
    parsed: dict[str, float] = {}
    for name, number in parse_pairs(option, texts, "NAME=FACTOR, such as node-1=2").items():
        try:
            parsed[name] = float(number)
        except ValueError as error:
            raise InvalidInput(
                f"{option} {f'{name}={number}'!r}", allowed="NAME=FACTOR, such as node-1=2"
            ) from error
    return parsed


def parse_pairs(option: str, texts: Sequence[str], allowed: str) -> dict[str, str]:
    """Parse values by name.

    Args:
        option: the option, for the error.
        texts: texts of the form NAME=VALUE.
        allowed: the form with an example, for the error.

    Raises:
        InvalidInput: a text does not have this form.
    """
    parsed: dict[str, str] = {}
    for text in texts:
        name, is_pair, value = text.rpartition("=")
        if not is_pair or not name or not value:
            raise InvalidInput(f"{option} {text!r}", allowed=allowed)
        parsed[name] = value
    return parsed


def parse_limit(
    option: str, text: str | None, default: Number | None, kind: type[Number]
) -> Number | None:
    """Parse a limit: a number, or ``none`` for no limit.

    Args:
        option: the option, for the error.
        text: the text; None if the option was not given.
        default: the limit if the option was not given.
        kind: ``int`` or ``float``.

    Raises:
        InvalidInput: the text is neither a number of this kind nor ``none``.
    """
    if text is None:
        return default
    if text == NO_LIMIT:
        return None
    try:
        return kind(text)
    except ValueError as error:
        raise InvalidInput(f"{option} {text!r}", allowed=f"a number or {NO_LIMIT}") from error
