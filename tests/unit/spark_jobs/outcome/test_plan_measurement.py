"""A version that does worse than promised is logged and reported once."""

from __future__ import annotations

from datetime import UTC, datetime

from ballast.contracts.records import Outcome
from ballast.contracts.settings import Settings
from ballast.store.plans import read_log
from spark_jobs.outcome.plan_measurement import is_without_load, report_broken_promise
from spark_jobs.snapshot.window_selection import WindowSummary, busy_windows_to_measure
from tests.support.policies import small_policy
from tests.support.rows import row_of


def outcome(measured: float, run_id: str) -> list[Outcome]:
    row = row_of(
        Outcome.table, job="probe", plan_id="p", figure="load_distance_pct", version=3,
        promised=5.0, measured=measured, run_id=run_id,
    )  # fmt: skip
    return [Outcome.from_row(row)]


def test_a_plan_is_not_measured_in_windows_without_load() -> None:
    end = datetime(2026, 11, 16, tzinfo=UTC)
    policy = small_policy(statistics_period_s=60)
    assert busy_windows_to_measure(policy) == 4
    busy, idle = (WindowSummary(end, has_load=has_load) for has_load in (True, False))
    assert is_without_load(policy, [idle] * 6)
    assert is_without_load(policy, [busy] * 3 + [idle] * 9)
    assert not is_without_load(policy, [busy] * 4 + [idle] * 8)


def test_a_broken_promise_is_told_once_however_many_runs_see_it(settings: Settings) -> None:
    def told(measured: float, run_id: str) -> list[str]:
        found = report_broken_promise(settings, small_policy(), outcome(measured, run_id), {})
        return [notice.kind for notice in found]

    assert told(15.0, "run-1") == []
    assert read_log(settings, "probe") == []
    assert told(20.0, "run-2") == ["promise_broken"]
    assert told(21.0, "run-3") == []
    # The task of the run that logged it may have been killed before its notice was sent.
    assert told(20.0, "run-2") == ["promise_broken"]
    events = [(row.event, row.version, row.run_id) for row in read_log(settings, "probe")]
    assert events == [("promise_broken", 3, "run-2")]
