"""A small client of Airflow's REST API: what the command line, the demonstration and tests need."""

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
BAD_TOKEN = "Invalid JWT token"  # noqa: S105 - what Airflow says of one


@dataclass(frozen=True)
class TaskRun:
    """One task of a run as Airflow reports it; ``seconds`` is ``None`` until it has ended."""

    task_id: str
    map_index: int
    state: str | None
    try_number: int
    started_at: datetime | None
    ended_at: datetime | None

    @property
    def seconds(self) -> float | None:
        if self.started_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.started_at).total_seconds()


class AirflowClient:
    """Talks to one Airflow as one user, by a token or by a password.

    With a password the token is fetched when first needed, and again when it has expired.
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
        """Fetch a token; raises ``LoginRefused`` when the login is wrong."""
        if self._password is None:
            raise LoginRefused(f"{self.base_url} does not accept the token", status=401)
        answer = self._send(
            "POST", "/auth/token", {"username": self.username, "password": self._password}
        )
        self._token = str(answer["access_token"])

    def health(self) -> Json:
        """Status of the database, the scheduler and the DAG processor; needs no login."""
        return self._send("GET", "/api/v2/monitor/health")

    def get(self, path: str, **query: Any) -> Json:
        """GET below ``/api/v2``; ``path`` starts with a slash."""
        return self.request("GET", path, query=query)

    def request(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> Json:
        """Any request below ``/api/v2``; logs in first, and again when the token has expired."""
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
        """What Airflow knows about a DAG, or ``None`` if it knows none of that name."""
        try:
            return self.get(f"/dags/{_quote(dag_id)}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def dag_ids(self) -> list[str]:
        """Names of all DAGs, in order."""
        return sorted(dag["dag_id"] for dag in self.get("/dags", limit=1000)["dags"])

    def import_errors(self) -> dict[str, str]:
        """DAG files that could not be read: file name to stack trace."""
        errors = self.get("/importErrors", limit=100)["import_errors"]
        return {error["filename"]: error["stack_trace"] for error in errors}

    def wait_for_dag(self, dag_id: str, timeout_s: float = 60.0) -> Json:
        """Wait until the DAG processor has found a DAG; an import error is told at once."""

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
        """What Airflow knows about a run: its state, its conf, who started it."""
        return self.get(_run(dag_id, run_id))

    def run_state(self, dag_id: str, run_id: str) -> str:
        """``queued``, ``running``, ``success`` or ``failed``."""
        return str(self.run(dag_id, run_id)["state"])

    def wait_for_run(
        self,
        dag_id: str,
        run_id: str,
        timeout_s: float = 600.0,
        on_poll: Callable[[], None] | None = None,
    ) -> str:
        """Wait until a run has ended and return its state; ``on_poll`` is called between looks."""

        def look() -> str | None:
            state = self.run_state(dag_id, run_id)
            if state not in ENDED and on_poll is not None:
                on_poll()
            return state if state in ENDED else None

        return wait_until(look, f"run {run_id} of {dag_id} did not end", timeout_s)

    def end_run(self, dag_id: str, run_id: str, note: str) -> None:
        """End a run that nobody waits for any more: what still runs of it is marked as failed."""
        self.request("PATCH", _run(dag_id, run_id), {"state": "failed", "note": note})

    def runs(self, dag_id: str, limit: int = 50) -> list[Json]:
        """Runs of a DAG, the newest first."""
        path = f"/dags/{_quote(dag_id)}/dagRuns"
        runs: list[Json] = self.get(path, limit=limit, order_by="-run_after")["dag_runs"]
        return runs

    def task_runs(self, dag_id: str, run_id: str) -> list[TaskRun]:
        """Tasks of a run in the order they started, those that have not started last."""
        answer = self.get(f"{_run(dag_id, run_id)}/taskInstances", limit=1000)
        tasks = [_task_run(fields) for fields in answer["task_instances"]]
        return sorted(tasks, key=lambda t: (t.started_at is None, str(t.started_at), t.task_id))

    def task_log(
        self, dag_id: str, run_id: str, task_id: str, try_number: int = 1, map_index: int = -1
    ) -> str:
        """What a task printed, one line per event."""
        path = f"{_run(dag_id, run_id)}/taskInstances/{_quote(task_id)}/logs/{try_number}"
        answer = self.get(path, map_index=map_index, full_content="true")
        return "\n".join(_log_line(event) for event in answer["content"])

    def xcom(
        self, dag_id: str, run_id: str, task_id: str, key: str = "return_value", map_index: int = -1
    ) -> Any:
        """A value that a task handed on."""
        path = f"{_run(dag_id, run_id)}/taskInstances/{_quote(task_id)}/xcomEntries/{_quote(key)}"
        return self.get(path, map_index=map_index, deserialize="true")["value"]

    # Review

    def waiting_reviews(self, dag_id: str = "~") -> list[Json]:
        """Questions to a person that have no answer yet."""
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
        """Answer a question as this client's user; ``ApiError`` 409 if someone already has."""
        path = f"{_run(dag_id, run_id)}/taskInstances/{_quote(task_id)}/{map_index}/hitlDetails"
        body: Json = {"chosen_options": [option], "params_input": params or {}}
        return self.request("PATCH", path, body)

    def _send(self, method: str, address: str, body: Json | None = None) -> Json:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self._token is not None and address.startswith("/api/"):
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        # The scheme was checked when the client was made.
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
    """A redirect would carry the token to whatever host it names."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _opener(base_url: str) -> urllib.request.OpenerDirector:
    """A proxy of the environment must not see requests to this machine."""
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if is_this_machine(base_url):
        handlers.append(urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(*handlers)


def is_this_machine(base_url: str) -> bool:
    """Whether the address is one of the loopback interface."""
    host = urllib.parse.urlsplit(base_url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _refusal(method: str, address: str, error: urllib.error.HTTPError) -> ApiError:
    detail = _detail(error.read().decode(errors="replace"))
    if 300 <= error.code < 400:
        detail = f"redirects to {error.headers.get('Location')}, which is not followed"
    message = f"{method} {address}: {error.code} {error.reason}: {detail}"
    return _kind(error.code, detail)(message, status=error.code, detail=detail)


def _kind(status: int, detail: str) -> type[ApiError]:
    """Airflow answers 401 to a token that has expired, and 403 to one that is none."""
    if status == 401 or (status == 403 and detail == BAD_TOKEN):
        return LoginRefused
    return NoRight if status == 403 else ApiError


def _detail(content: str) -> str:
    """What Airflow says of a refusal, out of its envelope where it is in one."""
    try:
        said = json.loads(content)["detail"]
    except (ValueError, KeyError, TypeError):
        said = content
    return (said if isinstance(said, str) else json.dumps(said))[:1000]


def wait_until(
    look: Callable[[], T | None], what: str, timeout_s: float, every_s: float = 1.0
) -> T:
    """Look every so often until there is something; ``WaitedTooLong`` if not in time."""
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
    """The text of an event; an exception stands beside it."""
    if not isinstance(event, dict):
        return str(event)
    raised = [f"{e.get('exc_type')}: {e.get('exc_value')}" for e in event.get("error_detail") or []]
    return ": ".join([str(event.get("event", event)), *raised])
