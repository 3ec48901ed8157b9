"""JSON forms of records, other dataclasses and times, for ``json.dumps(default=...)``."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import date, datetime
from typing import Any

from ballast.contracts.records import Record


def json_value(value: Any) -> Any:
    """The JSON form of a value that ``json`` does not support: an object or a time in ISO 8601.

    Raises:
        TypeError: the value has no JSON form.
    """
    if isinstance(value, Record):
        return value.to_row()
    if isinstance(value, datetime | date):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    raise TypeError(f"{type(value).__name__} has no JSON form")
