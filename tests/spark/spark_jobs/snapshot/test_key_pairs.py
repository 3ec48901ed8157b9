"""Key pairs of a period: rates, bounds that hold for the sum, and rejected rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ballast.contracts.settings import Settings
from ballast.store.tables import append, read_rows
from spark_jobs.snapshot.key_pair_rates import heaviest
from tests.spark.spark_jobs.snapshot.conftest import Condense
from tests.support.keys import keyed_policy
from tests.support.metrics import START, write_windows

WINDOWS = 6


def row(number: int, kind: str, records: int, error: int, **named: Any) -> dict[str, Any]:
    begin = START + timedelta(seconds=5 * number)
    end = begin + timedelta(seconds=5)
    operators = {"to_operator_id": "count"} if "pair" in kind else {"to_operator_id": None}
    return {
        "job": "probe", "kind": kind, "from_operator_id": "parse", "from_key": None, "to_key": None,
        **operators, "window_date": end.date(), "window_start_at": begin, "window_end_at": end,
        "first_batch_id": number, "last_batch_id": number, "plan_version": 0,
        "emitted_at": end + timedelta(milliseconds=200), "records": records,
        "error_records": error, **named,
    }  # fmt: skip


@pytest.fixture(scope="module")
def found(make_settings: Callable[[], Settings], take: Condense) -> dict[tuple[Any, ...], Any]:
    settings, policy = make_settings(), keyed_policy()
    end = write_windows(settings, policy, START, WINDOWS)
    pairs = [
        # In all windows, each time at most one missed; "b" in the first alone.
        *(row(n, "pair", 10, 1, from_key="a", to_key="x") for n in range(WINDOWS)),
        row(0, "pair", 7, 0, from_key="b", to_key="x'\n\""),
        # A pair without a row had at most 3 records in the first window and 2 in each other one.
        *(row(n, "other_pairs", 20, 3 if n == 0 else 2) for n in range(WINDOWS)),
        row(0, "key", 30, 0, from_key="a"),
        *(row(n, "other_keys", 5, 4) for n in range(WINDOWS)),
        row(1, "pair", -5, 0, from_key="bad", to_key="x"),
        row(1, "pair", 5, 0, from_key="stray", to_key="x", to_operator_id="nobody"),
    ]
    append(settings, "metrics.key_pairs", pairs)
    snapshot = take(settings, policy, "run-1", end)
    assert snapshot.key_pairs_table_version is not None
    where = [("snapshot_id", "=", snapshot.snapshot_id)]
    rows = read_rows(settings, "snapshots.key_pairs", job="probe", where=where).to_pylist()
    assert snapshot.rejected_rows == 2
    return {
        (r["kind"], r["from_key"], r["to_key"]): (r["records_per_s"], r["error_records_per_s"])
        for r in rows
    }


SECONDS = 5.0 * WINDOWS


def test_a_pair_of_every_window_has_its_own_errors_alone(found):
    assert found["pair", "a", "x"] == pytest.approx((60 / SECONDS, 6 / SECONDS))


def test_a_pair_of_some_windows_may_have_been_missed_in_the_others(found):
    assert found["pair", "b", "x'\n\""] == pytest.approx((7 / SECONDS, 10 / SECONDS))


def test_keys_are_bounded_by_the_keys_without_a_row(found):
    assert found["key", "a", None] == pytest.approx((30 / SECONDS, 20 / SECONDS))


def test_bad_rows_are_set_aside_and_not_counted(found):
    assert {name for _, name, _ in found} == {"a", "b", None}


def test_a_job_that_routes_no_keys_reads_no_pairs(make_settings, take):
    settings, policy = make_settings(), keyed_policy(routing={})
    end = write_windows(settings, policy, START, WINDOWS)
    snapshot = take(settings, policy, "run-1", end)
    assert snapshot.key_pairs_table_version is None


SCHEMA = (
    "kind STRING, from_operator_id STRING, from_key STRING, to_operator_id STRING, "
    "to_key STRING, records_per_s DOUBLE, error_records_per_s DOUBLE"
)


def cut(spark: SparkSession, rows: list[tuple[Any, ...]], pairs: int, keys: int) -> dict[Any, Any]:
    found = heaviest(spark.createDataFrame(rows, SCHEMA), pairs, keys).collect()
    return {tuple(row)[:5]: tuple(row)[5:] for row in found}


def test_what_is_cut_is_among_the_others_with_its_records_and_its_bound(spark: SparkSession):
    rows = [
        *[("pair", "parse", f"k{n}", "count", "x", 10.0 * n, 1.0) for n in range(1, 6)],
        ("pair", "parse", "doubtful", "count", "x", 1.0, 60.0),
        ("other_pairs", "parse", None, "count", None, 7.0, 3.0),
        ("pair", "parse", "k1", "sum", "y", 2.0, 0.0),
        ("key", "parse", "k1", None, None, 5.0, 0.0),
        ("key", "parse", "k2", None, None, 4.0, 2.0),
        ("key", "count", "x", None, None, 4.0, 2.0),
        ("other_keys", "parse", None, None, None, 9.0, 1.0),
    ]
    found = cut(spark, rows, 3, 1)
    of_edge = {key for key in found if key[0] == "pair" and key[3] == "count"}
    # By their upper bounds: a pair with a large error may be the heaviest.
    assert {key[2] for key in of_edge} == {"doubtful", "k5", "k4"}
    # 7 as before, and 10 + 20 + 30 of what was cut; none of it may have had more than 30 + 1.
    assert found["other_pairs", "parse", None, "count", None] == (67.0, 31.0)
    assert found["pair", "parse", "k1", "sum", "y"] == (2.0, 0.0)
    assert not any(key[0] == "other_pairs" and key[3] == "sum" for key in found)
    assert found["key", "parse", "k2", None, None] == (4.0, 2.0)
    assert found["other_keys", "parse", None, None, None] == (14.0, 5.0)
    assert found["key", "count", "x", None, None] == (4.0, 2.0)
    assert sum(rate for rate, _ in found.values()) == sum(row[5] for row in rows)


def test_a_row_for_the_others_is_made_where_there_was_none_and_ties_are_cut_alike(
    spark: SparkSession,
):
    rows = [("key", "parse", f"k{n}", None, None, 1.0, 0.0) for n in range(6)]
    found = cut(spark, rows, 3, 2)
    assert found == cut(spark, rows[::-1], 3, 2)
    assert {key[2] for key in found} == {"k0", "k1", None}
    assert found["other_keys", "parse", None, None, None] == (4.0, 1.0)
