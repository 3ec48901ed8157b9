"""The cache of small tables, on real tables."""

from __future__ import annotations

from pathlib import Path

from ballast.contracts.records import LogEntry, Promise
from ballast.contracts.settings import Settings, load_settings
from ballast.store.cache import TableCache
from ballast.store.plans import read_promises
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append, open_table
from tests.support.rows import row_of

OF_LOAD = ("figure", "=", "load_distance_pct")


def promising(home: Path) -> Settings:
    settings = load_settings({"BALLAST_HOME": str(home)})
    ensure_tables(settings, ["plans.promises", "plans.log"])
    for number in (1, 2):
        promise(settings, f"p{number}")
    return settings


def promise(settings: Settings, plan_id: str) -> None:
    append(settings, "plans.promises", [
        row_of("plans.promises", job="clicks", plan_id=plan_id, figure=figure)
        for figure in ("pause_s", "load_distance_pct")
    ])  # fmt: skip


def test_selected_rows_are_cached_and_rows_of_new_files_are_added(tmp_path: Path) -> None:
    settings = promising(tmp_path)
    cache = TableCache(settings)
    for expected in (["p1", "p2"], ["p1", "p2", "p3"]):
        found = cache.records(Promise, "clicks", OF_LOAD)
        assert sorted(row.plan_id for row in found) == expected
        assert {row.figure for row in found} == {"load_distance_pct"}
        promise(settings, "p3")
    open_table(settings, "plans.promises").optimize.compact()
    assert len(cache.records(Promise, "clicks", OF_LOAD)) == 4


def test_a_selection_is_not_taken_for_all_rows(tmp_path: Path) -> None:
    cache = TableCache(promising(tmp_path))
    assert len(cache.records(Promise, "clicks", OF_LOAD)) == 2
    assert not cache.is_cached(Promise, "clicks")
    assert len(cache.records(Promise, "clicks")) == 4
    assert cache.is_cached(Promise, "clicks")
    assert cache.records(LogEntry, "clicks") == []


def test_promises_of_a_plan_are_sorted_and_a_plan_of_an_earlier_version_has_none(
    tmp_path: Path,
) -> None:
    settings = promising(tmp_path / "new")
    found = read_promises(settings, "clicks", "p1")
    assert [row.figure for row in found] == ["load_distance_pct", "pause_s"]
    assert read_promises(settings, "clicks", "p9") == []
    earlier = load_settings({"BALLAST_HOME": str(tmp_path / "earlier")})
    assert read_promises(earlier, "clicks", "p1") == []
