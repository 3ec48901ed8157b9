"""The review page as a person uses it: a browser on the embedded stack, logged in by password.

Screenshots go to ``.ballast/screenshots``, so that they can be looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from playwright.sync_api import Browser, ConsoleMessage, FrameLocator, Page, expect, sync_playwright

from ballast.contracts.settings import Settings, load_settings
from ballast.store.kept import Shelf
from ballast.store.review import Life
from ballast.store.tables import append
from bench.review_page.warehouse import START, World, ids_of, job_policy, write_job
from embedded.airflow import ADMIN, EmbeddedAirflow
from embedded.processes import write_private
from embedded.rest import wait_until
from tests.e2e.test_embedded_airflow import free_port
from tests.support.policies import write_policy
from tests.support.reviews import waiting_question
from tools.browser import ADVICE, FLAGS, ensure_chromium
from tools.screenshots import log_in

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / ".ballast" / "screenshots"
LAPTOP = {"width": 1366, "height": 768}
JOB = "clicks"
VERSIONS = 12
VIEWER, PASSWORD = "vera", "only for this test"
DRAFT, CONTENT = "d" * 16, "c" * 64
NASTY = "<img src=x onerror=alert(1)><b>bold</b>"
SILENT = "node-03 is silent since 05:58:20, 3 of 12 windows; the gate opens at 06:01:25"
# A review as the pipeline makes one: a run that waits at its task `approve`.
DAGS = """
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param, task

with DAG("review__clicks", schedule=None) as review:
    ApprovalOperator(
        task_id="approve", subject="Plan of clicks: 8 moves", body="Look first.",
        params={"reason": Param("", type="string")},
    )

with DAG(
    "rollback__clicks",
    schedule=None,
    params={
        "version": Param(None, type=["null", "integer"]),
        "reason": Param("", type="string"),
        "force_nodes": Param(False, type="boolean"),
    },
) as rollback:
    @task
    def said(params=None):
        return params

    said()

dry_run = {"dry_run": Param(False, type="boolean")}
with DAG("reoptimize__clicks", schedule=None, params=dry_run) as again:
    @task
    def nothing():
        pass

    nothing()
"""
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    home = tmp_path_factory.mktemp("browser")
    made = load_settings({"BALLAST_HOME": str(home), "BALLAST_POLICIES": str(home / "policies")})
    world = World(job_policy(JOB, 3, 40, 6), per_version=8)
    write_job(made, world, VERSIONS)
    write_policy(made.policies, world.policy)
    write_policy(made.policies, job_policy("orders", 1, 4, 2))
    append(made, "plans.log", [refusal(JOB, "system", SILENT), refusal("orders", NASTY, NASTY)])
    write_draft(made)
    return made


def refusal(job: str, actor: str, reason: str) -> dict[str, Any]:
    return {
        "job": job, "at": START, "event": "gate_failed", "version": None, "plan_id": None,
        "run_id": f"run of {actor}", "actor": actor, "reason": reason,
    }  # fmt: skip


def write_draft(settings: Settings) -> None:
    """A plan that waits: the newest version's once more, by another run."""
    shelf, newest = Shelf(settings), ids_of(JOB, VERSIONS)[2]
    changed = {"plan_id": DRAFT, "run_id": "manual__draft", "content_hash": CONTENT}
    for table in ("plans.plans", "plans.assignments"):
        rows = shelf.read(table, JOB, [("plan_id", "=", newest)]).to_pylist()
        append(settings, table, [{**row, **changed} for row in rows])


@pytest.fixture(scope="module")
def stack(settings: Settings) -> Iterator[EmbeddedAirflow]:
    dags = settings.home / "dags"
    dags.mkdir()
    (dags / "clicks.py").write_text(DAGS)
    env = {
        "BALLAST_HOME": str(settings.home),
        "BALLAST_POLICIES": str(settings.policies),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{ADMIN}:admin,{VIEWER}:viewer",
    }
    made = EmbeddedAirflow(settings.home / "airflow", free_port(), dags=dags, env=env)
    made.prepare()
    write_private(made.passwords_file, json.dumps({ADMIN: made.admin_password, VIEWER: PASSWORD}))
    made.launch()
    try:
        client = made.client()
        for dag in ("reoptimize", "review", "rollback"):
            client.wait_for_dag(f"{dag}__{JOB}")
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = ensure_chromium()
    if chromium is None:
        pytest.fail(f"there is no Chromium; {ADVICE}")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS), headless=True)
        yield made
        made.close()


@pytest.fixture(scope="module")
def page(browser: Browser, stack: EmbeddedAirflow) -> Page:
    """Logged in; what the browser complains of is collected."""
    made = browser.new_page(viewport=LAPTOP)
    made.complaints = []  # type: ignore[attr-defined]
    made.on("console", lambda said: made.complaints.append(said.text) if is_ours(said) else None)
    made.on("dialog", lambda dialog: made.complaints.append(dialog.message))
    log_in(made, stack.url, stack.admin_password)
    return made


def is_ours(said: ConsoleMessage) -> bool:
    """An error of our page; that a DAG does not exist is asked of Airflow, which answers 404."""
    asked = "/api/v2/" in said.location["url"]
    return said.type == "error" and "/ballast/" in said.location["url"] and not asked


def token_of(stack: EmbeddedAirflow, user: str, password: str) -> str:
    login = {"username": user, "password": password}
    answer = requests.post(f"{stack.url}/auth/token", json=login, timeout=30)
    return str(answer.json()["access_token"])


def frame(page: Page) -> FrameLocator:
    return page.frame_locator("iframe")


def picture(page: Page, name: str, *, whole: bool = False) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(PICTURES / f"{name}.png"), full_page=whole)


def test_the_page_is_in_the_navigation_and_shows_the_jobs(
    page: Page, stack: EmbeddedAirflow
) -> None:
    page.goto(stack.url)
    page.get_by_role("link", name="Ballast").first.click()
    inside = frame(page)
    expect(inside.get_by_role("heading", name="Streaming jobs")).to_be_visible()
    row = inside.get_by_role("row").filter(has=inside.get_by_role("link", name=JOB, exact=True))
    expect(row).to_contain_text(str(VERSIONS))
    expect(row).to_contain_text("node-03 is silent")
    picture(page, "jobs-in-airflow")
    inside.get_by_role("link", name="orders", exact=True).click()
    expect(inside.get_by_role("heading", name="No plan has been in force yet")).to_be_visible()


def test_a_dag_has_a_tab_with_its_versions(page: Page, stack: EmbeddedAirflow) -> None:
    page.goto(f"{stack.url}/dags/reoptimize__{JOB}")
    page.get_by_role("link", name="Plans").first.click()
    inside = frame(page)
    expect(inside.get_by_role("heading", name=JOB, exact=True)).to_be_visible()
    expect(inside.locator(".uplot")).to_be_visible()
    expect(inside.get_by_text("in force").first).to_be_visible()
    picture(page, "job-in-airflow")


def test_a_version_shows_loads_moves_traffic_and_outcome(
    page: Page, stack: EmbeddedAirflow, settings: Settings
) -> None:
    plan = Life(Shelf(settings), JOB).plans[ids_of(JOB, 5)[2]]
    page.goto(f"{stack.url}/ballast/?job={JOB}&plan=5")
    expect(page.get_by_role("heading", name=f"{JOB}, version 5")).to_be_visible()
    expect(page.locator(".uplot")).to_be_visible()
    expect(page.locator("table.heat")).to_have_count(2)
    moves = page.locator("section.filtered tbody tr")
    expect(moves).to_have_count(plan["moves"])
    picture(page, "version")
    picture(page, "version-whole", whole=True)
    page.locator("input[name=to_node]").fill("node-99")
    page.keyboard.press("Tab")
    expect(page.get_by_text("no move is like this")).to_be_visible()


def test_two_versions_are_compared(page: Page, stack: EmbeddedAirflow) -> None:
    page.goto(f"{stack.url}/ballast/?job={JOB}&plan=5")
    page.get_by_label("version to compare with").select_option("2")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("key groups are placed differently")).to_be_visible()
    expect(page.get_by_role("heading", name=f"{JOB}: version 2 and version 5")).to_be_visible()
    picture(page, "compare")


def test_the_keyboard_alone_reaches_a_version(page: Page, stack: EmbeddedAirflow) -> None:
    page.goto(f"{stack.url}/ballast/")
    link = page.get_by_role("link", name=JOB, exact=True)
    expect(link).to_be_visible()
    for _ in range(10):
        page.keyboard.press("Tab")
        if link.evaluate("element => element === document.activeElement"):
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=JOB, exact=True)).to_be_visible()


def test_values_of_tables_are_shown_as_text(page: Page, stack: EmbeddedAirflow) -> None:
    page.goto(f"{stack.url}/ballast/?job=orders")
    expect(page.get_by_text(NASTY).first).to_be_visible()
    assert page.locator("main img, main b").count() == 0


def test_the_page_is_dark_where_airflow_is(page: Page, stack: EmbeddedAirflow) -> None:
    page.goto(f"{stack.url}/ballast/?job={JOB}")
    page.evaluate("localStorage.setItem('theme', 'dark')")
    page.reload()
    expect(page.locator(".uplot")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 29)"
    picture(page, "job-dark")
    page.evaluate("localStorage.setItem('theme', 'light')")


def test_nothing_is_wider_than_a_laptop(page: Page, stack: EmbeddedAirflow) -> None:
    for query in ("", f"?job={JOB}", f"?job={JOB}&plan=5", f"?job={JOB}&plan=5&against=1"):
        page.goto(f"{stack.url}/ballast/{query}")
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= LAPTOP["width"], query


def test_a_run_is_started_and_a_rollback_asked_for(page: Page, stack: EmbeddedAirflow) -> None:
    page.goto(f"{stack.url}/ballast/?job={JOB}")
    page.get_by_role("button", name="Reoptimize now").click()
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator("#notice")).to_contain_text("Started a run of reoptimize__clicks")
    page.get_by_role("button", name="Roll back to version 11").click()
    page.locator("input[name=reason]").fill("node-03 is slow under version 12")
    page.get_by_role("button", name="Roll back", exact=True).click()
    expect(page.locator("#notice")).to_contain_text("Started the rollback to version 11")
    client = stack.client()
    assert len(client.runs(f"reoptimize__{JOB}")) == 1
    (run,) = client.runs(f"rollback__{JOB}")
    assert run["conf"] == {
        "version": 11, "reason": "node-03 is slow under version 12", "force_nodes": False,
    }  # fmt: skip


def test_a_waiting_review_is_answered_with_the_name_of_who_did(
    page: Page, stack: EmbeddedAirflow
) -> None:
    client = stack.client()
    client.unpause(f"review__{JOB}")
    asked = {"plan_id": DRAFT, "content_hash": CONTENT}
    run_id = client.trigger(f"review__{JOB}", conf=asked)
    answer = f"/dags/review__{JOB}/dagRuns/{run_id}/taskInstances/approve/-1/hitlDetails"
    wait_until(lambda: waiting_question(client, f"review__{JOB}", run_id), "no review waits", 60)
    page.goto(f"{stack.url}/ballast/?job={JOB}")
    expect(page.get_by_text("Plan of clicks: 8 moves")).to_be_visible()
    picture(page, "waiting")
    page.get_by_role("link", name="Look at the plan and answer").click()
    expect(page.get_by_role("heading", name=f"draft {DRAFT}")).to_be_visible()
    page.get_by_role("button", name="Approve").click()
    page.get_by_role("dialog").locator("input[name=reason]").fill("seen")
    page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    expect(page.locator("#notice")).to_contain_text("Approved")
    given = client.get(answer)
    assert given["responded_by_user"]["name"] == ADMIN
    assert (given["chosen_options"], given["params_input"]) == (["Approve"], {"reason": "seen"})


def test_a_review_of_another_content_cannot_be_approved_here(
    page: Page, stack: EmbeddedAirflow
) -> None:
    client = stack.client()
    run_id = client.trigger(f"review__{JOB}", conf={"plan_id": DRAFT, "content_hash": "e" * 64})
    wait_until(lambda: waiting_question(client, f"review__{JOB}", run_id), "no review waits", 60)
    page.goto(f"{stack.url}/ballast/?job={JOB}&plan={DRAFT}")
    expect(page.get_by_text("with another content than is shown here")).to_be_visible()
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)


def test_the_browser_complained_of_nothing(page: Page) -> None:
    """Of no script that the content policy stopped, no missing file, no dialog of strange data."""
    assert page.complaints == []  # type: ignore[attr-defined]


def test_a_viewer_reads_and_may_not_write_in_the_embedded_default(stack: EmbeddedAirflow) -> None:
    viewer = {"Authorization": f"Bearer {token_of(stack, VIEWER, PASSWORD)}"}
    runs = f"{stack.url}/api/v2/dags/reoptimize__{JOB}/dagRuns"
    seen = [
        requests.get(f"{stack.url}/ballast/api/jobs", timeout=30).status_code,
        requests.get(f"{stack.url}/ballast/api/jobs", headers=viewer, timeout=30).status_code,
        requests.post(runs, json={"logical_date": None}, headers=viewer, timeout=30).status_code,
    ]
    assert seen == [401, 200, 403]
    login = token_of(stack, ADMIN, stack.admin_password)
    foreign = {"Cookie": f"_token={login}", "Origin": "https://elsewhere.example"}
    refused = requests.post(runs, json={"logical_date": None}, headers=foreign, timeout=30)
    assert (refused.status_code, "another site" in refused.text) == (403, True)


def test_an_empty_warehouse_and_a_broken_table_say_what_to_do(
    page: Page, stack: EmbeddedAirflow, settings: Settings
) -> None:
    page.goto(f"{stack.url}/ballast/?dag=somebody_elses")
    expect(page.get_by_text("This is not one of Ballast's DAGs")).to_be_visible()
    heads = Path(settings.warehouse, "plans", "heads", "_delta_log")
    for file in heads.glob("*.json"):
        file.write_text("{")
    page.goto(f"{stack.url}/ballast/")
    expect(page.get_by_text("table plans.heads cannot be read")).to_be_visible()
    expect(page.get_by_text("What to do")).to_be_visible()
    picture(page, "broken-table")
