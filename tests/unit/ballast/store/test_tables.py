"""The store creates, reads and appends without a JVM, and a repeated write adds nothing."""

from __future__ import annotations

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from ballast.contracts.errors import InvalidInput, NotFound
from ballast.contracts.settings import Settings, load_settings
from ballast.contracts.table_schemas import arrow_schema, check_constraints
from ballast.contracts.tables import TABLES
from ballast.store import tables
from ballast.store.plans import read_routes
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import address, append, append_once, open_table, read_rows

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings({"BALLAST_HOME": str(tmp_path)})


def head(job: str = "clicks", **changes: Any) -> dict[str, Any]:
    row = {"job": job, "version": 1, "plan_id": "p", "content_hash": "c", "run_id": "r",
           "published_at": NOW}  # fmt: skip
    return row | changes


def test_a_store_that_does_not_answer_is_an_error_within_its_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = {"connect_timeout": "1s", "timeout": "1s", "max_retries": "0", "retry_timeout": "1s"}
    assert tables.STORE_OPTIONS.keys() == limits.keys()
    monkeypatch.setattr(tables, "STORE_OPTIONS", limits)
    with socket.create_server(("127.0.0.1", 0)) as hung:  # it accepts, and never answers
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{hung.getsockname()[1]}")
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
            monkeypatch.setenv(name, "us-east-1")
        away = load_settings({"BALLAST_WAREHOUSE": "s3a://bucket/w"})
        with pytest.raises(OSError, match="error sending request"):
            open_table(away, "plans.heads")


def test_a_folder_has_no_limits_of_a_store(settings: Settings) -> None:
    assert tables.store_options(settings) is None


def test_every_table_is_created_with_its_constraints(settings: Settings) -> None:
    ensure_tables(settings)
    for name, table in TABLES.items():
        configuration = open_table(settings, name).metadata().configuration
        present = {key for key in configuration if key.startswith("delta.constraints.")}
        assert present == {f"delta.constraints.{key}" for key in check_constraints(table)}


def test_creating_again_changes_nothing(settings: Settings) -> None:
    ensure_tables(settings)
    versions = {name: open_table(settings, name).version() for name in TABLES}
    ensure_tables(settings)
    assert {name: open_table(settings, name).version() for name in TABLES} == versions


def test_several_may_create_at_once(settings: Settings) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: ensure_tables(settings, ["plans.heads", "plans.log"]), range(8)))
    configuration = open_table(settings, "plans.heads").metadata().configuration
    assert "delta.constraints.version_too_small" in configuration


def test_a_constraint_that_a_dead_creator_left_out_is_added(settings: Settings) -> None:
    ensure_tables(settings, ["plans.heads"])
    open_table(settings, "plans.heads").alter.drop_constraint("version_too_small")
    ensure_tables(settings, ["plans.heads"])
    configuration = open_table(settings, "plans.heads").metadata().configuration
    assert "delta.constraints.version_too_small" in configuration


def test_a_property_that_a_table_lacks_is_set_and_one_that_was_changed_is_left(
    settings: Settings,
) -> None:
    schema = arrow_schema(TABLES["plans.log"])
    given = {"delta.logRetentionDuration": "interval 90 days"}
    DeltaTable.create(address(settings, "plans.log"), schema=schema, configuration=given)
    ensure_tables(settings, ["plans.log"])
    configuration = open_table(settings, "plans.log").metadata().configuration
    assert configuration["delta.checkpointInterval"] == "20"
    assert configuration["delta.logRetentionDuration"] == "interval 90 days"


def test_a_log_is_checkpointed_so_that_opening_stays_quick(settings: Settings) -> None:
    ensure_tables(settings, ["plans.heads"])
    for version in range(1, 25):
        append(settings, "plans.heads", [head(version=version)])
    log = Path(settings.warehouse) / "plans" / "heads" / "_delta_log"
    assert list(log.glob("*.checkpoint.parquet"))


@pytest.mark.parametrize("folder", ["a b", "ü#?&+"])
def test_a_warehouse_may_be_in_any_folder(tmp_path: Path, folder: str) -> None:
    there = load_settings({"BALLAST_HOME": str(tmp_path / folder)})
    ensure_tables(there, ["plans.heads"])
    append(there, "plans.heads", [head()])
    assert read_rows(there, "plans.heads", job="clicks").num_rows == 1


def table_of_an_earlier_version(settings: Settings, name: str, without: str) -> pa.Schema:
    schema = pa.schema([f for f in arrow_schema(TABLES[name]) if f.name != without])
    partitions = list(TABLES[name].partition_by)
    DeltaTable.create(address(settings, name), schema=schema, partition_by=partitions)
    return schema


def test_a_table_of_an_earlier_version_gets_the_columns_it_lacks(settings: Settings) -> None:
    name = "metrics.key_groups"
    earlier = table_of_an_earlier_version(settings, name, "wire_ms")
    row = {"job": "clicks", "operator_id": "parse", "key_group": 1, "window_date": NOW.date()}
    write_deltalake(
        address(settings, name), pa.Table.from_pylist([row], schema=earlier), mode="append"
    )
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: ensure_tables(settings, [name]), range(4)))
    version = open_table(settings, name).version()
    ensure_tables(settings, [name])
    assert open_table(settings, name).version() == version
    append(settings, name, [row | {"key_group": 2, "wire_ms": 1.5}])
    rows = read_rows(settings, name, job="clicks").to_pylist()
    assert {r["key_group"]: r["wire_ms"] for r in rows} == {1: None, 2: 1.5}


def test_a_column_that_cannot_be_added_is_named_with_what_to_do(settings: Settings) -> None:
    table_of_an_earlier_version(settings, "plans.plans", "objective")
    with pytest.raises(InvalidInput, match=r"plans\.plans.*no column objective.*moved? the table"):
        ensure_tables(settings, ["plans.plans"])


def test_routes_of_a_plan_come_back_whatever_their_keys(settings: Settings) -> None:
    assert read_routes(settings, "clicks", "p1") == []
    ensure_tables(settings, ["plans.routes"])
    keys = ["", "o'clock", 'say "x"', "two\nlines", "ü", "\x00", "x" * 1024]
    rows = [
        {"job": "clicks", "plan_id": plan, "operator_id": "count", "key": key, "key_group": 3}
        for plan in ("p1", "p2")
        for key in keys
    ]
    append(settings, "plans.routes", rows)
    assert sorted(read_routes(settings, "clicks", "p1")) == sorted(("count", k, 3) for k in keys)
    assert read_routes(settings, "clicks", "p3") == []


@pytest.mark.parametrize("bad", [{"version": 0}, {"version": None}, {"plan_id": None}])
def test_a_trusted_table_refuses_a_bad_row(settings: Settings, bad: dict[str, Any]) -> None:
    ensure_tables(settings, ["plans.heads"])
    with pytest.raises((DeltaError, ValueError)):
        append(settings, "plans.heads", [head(**bad)])
    assert read_rows(settings, "plans.heads", job="clicks").num_rows == 0


def test_only_rows_of_the_job_are_read(settings: Settings) -> None:
    ensure_tables(settings, ["plans.heads"])
    append(settings, "plans.heads", [head(), head("orders", version=7)])
    rows = read_rows(settings, "plans.heads", job="orders").to_pylist()
    assert rows == [head("orders", version=7)]


def test_a_write_is_made_once(settings: Settings) -> None:
    ensure_tables(settings, ["plans.heads"])
    first = append_once(settings, "plans.heads", [head()], app_id="w", app_version=3)
    again = append_once(settings, "plans.heads", [head()], app_id="w", app_version=3)
    older = append_once(settings, "plans.heads", [head()], app_id="w", app_version=2)
    newer = append_once(settings, "plans.heads", [head(version=2)], app_id="w", app_version=4)
    other = append_once(settings, "plans.heads", [head(version=3)], app_id="x", app_version=1)
    assert (first, again, older, newer, other) == (True, False, False, True, True)
    assert read_rows(settings, "plans.heads", job="clicks").num_rows == 3


def test_appends_at_once_all_arrive(settings: Settings) -> None:
    ensure_tables(settings, ["plans.heads"])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: append(settings, "plans.heads", [head(version=i)]), range(1, 21)))
    versions = read_rows(settings, "plans.heads", job="clicks")["version"].to_pylist()
    assert sorted(versions) == list(range(1, 21))


def test_a_table_that_is_not_there_is_named_with_what_to_do(settings: Settings) -> None:
    with pytest.raises(NotFound, match=r"plans\.heads does not exist.*BALLAST_WAREHOUSE"):
        read_rows(settings, "plans.heads", job="clicks")


def test_a_process_that_has_read_a_table_ends_cleanly(settings: Settings) -> None:
    """Reading through Arrow's thread pool aborted every second process at its end."""
    ensure_tables(settings, ["plans.heads"])
    append(settings, "plans.heads", [head()])
    program = (
        "from ballast.contracts.settings import load_settings\n"
        "from ballast.store.plans import read_head\n"
        f"s = load_settings({{'BALLAST_HOME': {str(settings.home)!r}}})\n"
        "assert read_head(s, 'clicks').version == 1\n"
    )
    for _ in range(4):
        subprocess.run([sys.executable, "-c", program], check=True)


def test_a_table_made_before_weights_comes_to_check_by_them(settings: Settings) -> None:
    ensure_tables(settings, ["plans.plans"])
    old = open_table(settings, "plans.plans")
    name = "not_worse_without_cause"
    old.alter.drop_constraint(name)
    old.alter.add_constraint({name: "method = 'rollback' OR load_distance_pct <= 1"})
    ensure_tables(settings, ["plans.plans"])
    now = open_table(settings, "plans.plans").metadata().configuration[f"delta.constraints.{name}"]
    assert "traffic_weight" in now


def test_a_constraint_of_an_earlier_version_comes_to_allow_what_this_one_does(
    settings: Settings,
) -> None:
    ensure_tables(settings, ["plans.log"])
    old = open_table(settings, "plans.log")
    old.alter.drop_constraint("event_not_allowed")
    old.alter.add_constraint({"event_not_allowed": "event IN ('drafted', 'published')"})
    ensure_tables(settings, ["plans.log"])
    version = open_table(settings, "plans.log").version()
    row = {"job": "j", "at": datetime.now(UTC), "event": "waiting", "version": None,
           "plan_id": "p", "run_id": "r", "actor": "a", "reason": "why"}  # fmt: skip
    append(settings, "plans.log", [row])
    with pytest.raises(Exception, match="event"):
        append(settings, "plans.log", [row | {"event": "danced"}])
    ensure_tables(settings, ["plans.log"])
    assert open_table(settings, "plans.log").version() == version + 1
