"""Operators for reviews: start a review, and wait for the answer."""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk.exceptions import AirflowSkipException

REVIEW = "review"
ANSWERS = {ApprovalOperator.APPROVE: "approved", ApprovalOperator.REJECT: "rejected"}


class AskForReview(TriggerDagRunOperator):
    """Starts the review of a waiting draft, once for each draft.

    The run of the review is named after the plan, so a retry finds it.
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
        """Trigger the review; skip the task if no draft waits."""
        result = context["ti"].xcom_pull(task_ids=self.publish) or {}
        if result.get("outcome") != "waiting":
            raise AirflowSkipException("no draft waits for a person")
        self.trigger_run_id = f"{REVIEW}__{result['plan_id']}"
        self.conf = {
            "plan_id": result["plan_id"],
            "content_hash": result["content_hash"],
            "draft_run_id": result["run_id"],
        }
        super().execute(context)


class PlanApproval(ApprovalOperator):
    """Waits for a person who approves or rejects a draft.

    Both answers, and no answer in time, are passed to ``publish``, which logs them.
    ``ApprovalOperator`` would skip the next task after a rejection.
    """

    def execute_complete(self, context: Any, event: dict[str, Any]) -> dict[str, str]:
        """Return the answer: what, by whom, when and why."""
        response = HITLOperator.execute_complete(self, context=context, event=event)
        return answer_of(response, timed_out=bool(event.get("timedout")))


def answer_of(response: dict[str, Any], *, timed_out: bool) -> dict[str, str]:
    """Convert Airflow's record of an answer to the arguments of ``publish``.

    Args:
        response: The result of ``HITLOperator``.
        timed_out: Whether no answer came in time.
    """
    user = response["responded_by_user"] or {}
    return {
        "answer": "timed_out" if timed_out else ANSWERS[response["chosen_options"][0]],
        "by": str(user.get("name") or user.get("id") or "nobody"),
        "at": response["responded_at"].isoformat(),
        "reason": str((response["params_input"] or {}).get("reason") or ""),
    }
