"""A real embedded Airflow runs a DAG, uses its own folder only, and leaves no process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from ballast.airflow.rest import AirflowClient
from ballast.cli.main import main as ballast
from ballast.contracts.records import Draft, Head
from ballast.contracts.settings import Settings, load_settings
from ballast.store.plans import read_head
from embedded.airflow import ADMIN, ROOT, EmbeddedAirflow
from embedded.errors import AlreadyRunning, ApiError, PreflightFailed
from embedded.processes import is_alive, marked_processes
from tests.support import reviews
from tests.support.limits import limit_s
from tests.support.live_job import first_version
from tests.support.ports import free_port

TINY_DAG = """
from airflow.sdk import dag, task


@dag(dag_id="tiny", schedule=None)
def tiny():
    @task
    def first(params=None):
        return 41

    @task
    def second(number: int, **context):
        return number + context["dag_run"].conf["add"]

    second(first())


tiny()
"""
# The parts of a job's DAGs that a client uses: names, Params, the question to a person.
JOB_DAGS = """
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param, task


def dag(kind, **params):
    return DAG(f"{kind}__tiny", schedule=None, is_paused_upon_creation=False, params=params)


with dag("reoptimize", budget_moves=Param(5, type="integer", minimum=0)):

    @task
    def solve():
        raise ValueError("no node is alive")

    solve()

with dag("review", plan_id=Param("none", type="string")):
    ApprovalOperator(
        task_id="approve", subject="Plan {{ params.plan_id }}", body="moves 3 key groups",
        params={"reason": Param("", type="string")},
    )

with dag(
    "rollback", version=Param(1, type="integer"), reason=Param("", type="string"),
    force_nodes=Param(False, type="boolean"),
):

    @task
    def rollback(params=None):
        return dict(params)

    rollback()
"""
SUPERVISOR = """
import sys
from pathlib import Path
from embedded.airflow import EmbeddedAirflow
from embedded.processes import ending_signals_raise

home, port, dags = sys.argv[1:]
with ending_signals_raise(), EmbeddedAirflow(Path(home), int(port), dags=Path(dags)):
    print("up", flush=True)
    import time
    time.sleep(600)
"""


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether the condition becomes true; a quiet machine needs at most ``seconds``."""
    deadline = time.monotonic() + limit_s(seconds)
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)
    return condition()


REVIEWED = [
    reviews.person_policy("rejected"),
    reviews.person_policy("unanswered", timeout_s=1),
    reviews.person_policy("changed"),
    reviews.person_policy("overtaken"),
]


@pytest.fixture(scope="module")
def dags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's own DAGs, and a small one."""
    folder = tmp_path_factory.mktemp("dags")
    for file in (ROOT / "dags").glob("*.py"):
        shutil.copy(file, folder)
    (folder / "tiny.py").write_text(TINY_DAG)
    (folder / "job_dags.py").write_text(JOB_DAGS)
    return folder


@pytest.fixture(scope="module")
def ballast_env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A warehouse and policies of the stack's own."""
    home = tmp_path_factory.mktemp("ballast")
    reviews.write_policies(home / "policies", REVIEWED)
    return {
        "BALLAST_HOME": str(home),
        "BALLAST_POLICIES": str(home / "policies"),
        "BALLAST_JARS": str(ROOT / ".ballast" / "jars"),
        "BALLAST_SCHEDULES": "off",
    }


@pytest.fixture
def settings(ballast_env: dict[str, str]) -> Settings:
    return load_settings(ballast_env)


@pytest.fixture(scope="module")
def prepared_home(tmp_path_factory: pytest.TempPathFactory, dags: Path) -> Path:
    """A home with a migrated database, which tests copy, because migrating takes longest."""
    home = tmp_path_factory.mktemp("prepared") / "home"
    stack = EmbeddedAirflow(home, free_port(), dags=dags)
    stack.prepare()
    stack.stop()
    return home


@pytest.fixture
def home(prepared_home: Path, tmp_path: Path) -> Iterator[Path]:
    copy = tmp_path / "home"
    shutil.copytree(prepared_home, copy)
    yield copy
    for process in marked_processes(str(copy)):
        process.kill()


@pytest.fixture(scope="module")
def stack(
    prepared_home: Path,
    tmp_path_factory: pytest.TempPathFactory,
    dags: Path,
    ballast_env: dict[str, str],
) -> Iterator[EmbeddedAirflow]:
    home = tmp_path_factory.mktemp("running") / "home"
    shutil.copytree(prepared_home, home)
    with EmbeddedAirflow(home, free_port(), dags=dags, env=ballast_env) as running:
        yield running


@pytest.fixture
def client(stack: EmbeddedAirflow) -> AirflowClient:
    return stack.client()


def supervisor(home: Path, dags: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", SUPERVISOR, str(home), str(free_port()), str(dags)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def test_a_triggered_run_reaches_success_and_reports_its_tasks(client: AirflowClient) -> None:
    client.wait_for_dag("tiny", limit_s(60))
    assert client.is_paused("tiny")
    client.unpause("tiny")
    run_id = client.trigger("tiny", conf={"add": 1})
    assert client.wait_for_run("tiny", run_id, timeout_s=limit_s(90)) == "success"
    tasks = client.task_runs("tiny", run_id)
    assert [task.task_id for task in tasks] == ["first", "second"]
    assert all(task.state == "success" and task.seconds is not None for task in tasks)
    assert client.xcom("tiny", run_id, "second") == 42
    assert client.import_errors() == {}


@pytest.fixture
def as_admin(
    stack: EmbeddedAirflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AirflowClient:
    """The command line's environment, with a warehouse that the command line cannot read."""
    for name, value in {"URL": stack.url, "USER": ADMIN, "PASSWORD": stack.admin_password}.items():
        monkeypatch.setenv(f"BALLAST_AIRFLOW_{name}", value)
    monkeypatch.setenv("BALLAST_HOME", str(tmp_path))
    return stack.client()


def test_the_command_line_rolls_back_and_shows_why_a_run_failed(
    as_admin: AirflowClient, capsys: pytest.CaptureFixture[str]
) -> None:
    as_admin.wait_for_dag("rollback__tiny", limit_s(60))
    assert ballast(["rollback", "tiny", "3", "--reason", "too slow", "--wait", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["state"] == "success"
    done = as_admin.xcom("rollback__tiny", printed["run_id"], "rollback")
    assert done == {"version": 3, "reason": "too slow", "force_nodes": False}
    assert ballast(["trigger", "tiny", "--budget-moves", "7", "--wait"]) == 25
    assert "task solve; end of its log:" in (error := capsys.readouterr().err)
    assert "no node is alive" in error


def states(client: AirflowClient, dag_id: str, run_id: str) -> list[str | None]:
    return [task.state for task in client.task_runs(dag_id, run_id)]


def test_the_command_line_answers_a_question_once(
    as_admin: AirflowClient, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_admin.wait_for_dag("review__tiny", limit_s(60))
    assert ballast(["approve", "tiny"]) == 24
    run_id = as_admin.trigger("review__tiny", {"plan_id": "p1"})
    assert wait_for(lambda: "awaiting_input" in states(as_admin, "review__tiny", run_id), 60)
    capsys.readouterr()
    as_admin.login()
    monkeypatch.setenv("BALLAST_AIRFLOW_TOKEN", str(as_admin._token))
    assert ballast(["approve", "tiny", "--show"]) == 0
    assert "moves 3 key groups" in capsys.readouterr().out
    assert ballast(["approve", "tiny", "p2"]) == 24
    assert ballast(["approve", "tiny", "p1", "--reason", "fine", "--wait"]) == 0
    answer = as_admin.xcom("review__tiny", run_id, "approve")
    assert (answer["chosen_options"], answer["params_input"]) == (["Approve"], {"reason": "fine"})
    assert ballast(["approve", "tiny", "p1"]) == 24


def test_the_command_line_says_what_airflow_refuses(
    as_admin: AirflowClient, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_admin.wait_for_dag("reoptimize__tiny", limit_s(60))
    assert ballast(["trigger", "tiny", "--budget-moves", "-1"]) == 2
    assert "budget_moves" in capsys.readouterr().err
    assert ballast(["trigger", "nobody"]) == 23
    as_admin.set_paused("reoptimize__tiny", True)
    assert ballast(["trigger", "tiny"]) == 23
    as_admin.unpause("reoptimize__tiny")
    monkeypatch.setenv("BALLAST_AIRFLOW_PASSWORD", "not the password")
    assert ballast(["trigger", "tiny"]) == 21
    monkeypatch.setenv("BALLAST_AIRFLOW_TOKEN", "no.such.token")
    assert ballast(["trigger", "tiny"]) == 21


@dataclass(frozen=True)
class Asked:
    """A review: the version in force, the plan in question, and the run."""

    old: Head
    draft: Draft
    run_id: str


@pytest.fixture(scope="module")
def asked(stack: EmbeddedAirflow, ballast_env: dict[str, str]) -> dict[str, Asked]:
    """Reviews of several jobs, all started at once, because each takes time."""
    settings, client = load_settings(ballast_env), stack.client()
    found = {}
    for policy in REVIEWED:
        old = first_version(settings, policy)
        draft = reviews.drafted(settings, policy, old)
        found[policy.job] = Asked(old, draft, reviews.ask(client, draft))
    return found


def test_a_no_or_no_answer_leaves_the_old_plan_in_force(
    client: AirflowClient, settings: Settings, asked: dict[str, Asked]
) -> None:
    reviews.answer(client, "rejected", asked["rejected"].run_id, "Reject")
    for job, event, actor in (
        ("rejected", "rejected", ADMIN), ("unanswered", "timed_out", "nobody"),
    ):  # fmt: skip
        done = client.wait_for_run(f"review__{job}", asked[job].run_id, timeout_s=limit_s(120))
        assert done == "success"
        assert read_head(settings, job) == asked[job].old
        assert [who for who, _ in reviews.said(settings, job, event)] == [actor]


def test_an_approved_plan_is_refused_if_its_rows_changed_or_another_version_came_meanwhile(
    client: AirflowClient, settings: Settings, asked: dict[str, Asked]
) -> None:
    changed, overtaken = asked["changed"], asked["overtaken"]
    for review in (changed, overtaken):
        reviews.wait_for_question(client, review.draft.job, review.run_id)
    reviews.change_by_hand(settings, changed.draft)
    newer = reviews.overtake(settings, overtaken.old)
    for review, error in ((changed, "VerificationFailed: "), (overtaken, "PlanStale: ")):
        job = review.draft.job
        reviews.answer(client, job, review.run_id, "Approve")
        assert (
            client.wait_for_run(f"review__{job}", review.run_id, timeout_s=limit_s(120)) == "failed"
        )
        refusal = client.xcom(f"review__{job}", review.run_id, "publish", "refusal")
        assert refusal.startswith(error)
    assert read_head(settings, "changed") == changed.old
    assert read_head(settings, "overtaken") == newer


def test_only_the_one_loopback_port_is_open(stack: EmbeddedAirflow) -> None:
    listening = {
        tuple(connection.laddr)
        for process in marked_processes(str(stack.home))
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {("127.0.0.1", stack.port)}


def test_a_wrong_password_is_refused(stack: EmbeddedAirflow) -> None:
    with pytest.raises(ApiError) as refused:
        AirflowClient(stack.url, ADMIN, "not the password").login()
    assert refused.value.status == 401


def test_a_request_without_login_is_refused(stack: EmbeddedAirflow) -> None:
    answer = AirflowClient(stack.url, ADMIN, "")
    with pytest.raises(ApiError) as refused:
        answer._send("GET", "/api/v2/dags")
    assert refused.value.status == 401


def test_secrets_are_readable_by_their_owner_alone(stack: EmbeddedAirflow) -> None:
    for name in ("secrets.json", "passwords.json"):
        assert (stack.home / name).stat().st_mode & 0o777 == 0o600


def test_a_second_stack_in_the_same_home_is_refused(stack: EmbeddedAirflow, dags: Path) -> None:
    with pytest.raises(AlreadyRunning, match=f"process {os.getpid()}"):
        EmbeddedAirflow(stack.home, free_port(), dags=dags).start()
    stack.check_alive()


def test_a_port_in_use_is_named_with_the_variable_to_change(
    stack: EmbeddedAirflow, home: Path, dags: Path
) -> None:
    with pytest.raises(PreflightFailed, match=rf"port {stack.port} is in use.*BALLAST_PORT="):
        EmbeddedAirflow(home, stack.port, dags=dags).start()
    assert marked_processes(str(home)) == []


def test_a_run_whose_supervisor_was_killed_is_cleared_away_by_the_next(
    home: Path, dags: Path
) -> None:
    killed = supervisor(home, dags)
    assert wait_for(lambda: len(marked_processes(str(home))) >= 3, 30)
    killed.kill()
    killed.wait()
    # Its children are told to end when it dies; the next start stops those that are slow to do so.
    successor = EmbeddedAirflow(home, free_port(), dags=dags)
    successor.prepare()
    assert marked_processes(str(home)) == []
    successor.stop()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_when_the_supervisor_is_asked_to_end(
    home: Path, dags: Path, number: signal.Signals
) -> None:
    asked = supervisor(home, dags)
    assert wait_for(lambda: len(marked_processes(str(home))) >= 3, 30)
    asked.send_signal(number)
    assert asked.wait(timeout=limit_s(40)) == 128 + number
    assert marked_processes(str(home)) == []
    assert list((home / "run").glob("*.json")) == []


def test_nothing_is_left_after_stop(stack: EmbeddedAirflow) -> None:
    before = marked_processes(str(stack.home))
    stack.stop()
    assert before
    assert [process for process in before if is_alive(process)] == []
    with pytest.raises(ApiError):
        stack.client().health()
