"""An event is in plans.log once, however often and by whomever it is written."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from ballast.contracts.records import Head
from ballast.contracts.settings import load_settings
from ballast.store.plans import read_log
from spark_jobs.warehouse.plan_log import (
    Event,
    append_event,
    is_logged_as_published,
    published_event,
)

HEAD = Head("probe", 3, "plan-a", "hash", "run-1", datetime(2026, 11, 16, tzinfo=UTC))


@pytest.fixture
def settings(tmp_path):
    return load_settings({"BALLAST_HOME": str(tmp_path)})


def test_an_event_that_is_repeated_is_written_once(settings):
    event = Event("probe", "dry_run", "run-1", "publish of run run-1", "asked", plan_id="plan-a")
    assert [append_event(settings, event) for _ in range(3)] == [True, False, False]
    assert [row.event for row in read_log(settings, "probe")] == ["dry_run"]


def test_events_of_other_runs_plans_and_kinds_are_events_of_their_own(settings):
    base = {"job": "probe", "event": "drafted", "run_id": "run-1", "actor": "a", "reason": "r"}
    changes = ({}, {"run_id": "run-2"}, {"plan_id": "plan-b"}, {"event": "refused"})
    assert all(append_event(settings, Event(**{**base, **change})) for change in changes)
    assert len(read_log(settings, "probe")) == 4


def test_a_version_is_published_once_even_by_writers_at_the_same_moment(settings):
    append_event(settings, Event("probe", "drafted", "run-1", "a", "r"))
    with ThreadPoolExecutor(8) as pool:
        events = [published_event(HEAD, f"by writer {n}") for n in range(8)]
        wrote = list(pool.map(lambda event: append_event(settings, event), events))
    assert sum(wrote) == 1
    assert len([row for row in read_log(settings, "probe") if row.event == "published"]) == 1


def test_the_log_is_logged_as_published_of_the_winner_alone(settings):
    assert not is_logged_as_published(settings, HEAD)
    append_event(settings, published_event(HEAD, "won"))
    assert is_logged_as_published(settings, HEAD)
    loser = Head("probe", 3, "plan-b", "hash", "run-2", HEAD.published_at)
    assert not is_logged_as_published(settings, loser)
