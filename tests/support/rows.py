"""Rows of any table, with defaults for all columns that a test does not set."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ballast.contracts.tables import TABLES

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def row_of(table: str, **values: Any) -> dict[str, Any]:
    """A row with a value for every column, those given and defaults for the rest."""
    defaults = {"string": "x", "long": 1, "double": 1.0, "timestamp": NOW, "date": NOW.date()}
    columns = TABLES[table].columns
    row = {c.name: (c.allowed[0] if c.allowed else defaults.get(c.type)) for c in columns}
    if table == "plans.acks":
        # An acknowledgement of the job's operators, not of a region.
        row["region_id"] = None
    if table == "plans.plans":
        # A plan of a policy without rules.
        row |= dict.fromkeys(("rules", "restored_rules", "rules_text"))
    return row | values
