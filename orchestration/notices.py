"""Notices of what happened to a job's plans: to the log, as counters, and to a webhook if any.

A task leaves its notices in XCom; the notifier is a callback of the task. The webhook is Airflow's
connection ``ballast_webhook`` (an HTTP address; a password is sent as a bearer token). Only where
it comes from the environment does it also hear of late runs (ADR 51).
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
    """Passes on the notices that the task left."""

    template_fields = ()

    def __init__(self, job: str) -> None:
        super().__init__()
        self.job = job

    def notify(self, context: Any) -> None:
        """Pass the task's notices on; never fails the task."""
        notices = context["ti"].xcom_pull(task_ids=context["ti"].task_id, key=NOTICES)
        for notice in notices or ():
            self.tell(notice["kind"], notice["text"], context["run_id"])

    def tell(self, kind: str, text: str, run_id: str) -> None:
        """Count the notice, log it and send it."""
        Stats.incr(f"ballast.{kind}", tags={"job": self.job})
        self.log.info("notice of job %s: %s: %s", self.job, kind, text)
        try:
            send({"job": self.job, "kind": kind, "text": text, "run_id": run_id})
        except (OSError, ValueError) as error:
            self.log.warning("the notice could not be sent to %s: %s", WEBHOOK, error)


def late_run(context: Any, job: str) -> None:
    """What a deadline alert calls: the run has not ended in time."""
    run_id = str(context["dag_run"]["dag_run_id"] if "dag_run" in context else "")
    PlanNotifier(job).tell(LATE, f"run {run_id} of job {job} has not ended in time", run_id)


def send(notice: dict[str, str]) -> None:
    """Post the notice to the webhook; nothing where no connection is configured."""
    try:
        connection = Connection.get(WEBHOOK)
    except AirflowNotFoundException:
        return
    except PermissionError as error:
        raise PermissionError(
            f"{error} Airflow lets no alert of a deadline read connections of its database; to "
            f"fix it: if you want to be told, set {WEBHOOK_VARIABLE} where tasks run"
        ) from error
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked by address_of
        address_of(connection), data=json.dumps(notice).encode(), method="POST",
        headers={"Content-Type": "application/json", **_authorization(connection.password)},
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=SECONDS):  # noqa: S310
        pass


def address_of(connection: Any) -> str:
    """The connection's address; only the web's own schemes."""
    host = connection.host or ""
    if "://" not in host:
        host = f"{connection.schema or 'https'}://{host}"
        host += f":{connection.port}" if connection.port else ""
    if not host.startswith(("http://", "https://")):
        raise ValueError(f"connection {WEBHOOK} is no http or https address")
    return host


def _authorization(password: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {password}"} if password else {}
