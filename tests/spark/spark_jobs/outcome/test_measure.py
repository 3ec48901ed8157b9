"""``measure`` compares promises with good, complete windows after the plan only."""

from __future__ import annotations

import math
import shutil
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import pytest

from ballast.store.plans import (
    read_assignment,
    read_log,
    read_outcomes,
    read_plans,
    read_promises,
)
from ballast.store.tables import address, append
from spark_jobs.outcome.plan_measurement import measure_plan
from spark_jobs.publication.heads import head_of
from tests.support.earlier import without_columns
from tests.support.metrics import START, write_windows
from tests.support.policies import small_policy
from tests.support.snapshots import uneven, write_draft

JOB, RUN = "probe", "run-2"
POLICY = small_policy(JOB)
APPLIED_AT_BATCH = 3


def no_session():
    """Raise an error, because no session must be started."""
    raise AssertionError("a Spark session was asked for")


@pytest.fixture
def sessions(spark):
    return lambda: nullcontext(spark)


def ack(settings, draft, status="applied", **fields):
    row = {
        "job": JOB, "version": 1, "plan_id": draft.plan_id, "status": status,
        "batch_id": APPLIED_AT_BATCH, "reason": "", "moved_key_groups": 4, "bytes_moved": 4100,
        "pause_ms": 250.0, "acked_at": START + timedelta(seconds=15),
    }  # fmt: skip
    append(settings, "plans.acks", [row | fields])


@pytest.fixture
def draft(settings):
    """A plan in force as version 1, made without the noise of the loads."""
    return in_force(settings, POLICY)


def in_force(settings, policy, **rows):
    """A plan in force as version 1."""
    write_draft(settings, policy, "run-1", placement=uneven(policy), **rows)
    (draft,) = read_plans(settings, JOB)
    append(settings, "plans.heads", [head_of(draft, datetime.now(UTC)).to_row()])
    return draft


def placed(settings, draft):
    rows = read_assignment(settings, JOB, draft.plan_id)
    return {(row.operator_id, row.key_group): row.node_id for row in rows}


def measure(settings, sessions, as_of, run_id=RUN):
    return measure_plan(settings, JOB, run_id, sessions, as_of)


def figures(rows):
    return {row.figure: (row.before, row.promised, row.measured) for row in rows}


def write(settings, draft, windows, **rows):
    """Write windows: the first three run before the first plan, the others under version 1."""

    def versioned(table, row):
        row["plan_version"] = 0 if row["first_batch_id"] < APPLIED_AT_BATCH else 1
        other = rows.get("change")
        return other(table, row) if other else row

    arguments = {"nodes": placed(settings, draft), **rows, "change": versioned}
    return write_windows(settings, arguments.pop("policy", POLICY), START, windows, **arguments)


def test_a_kept_promise_is_measured_from_the_windows_after_the_plan(settings, sessions, draft):
    def loads(operator, group, window):
        return 9999.0 * group if window < APPLIED_AT_BATCH else 500.0

    ack(settings, draft)
    end = write(settings, draft, 8, loads=loads)
    rows = measure(settings, sessions, end)
    measured = figures(rows)
    assert measured["load_distance_pct"] == pytest.approx((100.0, 0.0, 0.0), abs=1e-9)
    assert measured["load_distance_points"][0] == pytest.approx(40.0)
    assert measured["moves"] == (None, 4.0, 4.0)
    assert measured["bytes"] == (None, 4000.0, 4100.0)
    assert measured["pause_s"] == (None, pytest.approx(draft.pause_s), 0.25)
    nodes = placed(settings, draft)
    together = sum(nodes["parse", group] == nodes["count", group] for group in range(4))
    assert measured["collocation_factor_pct"][2] == pytest.approx(100 * together / 4)
    assert {row.windows for row in rows} == {5}
    assert rows[0].period_start_at == START + timedelta(seconds=15)
    assert rows[0].period_end_at == end
    # A repetition of the run writes nothing and needs no session.
    assert measure(settings, no_session, end + timedelta(hours=1)) == rows
    assert read_outcomes(settings, JOB) == rows


def test_windows_without_load_measure_nothing(settings, sessions, draft, caplog):
    def stopped(table, row):
        return row | {"records": 0} if table == "metrics.key_groups" else row

    ack(settings, draft)
    end = write(settings, draft, 8, loads=0.0, traffic=False, change=stopped)
    with caplog.at_level("INFO", "ballast.progress"):
        assert measure(settings, sessions, end) == []
    assert read_outcomes(settings, JOB) == []
    assert "0 of 5 windows have a load" in caplog.text


@pytest.mark.parametrize(
    ("distance_of", "side", "events"),
    [
        (lambda load: load.expected, "inside", []),
        (lambda load: 0.5 * (load.high + load.highest), "above", []),
        (lambda load: 1.2 * load.highest, "above", ["promise_broken"]),
    ],
    ids=["inside", "above", "broken"],
)
def test_windows_after_the_take_up_are_inside_or_above_the_interval(
    settings, sessions, distance_of, side, events, caplog
):
    """Windows from before the take-up have other loads, are in the period, and do not count."""
    draft = in_force(settings, POLICY, noise_pct=20.0)
    promises = {row.figure: row for row in read_promises(settings, JOB, draft.plan_id)}
    load = promises["load_distance_pct"]
    nodes, distance = placed(settings, draft), distance_of(load)
    # The load of node-0 over that of node-1 which makes the load distance.
    extra = (100 + distance) / (100 - distance)

    def loads(operator, group, window):
        if window < APPLIED_AT_BATCH:
            return 9999.0 * group
        return 500.0 * (extra if nodes[operator, group] == "node-0" else 1.0)

    ack(settings, draft)
    end = write(settings, draft, 8, loads=loads)
    with caplog.at_level("INFO", "ballast.progress"):
        rows = {row.figure: row for row in measure(settings, sessions, end)}
    found = rows["load_distance_pct"]
    assert (found.promised, found.low, found.high) == (load.expected, load.low, load.high)
    assert found.measured == pytest.approx(distance, abs=1e-9)
    assert (found.side, found.windows) == (side, 5)
    logged = read_log(settings, JOB)
    assert [row.event for row in logged] == events
    assert all(f"interval {load.low:.2f} to {load.high:.2f}" in row.reason for row in logged)
    assert "(90 % interval" in caplog.text
    # A job that is not scaled is measured node by node, too.
    node = rows["cpu_load_cores/node-0"]
    assert node.promised == pytest.approx(promises["cpu_load_cores/node-0"].expected)
    assert node.measured == pytest.approx(4 * 0.1 * extra)
    assert (rows["moves"].low, rows["moves"].high, rows["moves"].side) == (4.0, 4.0, "inside")


def test_of_periods_of_one_window_there_is_a_promise_without_an_interval(settings, sessions):
    policy = small_policy(JOB, statistics_period_s=5)
    draft = in_force(settings, policy)
    ack(settings, draft)
    end = write(settings, draft, 5, policy=policy, loads=500.0)
    rows = {row.figure: row for row in measure(settings, sessions, end)}
    found = rows["load_distance_pct"]
    assert found.windows == 1
    assert found.promised == pytest.approx(0.0)
    assert (found.low, found.high, found.side) == (None, None, None)


def test_a_key_group_with_load_in_one_window_counts_with_its_mean(settings, sessions):
    draft = in_force(settings, POLICY, noise_pct=60.0)
    ack(settings, draft)

    def loads(operator, group, window):
        if (operator, group) != ("parse", 1):
            return 500.0
        return 5 * 500.0 if window == 6 else 0.0

    end = write(settings, draft, 8, loads=loads)
    rows = {row.figure: row for row in measure(settings, sessions, end)}
    assert rows["load_distance_pct"].windows == 5
    assert rows["load_distance_pct"].measured == pytest.approx(0.0, abs=1e-9)


def test_nodes_with_a_fifth_of_the_promised_load_are_below_the_interval(settings, sessions):
    draft = in_force(settings, POLICY, noise_pct=20.0)
    ack(settings, draft)
    end = write(settings, draft, 8, loads=100.0)
    rows = {row.figure: row for row in measure(settings, sessions, end)}
    sides = {name: row.side for name, row in rows.items() if name.startswith("cpu_load_cores/")}
    assert set(sides.values()) == {"below"}
    # Of two nodes one decides, and the load distance of level nodes is not below any interval.
    assert (rows["load_distance_pct"].low, rows["load_distance_pct"].side) == (0.0, "inside")


def test_a_plan_of_an_earlier_version_is_measured_as_before(settings, sessions, draft):
    """Its warehouse has neither the table of promises nor the new columns of outcomes."""
    shutil.rmtree(address(settings, "plans.promises"))
    without_columns(settings, "plans.outcomes", ["low", "high", "side"])
    ack(settings, draft)
    end = write(settings, draft, 8, loads=500.0)
    rows = {row.figure: row for row in measure(settings, sessions, end)}
    assert rows["load_distance_pct"].promised == pytest.approx(draft.load_distance_pct)
    assert rows["load_distance_pct"].side is None
    assert read_outcomes(settings, JOB)[0].side is None


def test_a_job_that_renumbered_its_batches_is_measured_without_the_first_window(
    settings, sessions, draft
):
    """The plan was taken up in batch 1000; later windows have batch numbers from 3 on."""
    ack(settings, draft, batch_id=1000)
    end = write(settings, draft, 8, loads=500.0)
    rows = measure(settings, sessions, end)
    assert {row.windows for row in rows} == {4}
    assert rows[0].period_start_at == START + timedelta(seconds=20)


def test_bad_double_and_foreign_rows_change_nothing(settings, sessions, draft):
    """A window with a bad row is incomplete and does not count; of duplicate rows the last one
    counts."""

    def spoil(table, row):
        if table == "metrics.nodes" or row["first_batch_id"] < APPLIED_AT_BATCH:
            return row
        if table == "metrics.traffic":
            return [row, {**row, "from_key_group": 77, "records": 10**9}]
        if (row["operator_id"], row["key_group"]) != ("parse", 0):
            return row
        if row["first_batch_id"] == 3:
            return {**row, "cpu_ms": math.nan}
        if row["first_batch_id"] == 4:
            return {**row, "cpu_ms": -1.0}
        if row["first_batch_id"] == 5:
            return {**row, "node_id": "node-9"}
        again = {**row, "cpu_ms": 1e6, "emitted_at": row["emitted_at"] - timedelta(seconds=1)}
        return [row, again, {**row, "key_group": 4, "cpu_ms": 1e6}]

    ack(settings, draft)
    end = write(settings, draft, 10, loads=500.0, change=spoil)
    rows = measure(settings, sessions, end)
    assert {row.windows for row in rows} == {4}
    assert figures(rows)["load_distance_pct"][2] == pytest.approx(0.0, abs=1e-9)
    assert figures(rows)["collocation_factor_pct"][2] <= 100.0


def test_too_few_windows_is_said_with_the_time_and_measures_nothing(
    settings, sessions, draft, caplog
):
    ack(settings, draft)
    end = write(settings, draft, 5)
    with caplog.at_level("INFO", "ballast.progress"):
        assert measure(settings, sessions, end) == []
    assert "2 of 3; enough at about 2026-11-16 12:00:30 UTC" in caplog.text
    assert read_outcomes(settings, JOB) == []


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("refused", "the streaming job refused version 1: unknown node"),
        ("accepted", "accepted version 1 and has not applied it yet"),
        (None, "has not answered to version 1 yet"),
    ],
)
def test_a_plan_that_is_not_applied_is_not_measured(settings, draft, status, said, caplog):
    if status:
        ack(settings, draft, status, reason="unknown node" if status == "refused" else "")
    with caplog.at_level("INFO", "ballast.progress"):
        assert measure(settings, no_session, datetime.now(UTC)) == []
    assert said in caplog.text


def test_a_job_without_a_plan_has_nothing_to_measure(settings, caplog):
    with caplog.at_level("INFO", "ballast.progress"):
        assert measure(settings, no_session, datetime.now(UTC)) == []
    assert "job probe has no plan in force" in caplog.text
