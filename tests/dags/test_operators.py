"""Operators convert a program's result and a person's answer to task states and notices."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest


class RecordedTask:
    """A task instance that stores the XCom values that are pushed."""

    task_id = "publish"

    def __init__(self, **handed: Any) -> None:
        self.pushed: dict[str, Any] = handed

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value

    def xcom_pull(self, task_ids: str | None = None, key: str = "return_value") -> Any:
        return self.pushed.get(key if key != "return_value" else task_ids)


def operator(monkeypatch: pytest.MonkeyPatch, submit: Any, **kwargs: Any) -> Any:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    from ballast.contracts.settings import load_settings
    from orchestration.program_operator import ProgramOperator

    monkeypatch.setattr(SparkSubmitOperator, "execute", submit)
    return ProgramOperator(
        task_id="publish", program="publish", job="flights", settings=load_settings({}),
        arguments=[], **kwargs,
    )  # fmt: skip


def handing(fails: bool = False, **values: Any) -> Any:
    """Return a submit function whose program writes these values as its result."""
    from airflow.sdk.exceptions import AirflowException

    def submit(self: Any, _context: Any) -> None:
        Path(self.env_vars["BALLAST_TASK_RESULT"]).write_text(json.dumps(values))
        if fails:
            raise AirflowException("Cannot execute: spark-submit ... Error code is: 4.")

    return submit


def refusal(is_retryable: bool) -> dict[str, Any]:
    return {"error": "GateFailed", "message": "node-1 is silent", "is_retryable": is_retryable}


def test_what_a_program_hands_on_is_the_tasks_xcom(monkeypatch: pytest.MonkeyPatch) -> None:
    notices = [{"kind": "published", "text": "version 3"}, {"kind": "late", "text": "late"}]
    ti = RecordedTask()
    task = operator(monkeypatch, handing(outcome="waiting", plan_id="p", notices=notices))
    assert task.execute({"ti": ti}) == {"outcome": "waiting", "plan_id": "p"}
    assert ti.pushed == {"notices": notices}


@pytest.mark.parametrize(("is_retryable", "is_final"), [(True, False), (False, True)])
def test_a_refusal_keeps_its_words_and_is_tried_again_only_if_it_may_heal(
    monkeypatch: pytest.MonkeyPatch, is_retryable: bool, is_final: bool
) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    ti = RecordedTask()
    task = operator(monkeypatch, handing(fails=True, refusal=refusal(is_retryable)))
    with pytest.raises(AirflowException, match=r"^GateFailed: node-1 is silent$") as refused:
        task.execute({"ti": ti})
    assert isinstance(refused.value, AirflowFailException) is is_final
    assert ti.pushed["refusal"] == "GateFailed: node-1 is silent"
    assert [notice["kind"] for notice in ti.pushed["notices"]] == ["refused"]


def test_a_refused_question_sends_no_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.exceptions import AirflowException

    ti = RecordedTask()
    task = operator(monkeypatch, handing(fails=True, refusal=refusal(False)))
    task.notifies = False
    with pytest.raises(AirflowException):
        task.execute({"ti": ti})
    assert set(ti.pushed) == {"refusal"}


def test_a_program_that_died_without_a_word_keeps_its_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from airflow.sdk.exceptions import AirflowException

    task = operator(monkeypatch, handing(fails=True))
    with pytest.raises(AirflowException, match="Error code is: 4"):
        task.execute({"ti": RecordedTask()})


@pytest.mark.parametrize("outcome", ["rejected", "timed_out", "planning_stopped", "frozen"])
def test_a_program_that_had_nothing_to_do_shows_as_skipped(
    monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    with pytest.raises(AirflowSkipException, match="the old plan stays"):
        operator(monkeypatch, handing(outcome=outcome, text="the old plan stays")).execute(
            {"ti": RecordedTask()}
        )


def test_each_notice_of_a_task_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from orchestration import notices

    sent: list[dict[str, str]] = []
    monkeypatch.setattr(notices, "send", sent.append)
    left = [{"kind": kind, "text": f"{kind} of a job"} for kind in ("broken", "stopped")]
    ti = RecordedTask(notices=left)
    notices.PlanNotifier("flights").notify({"ti": ti, "run_id": "r"})
    assert sent == [{"job": "flights", "run_id": "r", **notice} for notice in left]
    notices.PlanNotifier("flights").notify({"ti": RecordedTask(), "run_id": "r"})
    assert len(sent) == 2


def test_an_expected_refusal_is_logged_without_a_trace() -> None:
    from orchestration.refusals import Refused, without_trace

    def line(error: Exception) -> dict[str, Any]:
        try:
            raise error
        except (Refused, ValueError):
            return without_trace(None, "error", {"event": "Task failed", "exc_info": True})

    assert line(Refused("GateFailed: why")) == {"event": "Refused: GateFailed: why"}
    assert line(ValueError("a bug")) == {"event": "Task failed", "exc_info": True}


def test_a_draft_that_waits_is_asked_for_once_by_the_name_of_its_plan() -> None:
    from airflow.sdk.exceptions import AirflowSkipException, DagRunTriggerException

    from orchestration.review import AskForReview

    task = AskForReview(task_id="ask", job="flights")
    waiting = {"outcome": "waiting", "plan_id": "p", "content_hash": "c", "run_id": "r"}
    with pytest.raises(DagRunTriggerException) as asked:
        task.execute({"ti": RecordedTask(publish=waiting)})
    assert asked.value.dag_run_id == "review__p"
    assert asked.value.trigger_dag_id == "review__flights"
    assert asked.value.conf == {"plan_id": "p", "content_hash": "c", "draft_run_id": "r"}
    assert asked.value.skip_when_already_exists
    with pytest.raises(AirflowSkipException):
        AskForReview(task_id="ask2", job="flights").execute(
            {"ti": RecordedTask(publish={"outcome": "published"})}
        )


@pytest.mark.parametrize(
    ("option", "timed_out", "answer"),
    [("Approve", False, "approved"), ("Reject", False, "rejected"), ("Reject", True, "timed_out")],
)
def test_an_answer_has_a_name_and_a_time(option: str, timed_out: bool, answer: str) -> None:
    from orchestration.review import answer_of

    at = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
    given = {
        "chosen_options": [option], "params_input": {"reason": "why"}, "responded_at": at,
        "responded_by_user": None if timed_out else {"id": "1", "name": "ada"},
    }  # fmt: skip
    assert answer_of(given, timed_out=timed_out) == {
        "answer": answer, "by": "nobody" if timed_out else "ada", "at": at.isoformat(),
        "reason": "why",
    }  # fmt: skip


def test_a_webhook_is_an_address_of_the_web() -> None:
    from types import SimpleNamespace as Given

    from orchestration.notices import address_of

    assert address_of(Given(host="hooks.example", schema="http", port=81)) == (
        "http://hooks.example:81"
    )
    assert address_of(Given(host="https://x/y", schema=None, port=None)) == "https://x/y"
    with pytest.raises(ValueError, match="http"):
        address_of(Given(host="file:///etc/passwd", schema=None, port=None))


def test_an_alert_that_may_read_no_connection_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from airflow.sdk import Connection
    from airflow.sdk.exceptions import AirflowSecretsBackendAccessDenied

    from orchestration.notices import send

    def denied(_name: str) -> None:
        raise AirflowSecretsBackendAccessDenied("Access denied.")

    monkeypatch.setattr(Connection, "get", denied)
    with pytest.raises(OSError, match=r"denied.*to fix it: .*AIRFLOW_CONN_BALLAST_WEBHOOK"):
        send({"job": "probe", "kind": "late", "text": "late", "run_id": "x"})
