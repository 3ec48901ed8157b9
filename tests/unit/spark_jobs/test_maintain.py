"""``maintain`` on real tables: removed rows, readable versions, and the state after a kill."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ballast.contracts.identity import digest
from ballast.contracts.records import Head
from ballast.contracts.tables import TABLES
from ballast.store.plans import (
    read_assignment,
    read_head,
    read_log,
    read_plans,
    read_promises,
)
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append, append_once, open_table, read_rows, table_exists
from spark_jobs.publication.heads import compare_and_set, is_same
from spark_jobs.publication.plan_events import log_published
from spark_jobs.publication.publisher import publish_plan
from spark_jobs.upkeep import maintenance as program
from spark_jobs.upkeep.log_repair import check_jobs
from spark_jobs.upkeep.maintenance import maintain
from spark_jobs.upkeep.maintenance_steps import MaintenanceFailed
from tests.support.earlier import without_columns
from tests.support.policies import small_policy
from tests.support.rows import row_of
from tests.support.snapshots import END, FIRST_ROWS, uneven, write_draft

JOB = "probe"
POLICY = small_policy(JOB)
KEY_GROUPS = "metrics.key_groups"


def no_session() -> AbstractContextManager:
    raise AssertionError("nothing here is Spark's to tidy")


def tidy(settings, days=0):
    maintain(settings, no_session, END + timedelta(days=days))


def drafted(settings, run_id, extra=2):
    return write_draft(
        settings, POLICY, run_id, placement=uneven(POLICY, extra), head=read_head(settings, JOB),
        noise_pct=1.0,
    )  # fmt: skip


def snapshot_ids(settings):
    found = {}
    for name in TABLES:
        if name.startswith("snapshots.") and table_exists(settings, name):
            found[name] = set(read_rows(settings, name, job=JOB)["snapshot_id"].to_pylist())
    return found


def windows(settings, job, days_ago, count=1):
    """Append one file each of a window that ended so many days before END."""
    at = END - timedelta(days=days_ago)
    for number in range(count):
        append(settings, KEY_GROUPS, [row_of(
            KEY_GROUPS, job=job, window_date=at.date(), window_end_at=at, key_group=number)],
        )  # fmt: skip


def dates(settings, job):
    days = read_rows(settings, KEY_GROUPS, job=job)["window_date"].to_pylist()
    return sorted((END.date() - day).days for day in days)


def files(settings, name):
    return len(open_table(settings, name).file_uris())


def forget_removed_files_at_once(settings, name):
    properties = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}
    open_table(settings, name).alter.set_table_properties(properties)


def is_append_only(settings, name):
    return open_table(settings, name).metadata().configuration["delta.appendOnly"] == "true"


def break_table(settings, name):
    for file in Path(settings.table_uri(name), "_delta_log").glob("*.json"):
        file.write_text("no JSON\n")


@pytest.fixture
def used_warehouse(settings, monkeypatch):
    """A draft that was not published, versions 1 and 2, and a draft that waits."""
    with monkeypatch.context() as earlier:
        earlier.setattr("tests.support.snapshots.END", END - timedelta(hours=1))
        plans = {"lost": drafted(settings, "run-lost", extra=1)}
    plans["one"] = drafted(settings, "run-1")
    publish_plan(settings, JOB, "run-1")
    plans["two"] = drafted(settings, "run-2", extra=3)
    publish_plan(settings, JOB, "run-2")
    plans["waits"] = drafted(settings, "run-3", extra=1)
    return settings, plans


def test_what_versions_and_a_waiting_draft_refer_to_stays_and_can_still_be_published(
    used_warehouse,
):
    settings, plans = used_warehouse
    tidy(settings, days=100)
    kept = {plans[name].snapshot_id for name in ("one", "two", "waits")}
    found = snapshot_ids(settings)
    for part in ("key_pairs", "load_series", "sources", "connections"):
        assert found.pop(f"snapshots.{part}") == set(), "no routed keys, no scaling, no regions"
    assert set(map(frozenset, found.values())) == {frozenset(kept)}
    assert len(read_plans(settings, JOB)) == 4
    assert publish_plan(settings, JOB, "run-3").version == 3
    assert check_jobs(settings, [JOB]) == []


def test_after_the_retention_of_plans_only_what_is_in_force_is_left_and_it_is_whole(used_warehouse):
    settings, plans = used_warehouse
    publish_plan(settings, JOB, "run-3")
    tidy(settings, days=4000)
    waits = plans["waits"].plan_id
    assert [row.plan_id for row in read_plans(settings, JOB)] == [waits]
    assert {row.plan_id for row in read_log(settings, JOB)} == {waits}
    assert read_assignment(settings, JOB, plans["one"].plan_id) == []
    assert read_promises(settings, JOB, plans["one"].plan_id) == []
    assert read_promises(settings, JOB, waits) != []
    assert check_jobs(settings, [JOB]) == []
    before = {name: open_table(settings, name).version() for name in TABLES}
    tidy(settings, days=4000)
    assert {name: open_table(settings, name).version() for name in TABLES} == before


def test_a_run_that_was_killed_half_way_is_completed_by_the_next(used_warehouse, monkeypatch):
    settings, plans = used_warehouse
    lost = plans["lost"].snapshot_id

    def killed(point):
        if point == "maintain.after_snapshots.nodes":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(program, "fault_point", killed)
        with pytest.raises(KeyboardInterrupt):
            tidy(settings, days=100)
    found = snapshot_ids(settings)
    assert lost not in found["snapshots.nodes"]
    assert lost in found["snapshots.snapshots"]
    tidy(settings, days=100)
    assert not any(lost in ids for ids in snapshot_ids(settings).values())


def test_windows_go_by_whole_days_of_each_job_and_no_file_is_written_anew(settings):
    for job in ("clicks", "orders"):
        for days_ago in (0, 29, 31, 40):
            windows(settings, job, days_ago)
    windows(settings, "clicks", 35, count=2)
    version = open_table(settings, KEY_GROUPS).version()
    tidy(settings)
    assert dates(settings, "clicks") == dates(settings, "orders") == [0, 29]
    entries = open_table(settings, KEY_GROUPS).history()
    deletes = [e for e in entries if e["operation"] == "DELETE" and e["version"] > version]
    assert [(e["operationMetrics"]["num_added_files"]) for e in deletes] == [0, 0]
    assert is_append_only(settings, KEY_GROUPS)


def test_a_writer_that_had_the_table_open_goes_on_writing(settings, monkeypatch):
    """A job that appends while append-only is off has one commit refused, and repeats it."""
    windows(settings, "clicks", 40)
    from spark_jobs.upkeep import delta_vacuum as delta_rs

    real = delta_rs._set_append_only

    def beside(settings, name, value):
        real(settings, name, value)
        windows(settings, "clicks", 1)

    monkeypatch.setattr(delta_rs, "_set_append_only", beside)
    tidy(settings)
    assert dates(settings, "clicks") == [1, 1]


def test_nothing_is_lost_beside_a_job_and_a_publisher_at_work(settings):
    """Both continue while rows are removed and files rewritten, and append-only is on at the
    end."""

    def job():
        for number in range(25):
            row = row_of(KEY_GROUPS, job=JOB, key_group=number, window_date=END.date())
            append_once(settings, KEY_GROUPS, [row], app_id="job", app_version=number)

    def publisher():
        for version in range(1, 11):
            head = Head(JOB, version, f"p{version}", "h", f"r{version}", END)
            assert is_same(compare_and_set(settings, head), head)
            log_published(settings, head, "compare-and-set won")

    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(job), pool.submit(publisher)]
        rounds = 0
        while rounds < 2 or not all(other.done() for other in others):
            windows(settings, "old", 40)
            windows(settings, "many", 1, count=8)
            tidy(settings)
            rounds += 1
        for other in others:
            other.result()
    found = read_rows(settings, KEY_GROUPS, job=JOB)["key_group"].to_pylist()
    assert sorted(found) == list(range(25))
    assert len(dates(settings, "many")) == 8 * rounds
    assert dates(settings, "old") == []
    assert read_head(settings, JOB).version == 10
    assert sorted(row.version for row in read_log(settings, JOB)) == list(range(1, 11))
    assert is_append_only(settings, KEY_GROUPS)


def test_append_only_comes_back_where_a_run_died_while_it_was_lifted(settings):
    open_table(settings, KEY_GROUPS).alter.set_table_properties({"delta.appendOnly": "false"})
    tidy(settings)
    assert is_append_only(settings, KEY_GROUPS)


def test_many_small_files_of_a_day_become_one_and_the_day_under_way_is_left(settings):
    windows(settings, "clicks", 1, count=9)
    windows(settings, "clicks", 0, count=9)
    windows(settings, "orders", 1, count=3)
    tidy(settings)
    assert files(settings, KEY_GROUPS) == 1 + 9 + 3
    assert len(dates(settings, "clicks")) == 18


def test_many_files_of_plans_become_few_that_still_know_their_plans(settings, monkeypatch):
    """A search for a plan reads only the files whose range of ids contains it."""
    from spark_jobs.upkeep import delta_vacuum as delta_rs

    def plan_id(number):
        return digest(str(number))[:16]

    def content(plan_id):
        rows = [row_of("plans.assignments", job=JOB, plan_id=plan_id, key_group=g, node_id="n")
                for g in range(50)]  # fmt: skip
        append(settings, "plans.assignments", rows)

    for number in range(12):
        content(plan_id(number * 7 % 12))
    tidy(settings)
    assert files(settings, "plans.assignments") == 12
    monkeypatch.setattr(delta_rs, "FILES_WORTH_SORTING", 12)
    tidy(settings)
    assert files(settings, "plans.assignments") == 1
    found = open_table(settings, "plans.assignments").to_pyarrow_table()["plan_id"].to_pylist()
    assert found == sorted(found)
    assert len(read_assignment(settings, JOB, plan_id(5))) == 50


def test_a_version_that_a_waiting_snapshot_was_read_from_stays_readable(used_warehouse):
    settings, _ = used_warehouse
    windows(settings, JOB, 1, count=9)
    for rows, version in enumerate((FIRST_ROWS, FIRST_ROWS + 1), 1):
        assert open_table(settings, KEY_GROUPS, version).to_pyarrow_table().num_rows == rows
    forget_removed_files_at_once(settings, KEY_GROUPS)
    tidy(settings)
    assert files(settings, KEY_GROUPS) == 1
    # The snapshots of the fixture name the version with the first rows.
    assert open_table(settings, KEY_GROUPS, FIRST_ROWS).to_pyarrow_table().num_rows == 1
    with pytest.raises(FileNotFoundError):
        open_table(settings, KEY_GROUPS, FIRST_ROWS + 1).to_pyarrow_table()


def test_files_that_were_removed_lately_stay_for_who_may_be_reading_them(settings):
    windows(settings, "clicks", 1, count=9)
    before = open_table(settings, KEY_GROUPS)
    tidy(settings)
    assert files(settings, KEY_GROUPS) == 1
    assert before.to_pyarrow_table().num_rows == 9


def test_tables_from_before_the_scaling_columns_are_tidied(settings):
    drafted(settings, "run-1")
    column = "sources_table_version"
    without_columns(settings, "snapshots.snapshots", [column])
    tidy(settings)
    assert read_rows(settings, "snapshots.snapshots", job=JOB)[column].to_pylist() == [None]


def test_a_broken_table_is_named_and_the_others_are_tidied(settings):
    windows(settings, "clicks", 40)
    break_table(settings, "snapshots.nodes")
    with pytest.raises(MaintenanceFailed, match=r"snapshots\.nodes: .*run it again"):
        tidy(settings)
    assert dates(settings, "clicks") == []


def test_nothing_goes_while_it_is_unknown_what_is_needed(settings):
    windows(settings, "clicks", 40)
    break_table(settings, "plans.plans")
    with pytest.raises(MaintenanceFailed, match=r"plans\.plans"):
        tidy(settings)
    assert dates(settings, "clicks") == [40]


def test_an_empty_warehouse_needs_nothing(tmp_path, settings):
    from dataclasses import replace

    maintain(replace(settings, warehouse=str(tmp_path / "none")), no_session, datetime.now(UTC))
    ensure_tables(settings)
    tidy(settings)
