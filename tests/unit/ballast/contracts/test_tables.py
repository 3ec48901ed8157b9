"""Everything that is derived from the table definitions is consistent with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ballast.contracts.table_schemas import (
    arrow_schema,
    check_constraints,
    column_limits,
    ddl,
    tables_markdown,
)
from ballast.contracts.tables import TABLES, Column, Table

DOCS = Path(__file__).parents[4] / "docs" / "tables.md"
EVERY_TABLE = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


@EVERY_TABLE
def test_keys_and_partitions_are_columns(table: Table) -> None:
    assert set(table.key) <= set(table.column_names)
    assert set(table.partition_by) <= set(table.column_names)
    assert table.key[0] == "job"


@EVERY_TABLE
def test_column_names_are_unique_and_carry_their_unit(table: Table) -> None:
    assert len(set(table.column_names)) == len(table.columns)
    for column in table.columns:
        if column.type == "timestamp":
            assert column.name == "at" or column.name.endswith("_at")


@EVERY_TABLE
def test_every_figure_has_both_limits_so_that_nan_and_infinity_fail(table: Table) -> None:
    for column in table.columns:
        if column.type == "double":
            assert column.minimum is not None, column.name
            assert column.maximum is not None, column.name


@EVERY_TABLE
def test_arrow_schema_has_the_columns_and_forbids_null_only_where_rows_are_trusted(
    table: Table,
) -> None:
    schema = arrow_schema(table)
    assert tuple(schema.names) == table.column_names
    for column in table.columns:
        assert schema.field(column.name).nullable == (column.nullable or not table.trusted)


@EVERY_TABLE
def test_raw_tables_have_no_constraints_and_trusted_ones_have_their_limits(table: Table) -> None:
    constraints = check_constraints(table)
    assert bool(constraints) <= table.trusted
    if table.trusted:
        assert table.checks.items() <= constraints.items()


@EVERY_TABLE
def test_ddl_names_location_and_every_column_and_constraint(table: Table) -> None:
    create, *alters = ddl(table, "/warehouse/t")
    assert "delta.`/warehouse/t`" in create
    for column in table.columns:
        assert f"\n  {column.name} " in create
    assert len(alters) == len(check_constraints(table))


def test_nullable_columns_may_be_null_in_their_constraint() -> None:
    constraints = check_constraints(TABLES["plans.log"])
    assert constraints["version_too_small"] == "version IS NULL OR version >= 1"


def test_limits_of_a_column_become_conditions_by_reason() -> None:
    column = Column("cpu_ms", "double", "x", minimum=0, maximum=10, allowed=None)
    assert column_limits(column) == {"too_small": "cpu_ms >= 0.0", "too_large": "cpu_ms <= 10.0"}


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValueError, match="decimal"):
        Column("x", "decimal", "x")


def test_docs_are_generated_from_the_definitions() -> None:
    assert DOCS.read_text(encoding="utf-8") == tables_markdown(), (
        "docs/tables.md is out of date: run `ballast tables docs > docs/tables.md`"
    )
