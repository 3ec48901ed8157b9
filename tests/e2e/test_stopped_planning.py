"""Three broken promises stop planning on a real Airflow, and a person on the page resumes it.

The tests follow one job and depend on their order: its run stops planning and sends notices, a
viewer may not resume it, an administrator resumes it, and that run plans again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from ballast.airflow.rest import AirflowClient, wait_until
from ballast.cli.main import main as ballast
from ballast.contracts.records import Head, LogEntry
from ballast.contracts.settings import Settings, load_settings
from ballast.store.plans import read_head, read_log, read_plans
from ballast.store.table_schema import ensure_tables
from embedded.airflow import ADMIN, EmbeddedAirflow
from spark_jobs.publication.publisher import publish_plan
from tests.support.http_script import Script
from tests.support.limits import limit_ms, limit_s
from tests.support.live_job import windows_that_do_not_fit
from tests.support.outcomes import outcome, write_outcomes
from tests.support.policies import small_policy, write_policy
from tests.support.review_stack import (
    PASSWORD,
    VIEWER,
    chromium_browser,
    launched_airflow,
    notice_webhook,
    picture,
)
from tests.support.snapshots import uneven, write_draft
from tools.screenshots import log_in

JOB = "parcels"
DAG = f"reoptimize__{JOB}"
# Windows long enough to stay fresh during two runs on a busy machine.
POLICY = small_policy(
    JOB, operators={"parse": 6, "count": 6}, nodes=3, window_s=600, statistics_period_s=3600
)
WHY = "the node is on its own machine again"
PATIENCE_MS = limit_ms(30)
pytestmark = pytest.mark.timeout(limit_s(600))


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Version 3 in force with windows that break its promise, after two broken promises."""
    home = tmp_path_factory.mktemp("stopped")
    made = load_settings({"BALLAST_HOME": str(home), "BALLAST_POLICIES": str(home / "policies")})
    ensure_tables(made)
    write_policy(made.policies, POLICY)
    heads = [published(made, version) for version in (1, 2, 3)]
    write_outcomes(
        made,
        [outcome(head.version, "above", plan_id=head.plan_id) for head in heads[:2]],
        JOB,
    )
    windows_that_do_not_fit(made, POLICY, heads[-1])
    return made


def published(settings: Settings, version: int) -> Head:
    """The next version of the job, with a plan that contains the noise of its loads."""
    at = datetime.now(UTC) - timedelta(hours=6 - version)
    run_id = f"manual__{version}"
    write_draft(
        settings, POLICY, run_id, placement=uneven(POLICY, extra=1 + version % 2),
        head=read_head(settings, JOB), at=at, seconds=0.2, noise_pct=2.0,
    )  # fmt: skip
    head = publish_plan(settings, JOB, run_id, now=at)
    assert head is not None
    assert head.version == version
    return head


@pytest.fixture(scope="module")
def webhook() -> Iterator[Script]:
    """The webhook that gets the notices of plans."""
    with notice_webhook() as made:
        yield made


@pytest.fixture(scope="module")
def stack(settings: Settings, webhook: Script) -> Iterator[EmbeddedAirflow]:
    with launched_airflow(settings, webhook, schedules=False) as made:
        client = made.client()
        client.wait_for_dag(DAG, limit_s(60))
        client.unpause(DAG)
        yield made


@pytest.fixture
def client(stack: EmbeddedAirflow) -> AirflowClient:
    return stack.client()


@pytest.fixture(scope="module")
def stopped(stack: EmbeddedAirflow) -> str:
    """The run that detects the third broken promise in a row."""
    client = stack.client()
    run_id = client.trigger(DAG)
    assert client.wait_for_run(DAG, run_id, timeout_s=limit_s(400)) == "success"
    return run_id


@pytest.fixture
def command_line(
    stack: EmbeddedAirflow, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line's environment, as the administrator."""
    environment = {
        "BALLAST_AIRFLOW_URL": stack.url, "BALLAST_AIRFLOW_USER": ADMIN,
        "BALLAST_AIRFLOW_PASSWORD": stack.admin_password, "BALLAST_HOME": str(settings.home),
        "BALLAST_POLICIES": str(settings.policies),
    }  # fmt: skip
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for name in ("BALLAST_WAREHOUSE", "BALLAST_AIRFLOW_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium_browser() as made:
        yield made


@pytest.fixture(scope="module")
def page(browser: Browser, stack: EmbeddedAirflow) -> Page:
    """Logged in as the administrator."""
    expect.set_options(timeout=PATIENCE_MS)
    made = browser.new_page(viewport={"width": 1366, "height": 768})
    made.set_default_timeout(PATIENCE_MS)
    log_in(made, stack.url, stack.admin_password)
    return made


def states(client: AirflowClient, run_id: str) -> dict[str, str | None]:
    return {task.task_id: task.state for task in client.task_runs(DAG, run_id)}


def planning_log(settings: Settings) -> list[LogEntry]:
    return [entry for entry in read_log(settings, JOB) if entry.event.startswith("planning_")]


def notices(webhook: Script, count: int) -> dict[str, dict[str, Any]]:
    """Notices by their kind, after this number has arrived; a task's callbacks run after its
    end."""
    wait_until(lambda: len(webhook.seen) >= count or None, "too few notices came", limit_s(60))
    assert len(webhook.seen) == count
    return {body["kind"]: body for _, _, body in webhook.seen}


def test_the_run_succeeds_without_a_plan_and_says_why(
    client: AirflowClient, settings: Settings, stopped: str, webhook: Script
) -> None:
    assert states(client, stopped) == {
        "measure": "success", "condense": "success", "solve": "skipped", "publish": "skipped",
        "ask": "skipped",
    }  # fmt: skip
    assert client.xcom(DAG, stopped, "measure")["planning"] == "planning_stopped"
    (stop,) = planning_log(settings)
    assert (stop.event, stop.version, stop.run_id) == ("planning_stopped", 3, stopped)
    assert "3 plans in a row was outside of the promised interval" in stop.reason
    assert "most likely reason: node node-0 is slower than its capacity says" in stop.reason
    assert "planning is stopped since" in client.task_log(DAG, stopped, "solve")
    assert [plan for plan in read_plans(settings, JOB) if plan.run_id == stopped] == []
    sent = notices(webhook, 2)
    assert set(sent) == {"promise_broken", "planning_stopped"}
    assert stop.reason in sent["planning_stopped"]["text"]


@pytest.mark.usefixtures("command_line", "stopped")
def test_status_says_that_planning_is_stopped(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ballast(["status", JOB, "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["planning"] == "stopped"
    assert status["planning_reason"] == planning_log(settings)[0].reason
    assert status["broken_promises_in_a_row"] == 3


def test_the_page_says_that_planning_is_stopped(
    page: Page, stack: EmbeddedAirflow, stopped: str
) -> None:
    page.goto(f"{stack.url}/ballast/")
    expect(page.get_by_role("row").filter(has_text=JOB)).to_contain_text("planning stopped")
    picture(page, "planning-stopped-list", whole=True)
    page.goto(f"{stack.url}/ballast/?job={JOB}")
    expect(page.get_by_role("heading", name="Planning is stopped since")).to_be_visible()
    expect(page.get_by_text("node node-0 is slower than its capacity says").first).to_be_visible()
    picture(page, "planning-stopped", whole=True)
    page.goto(f"{stack.url}/ballast/?dag={DAG}&run={stopped}")
    expect(page.get_by_role("heading", name="This run made no plan")).to_be_visible()
    expect(page.get_by_role("heading", name="Planning is stopped since")).to_be_visible()


@pytest.mark.usefixtures("command_line", "stopped")
def test_a_viewer_may_not_resume_planning(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BALLAST_AIRFLOW_USER", VIEWER)
    monkeypatch.setenv("BALLAST_AIRFLOW_PASSWORD", PASSWORD)
    assert ballast(["resume", JOB, "--reason", "mine"]) == 22
    assert "cannot resume planning" in capsys.readouterr().err
    assert len(planning_log(settings)) == 1


@pytest.mark.usefixtures("command_line")
def test_a_person_resumes_planning_on_the_page_and_that_run_plans(
    page: Page,
    stack: EmbeddedAirflow,
    client: AirflowClient,
    settings: Settings,
    stopped: str,
    webhook: Script,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page.goto(f"{stack.url}/ballast/?job={JOB}")
    page.get_by_role("button", name="Resume planning").click()
    dialog = page.get_by_role("dialog")
    dialog.locator("input[name=reason]").fill(WHY)
    dialog.get_by_role("button", name="Resume planning").click()
    expect(page.locator("#notice")).to_contain_text("that resumes planning")
    (run,) = [run for run in client.runs(DAG) if run["dag_run_id"] != stopped]
    assert run["conf"] == {"resume": WHY}
    run_id = run["dag_run_id"]
    assert client.wait_for_run(DAG, run_id, timeout_s=limit_s(400)) == "success"
    assert states(client, run_id)["solve"] == "success"
    resumed = planning_log(settings)[-1]
    assert (resumed.event, resumed.actor, resumed.reason, resumed.version) == (
        "planning_resumed", ADMIN, WHY, 3)  # fmt: skip
    assert len(planning_log(settings)) == 2
    head = read_head(settings, JOB)
    assert head is not None
    assert (head.version, head.run_id) == (4, run_id)
    sent = notices(webhook, 4)
    assert WHY in sent["planning_resumed"]["text"]
    assert sent["published"]["run_id"] == run_id
    page.goto(f"{stack.url}/ballast/?job={JOB}")
    expect(page.get_by_role("heading", name=JOB, exact=True)).to_be_visible()
    expect(page.get_by_role("heading", name="Planning is stopped since")).to_have_count(0)
    assert ballast(["resume", JOB, "--reason", "once more"]) == 2
    assert "is not stopped" in capsys.readouterr().err
