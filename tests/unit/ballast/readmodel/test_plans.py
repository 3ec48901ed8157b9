"""The data of the review page, on real Delta tables of a small job with four versions."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from ballast.contracts.errors import BrokenTable, NotFound
from ballast.contracts.records import Snapshot
from ballast.contracts.settings import Settings, load_settings
from ballast.readmodel.job_history import JobHistory, find_plan, known_jobs, plan_of_run
from ballast.readmodel.moves import MoveFilter
from ballast.readmodel.placement import difference, node_loads, node_traffic
from ballast.readmodel.plans import (
    job_summary,
    plan_detail,
    unpublished_drafts,
    version_summaries,
)
from ballast.store.cache import TableCache
from ballast.store.plans import read_assignment
from ballast.store.snapshots import read_snapshot, snapshot_of_run
from ballast.store.tables import append, open_table
from bench.review_page.warehouse import ids_of

JOB = "clicks"
VERSIONS = 4
ANY = MoveFilter()


@pytest.fixture
def copy(settings: Settings, tmp_path: Path) -> Settings:
    """A copy of the warehouse, for a test that changes it."""
    shutil.copytree(settings.home, tmp_path / "home")
    return load_settings({"BALLAST_HOME": str(tmp_path / "home")})


def test_a_glance_shows_version_promise_and_what_was_measured(history: JobHistory) -> None:
    line = job_summary(history)
    assert line.ack is not None
    assert (line.version, line.ack.status, line.plans) == (VERSIONS, "applied", VERSIONS)
    assert line.plan is not None
    assert line.load_distance is not None
    assert line.load_distance.measured == pytest.approx(1.08 * line.plan.load_distance_pct)
    assert line.last_event is not None
    assert line.last_event.event == "published"
    assert line.last_refusal is None


def test_the_newest_draft_that_changes_nothing_is_the_verdict_until_a_later_run_makes_none(
    copy: Settings,
) -> None:
    cache = TableCache(copy)
    assert job_summary(JobHistory(cache, JOB)).no_change is None
    plan = cache.read("plans.plans", JOB, [("plan_id", "=", ids_of(JOB, 1)[2])]).to_pylist()[0]
    at = datetime(2027, 1, 1, tzinfo=UTC)
    said = "the difference of 2.1 points is within the noise of 3.4"
    unchanged = {"plan_id": "f" * 16, "run_id": "quiet", "status": "unchanged", "reason": said}
    append(copy, "plans.plans", [plan | unchanged | {"created_at": at}])
    found = job_summary(JobHistory(cache, JOB)).no_change
    assert found is not None
    assert (found.run_id, found.reason) == ("quiet", said)
    gate = {
        "job": JOB, "at": at + timedelta(minutes=10), "event": "gate_failed", "version": None,
        "plan_id": None, "run_id": "later", "actor": "condense", "reason": "silent",
    }  # fmt: skip
    append(copy, "plans.log", [gate])
    assert job_summary(JobHistory(cache, JOB)).no_change is None


def test_the_timeline_has_every_version_with_its_approver(history: JobHistory) -> None:
    lines = version_summaries(history)
    assert [line.version for line in lines] == [1, 2, 3, 4]
    assert [line.in_force for line in lines] == [False, False, False, True]
    assert {line.approved_by for line in lines} == {"ada"}


def test_a_refusal_and_a_draft_that_never_came_into_force_are_seen_at_once(copy: Settings) -> None:
    cache = TableCache(copy)
    assert unpublished_drafts(JobHistory(cache, JOB), 10) == []
    plan = cache.read("plans.plans", JOB, [("plan_id", "=", ids_of(JOB, 1)[2])]).to_pylist()[0]
    append(copy, "plans.plans", [plan | {"plan_id": "f" * 16, "run_id": "dry"}])
    refused = {
        "job": JOB, "at": datetime(2027, 1, 1, tzinfo=UTC), "event": "refused", "version": None,
        "plan_id": "f" * 16, "run_id": "dry", "actor": "publish", "reason": "stale",
    }  # fmt: skip
    append(copy, "plans.log", [refused])
    history = JobHistory(cache, JOB)
    assert [row.last_event.event for row in unpublished_drafts(history, 10)] == ["refused"]
    last = job_summary(history).last_refusal
    assert (last.entry.reason, last.over_since) == ("stale", None)
    assert plan_of_run(history, "dry") == "f" * 16
    later = refused["at"] + timedelta(minutes=10)
    append(copy, "plans.log", [refused | {"event": "unchanged", "run_id": "next", "at": later}])
    assert job_summary(JobHistory(cache, JOB)).last_refusal.over_since == later


def test_the_plan_of_a_run_is_not_one_that_it_superseded_or_found_to_break_its_promise(
    copy: Settings,
) -> None:
    own, other = ids_of(JOB, 4), ids_of(JOB, 3)[2]
    said = {"job": JOB, "version": None, "plan_id": other, "actor": "publish", "reason": "x"}
    at = datetime(2027, 1, 1, tzinfo=UTC)
    append(copy, "plans.log", [
        said | {"event": "superseded", "run_id": own[0], "at": at},
        said | {"event": "promise_broken", "run_id": "looked", "at": at},
        said | {"event": "approved", "run_id": "answered", "at": at},
        said | {"event": "superseded", "run_id": "answered", "plan_id": own[2],
                "at": at + timedelta(seconds=1)},
    ])  # fmt: skip
    history = JobHistory(TableCache(copy), JOB)
    found = [plan_of_run(history, run_id) for run_id in (own[0], "looked", "answered")]
    assert found == [own[2], None, other]


def test_kept_rows_are_those_of_a_fresh_look_after_the_files_were_rewritten(copy: Settings) -> None:
    cache = TableCache(copy)
    before = JobHistory(cache, JOB).log
    open_table(copy, "plans.log").optimize.compact()
    assert JobHistory(cache, JOB).log == before == JobHistory(TableCache(copy), JOB).log


def test_a_table_of_an_earlier_version_has_null_in_what_it_lacks(copy: Settings) -> None:
    short = open_table(copy, "plans.plans").to_pyarrow_table().drop_columns(["routes"])
    shutil.rmtree(Path(copy.warehouse, "plans", "plans"))
    write_deltalake(Path(copy.warehouse, "plans", "plans"), short, partition_by=["job"])
    plans = JobHistory(TableCache(copy), JOB).plans.values()
    assert len(plans) == VERSIONS
    assert {plan.routes for plan in plans} == {None}


def test_a_plan_is_found_by_its_version_and_by_its_id(history: JobHistory) -> None:
    plan_id = ids_of(JOB, 2)[2]
    assert find_plan(history, "2") == find_plan(history, plan_id)
    assert plan_detail(history, "2").plan.plan_id == plan_id
    assert plan_of_run(history, ids_of(JOB, 2)[0]) == plan_id
    assert plan_of_run(history, "no such run") is None


@pytest.mark.parametrize("name", ["9", "0", "../x", "9" * 40, "1 OR 1=1", "²"])
def test_a_plan_that_is_not_there_is_not_found(history: JobHistory, name: str) -> None:
    with pytest.raises(NotFound):
        find_plan(history, name)


def test_a_plans_page_says_how_good_it_is_and_what_came_of_it(history: JobHistory) -> None:
    detail = plan_detail(history, "3")
    assert "points from the best possible" in detail.quality
    assert "after 1.20 s (search)" in detail.progress
    assert {row.figure for row in detail.outcomes} >= {"load_distance_pct", "pause_s"}
    assert [row.event for row in detail.log] == ["drafted", "approved", "published"]


def test_a_plans_page_names_what_was_held_back_in_the_words_of_the_report(copy: Settings) -> None:
    held = [
        {"kind": "key", "what": ["'k' of a"], "count": 3, "saved_rate": 2.0, "bytes": 9,
         "reason": "saves 1, costs 2"},
        {"kind": "key", "what": [], "count": 12, "saved_rate": 4.0, "bytes": 90,
         "reason": "and 12 more"},
    ]  # fmt: skip
    rows = open_table(copy, "plans.plans").to_pyarrow_table()
    texts = pa.array([json.dumps(held)] * rows.num_rows)
    at = rows.schema.get_field_index("held_back_json")
    shutil.rmtree(Path(copy.warehouse, "plans", "plans"))
    write_deltalake(
        Path(copy.warehouse, "plans", "plans"),
        rows.set_column(at, "held_back_json", texts),
        partition_by=["job"],
    )
    assert plan_detail(JobHistory(TableCache(copy), JOB), "3").held_back == [
        "key 'k' of a and 2 more: saves 1, costs 2",
        "12 keys of lesser gain, 4 records a second together",
    ]


def test_loads_per_node_are_those_of_the_problem_before_and_with_the_plan(
    settings: Settings, history: JobHistory
) -> None:
    snapshot = snapshot_of_run(settings, JOB, ids_of(JOB, 3)[0])
    assert snapshot is not None
    columns = read_snapshot(settings, snapshot).problem
    rows = read_assignment(settings, JOB, ids_of(JOB, 3)[2])
    before = dict.fromkeys(columns.node_ids, 0.0)
    promised = dict(before)
    for load, at, row in zip(columns.load[:, 0], columns.current, rows, strict=True):
        before[columns.node_ids[at]] += 100 * load
        promised[row.node_id] += 100 * load
    answer = node_loads(history, "3").resources[0]
    assert answer.resource == "cpu"
    found = {row.node_id: row for row in answer.nodes}
    assert {k: v.before for k, v in found.items()} == pytest.approx(before)
    assert {k: v.promised for k, v in found.items()} == pytest.approx(promised)


def test_what_was_measured_is_the_next_snapshot_under_the_version(history: JobHistory) -> None:
    under_3 = node_loads(history, "3").resources[0].nodes
    before_4 = node_loads(history, "4").resources[0].nodes
    assert [row.measured for row in under_3] == [row.before for row in before_4]
    last = node_loads(history, "4")
    assert last.measured_at is None
    assert all(row.measured is None for row in last.resources[0].nodes)


def test_a_snapshot_that_a_rollback_derived_is_no_measurement(copy: Settings) -> None:
    cache = TableCache(copy)
    newest = max(cache.records(Snapshot, JOB), key=lambda row: row.period_end_at)
    derived = newest.to_row() | {
        "run_id": "back-1", "head_version": VERSIONS, "head_plan_id": ids_of(JOB, VERSIONS)[2],
    }  # fmt: skip
    append(copy, "snapshots.snapshots", [derived | {"applied_plan_id": ids_of(JOB, 3)[2]}])
    assert node_loads(JobHistory(cache, JOB), str(VERSIONS)).measured_at is None
    append(copy, "snapshots.snapshots", [derived | {"applied_plan_id": ids_of(JOB, VERSIONS)[2]}])
    assert node_loads(JobHistory(cache, JOB), str(VERSIONS)).measured_at is not None


def test_traffic_between_nodes_adds_up_to_the_same_before_and_after(
    settings: Settings, history: JobHistory
) -> None:
    answer = node_traffic(history, "2")
    cache = TableCache(settings)
    where = [("snapshot_id", "=", ids_of(JOB, 2)[1])]
    rates = sum(cache.read("snapshots.traffic", JOB, where)["records_per_s"].to_pylist())
    for when in ("before", "after"):
        assert sum(map(sum, getattr(answer, when))) == pytest.approx(rates)
    assert answer.before != answer.after


def test_a_difference_is_that_of_the_two_placements(
    settings: Settings, history: JobHistory
) -> None:
    placements = [
        {(r.operator_id, r.key_group): r.node_id
         for r in read_assignment(settings, JOB, ids_of(JOB, version)[2])}
        for version in (1, 4)
    ]  # fmt: skip
    expected = [key for key in sorted(placements[0]) if placements[0][key] != placements[1][key]]
    answer = difference(history, "1", "4", ANY, 0, 500)
    assert [(r.operator_id, r.key_group) for r in answer.rows] == expected
    assert answer.total == len(expected) > 0
    second = difference(history, "1", "4", ANY, 3, 2)
    assert second.rows == answer.rows[3:5]


def test_version_0_is_the_placement_before_the_first_plan(
    settings: Settings, history: JobHistory
) -> None:
    answer = difference(history, "0", "1", ANY, 0, 500)
    rows = read_assignment(settings, JOB, ids_of(JOB, 1)[2])
    assert answer.total == sum(row.node_id != row.previous_node_id for row in rows)
    assert difference(history, "2", "2", ANY, 0, 10).total == 0
    nowhere = MoveFilter(to_node_id="no such node")
    assert difference(history, "0", "1", nowhere, 0, 10).total == 0


def test_jobs_are_those_with_a_policy_or_with_plans(settings: Settings) -> None:
    settings.policies.mkdir(exist_ok=True)
    for name in ("orders.yaml", "Not A Job.yaml"):
        (settings.policies / name).write_text("not read")
    assert known_jobs(TableCache(settings)) == [JOB, "orders"]


def test_an_empty_warehouse_and_a_job_without_plans_are_no_errors(tmp_path: Path) -> None:
    empty = load_settings({"BALLAST_HOME": str(tmp_path), "BALLAST_POLICIES": str(tmp_path)})
    cache = TableCache(empty)
    assert known_jobs(cache) == []
    history = JobHistory(cache, "nobody")
    assert (
        job_summary(history).version,
        version_summaries(history),
        unpublished_drafts(history, 5),
    ) == (0, [], [])


def test_a_table_whose_files_are_gone_is_broken_and_named(copy: Settings) -> None:
    for file in Path(copy.warehouse, "plans", "log").rglob("*.parquet"):
        file.unlink()
    with pytest.raises(BrokenTable, match=r"plans\.log") as broken:
        _ = JobHistory(TableCache(copy), JOB).log
    assert "restore" in broken.value.remedy


def test_a_table_whose_log_is_cut_is_broken_and_named(copy: Settings) -> None:
    for file in Path(copy.warehouse, "plans", "heads", "_delta_log").glob("*.json"):
        file.write_text("{")
    with pytest.raises(BrokenTable, match=r"plans\.heads"):
        _ = JobHistory(TableCache(copy), JOB).head
