"""A small client of Airflow's REST API for the command line, the demonstration and tests."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from ballast.airflow.errors import ApiError, LoginRefused, NoAnswer, NoRight, WaitedTooLong

T = TypeVar("T")
Json = dict[str, Any]
ENDED = frozenset({"success", "failed"})
BAD_TOKEN = "Invalid JWT token"  # noqa: S105 - Airflow's message, no token


@dataclass(frozen=True)
class TaskRun:
    """One task of a run as Airflow reports it."""

    task_id: str
    map_index: int
    state: str | None
    try_number: int
    started_at: datetime | None
    ended_at: datetime | None

    @property
    def seconds(self) -> float | None:
        """How long the task ran; None until it has ended."""
        if self.started_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.started_at).total_seconds()


class AirflowClient:
    """A client of one Airflow for one user, with a token or with a password.

    With a password the client fetches a token for its first request, and another one when that
    has expired.
    """

    def __init__(
        self,
        base_url: str,
        username: str = "",
        password: str | None = None,
        *,
        token: str | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ApiError(f"{base_url!r} is not an address of an Airflow API server")
        self.base_url = base_url.rstrip("/")
        self.username = username
        self._password = password
        self._timeout_s = timeout_s
        self._token = token
        self._opener = _opener(self.base_url)

    def login(self) -> None:
        """Fetch a token.

        Raises:
            LoginRefused: Airflow refuses the password, or there is none.
        """
        if self._password is None:
            raise LoginRefused(f"{self.base_url} does not accept the token", status=401)
        answer = self._send(
            "POST", "/auth/token", {"username": self.username, "password": self._password}
        )
        self._token = str(answer["access_token"])

    def health(self) -> Json:
        """Return the status of database, scheduler and DAG processor; needs no login."""
        return self._send("GET", "/api/v2/monitor/health")

    def get(self, path: str, **query: Any) -> Json:
        """Send a GET below ``/api/v2``; ``path`` starts with a slash."""
        return self.request("GET", path, query=query)

    def request(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> Json:
        """Send a request below ``/api/v2``; log in first, and again if the token has expired.

        Raises:
            ApiError: Airflow refuses the request; ``status`` is that of the response.
            NoAnswer: no Airflow answers.
        """
        if self._token is None:
            self.login()
        address = f"/api/v2{path}"
        if query:
            address += "?" + urllib.parse.urlencode(query, doseq=True)
        try:
            return self._send(method, address, body)
        except ApiError as error:
            if error.status != 401:
                raise
        self.login()
        return self._send(method, address, body)

    # DAGs

    def dag(self, dag_id: str) -> Json | None:
        """Return the fields of a DAG; None if Airflow has no such DAG."""
        try:
            return self.get(f"/dags/{_quote(dag_id)}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def import_errors(self) -> dict[str, str]:
        """Return the DAG files that cannot be imported: file name to stack trace."""
        errors = self.get("/importErrors", limit=100)["import_errors"]
        return {error["filename"]: error["stack_trace"] for error in errors}

    def wait_for_dag(self, dag_id: str, timeout_s: float = 60.0) -> Json:
        """Wait until Airflow has a DAG, and return its fields.

        Raises:
            ApiError: a DAG file cannot be imported.
            WaitedTooLong: the DAG did not appear in time.
        """

        def look() -> Json | None:
            found = self.dag(dag_id)
            if found is None:
                self._raise_import_errors()
            return found

        return wait_until(look, f"DAG {dag_id} did not appear", timeout_s)

    def _raise_import_errors(self) -> None:
        for file, trace in self.import_errors().items():
            raise ApiError(f"{file} cannot be imported:\n{trace}")

    def is_paused(self, dag_id: str) -> bool:
        return bool(self.get(f"/dags/{_quote(dag_id)}")["is_paused"])

    def set_paused(self, dag_id: str, paused: bool) -> None:
        self.request("PATCH", f"/dags/{_quote(dag_id)}", {"is_paused": paused})

    def unpause(self, dag_id: str) -> None:
        self.set_paused(dag_id, False)

    # Runs

    def trigger(self, dag_id: str, conf: Json | None = None, run_id: str | None = None) -> str:
        """Start a run and return its id."""
        body: Json = {"logical_date": None, "conf": conf or {}}
        if run_id is not None:
            body["dag_run_id"] = run_id
        answer = self.request("POST", f"/dags/{_quote(dag_id)}/dagRuns", body)
        return str(answer["dag_run_id"])

    def run(self, dag_id: str, run_id: str) -> Json:
        """Return the fields of a run: its state, its conf, who started it."""
        return self.get(_run(dag_id, run_id))

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Return ``queued``, ``running``, ``success`` or ``failed``."""
        return str(self.run(dag_id, run_id)["state"])

    def wait_for_run(
        self,
        dag_id: str,
        run_id: str,
        timeout_s: float = 600.0,
        on_poll: Callable[[], None] | None = None,
    ) -> str:
        """Wait until a run has ended.

        Args:
            dag_id: the DAG.
            run_id: the run.
            timeout_s: the longest wait.
            on_poll: called after each request that finds the run still running.

        Returns:
            ``success`` or ``failed``.

        Raises:
            WaitedTooLong: the run did not end in time.
        """

        def look() -> str | None:
            state = self.run_state(dag_id, run_id)
            if state not in ENDED and on_poll is not None:
                on_poll()
            return state if state in ENDED else None

        return wait_until(look, f"run {run_id} of {dag_id} did not end", timeout_s)

    def end_run(self, dag_id: str, run_id: str, note: str) -> None:
        """Mark a run as failed, with its unfinished tasks; ``note`` is shown on its page."""
        self.request("PATCH", _run(dag_id, run_id), {"state": "failed", "note": note})

    def runs(self, dag_id: str, limit: int = 50) -> list[Json]:
        """Return the runs of a DAG, the newest first."""
        path = f"/dags/{_quote(dag_id)}/dagRuns"
        runs: list[Json] = self.get(path, limit=limit, order_by="-run_after")["dag_runs"]
        return runs

    def task_runs(self, dag_id: str, run_id: str) -> list[TaskRun]:
        """Return the tasks of a run in the order of their start; those not started come last."""
        answer = self.get(f"{_run(dag_id, run_id)}/taskInstances", limit=1000)
        tasks = [_task_run(fields) for fields in answer["task_instances"]]
        return sorted(tasks, key=lambda t: (t.started_at is None, str(t.started_at), t.task_id))

    def task_log(
        self, dag_id: str, run_id: str, task_id: str, try_number: int = 1, map_index: int = -1
    ) -> str:
        """Return the log of a task, one line for each event."""
        path = f"{_run(dag_id, run_id)}/taskInstances/{_quote(task_id)}/logs/{try_number}"
        answer = self.get(path, map_index=map_index, full_content="true")
        return "\n".join(_log_line(event) for event in answer["content"])

    def xcom(
        self, dag_id: str, run_id: str, task_id: str, key: str = "return_value", map_index: int = -1
    ) -> Any:
        """Return an XCom value of a task."""
        path = f"{_run(dag_id, run_id)}/taskInstances/{_quote(task_id)}/xcomEntries/{_quote(key)}"
        return self.get(path, map_index=map_index, deserialize="true")["value"]

    # Review

    def waiting_reviews(self, dag_id: str = "~") -> list[Json]:
        """Return the questions to people that have no answer yet."""
        path = f"/dags/{_quote(dag_id)}/dagRuns/~/hitlDetails"
        details: list[Json] = self.get(path, response_received="false")["hitl_details"]
        return details

    def answer_review(
        self,
        dag_id: str,
        run_id: str,
        task_id: str,
        option: str,
        params: Json | None = None,
        map_index: int = -1,
    ) -> Json:
        """Answer a question as the user of this client.

        Raises:
            ApiError: with status 409, the question already has an answer.
        """
        path = f"{_run(dag_id, run_id)}/taskInstances/{_quote(task_id)}/{map_index}/hitlDetails"
        body: Json = {"chosen_options": [option], "params_input": params or {}}
        return self.request("PATCH", path, body)

    def _send(self, method: str, address: str, body: Json | None = None) -> Json:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self._token is not None and address.startswith("/api/"):
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        # The constructor has checked the scheme.
        request = urllib.request.Request(  # noqa: S310
            self.base_url + address, data=data, headers=headers, method=method
        )
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                return _json(answer.read(), self.base_url)
        except urllib.error.HTTPError as error:
            raise _refusal(method, address, error) from error
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(f"{method} {self.base_url}{address}: no answer: {error}") from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, because a redirect would send the token to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _opener(base_url: str) -> urllib.request.OpenerDirector:
    """Return an opener; it uses no proxy for requests to this machine."""
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if is_this_machine(base_url):
        handlers.append(urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(*handlers)


def is_this_machine(base_url: str) -> bool:
    """Return whether the host of an address is this machine."""
    host = urllib.parse.urlsplit(base_url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _refusal(method: str, address: str, error: urllib.error.HTTPError) -> ApiError:
    detail = _detail(error.read().decode(errors="replace"))
    if 300 <= error.code < 400:
        detail = f"redirects to {error.headers.get('Location')}, which is not followed"
    message = f"{method} {address}: {error.code} {error.reason}: {detail}"
    return _kind(error.code, detail)(message, status=error.code, detail=detail)


def _kind(status: int, detail: str) -> type[ApiError]:
    """Return the class of an error: status 401 is an expired token, 403 may be an invalid one."""
    if status == 401 or (status == 403 and detail == BAD_TOKEN):
        return LoginRefused
    return NoRight if status == 403 else ApiError


def _detail(content: str) -> str:
    """Return the message of a refusal: the JSON field ``detail``, or the whole text."""
    try:
        detail = json.loads(content)["detail"]
    except (ValueError, KeyError, TypeError):
        detail = content
    return (detail if isinstance(detail, str) else json.dumps(detail))[:1000]


def wait_until(
    look: Callable[[], T | None], what: str, timeout_s: float, every_s: float = 1.0
) -> T:
    """Call ``look`` until it returns a value.

    Args:
        look: returns None as long as there is no value.
        what: the message of the error.
        timeout_s: the longest wait.
        every_s: the time between two calls.

    Returns:
        The value.

    Raises:
        WaitedTooLong: there was no value in time.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        found = look()
        if found is not None:
            return found
        if time.monotonic() >= deadline:
            raise WaitedTooLong(f"{what} within {timeout_s:.0f} s")
        time.sleep(min(every_s, max(0.0, deadline - time.monotonic())))


def _json(content: bytes, base_url: str) -> Json:
    try:
        value = json.loads(content) if content.strip() else {}
    except ValueError as error:
        raise NoAnswer(f"what answers at {base_url} is not Airflow's API: {error}") from error
    return value if isinstance(value, dict) else {"value": value}


def _quote(part: str) -> str:
    return urllib.parse.quote(part, safe="~")


def _run(dag_id: str, run_id: str) -> str:
    return f"/dags/{_quote(dag_id)}/dagRuns/{_quote(run_id)}"


def _task_run(fields: Json) -> TaskRun:
    return TaskRun(
        task_id=fields["task_id"],
        map_index=fields["map_index"],
        state=fields["state"],
        try_number=fields["try_number"],
        started_at=_time(fields["start_date"]),
        ended_at=_time(fields["end_date"]),
    )


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))


def _log_line(event: Any) -> str:
    """Return the text of an event, followed by its exceptions."""
    if not isinstance(event, dict):
        return str(event)
    raised = [f"{e.get('exc_type')}: {e.get('exc_value')}" for e in event.get("error_detail") or []]
    return ": ".join([str(event.get("event", event)), *raised])
