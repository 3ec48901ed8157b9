"""A job without executors or whose batches do not end is said to be so, since when and why."""

from __future__ import annotations

import logging

import pytest

from ballast.contracts.job_states import IDLE, IN_BATCH, NO_EXECUTORS, RUNNING, STALLED
from ballast.streaming.job_health import (
    HealthLimits,
    HealthState,
    HealthWatch,
    JobHealth,
    Sample,
    window_state,
)

S = 1_000
LIMITS = HealthLimits(stalled_after_s=30, end_without_executors_s=120)


@pytest.fixture
def health() -> JobHealth:
    return JobHealth(LIMITS, 0)


def seen(at_s: int, executors: int | None = 3, *, waits: bool = False) -> Sample:
    return Sample(at_s * S, executors, waits)


def test_a_job_is_idle_between_batches_and_in_a_batch_until_it_ends(health: JobHealth) -> None:
    assert health.observe(seen(1, waits=True)).state == IDLE
    assert health.observe(seen(2)) == HealthState(IN_BATCH, 2 * S, 3)
    assert health.observe(seen(9)) == HealthState(IN_BATCH, 2 * S, 3)
    assert health.observe(seen(10, waits=True)).state == IDLE


def test_a_job_is_stalled_since_its_last_batch_ended(health: JobHealth) -> None:
    health.batch_ended(5 * S)
    assert health.observe(seen(34)).state == IN_BATCH
    stalled = health.observe(seen(35))
    assert stalled == HealthState(STALLED, 5 * S, 3)
    assert not stalled.is_measured
    health.batch_ended(50 * S)
    assert health.observe(seen(51)).state == IN_BATCH


def test_batches_that_follow_each_other_without_a_pause_do_not_stall(health: JobHealth) -> None:
    for second in range(0, 200, 5):
        health.batch_ended(second * S)
        assert health.observe(seen(second + 4)).state == IN_BATCH


def test_a_job_without_executors_is_not_idle(health: JobHealth) -> None:
    lost = health.observe(seen(7, 0, waits=True))
    assert lost == HealthState(NO_EXECUTORS, 7 * S, 0)
    assert not lost.is_measured
    assert health.observe(seen(60, 0)).since_ms == 7 * S


def test_the_process_ends_only_after_a_time_without_executors(health: JobHealth) -> None:
    health.observe(seen(10, 0))
    assert not health.must_end(129 * S)
    assert health.must_end(130 * S)
    health.observe(seen(131, 1))
    assert not health.must_end(500 * S)
    health.observe(seen(600))
    assert health.state.state == STALLED
    assert not health.must_end(9_999 * S), "a batch that takes long may still end"


def test_an_unknown_number_of_executors_is_not_zero(health: JobHealth) -> None:
    assert health.observe(seen(1, None, waits=True)) == HealthState(IDLE, 0, None)


def test_a_window_with_a_batch_is_running_unless_the_job_is_not_measured() -> None:
    assert window_state(HealthState(IDLE, 0, 1), 2) == RUNNING
    assert window_state(HealthState(IDLE, 0, 1), 0) == IDLE
    assert window_state(HealthState(NO_EXECUTORS, 0, 0), 2) == NO_EXECUTORS


def test_what_is_wrong_is_logged_once_in_a_while_and_its_end_too(
    health: JobHealth, caplog: pytest.LogCaptureFixture
) -> None:
    samples = iter([seen(40, 0), seen(41, 0), seen(71, 0), seen(72, 2)])
    states: list[str] = []
    watch = HealthWatch(
        "flights", health, lambda: next(samples), lambda state, at: states.append(state.state)
    )
    with caplog.at_level(logging.WARNING, logger="ballast.streaming"):
        for _ in range(4):
            watch.look()
    assert states == [NO_EXECUTORS] * 3 + [STALLED]
    first, again, stalled = caplog.messages
    assert "no executor since 00:00:40 UTC" in first
    assert "missing in the tables, not zero" in first
    assert "exit code 10" in first
    assert first == again
    assert "has ended no batch since 00:00:00 UTC" in stalled


def test_a_job_that_is_measured_again_says_so(
    health: JobHealth, caplog: pytest.LogCaptureFixture
) -> None:
    samples = iter([seen(10, 0), seen(42, 2, waits=True)])
    watch = HealthWatch("flights", health, lambda: next(samples), lambda state, at: None)
    with caplog.at_level(logging.WARNING, logger="ballast.streaming"):
        watch.look()
        watch.look()
    assert caplog.messages[-1] == "job flights is measured again after 32 s (no_executors)"
