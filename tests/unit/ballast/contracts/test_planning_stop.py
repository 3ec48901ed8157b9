"""A job stops planning after some broken promises in a row, and resumes as log and outcomes say."""

from __future__ import annotations

import random

import pytest

from ballast.contracts.log_events import PLANNING_RESUMED, PLANNING_STOPPED
from ballast.contracts.planning_stop import PlanningState, broken_row_text, planning_state
from ballast.contracts.records import Outcome
from tests.support.outcomes import FIRST, first_outcomes, outcome, planning_event


def state(outcomes: list[Outcome], stop_after: int | None = 3, *log: object) -> PlanningState:
    return planning_state(log, outcomes, stop_after)  # type: ignore[arg-type]


def resumed(version: int | None) -> object:
    return planning_event(PLANNING_RESUMED, version)


@pytest.mark.parametrize(
    ("sides", "versions"),
    [
        ([], ()),
        (["inside"] * 5, ()),
        (["above", "above"], (1, 2)),
        (["above", "below", "above"], (1, 2, 3)),
        (["above", "above", "inside", "above"], (4,)),
        (["inside", "above", "above", "above", "below"], (2, 3, 4, 5)),
        ([None, None, None], ()),
        (["above", None, "above", None, "above"], (1, 3, 5)),
        (["above", "above", "above", None], (1, 2, 3)),
    ],
)
def test_the_newest_plans_in_a_row_outside_of_their_interval_count(
    sides: list[str | None], versions: tuple[int, ...]
) -> None:
    found = state(first_outcomes(*sides))
    assert found.versions == versions
    assert found.is_stopped is (len(versions) >= 3)


def test_it_is_stopped_since_the_outcome_that_made_the_row_long_enough() -> None:
    found = state(first_outcomes("above", "below", "above", "above"))
    assert found.since == outcome(3, "above").measured_at
    assert state(first_outcomes("above")).since is None


def test_only_the_first_outcome_of_a_version_counts_while_the_job_plans() -> None:
    later = [outcome(1, "above", 10), outcome(1, "above", 20), outcome(1, "above", 30)]
    assert not state([outcome(1, "inside"), *later]).broken
    assert state([outcome(1, "above"), *later]).versions == (1,)
    # A promise that is kept later, while the job plans, still counts as broken.
    assert state([outcome(1, "above"), outcome(1, "inside", 10)]).versions == (1,)


def test_other_figures_do_not_count() -> None:
    assert not state([
        outcome(version, "above", figure=figure)
        for version in (1, 2, 3) for figure in ("pause_s", "load_distance_points")
    ]).broken  # fmt: skip


def test_planning_goes_on_when_the_plan_in_force_is_inside_again() -> None:
    rows = first_outcomes("above", "above", "above")
    assert state([*rows, outcome(3, "above", 10)]).is_stopped
    again = state([*rows, outcome(3, "above", 10), outcome(3, "inside", 20)])
    assert (again.is_stopped, again.broken) == (False, ())
    assert again.kept == outcome(3, "inside", 20)
    # It stays so, although the newest outcome is outside again.
    assert not state([*rows, outcome(3, "inside", 20), outcome(3, "above", 30)]).is_stopped


def test_a_plan_that_came_into_force_while_stopped_may_keep_its_promise() -> None:
    rows = first_outcomes("above", "above", "above")
    assert state([*rows, outcome(4, "above")]).versions == (1, 2, 3, 4)
    assert not state([*rows, outcome(4, "inside")]).is_stopped
    assert not state([*rows, outcome(4, "above"), outcome(4, "inside", 10)]).is_stopped


def test_an_old_version_that_is_inside_does_not_end_the_row() -> None:
    rows = first_outcomes("above", "above", "above")
    assert state([*rows, outcome(1, "inside", 10), outcome(2, "inside", 10)]).is_stopped


def test_a_person_sets_the_row_aside_and_counting_begins_anew() -> None:
    rows = first_outcomes("above", "above", "above")
    assert not state(rows, 3, resumed(3)).broken
    assert state([*rows, outcome(3, "above", 10)], 3, resumed(3)).broken == ()
    more = [*rows, outcome(4, "above"), outcome(5, "above")]
    assert state(more, 3, resumed(3)).versions == (4, 5)
    assert state([*more, outcome(6, "below")], 3, resumed(3)).is_stopped


def test_a_change_of_the_policy_sets_nothing_aside() -> None:
    rows = first_outcomes("above", "above", "above", "above")
    assert state(rows, 5, resumed(None)).versions == (1, 2, 3, 4)
    assert state([*rows, outcome(5, "above")], 5, resumed(None)).is_stopped


@pytest.mark.parametrize(
    ("stop_after", "is_stopped"), [(1, True), (3, True), (4, False), (None, False)]
)
def test_the_policy_of_today_decides(stop_after: int | None, is_stopped: bool) -> None:
    found = state(first_outcomes("above", "above", "above"), stop_after)
    assert found.is_stopped is is_stopped
    assert found.versions == (1, 2, 3)


def test_outcomes_of_an_earlier_version_of_ballast_stop_nothing() -> None:
    rows = [outcome(version, None) for version in range(1, 6)]
    old = [
        {name: value for name, value in row.to_row().items() if name not in ("low", "high", "side")}
        for row in rows
    ]
    assert not state([Outcome.from_row(row) for row in old], 1).broken


def test_the_order_of_the_rows_does_not_matter() -> None:
    rows = [*first_outcomes("above", "inside", "above", "below", "above"), outcome(5, "above", 9)]
    log = [planning_event(PLANNING_STOPPED, 5, FIRST.replace(hour=20)), resumed(2)]
    wanted = planning_state(log, rows, 3)  # type: ignore[arg-type]
    assert wanted.versions == (3, 4, 5)
    for seed in range(20):
        random.Random(seed).shuffle(rows)
        random.Random(seed).shuffle(log)
        assert planning_state(log, rows, 3) == wanted  # type: ignore[arg-type]


def test_the_reason_is_that_of_the_log_and_without_it_the_row_in_words() -> None:
    rows = first_outcomes("above", "below", "above")
    words = (
        "the measured load distance of 3 plans in a row was outside of the promised interval: "
        "version 1 9.00 % (promised 4.00 to 6.00), version 2 2.00 % (promised 4.00 to 6.00), "
        "version 3 9.00 % (promised 4.00 to 6.00)"
    )
    assert state(rows).reason == words
    assert state(rows, 3, planning_event(PLANNING_STOPPED, 3)).reason == "because"
    assert state(rows, 4).reason == ""


def test_a_long_row_is_shortened() -> None:
    text = broken_row_text(first_outcomes(*["above"] * 8))
    assert "8 plans in a row" in text
    assert "3 more, version 4 9.00 %" in text
    assert broken_row_text(first_outcomes("above")).startswith(
        "the measured load distance of 1 plan was outside"
    )


def test_the_newest_event_says_what_the_log_says() -> None:
    stopped = planning_event(PLANNING_STOPPED, 3, FIRST.replace(hour=13))
    assert state([], 3, stopped, resumed(3)).is_logged_as_stopped
    later = planning_event(PLANNING_RESUMED, 3, FIRST.replace(hour=14))
    assert not state([], 3, later, stopped).is_logged_as_stopped
    assert not state([]).is_logged_as_stopped
