"""SQL, CHECK constraints, Arrow schemas and Markdown, derived from the table definitions."""

from __future__ import annotations

import pyarrow as pa

from ballast.contracts.contract_version import CONTRACT_PROPERTY, CONTRACT_VERSION
from ballast.contracts.tables import TABLES, Column, Table

SQL_TYPES = {
    "string": "STRING",
    "long": "BIGINT",
    "double": "DOUBLE",
    "timestamp": "TIMESTAMP",
    "date": "DATE",
    "array<string>": "ARRAY<STRING>",
}

ARROW_TYPES = {
    "string": pa.string(),
    "long": pa.int64(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
    "array<string>": pa.list_(pa.string()),
}


def column_limits(column: Column) -> dict[str, str]:
    """SQL conditions that a value of the column must meet, by the name of the reason.

    NULL meets every condition; whether NULL is allowed is checked separately. Spark sorts NaN
    above every number, so the maximum also refuses NaN.
    """
    limits: dict[str, str] = {}
    name = column.name
    if column.minimum is not None:
        limits["too_small"] = f"{name} >= {_literal(column, column.minimum)}"
    if column.maximum is not None:
        limits["too_large"] = f"{name} <= {_literal(column, column.maximum)}"
    if column.allowed is not None:
        values = ", ".join(f"'{value}'" for value in column.allowed)
        limits["not_allowed"] = f"{name} IN ({values})"
    return limits


def check_constraints(table: Table) -> dict[str, str]:
    """The CHECK constraints of a trusted table, by name; empty for a table of raw metrics."""
    if not table.trusted:
        return {}
    constraints = {
        f"{column.name}_{reason}": f"{column.name} IS NULL OR {condition}"
        if column.nullable
        else condition
        for column in table.columns
        for reason, condition in column_limits(column).items()
    }
    return constraints | table.checks


def table_properties(table: Table) -> dict[str, str]:
    """The Delta properties of a table."""
    properties = {
        # Opening a table reads its log from the last checkpoint on. delta-rs writes a checkpoint
        # every hundred commits by default, and a run opens tables dozens of times.
        "delta.checkpointInterval": "20",
        "delta.deletedFileRetentionDuration": f"interval {min(table.retention_days, 7)} days",
        "delta.logRetentionDuration": "interval 30 days",
        CONTRACT_PROPERTY: str(CONTRACT_VERSION),
    }
    if table.append_only:
        properties["delta.appendOnly"] = "true"
    return properties


def arrow_schema(table: Table) -> pa.Schema:
    """The Arrow schema of a table; only trusted tables forbid NULL."""
    return pa.schema(
        pa.field(column.name, ARROW_TYPES[column.type], column.nullable or not table.trusted)
        for column in table.columns
    )


def ddl(table: Table, location: str) -> list[str]:
    """Spark SQL that creates the table at ``location`` with its constraints."""
    columns = ",\n  ".join(_column_sql(table, column) for column in table.columns)
    properties = ", ".join(f"'{k}' = '{v}'" for k, v in table_properties(table).items())
    create = (
        f"CREATE TABLE IF NOT EXISTS delta.`{location}` (\n  {columns}\n)\n"
        f"USING DELTA\nPARTITIONED BY ({', '.join(table.partition_by)})\n"
        f"COMMENT '{_quoted(table.doc)}'\nTBLPROPERTIES ({properties})"
    )
    alters = [
        f"ALTER TABLE delta.`{location}` ADD CONSTRAINT {name} CHECK ({condition})"
        for name, condition in check_constraints(table).items()
    ]
    return [create, *alters]


def tables_markdown() -> str:
    """The text of ``docs/tables.md``."""
    head = (
        "# Tables\n\n"
        "Generated from `ballast/contracts/tables.py` by `ballast tables docs`; do not edit.\n\n"
        "All tables are Delta tables at `<BALLAST_WAREHOUSE>/<schema>/<table>`. Times are UTC.\n"
        "*Trusted* tables refuse a bad row on write (NOT NULL and CHECK constraints); tables of\n"
        "raw metrics take every row, and `condense` sets the bad ones aside in\n"
        "`metrics.rejected`.\n"
    )
    return head + "".join(_table_markdown(table) for table in TABLES.values())


def _table_markdown(table: Table) -> str:
    kind = "trusted" if table.trusted else "raw"
    rows = "\n".join(_column_markdown(column) for column in table.columns)
    checks = "".join(f"- `{name}`: `{sql}`\n" for name, sql in table.checks.items())
    return (
        f"\n## {table.name}\n\n{table.doc}\n\n"
        f"Written by: {table.written_by}. Key: {', '.join(table.key)}. "
        f"Partitioned by: {', '.join(table.partition_by)}. Kept: {table.retention_days} days. "
        f"{'Append-only' if table.append_only else 'Rows may change'}; {kind}.\n\n"
        "| column | type | unit | allowed | meaning |\n|---|---|---|---|---|\n"
        f"{rows}\n" + (f"\nAlso checked on write:\n{checks}" if checks else "")
    )


def _column_markdown(column: Column) -> str:
    return (
        f"| {column.name} | {column.type} | {column.unit or ''} | "
        f"{_allowed_text(column)} | {column.doc} |"
    )


def _allowed_text(column: Column) -> str:
    parts = []
    if column.allowed:
        parts.append(", ".join(column.allowed))
    if column.minimum is not None:
        parts.append(f"{column.minimum:g} to {column.maximum:g}")
    if column.nullable:
        parts.append("NULL")
    return "; ".join(parts)


def _column_sql(table: Table, column: Column) -> str:
    null = "" if column.nullable or not table.trusted else " NOT NULL"
    return f"{column.name} {SQL_TYPES[column.type]}{null} COMMENT '{_quoted(column.doc)}'"


def _literal(column: Column, value: float) -> str:
    return str(int(value)) if column.type == "long" else f"{float(value)!r}"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
