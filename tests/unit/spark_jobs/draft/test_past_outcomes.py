"""Only first outcomes from before the snapshot determine the width of the next intervals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from ballast.contracts.records import DraftSummary, Outcome, Promise
from solvers.noise.calibration import PastOutcome
from spark_jobs.draft.past_outcomes import PastPlans, first_outcomes, past_outcomes
from tests.support.rows import row_of

START = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def outcome(version: int, minutes: int, measured: float, figure: str = "load_distance_pct") -> Any:
    at = START + timedelta(minutes=minutes)
    row = row_of(
        Outcome.table, version=version, plan_id=f"p{version}", figure=figure, measured=measured,
        measured_at=at,
    )  # fmt: skip
    return Outcome.from_row(row)


def promise(version: int, figure: str = "load_distance_pct", **columns: Any) -> Promise:
    interval = {"low": 2.0, "high": 5.0, "calibration_below": 1.2, "calibration_above": 0.8}
    row = row_of(
        Promise.table, plan_id=f"p{version}", figure=figure, expected=3.0, **(interval | columns)
    )
    return Promise.from_row(row)


def past(outcomes: list[Any], promises: list[Promise], **plan: Any) -> Any:
    plans = [
        DraftSummary.from_row(row_of("plans.plans", plan_id=row.plan_id, **plan))
        for row in promises[:1]
        if plan
    ]
    return past_outcomes(PastPlans(outcomes, promises, plans), START + timedelta(minutes=30))


def test_the_first_outcome_of_each_version_counts_oldest_version_first() -> None:
    rows = [outcome(2, 20, 6.0), outcome(1, 15, 9.0), outcome(1, 5, 4.0)]
    found = past(rows, [promise(1), promise(2)])
    assert found == {
        "load_distance_pct": [
            PastOutcome(3.0, 2.0, 5.0, 1.2, 0.8, 4.0),
            PastOutcome(3.0, 2.0, 5.0, 1.2, 0.8, 6.0),
        ]
    }


def test_what_was_measured_after_the_snapshot_does_not_count() -> None:
    rows = [outcome(1, 5, 4.0), outcome(2, 31, 6.0)]
    assert [row.version for row in first_outcomes(rows, START + timedelta(minutes=30))] == [1]
    assert len(past(rows, [promise(1), promise(2)])["load_distance_pct"]) == 1


def test_a_version_without_promises_teaches_nothing() -> None:
    assert past([outcome(1, 5, 4.0)], []) == {}


def test_outcomes_of_all_nodes_are_one_figure() -> None:
    names = ("cpu_load_cores/a", "cpu_load_cores/b")
    found = past([outcome(1, 5, 4.0, name) for name in names], [promise(1, n) for n in names])
    assert {name: len(rows) for name, rows in found.items()} == {"cpu_load_cores": 2}


def test_outcomes_of_all_nodes_of_a_version_count_together_as_one() -> None:
    names = ("cpu_load_cores/a", "cpu_load_cores/b")
    rows = [outcome(1, 5, 4.0, name) for name in names] + [outcome(2, 15, 4.0, names[0])]
    promises = [promise(1, name) for name in names] + [promise(2, names[0])]
    found = past(rows, promises)["cpu_load_cores"]
    assert [each.weight for each in found] == [0.5, 0.5, 1.0]


def test_a_promise_without_an_interval_has_no_width_that_could_be_learned() -> None:
    no_interval = promise(1, low=None, high=None, calibration_below=None, calibration_above=None)
    (found,) = past([outcome(1, 5, 4.0)], [no_interval])["load_distance_pct"]
    assert (found.expected, found.measured, found.score) == (3.0, 4.0, None)


def test_a_pause_is_compared_with_the_plans_own_figure_and_not_with_the_corrected_one() -> None:
    """The promised 3 s may contain a correction by outcomes, which must not be learned twice."""
    rows, promises = [outcome(1, 5, 4.0, "pause_s")], [promise(1, "pause_s")]
    (found,) = past(rows, promises, pause_s=1.5, route_pause_s=0.5)["pause_s"]
    assert (found.expected, found.measured) == (2.0, 4.0)


def test_bytes_between_nodes_have_a_noise_model_and_are_calibrated_like_loads() -> None:
    name = "wire_bytes_per_s"
    (found,) = past([outcome(1, 5, 4.0, name)], [promise(1, name)], wire_bytes_per_s=1.5)[name]
    assert found == PastOutcome(3.0, 2.0, 5.0, 1.2, 0.8, 4.0)
