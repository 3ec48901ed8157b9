"""What stays of a job at any age, and what may be removed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from ballast.contracts.records import Head
from ballast.contracts.tables import TABLES
from spark_jobs.upkeep.expired_rows import (
    HEADS,
    PLANS,
    REJECTED,
    SNAPSHOTS,
    dated_tables,
    expired_rows,
    plan_events,
    plan_parts,
    snapshot_parts,
)
from spark_jobs.upkeep.retention import (
    JobFacts,
    LoggedEvent,
    StoredPlan,
    StoredSnapshot,
    expired_plans,
    expired_snapshots,
    first_date_kept,
    pinned_versions,
)

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def ago(days):
    return NOW - timedelta(days=days)


def plan(name, parent, days, status="feasible"):
    return StoredPlan(name, f"s-{name}", status, parent, ago(days))


def snapshot(name, head_version, days, pin=None):
    pins = ("metrics.key_groups", "metrics.nodes", "metrics.traffic") if pin else ()
    return StoredSnapshot(
        f"s-{name}", head_version, ago(days), ago(days), '{"statistics_period_s": 60}',
        read_versions=dict.fromkeys(pins, pin),
    )  # fmt: skip


def published(name, version, days):
    return LoggedEvent("published", version, name, ago(days))


def facts(days=100):
    """Versions 1 and 2, a draft that was not published, one that waits and one that changes
    nothing."""
    return JobFacts(
        job="clicks",
        head=Head("clicks", 2, "two", "h", "r", ago(days)),
        plans=[plan("one", 0, days + 2), plan("two", 1, days + 1), plan("lost", 1, days + 1),
               plan("waits", 2, days), plan("same", 2, days, "unchanged")],
        log=[published("one", 1, days + 2), published("two", 2, days + 1)],
        snapshots=[snapshot("one", 0, days + 2, 1), snapshot("two", 1, days + 1, 2),
                   snapshot("lost", 1, days + 1, 3), snapshot("waits", 2, days, 4),
                   snapshot("same", 2, days, 5), snapshot("fresh", 2, 0, 6)],
    )  # fmt: skip


def test_snapshots_of_versions_and_of_what_waits_outlive_their_retention():
    assert expired_snapshots(facts(), NOW) == ["s-lost", "s-same"]


def test_nothing_goes_before_its_time():
    assert expired_snapshots(facts(days=10), NOW) == []
    assert expired_plans(facts(), NOW) == []


def test_plans_go_after_years_but_never_the_head_nor_what_may_replace_it():
    assert expired_plans(facts(days=4000), NOW) == ["one", "lost", "same"]


def test_a_plan_that_was_rolled_back_to_lately_stays():
    old = facts(days=4000)
    back = LoggedEvent("rolled_back", 3, "one", ago(5))
    assert "one" not in expired_plans(replace(old, log=[*old.log, back]), NOW)
    assert "s-one" not in expired_snapshots(replace(old, log=[*old.log, back]), NOW)


def test_the_newest_snapshot_stays_for_it_has_the_loads_of_nodes_that_die():
    old = facts()
    alone = replace(old, plans=[], log=[], snapshots=[snapshot("a", 0, 300), snapshot("b", 0, 200)])
    assert expired_snapshots(alone, NOW) == ["s-a"]


def test_what_a_snapshot_that_is_kept_remembers_is_kept_with_it():
    old = facts()
    remembering = [
        replace(row, remembered_snapshot_ids=["s-lost"]) if row.snapshot_id == "s-waits" else row
        for row in old.snapshots
    ]
    assert expired_snapshots(replace(old, snapshots=remembering), NOW) == ["s-same"]


@pytest.mark.parametrize(
    ("table", "pinned"),
    [("metrics.key_groups", {4, 6}), ("metrics.key_pairs", set()), ("plans.plans", set())],
)
def test_versions_are_pinned_by_snapshots_that_may_still_be_solved_or_reviewed(table, pinned):
    assert pinned_versions(facts(), table) == pinned


def test_windows_stay_for_the_retention_and_for_three_statistics_periods():
    table = TABLES["metrics.key_pairs"]
    assert table.retention_days == 3
    assert first_date_kept(facts(), table, NOW) == date(2026, 5, 29)
    long = replace(snapshot("long", 2, 0), policy_json='{"statistics_period_s": 172800}')
    assert first_date_kept(replace(facts(), snapshots=[long]), table, NOW) == date(2026, 5, 26)


def test_every_table_has_a_rule():
    known = {table.name for table in dated_tables()} | {SNAPSHOTS, PLANS, HEADS, REJECTED}
    assert known | {*snapshot_parts(), *plan_parts(), *plan_events()} == set(TABLES)


def test_details_go_before_the_row_that_names_them():
    order = [rows.table for rows in expired_rows(facts(days=4000), NOW)]
    assert HEADS not in order
    for part in snapshot_parts():
        assert order.index(part) < order.index(SNAPSHOTS)
    for part in [*plan_parts(), *plan_events()]:
        assert order.index(part) < order.index(PLANS)


def test_a_name_that_is_no_job_is_never_put_into_sql():
    with pytest.raises(Exception, match="is not a job name"):
        list(expired_rows(replace(facts(), job="x' OR '1'='1"), NOW))
