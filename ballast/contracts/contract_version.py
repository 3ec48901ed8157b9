"""The version of the contract between programs that share a warehouse (ADR 84).

Every table has it as a property. Programs of an earlier contract would misread the table, so they
refuse it. A column that is added does not change the contract: readers ignore columns that they do
not know.
"""

from __future__ import annotations

from collections.abc import Mapping

from ballast.contracts.errors import ContractMismatch

CONTRACT_VERSION = 1
"""Raised when a program of the version before would misread what is written now."""
CONTRACT_PROPERTY = "ballast.contract"
WITHOUT_PROPERTY = 0
"""The contract of tables that were made before tables had one; this version reads them."""


def contract_of(table: str, properties: Mapping[str, str | None]) -> int:
    """The contract version in the properties of a table; ``WITHOUT_PROPERTY`` if it has none.

    Raises:
        ContractMismatch: the property is no number.
    """
    text = properties.get(CONTRACT_PROPERTY)
    if text is None:
        return WITHOUT_PROPERTY
    if not text.isdecimal():
        raise ContractMismatch(table, text, CONTRACT_VERSION)
    return int(text)


def check_contract(table: str, properties: Mapping[str, str | None]) -> int:
    """Check that this version of Ballast understands a table, and return its contract version.

    Raises:
        ContractMismatch: a later version of Ballast made the table, or changed it.
    """
    found = contract_of(table, properties)
    if found > CONTRACT_VERSION:
        raise ContractMismatch(table, str(found), CONTRACT_VERSION)
    return found
