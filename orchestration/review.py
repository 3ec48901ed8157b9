"""The two steps that bring a person in: ask for a review, and take the answer."""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk.exceptions import AirflowSkipException

REVIEW = "review"
ANSWERS = {ApprovalOperator.APPROVE: "approved", ApprovalOperator.REJECT: "rejected"}


class AskForReview(TriggerDagRunOperator):
    """Starts the review of the draft that ``publish`` left waiting, once a draft.

    The run of the review is named by the plan, so that a retry finds it there.
    """

    def __init__(self, *, job: str, publish: str = "publish", **kwargs: Any) -> None:
        super().__init__(
            trigger_dag_id=f"{REVIEW}__{job}",
            logical_date=None,
            skip_when_already_exists=True,
            **kwargs,
        )
        self.publish = publish

    def execute(self, context: Any) -> None:
        """Trigger the review, or skip where nothing waits."""
        handed = context["ti"].xcom_pull(task_ids=self.publish) or {}
        if handed.get("outcome") != "waiting":
            raise AirflowSkipException("nothing waits for a person")
        self.trigger_run_id = f"{REVIEW}__{handed['plan_id']}"
        self.conf = {
            "plan_id": handed["plan_id"],
            "content_hash": handed["content_hash"],
            "draft_run_id": handed["run_id"],
        }
        super().execute(context)


class PlanApproval(ApprovalOperator):
    """Approve or reject; the answer is handed on either way, so that it comes into the log.

    Nobody answering in time is an answer as well. ``ApprovalOperator`` would skip what follows.
    """

    def execute_complete(self, context: Any, event: dict[str, Any]) -> dict[str, str]:
        """The answer: what, by whom, when and why."""
        given = HITLOperator.execute_complete(self, context=context, event=event)
        return answer_of(given, timed_out=bool(event.get("timedout")))


def answer_of(given: dict[str, Any], *, timed_out: bool) -> dict[str, str]:
    """Airflow's record of an answer in the words of ``publish``."""
    user = given["responded_by_user"] or {}
    return {
        "answer": "timed_out" if timed_out else ANSWERS[given["chosen_options"][0]],
        "by": str(user.get("name") or user.get("id") or "nobody"),
        "at": given["responded_at"].isoformat(),
        "reason": str((given["params_input"] or {}).get("reason") or ""),
    }
