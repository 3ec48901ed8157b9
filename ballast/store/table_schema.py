"""Creates the tables, and adds columns and constraints that tables of earlier versions lack."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

import pyarrow as pa
from deltalake import DeltaTable, Schema

from ballast.contracts.contract_version import (
    CONTRACT_PROPERTY,
    CONTRACT_VERSION,
    contract_of,
)
from ballast.contracts.errors import InvalidInput
from ballast.contracts.settings import Settings
from ballast.contracts.table_schemas import arrow_schema, check_constraints, table_properties
from ballast.contracts.tables import TABLES, Table
from ballast.store.tables import (
    address,
    open_table,
    retry_on_commit_conflict,
    store_options,
    table_exists,
)


def ensure_tables(settings: Settings, names: Sequence[str] = tuple(TABLES)) -> None:
    """Create the tables that do not exist, with all their constraints, and update the others.

    A table of an earlier version gets the missing columns; they are NULL in its existing rows. A
    constraint with other allowed values is replaced. Several processes may call this at the same
    time, and a call after an interrupted one finishes its work.

    Raises:
        InvalidInput: a missing column must not be NULL, so that it cannot be added.
        ContractMismatch: a later version of Ballast has written a table.
    """
    for name in names:
        retry_on_commit_conflict(partial(_ensure_table, settings, TABLES[name]))


def _ensure_table(settings: Settings, table: Table) -> None:
    created = _opened_or_created(settings, table)
    _add_missing_columns(created, table, address(settings, table.name))
    present = created.metadata().configuration
    absent = {k: v for k, v in table_properties(table).items() if k not in present}
    if contract_of(table.name, present) < CONTRACT_VERSION:
        absent[CONTRACT_PROPERTY] = str(CONTRACT_VERSION)
    if absent:
        # delta-rs asks to be told that a name outside of Delta's own is meant.
        created.alter.set_table_properties(absent, raise_if_not_exists=False)
    wanted = check_constraints(table)
    found = {name: present.get(f"delta.constraints.{name}") for name in wanted}
    changed = [
        name
        for name, old in found.items()
        if old and _quoted_values(old) != _quoted_values(wanted[name])
    ]
    for name in changed:
        created.alter.drop_constraint(name, raise_if_not_exists=False)
    missing = {name: wanted[name] for name, old in found.items() if not old or name in changed}
    if missing:
        created.alter.add_constraint(missing)
    for name in table.retired_checks:
        if f"delta.constraints.{name}" in present:
            created.alter.drop_constraint(name, raise_if_not_exists=False)


def _opened_or_created(settings: Settings, table: Table) -> DeltaTable:
    """Open or create the table; opening takes half as long as creating with mode ``ignore``."""
    if table_exists(settings, table.name):
        return open_table(settings, table.name)
    return DeltaTable.create(
        address(settings, table.name),
        schema=arrow_schema(table),
        mode="ignore",
        partition_by=list(table.partition_by),
        name=table.name,
        description=table.doc,
        configuration=_creation_properties(table),
        storage_options=store_options(settings),
    )


def _creation_properties(table: Table) -> dict[str, str]:
    """Return the properties of Delta itself; delta-rs takes others only for an existing table."""
    return {k: v for k, v in table_properties(table).items() if k.startswith("delta.")}


def _quoted_values(condition: str) -> set[str]:
    """Return the quoted values in a condition.

    A later version may allow more values, such as another event. delta-rs rewrites the rest of a
    condition, so that only the values can be compared.
    """
    return set(re.findall("'[^']*'", condition))


def _add_missing_columns(found: DeltaTable, table: Table, where: str) -> None:
    present = {field.name for field in found.schema().fields}
    missing = [name for name in table.column_names if name not in present]
    if not missing:
        return
    schema = arrow_schema(table)
    for name in missing:
        if not schema.field(name).nullable:
            raise InvalidInput(
                f"table {table.name} at {where} was made by an earlier version and has no column "
                f"{name}, which may not be NULL and so cannot be added",
                value=name, allowed=", ".join(table.column_names),
                remedy="move the table's folder away, so that it is made anew, or use another "
                "BALLAST_WAREHOUSE",
            )  # fmt: skip
    wanted = pa.schema([schema.field(name) for name in missing])
    found.alter.add_columns(list(Schema.from_arrow(wanted).fields))
