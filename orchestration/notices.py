"""Notices about a job's plans: a log line, a counter, and a message to a webhook if there is one.

A task writes its notices to XCom; the notifier is a callback of the task. The webhook is Airflow's
connection ``ballast_webhook`` (an HTTP address; a password is sent as a bearer token). Notices
of late runs need the connection in the environment (ADR 51).
"""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from airflow.sdk import BaseNotifier, Connection
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.observability.stats import Stats

from ballast.contracts.task_result import NOTICES

WEBHOOK = "ballast_webhook"
WEBHOOK_VARIABLE = "AIRFLOW_CONN_BALLAST_WEBHOOK"
PUBLISHED, REFUSED, ROLLED_BACK = "published", "refused", "rolled_back"
PROMISE_BROKEN, LATE = "promise_broken", "late"
PLANNING_STOPPED, PLANNING_RESUMED = "planning_stopped", "planning_resumed"
SECONDS = 5.0


class PlanNotifier(BaseNotifier):
    """Records and sends the notices that the task wrote."""

    template_fields = ()

    def __init__(self, job: str) -> None:
        super().__init__()
        self.job = job

    def notify(self, context: Any) -> None:
        """Record and send the task's notices; an error does not fail the task."""
        notices = context["ti"].xcom_pull(task_ids=context["ti"].task_id, key=NOTICES)
        for notice in notices or ():
            self.record_and_send(notice["kind"], notice["text"], context["run_id"])

    def record_and_send(self, kind: str, text: str, run_id: str) -> None:
        """Count the notice, log it and send it to the webhook."""
        Stats.incr(f"ballast.{kind}", tags={"job": self.job})
        self.log.info("notice of job %s: %s: %s", self.job, kind, text)
        try:
            send({"job": self.job, "kind": kind, "text": text, "run_id": run_id})
        except (OSError, ValueError) as error:
            self.log.warning("the notice could not be sent to %s: %s", WEBHOOK, error)


def late_run(context: Any, job: str) -> None:
    """Send the notice that a run has not ended in time; the deadline alert calls this."""
    run_id = str(context["dag_run"]["dag_run_id"] if "dag_run" in context else "")
    PlanNotifier(job).record_and_send(
        LATE, f"run {run_id} of job {job} has not ended in time", run_id
    )


def send(notice: dict[str, str]) -> None:
    """Post the notice to the webhook; without the connection nothing is sent.

    Raises:
        PermissionError: The connection may not be read here.
        OSError: The webhook did not accept the notice.
        ValueError: The connection has no http or https address.
    """
    try:
        connection = Connection.get(WEBHOOK)
    except AirflowNotFoundException:
        return
    except PermissionError as error:
        raise PermissionError(
            f"{error} A deadline alert cannot read connections from Airflow's database; "
            f"to fix it: set {WEBHOOK_VARIABLE} where tasks run"
        ) from error
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked by address_of
        address_of(connection), data=json.dumps(notice).encode(), method="POST",
        headers={"Content-Type": "application/json", **_authorization(connection.password)},
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=SECONDS):  # noqa: S310
        pass


def address_of(connection: Any) -> str:
    """Return the connection's address.

    Raises:
        ValueError: It is not an http or https address.
    """
    host = connection.host or ""
    if "://" not in host:
        host = f"{connection.schema or 'https'}://{host}"
        host += f":{connection.port}" if connection.port else ""
    if not host.startswith(("http://", "https://")):
        raise ValueError(f"connection {WEBHOOK} is not an http or https address")
    return host


def _authorization(password: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {password}"} if password else {}
