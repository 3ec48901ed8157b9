"""Check of the tables: they can be opened, and their contract version is known here."""

from __future__ import annotations

from ballast.contracts.contract_version import CONTRACT_VERSION, contract_of
from ballast.contracts.errors import ContractMismatch
from ballast.contracts.settings import Settings
from ballast.contracts.tables import TABLES
from ballast.doctor.finding import Finding, failed, not_checked, ok
from ballast.store.tables import open_table, table_exists

CHECK = "tables"


def check_tables(settings: Settings) -> Finding:
    """Open every table, and check its contract version (ADR 84)."""
    contracts: dict[str, int] = {}
    for name in TABLES:
        try:
            if table_exists(settings, name):
                properties = open_table(settings, name).metadata().configuration
                contracts[name] = contract_of(name, properties)
        except ContractMismatch as error:
            return failed(CHECK, str(error), "install the version of Ballast that wrote it here")
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the table is reported
            cause = str(error).strip().splitlines() or [type(error).__name__]
            return failed(
                CHECK, f"{name} cannot be read: {cause[0]}",
                "look at the rights; restore the table's folder from a copy if files are missing",
            )  # fmt: skip
    if not contracts:
        return not_checked(CHECK, f"no table in {settings.warehouse} yet")
    versions = ", ".join(map(str, sorted(set(contracts.values()))))
    return ok(
        CHECK, f"{len(contracts)} of {len(TABLES)} tables exist; contract version {versions} "
        f"(this version reads 0 to {CONTRACT_VERSION})",
    )  # fmt: skip
