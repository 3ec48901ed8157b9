"""A program that waits for cores of the cluster says so, and ends after a limit."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from ballast.contracts.errors import ClusterUnavailable
from ballast.contracts.task_result import RETRYABLE_ERRORS
from spark_jobs.program import core_wait
from spark_jobs.program.core_wait import CoreWait, WaitLimits, watched_cores

LIMITS = WaitLimits(say_every_s=30, end_after_s=100)


@pytest.fixture
def wait() -> CoreWait:
    return CoreWait("spark://m:7077", LIMITS)


def test_a_program_that_waits_says_so_now_and_then(wait: CoreWait) -> None:
    said = [wait.observe(s, 0, has_work=True) for s in range(0, 95, 5)]
    texts = [text for text in said if text]
    assert len(texts) == 3
    assert "no executor of spark://m:7077 for 30 s" in texts[0]
    assert "for 90 s" in texts[-1]
    assert wait.refusal is None


def test_the_end_of_the_wait_is_said_if_the_wait_was(wait: CoreWait) -> None:
    wait.observe(0, 0, has_work=True)
    assert wait.observe(5, 1, has_work=True) is None
    wait.observe(10, 0, has_work=True)
    wait.observe(50, 0, has_work=True)
    assert wait.observe(55, 2, has_work=True) == "got cores after 45 s"


def test_a_program_ends_after_the_limit_and_is_tried_again(wait: CoreWait) -> None:
    for second in range(0, 105, 5):
        wait.observe(second, 0, has_work=True)
    assert isinstance(wait.refusal, RETRYABLE_ERRORS)
    assert "see on the master's page" in str(wait.refusal)


@pytest.mark.parametrize(("executors", "has_work"), [(0, False), (1, True), (None, True)])
def test_only_work_without_executors_waits(
    wait: CoreWait, executors: int | None, has_work: bool
) -> None:
    for second in range(0, 1000, 50):
        assert wait.observe(second, executors, has_work=has_work) is None
    assert wait.refusal is None


class Context:
    """A Spark context on a cluster without executors, whose jobs run until they are cancelled."""

    master = "spark://m:7077"

    def __init__(self, *, stopped: bool = False) -> None:
        self.cancelled = threading.Event()
        size = SimpleNamespace(size=lambda: 1)  # the driver alone
        java = SimpleNamespace(getExecutorMemoryStatus=lambda: size, isStopped=lambda: stopped)
        self._jsc = SimpleNamespace(sc=lambda: java)

    def statusTracker(self) -> Any:  # noqa: N802 - Spark's name
        return SimpleNamespace(getActiveJobsIds=lambda: [0])

    def cancelAllJobs(self) -> None:  # noqa: N802 - Spark's name
        self.cancelled.set()


def run_job(context: Context) -> None:
    assert context.cancelled.wait(60)
    raise RuntimeError("Job 0 cancelled")


def test_the_waiting_job_is_cancelled_and_the_program_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(core_wait, "LOOK_S", 0.001)
    context, said = Context(), []
    limits = WaitLimits(say_every_s=0.0, end_after_s=0.005)
    with (
        pytest.raises(ClusterUnavailable, match="waits for cores"),
        watched_cores(SimpleNamespace(sparkContext=context), said.append, limits),
    ):
        run_job(context)
    assert said


def test_an_application_that_spark_ended_is_a_refusal_and_other_errors_are_not() -> None:
    with (
        pytest.raises(ClusterUnavailable, match="Spark ended the application"),
        watched_cores(SimpleNamespace(sparkContext=Context(stopped=True)), print),
    ):
        raise RuntimeError("SparkContext was shut down")
    with (
        pytest.raises(ZeroDivisionError),
        watched_cores(SimpleNamespace(sparkContext=Context()), print),
    ):
        raise ZeroDivisionError
