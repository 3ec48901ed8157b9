"""Every kind of bad row is rejected once, with its reasons, and does not change the loads."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import pytest

from ballast.contracts.errors import GateFailed
from ballast.contracts.records import Snapshot
from ballast.contracts.settings import Settings
from ballast.store.tables import append, read_rows
from expectations.reasons import DUPLICATE
from tests.spark.spark_jobs.snapshot.conftest import Condense
from tests.support.metrics import START, window_rows, write_windows
from tests.support.policies import small_policy

Row = dict[str, Any]
POLICY = small_policy()
WINDOW = timedelta(seconds=5)
END = START + 6 * WINDOW
LOWEST = -(2**63)


@dataclass(frozen=True)
class Bad:
    """A good row with these fields changed, and the reasons that are expected for it."""

    table: str
    fields: dict[str, Any]
    reasons: set[str]


def _at(end: Any, **fields: Any) -> dict[str, Any]:
    start = end - WINDOW
    return {"window_end_at": end, "window_start_at": start, "window_date": end.date(),
            "emitted_at": end, **fields}  # fmt: skip


GROUPS, NODES, TRAFFIC = "metrics.key_groups", "metrics.nodes", "metrics.traffic"
BAD = {
    "null": Bad(GROUPS, {"cpu_ms": None}, {"cpu_ms is NULL"}),
    "nan": Bad(GROUPS, {"cpu_ms": float("nan")}, {"cpu_ms is NaN"}),
    "infinite": Bad(GROUPS, {"busy_ms": float("inf")}, {"busy_ms is infinite"}),
    "minus infinite": Bad(GROUPS, {"busy_ms": float("-inf")}, {"busy_ms is infinite"}),
    "negative": Bad(GROUPS, {"records": -1}, {"records is negative"}),
    "too large": Bad(GROUPS, {"bytes_in": 10**16}, {"bytes_in is too large"}),
    "unknown operator": Bad(GROUPS, {"operator_id": "gone"}, {"unknown operator in operator_id"}),
    "unknown node": Bad(GROUPS, {"node_id": "node-9"}, {"unknown node in node_id"}),
    "unknown key group": Bad(GROUPS, {"key_group": 4}, {"unknown key group in key_group"}),
    "lowest key group": Bad(GROUPS, {"key_group": LOWEST}, {"key_group is negative"}),
    "late": Bad(GROUPS, {"emitted_at": END + timedelta(seconds=301)}, {"late"}),
    "future": Bad(GROUPS, _at(END + 1000 * WINDOW), {"window in the future"}),
    "misaligned": Bad(GROUPS, _at(END - timedelta(seconds=1)), {"window misaligned"}),
    "another length": Bad(
        GROUPS, {"window_start_at": END - 2 * WINDOW}, {"window of another length"}
    ),
    "no window": Bad(GROUPS, {"window_end_at": None}, {"window_end_at is NULL"}),
    "other date": Bad(
        GROUPS,
        {"window_date": (END + timedelta(days=1)).date()},
        {"window_date is not the date of window_end_at"},
    ),
    "two reasons": Bad(
        GROUPS, {"records": None, "cpu_ms": -1.0}, {"records is NULL", "cpu_ms is negative"}
    ),
    "duplicate": Bad(GROUPS, {"cpu_ms": 60.0, "emitted_at": END}, {DUPLICATE}),
    "no capacity": Bad(NODES, {"cpu_capacity_cores": 0.0}, {"cpu_capacity_cores is too small"}),
    "unknown state": Bad(NODES, {"state": "sleepy"}, {"state is not allowed"}),
    "traffic from nowhere": Bad(
        TRAFFIC, {"from_operator_id": "gone"}, {"unknown operator in from_operator_id"}
    ),
    "traffic to nowhere": Bad(TRAFFIC, {"to_key_group": 99}, {"unknown key group in to_key_group"}),
}


def _row_of_newest_window(bad: Bad) -> Row:
    return {**window_rows(POLICY, START, [5])[bad.table][0], **bad.fields}


@dataclass(frozen=True)
class ValidationOutcome:
    settings: Settings
    snapshot: Snapshot
    rejected: list[Row]


@pytest.fixture(scope="module")
def outcome(make_settings: Callable[[], Settings], take: Condense) -> ValidationOutcome:
    settings = make_settings()
    write_windows(settings, POLICY, START, 6)
    for table in (GROUPS, NODES, TRAFFIC):
        rows = [_row_of_newest_window(bad) for bad in BAD.values() if bad.table == table]
        append(settings, table, rows)
    snapshot = take(settings, POLICY, "run-1", END)
    return ValidationOutcome(settings, snapshot, _rejected(settings))


def _rejected(settings: Settings) -> list[Row]:
    return read_rows(settings, "metrics.rejected", job=POLICY.job).to_pylist()


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_row_is_set_aside_with_its_reasons(kind: str, outcome: ValidationOutcome) -> None:
    bad = BAD[kind]
    found = [
        row
        for row in outcome.rejected
        if row["table_name"] == bad.table and _is_of(json.loads(row["row_json"]), bad.fields)
    ]
    assert [set(row["reasons"]) for row in found] == [bad.reasons]
    assert found[0]["run_id"] == "run-1"


def _is_of(row: Row, fields: dict[str, Any]) -> bool:
    """Whether the stored row has these fields; NaN and times are text in JSON."""
    named = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    for name, value in fields.items():
        if isinstance(value, date):
            if not str(row[name]).startswith(value.isoformat()[:19]):
                return False
        elif row[name] != named.get(str(value), value):
            return False
    return True


def test_nothing_else_is_set_aside(outcome: ValidationOutcome) -> None:
    assert len(outcome.rejected) == outcome.snapshot.rejected_rows == len(BAD)


def test_bad_rows_do_not_touch_the_loads(outcome: ValidationOutcome) -> None:
    where = [("snapshot_id", "=", outcome.snapshot.snapshot_id)]
    rows = read_rows(
        outcome.settings, "snapshots.key_groups", job=POLICY.job, where=where
    ).to_pylist()
    assert len(rows) == 8
    assert {row["cpu_load_cores"] for row in rows} == {50 / 1000 / 5}


def test_an_overlapping_run_sets_nothing_aside_again(
    outcome: ValidationOutcome, take: Condense
) -> None:
    again = take(outcome.settings, POLICY, "run-2", END)
    assert again.snapshot_id != outcome.snapshot.snapshot_id
    assert again.rejected_rows == len(BAD)
    assert _rejected(outcome.settings) == outcome.rejected


def test_a_gate_without_a_good_row_fails(settings: Settings, take: Condense) -> None:
    def broken(table: str, row: Row) -> Row:
        return {**row, "cpu_ms": float("nan")} if table == GROUPS else row

    write_windows(settings, POLICY, START, 6, change=broken)
    with pytest.raises(GateFailed, match=r"metrics.key_groups has no rows.*metrics.rejected"):
        take(settings, POLICY, "run-1", END)
    assert len(_rejected(settings)) == 48
