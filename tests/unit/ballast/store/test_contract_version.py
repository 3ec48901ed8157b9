"""The contract version of tables: made with it, read without it, refused where it is newer."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from ballast.cli.main import main
from ballast.contracts.contract_version import CONTRACT_PROPERTY, CONTRACT_VERSION, contract_of
from ballast.contracts.errors import ContractMismatch
from ballast.contracts.records import Head
from ballast.contracts.settings import Settings, load_settings
from ballast.contracts.table_schemas import arrow_schema
from ballast.contracts.tables import TABLES
from ballast.store.plans import read_head
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import address, append, append_once, open_table
from ballast.streaming.head_reader import HeadReader, PublishedPlan
from tests.support.rows import row_of

HEADS = Head.table
NEWER = str(CONTRACT_VERSION + 1)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("BALLAST_HOME", str(tmp_path))
    monkeypatch.delenv("BALLAST_WAREHOUSE", raising=False)
    return load_settings()


def set_contract(settings: Settings, value: str) -> None:
    table = DeltaTable(address(settings, HEADS))
    table.alter.set_table_properties({CONTRACT_PROPERTY: value}, raise_if_not_exists=False)


def contract(settings: Settings) -> int:
    return contract_of(HEADS, DeltaTable(address(settings, HEADS)).metadata().configuration)


def test_new_tables_have_the_contract_version(settings: Settings) -> None:
    ensure_tables(settings)
    for name in TABLES:
        properties = open_table(settings, name).metadata().configuration
        assert properties[CONTRACT_PROPERTY] == str(CONTRACT_VERSION)


def test_a_table_without_a_version_is_read_and_gets_one_when_it_is_opened_for_writing(
    settings: Settings,
) -> None:
    DeltaTable.create(
        address(settings, HEADS), schema=arrow_schema(TABLES[HEADS]), partition_by=["job"]
    )
    append(settings, HEADS, [row_of(HEADS, job="clicks", version=3)])
    assert contract(settings) == 0
    head = read_head(settings, "clicks")
    assert head is not None
    assert head.version == 3
    ensure_tables(settings, [HEADS])
    assert contract(settings) == CONTRACT_VERSION
    version = open_table(settings, HEADS).version()
    ensure_tables(settings, [HEADS])
    assert open_table(settings, HEADS).version() == version


@pytest.mark.parametrize("value", [NEWER, "100", "two", "-1", ""])
def test_a_newer_table_is_neither_read_nor_written(settings: Settings, value: str) -> None:
    ensure_tables(settings, [HEADS])
    set_contract(settings, value)
    with pytest.raises(ContractMismatch, match=f"{HEADS} has contract version {value}"):
        read_head(settings, "clicks")
    with pytest.raises(ContractMismatch):
        append_once(settings, HEADS, [row_of(HEADS)], app_id="a", app_version=1)
    with pytest.raises(ContractMismatch):
        ensure_tables(settings, [HEADS])
    assert DeltaTable(address(settings, HEADS)).metadata().configuration[CONTRACT_PROPERTY] == value


def test_a_command_says_what_to_install(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    ensure_tables(settings)
    set_contract(settings, NEWER)
    assert main(["plans", "list", "clicks"]) == ContractMismatch.exit_code == 12
    said = capsys.readouterr().err
    assert f"table {HEADS} has contract version {NEWER}" in said
    assert "install that version here too" in said
    assert said.count("\n") == 1


def test_a_running_job_keeps_its_plan_when_the_tables_become_newer(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    ensure_tables(settings, [HEADS])
    append(settings, HEADS, [row_of(HEADS, job="clicks", version=3)])

    def read(_known: PublishedPlan | None) -> PublishedPlan | None:
        head = read_head(settings, "clicks")
        return None if head is None else PublishedPlan(head, None)

    reader = HeadReader(read)
    before = reader.newest()
    set_contract(settings, NEWER)
    assert reader.newest() == before
    assert before is not None
    assert f"has contract version {NEWER}" in caplog.text
