"""A version that does worse than it promised is written down, and told, once."""

from __future__ import annotations

from ballast.contracts.records import Outcome
from ballast.contracts.settings import Settings
from ballast.contracts.task_result import Notice
from ballast.store.plans import read_log
from spark_jobs.outcome.plan_measurement import report_broken_promise
from tests.support.rows import row_of


def test_a_broken_promise_is_told_once_however_many_runs_see_it(settings: Settings) -> None:
    def told_by(run_id: str) -> list[Notice]:
        row = row_of(Outcome.table, job="probe", plan_id="p", version=3, run_id=run_id)
        return report_broken_promise(settings, Outcome.from_row(row), "it is worse")

    assert told_by("run-2") == [Notice("promise_broken", "job probe: it is worse")]
    assert told_by("run-3") == []
    events = [(row.event, row.version, row.run_id) for row in read_log(settings, "probe")]
    assert events == [("promise_broken", 3, "run-2")]
