"""A person uses the review page: a browser on the embedded stack, logged in by password.

The stack runs the project's own DAGs. Job ``clicks`` is generated and has many versions. Job
``payments`` goes through the real pipeline: an event of new metrics starts a run, its plan waits,
is approved and rolled back on the page, and a webhook gets the notices.

Screenshots are written to ``.ballast/screenshots``.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    FrameLocator,
    Locator,
    Page,
    Route,
    expect,
)

from ballast.airflow.rest import AirflowClient, wait_until
from ballast.contracts.figure_text import EARLIER_VERSION
from ballast.contracts.records import Draft, Head
from ballast.contracts.settings import Settings, load_settings
from ballast.readmodel.job_history import JobHistory
from ballast.readmodel.plans import plan_detail
from ballast.readmodel.promises import promise_counts
from ballast.store.cache import TableCache
from ballast.store.plans import read_head, read_log, read_plan, read_plans, versions_of
from ballast.store.tables import append
from bench.review_page.promises import TREND_REASON, TREND_VERSION
from bench.review_page.warehouse import START, SampleJob, ids_of, job_policy, write_job
from embedded.airflow import ADMIN, EmbeddedAirflow
from tests.support.http_script import Script
from tests.support.limits import limit_ms, limit_s
from tests.support.live_job import first_version, take_up, windows_that_do_not_fit
from tests.support.policies import small_policy, write_policy
from tests.support.review_stack import (
    PASSWORD,
    PICTURES,
    VIEWER,
    chromium_browser,
    launched_airflow,
    notice_webhook,
    picture,
)
from tests.support.reviews import wait_for_question
from tools.screenshots import log_in

LAPTOP = {"width": 1366, "height": 768}
JOB = "clicks"
VERSIONS = 12
# Versions of the generated job whose load distance is measured outside of the interval.
ABOVE, BELOW = 7, 11
NO_CHANGE = (
    "the difference of 2.1 points is within the noise of 3.4 of these 12 windows; "
    "with 40 more windows it would be beyond the noise"
)
LIVE = "payments"
# By this policy every run of the pipeline is late, and a person has to approve every plan.
LIVE_POLICY = small_policy(
    LIVE, operators={"parse": 6, "count": 6}, nodes=3, window_s=120, statistics_period_s=720,
    schedule_on_metrics=True, late_run_s=5.0, review={"mode": "person"},
)  # fmt: skip
WEBHOOK_TOKEN = "only for the webhook"
NASTY = "<img src=x onerror=alert(1)><b>bold</b>"
SILENT = "node-03 is silent since 05:58:20, 3 of 12 windows; the gate opens at 06:01:25"
# Spark, Airflow and the browser share the cores, perhaps with other programs.
PATIENCE_MS = limit_ms(30)
pytestmark = pytest.mark.timeout(limit_s(300))


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    home = tmp_path_factory.mktemp("browser")
    made = load_settings({"BALLAST_HOME": str(home), "BALLAST_POLICIES": str(home / "policies")})
    world = SampleJob(job_policy(JOB, 3, 40, 6), per_version=8, has_promises=True)
    write_job(made, world, VERSIONS)
    write_policy(made.policies, world.policy)
    write_policy(made.policies, job_policy("orders", 1, 4, 2))
    append(made, "plans.log", [refusal(JOB, "system", SILENT), refusal("orders", NASTY, NASTY)])
    write_policy(made.policies, LIVE_POLICY)
    first_version(made, LIVE_POLICY)
    return made


def refusal(job: str, actor: str, reason: str) -> dict[str, Any]:
    return {
        "job": job, "at": START, "event": "gate_failed", "version": None, "plan_id": None,
        "run_id": f"run of {actor}", "actor": actor, "reason": reason,
    }  # fmt: skip


@pytest.fixture(scope="module")
def webhook() -> Iterator[Script]:
    """The webhook that gets the notices of plans."""
    with notice_webhook() as made:
        yield made


@pytest.fixture(scope="module")
def stack(settings: Settings, webhook: Script) -> Iterator[EmbeddedAirflow]:
    with launched_airflow(settings, webhook, schedules=True, webhook_token=WEBHOOK_TOKEN) as made:
        client = made.client()
        for job in (JOB, LIVE):
            for dag in ("reoptimize", "review", "rollback"):
                client.wait_for_dag(f"{dag}__{job}", limit_s(60))
        yield made


@pytest.fixture(scope="module")
def refused(stack: EmbeddedAirflow) -> str:
    """A run that rolls back to a version that does not exist."""
    conf = {"version": 9, "reason": "a test"}
    return stack.client().trigger(f"rollback__{LIVE}", conf=conf)


@pytest.fixture(scope="module")
def started(stack: EmbeddedAirflow, settings: Settings, refused: str) -> dict[str, Any]:
    """The run that an event of new metrics started; it continues during other tests."""
    client, dag_id = stack.client(), f"reoptimize__{LIVE}"
    client.unpause(dag_id)
    windows_that_do_not_fit(settings, LIVE_POLICY, head_of_live(settings))
    (asset,) = client.get("/assets", uri_pattern=f"ballast://metrics/{LIVE}")["assets"]
    client.request("POST", "/assets/events", {"asset_id": asset["id"]})
    (run,) = wait_until(
        lambda: client.runs(dag_id) or None, "fresh metrics started no run", limit_s(60)
    )
    return dict(run)


def content_of(settings: Settings, version: int) -> str:
    """Content hash of a version of the job."""
    versions = versions_of(read_log(settings, LIVE), read_head(settings, LIVE))
    return read_plan(settings, LIVE, versions[version]).content_hash


def head_of_live(settings: Settings) -> Head:
    head = read_head(settings, LIVE)
    assert head is not None
    return head


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium_browser() as made:
        yield made


@pytest.fixture(scope="module")
def page(browser: Browser, stack: EmbeddedAirflow) -> Page:
    """A logged-in page; console errors of the browser are collected."""
    expect.set_options(timeout=PATIENCE_MS)
    made = browser.new_page(viewport=LAPTOP)
    made.set_default_timeout(PATIENCE_MS)
    made.complaints = []  # type: ignore[attr-defined]
    made.on("console", lambda said: made.complaints.append(said.text) if is_ours(said) else None)
    made.on("dialog", lambda dialog: made.complaints.append(dialog.message))
    log_in(made, stack.url, stack.admin_password)
    return made


def is_ours(said: ConsoleMessage) -> bool:
    """Whether an error is one of our page. A request for a DAG that does not exist gives a 404 of
    Airflow."""
    asked = "/api/v2/" in said.location["url"]
    return said.type == "error" and "/ballast/" in said.location["url"] and not asked


def token_of(stack: EmbeddedAirflow, user: str, password: str) -> str:
    login = {"username": user, "password": password}
    answer = requests.post(f"{stack.url}/auth/token", json=login, timeout=limit_s(30))
    return str(answer.json()["access_token"])


def frame(page: Page) -> FrameLocator:
    return page.frame_locator("iframe")


def row_of(inside: FrameLocator | Page, link: str) -> Locator:
    """The row of a table that has this link."""
    return inside.get_by_role("row").filter(has=inside.get_by_role("link", name=link, exact=True))


def test_fresh_metrics_start_a_run(started: dict[str, Any]) -> None:
    assert started["run_type"] == "asset_triggered"


def test_the_page_is_in_the_navigation_and_shows_the_jobs(
    page: Page, stack: EmbeddedAirflow
) -> None:
    page.goto(stack.url)
    page.get_by_role("link", name="Ballast").first.click()
    inside = frame(page)
    expect(inside.get_by_role("heading", name="Streaming jobs")).to_be_visible()
    row = row_of(inside, JOB)
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
    expect(inside.locator(".uplot")).to_have_count(2)
    expect(inside.get_by_text("in force").first).to_be_visible()
    picture(page, "job-in-airflow")


def test_a_job_shows_promised_intervals_and_measured_values_over_its_versions(
    page: Page, stack: EmbeddedAirflow, settings: Settings
) -> None:
    page.goto(f"{stack.url}/ballast/?job={JOB}")
    drawn = page.locator(".promises .uplot")
    expect(drawn).to_be_visible()
    counts = promise_counts(JobHistory(TableCache(settings), JOB))
    assert (counts.above, counts.below) == (1, 1)
    expect(page.get_by_text(counts.text)).to_be_visible()
    colours = page.evaluate(COLOURS_OF_MARKS)
    assert colours["inside"] > colours["outside"] > 0, "circles and triangles are drawn"
    for version, words in ((ABOVE, "(above)"), (BELOW, "(below)"), (12, "(inside)")):
        row = row_of(page, str(version))
        expect(row).to_contain_text(words)
        expect(row).to_contain_text(promised_text_of(settings, version))
    expect(row_of(page, str(TREND_VERSION))).not_to_contain_text("(")
    noise = page.locator("section.noise")
    expect(noise).to_contain_text("steady over 12 windows")
    expect(noise).to_contain_text("from period to period")
    picture(page, "job-whole", whole=True)
    page.locator("div.two").screenshot(path=str(PICTURES / "promises.png"))
    over = drawn.locator(".u-over")
    over.hover()
    expect(drawn.locator(".u-legend")).to_contain_text("%")
    over.click()
    expect(page.get_by_role("heading", name=f"{JOB}, version")).to_be_visible()


COLOURS_OF_MARKS = """() => {
  const canvas = document.querySelector(".promises canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const count = (r, g, b) => {
    let found = 0;
    for (let i = 0; i < data.length; i += 4) {
      if (data[i] === r && data[i + 1] === g && data[i + 2] === b) found += 1;
    }
    return found;
  };
  return { inside: count(0x14, 0x71, 0x3d), outside: count(0xb3, 0x26, 0x1e) };
}"""
"""Number of pixels of the picture with the colour of a value inside and outside."""


def promised_text_of(settings: Settings, version: int) -> str:
    history = JobHistory(TableCache(settings), JOB)
    text = plan_detail(history, str(version)).figures[0].promised_text
    assert text is not None
    return text


def test_a_plan_shows_its_intervals_or_why_it_has_none(
    page: Page, stack: EmbeddedAirflow, settings: Settings
) -> None:
    page.goto(f"{stack.url}/ballast/?job={JOB}&plan={ABOVE}")
    figures = page.get_by_role("row").filter(has_text="load distance pct")
    expect(figures).to_contain_text(promised_text_of(settings, ABOVE))
    expect(figures).to_contain_text("(above)")
    node = page.get_by_role("row").filter(has_text="cpu load cores/node-00")
    expect(node).to_contain_text("cores (")
    page.get_by_text("As a table (cpu)").click()
    expect(page.get_by_role("row").filter(has_text="node-00").first).to_contain_text("% (")
    for version, reason in ((1, EARLIER_VERSION), (TREND_VERSION, TREND_REASON)):
        page.goto(f"{stack.url}/ballast/?job={JOB}&plan={version}")
        expect(page.get_by_text(f"The promise has no interval: {reason}.")).to_be_visible()


def test_a_run_that_changes_nothing_says_why(
    page: Page, stack: EmbeddedAirflow, settings: Settings
) -> None:
    plan = read_plan(settings, JOB, ids_of(JOB, VERSIONS)[2])
    unchanged = {
        "plan_id": "e" * 16, "run_id": "quiet", "status": "unchanged", "moves": 0, "bytes": 0,
        "created_at": plan.created_at + timedelta(hours=1), "reason": NO_CHANGE,
    }  # fmt: skip
    append(settings, "plans.plans", [plan.to_row() | unchanged])
    page.goto(f"{stack.url}/ballast/?job={JOB}")
    said = page.get_by_text("in the newest run")
    expect(said).to_contain_text(f"{NO_CHANGE[0].upper()}{NO_CHANGE[1:]}.")
    expect(said).to_contain_text("No change")
    picture(page, "no-change")
    page.goto(f"{stack.url}/ballast/")
    expect(row_of(page, JOB)).to_contain_text("no change")


def test_a_version_shows_loads_moves_traffic_and_outcome(
    page: Page, stack: EmbeddedAirflow, settings: Settings
) -> None:
    plan = read_plan(settings, JOB, ids_of(JOB, 5)[2])
    page.goto(f"{stack.url}/ballast/?job={JOB}&plan=5")
    expect(page.get_by_role("heading", name=f"{JOB}, version 5")).to_be_visible()
    expect(page.locator(".uplot")).to_be_visible()
    expect(page.locator("table.heat")).to_have_count(2)
    moves = page.locator("section.filtered tbody tr")
    expect(moves).to_have_count(plan.moves)
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
    expect(page.locator(".uplot")).to_have_count(2)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 29)"
    picture(page, "job-dark")
    page.evaluate("localStorage.setItem('theme', 'light')")


def test_nothing_is_wider_than_a_laptop(page: Page, stack: EmbeddedAirflow) -> None:
    for query in ("", f"?job={JOB}", f"?job={JOB}&plan=5", f"?job={JOB}&plan=5&against=1"):
        page.goto(f"{stack.url}/ballast/{query}")
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= LAPTOP["width"], query


def test_a_run_is_started(page: Page, stack: EmbeddedAirflow) -> None:
    page.goto(f"{stack.url}/ballast/?job={JOB}")
    page.get_by_role("button", name="Reoptimize now").click()
    page.get_by_role("button", name="Start", exact=True).click()
    notice = "Started a run of reoptimize__clicks. It begins when the DAG is unpaused."
    expect(page.locator("#notice")).to_contain_text(notice)
    assert len(stack.client().runs(f"reoptimize__{JOB}")) == 1


@pytest.fixture(scope="module")
def draft(stack: EmbeddedAirflow, settings: Settings, started: dict[str, Any]) -> Draft:
    """The plan of the run, once its review can be answered."""
    client, run_id = stack.client(), started["dag_run_id"]
    assert client.wait_for_run(f"reoptimize__{LIVE}", run_id, timeout_s=limit_s(360)) == "success"
    (made,) = [plan for plan in read_plans(settings, LIVE) if plan.run_id == run_id]
    question = wait_for_question(client, LIVE, f"review__{made.plan_id}")
    assert made.content_hash in question["body"]
    return made


@pytest.mark.timeout(limit_s(600))
def test_a_review_of_another_content_cannot_be_approved_here(
    page: Page, stack: EmbeddedAirflow, draft: Draft
) -> None:
    """`prepare` refuses such a review, so the answer of Airflow is changed on its way."""

    def with_another_content(route: Route) -> None:
        answer = route.fetch()
        changed = answer.json()
        changed["conf"]["content_hash"] = "e" * 64
        route.fulfill(response=answer, json=changed)

    runs = f"**/dagRuns/review__{draft.plan_id}"
    page.route(runs, with_another_content)
    page.goto(f"{stack.url}/ballast/?job={LIVE}&plan={draft.plan_id}")
    expect(page.get_by_text("with other content than is shown here")).to_be_visible()
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    page.unroute(runs)


def test_a_plan_that_waits_is_approved_and_published_with_the_name_of_who_did(
    page: Page, stack: EmbeddedAirflow, settings: Settings, draft: Draft
) -> None:
    page.goto(stack.url)
    page.get_by_role("link", name="Ballast").first.click()
    inside = frame(page)
    inside.get_by_role("link", name=LIVE, exact=True).click()
    expect(inside.get_by_role("heading", name="Waiting for approval")).to_be_visible()
    picture(page, "waiting")
    inside.get_by_role("link", name="Look at the plan and answer").click()
    expect(inside.get_by_role("heading", name=f"draft {draft.plan_id}")).to_be_visible()
    expect(inside.locator("section.filtered tbody tr")).to_have_count(draft.moves)
    picture(page, "draft")
    inside.get_by_role("button", name="Approve").click()
    dialog = inside.get_by_role("dialog")
    dialog.locator("input[name=reason]").fill("seen in the browser")
    dialog.get_by_role("button", name="Approve").click()
    expect(inside.locator("#notice")).to_contain_text("Approved")
    client, dag_id, run_id = stack.client(), f"review__{LIVE}", f"review__{draft.plan_id}"
    assert client.wait_for_run(dag_id, run_id, timeout_s=limit_s(120)) == "success"
    events = client.get("/assets/events", source_dag_id=dag_id)["asset_events"]
    assert [event["extra"]["plan_id"] for event in events] == [draft.plan_id]
    head = head_of_live(settings)
    assert (head.version, head.plan_id) == (2, draft.plan_id)
    assert head.content_hash == draft.content_hash
    (said,) = [row for row in read_log(settings, LIVE) if row.event == "approved"]
    assert (said.actor, said.plan_id) == (ADMIN, draft.plan_id)
    assert "seen in the browser" in said.reason


def open_plans(page: Page, stack: EmbeddedAirflow, dag_id: str) -> FrameLocator:
    """Open the tab of a DAG."""
    page.goto(f"{stack.url}/dags/{dag_id}")
    page.get_by_role("link", name="Plans").first.click()
    return frame(page)


def compare(inside: FrameLocator, version: int, other: int) -> None:
    """Go from the job's page to two versions side by side."""
    inside.get_by_role("link", name=str(version), exact=True).first.click()
    expect(inside.get_by_role("heading", name=f"{LIVE}, version {version}")).to_be_visible()
    inside.get_by_label("version to compare with").select_option(str(other))
    inside.get_by_role("button", name="Compare").click()
    title = f"{LIVE}: version {other} and version {version}"
    expect(inside.get_by_role("heading", name=title)).to_be_visible()


def test_a_published_plan_is_rolled_back_and_the_old_content_is_a_new_version(
    page: Page, stack: EmbeddedAirflow, settings: Settings, draft: Draft, refused: str
) -> None:
    client, published = stack.client(), head_of_live(settings)
    assert published.plan_id == draft.plan_id, "the test before this one publishes the plan"
    take_up(settings, published, batch=9)
    inside = open_plans(page, stack, f"reoptimize__{LIVE}")
    expect(row_of(inside, "2")).to_contain_text("in force")
    expect(row_of(inside, "2")).to_contain_text(ADMIN)
    compare(inside, 2, 1)
    moved = f"{draft.moves} of 12 key groups are placed differently"
    expect(inside.get_by_text(moved)).to_be_visible()
    inside = open_plans(page, stack, f"reoptimize__{LIVE}")
    inside.get_by_role("button", name="Roll back to version 1").click()
    inside.get_by_role("dialog").locator("input[name=reason]").fill("node-0 is slow under 2")
    inside.get_by_role("dialog").get_by_role("button", name="Roll back", exact=True).click()
    expect(inside.locator("#notice")).to_contain_text("Started the rollback to version 1")
    run = rollback_of_person(client, refused)
    assert run["conf"] == {"version": 1, "reason": "node-0 is slow under 2", "force_nodes": False}
    done = client.wait_for_run(f"rollback__{LIVE}", run["dag_run_id"], timeout_s=limit_s(120))
    assert done == "success"
    inside = open_plans(page, stack, f"rollback__{LIVE}")
    expect(row_of(inside, "3")).to_contain_text("in force")
    expect(inside.get_by_text("node-0 is slow under 2").first).to_be_visible()
    picture(page, "rolled-back")
    compare(inside, 3, 1)
    expect(inside.get_by_text("No key group is placed differently.")).to_be_visible()
    head = head_of_live(settings)
    assert (head.version, head.content_hash) == (3, content_of(settings, 1))
    (said,) = [row for row in read_log(settings, LIVE) if row.event == "rolled_back"]
    assert (said.actor, said.version) == (ADMIN, 3)


def rollback_of_person(client: AirflowClient, refused: str) -> dict[str, Any]:
    """The run that the page's button started."""
    (found,) = [r for r in client.runs(f"rollback__{LIVE}") if r["dag_run_id"] != refused]
    return dict(found)


def test_a_refusal_reads_as_its_own_words_without_a_stack_trace(
    stack: EmbeddedAirflow, refused: str
) -> None:
    client, dag_id = stack.client(), f"rollback__{LIVE}"
    assert client.wait_for_run(dag_id, refused, timeout_s=limit_s(120)) == "failed"
    path = f"/dags/{dag_id}/dagRuns/{refused}/taskInstances/rollback/logs/1"
    lines = client.get(path, full_content="true")["content"]
    words = f"Refused: NotFound: job {LIVE} has no version 9"
    assert [line for line in lines if words in str(line.get("event"))]
    assert not any(line.get("error_detail") for line in lines)
    assert client.xcom(dag_id, refused, "rollback", "refusal").startswith("NotFound: ")


def test_the_webhook_heard_of_all_of_it(
    stack: EmbeddedAirflow, webhook: Script, started: dict[str, Any], draft: Draft,
    refused: str,
) -> None:  # fmt: skip
    back = rollback_of_person(stack.client(), refused)
    run_id = started["dag_run_id"]
    wanted = {
        "late": run_id, "promise_broken": run_id, "published": f"review__{draft.plan_id}",
        "rolled_back": back["dag_run_id"], "refused": refused,
    }  # fmt: skip
    # The callbacks of a task run after its state is set, which may end the run.
    wait_until(
        lambda: len(webhook.seen) >= len(wanted) or None, "too few notices came", limit_s(30)
    )
    notices = {body["kind"]: body for _, _, body in webhook.seen}
    assert {kind: body["run_id"] for kind, body in notices.items()} == wanted
    assert {body["job"] for body in notices.values()} == {LIVE}
    assert {token for _, token, _ in webhook.seen} == {f"Bearer {WEBHOOK_TOKEN}"}
    assert len(webhook.seen) == len(wanted)
    assert "promised a load distance of" in notices["promise_broken"]["text"]
    assert f"job {LIVE} has no version 9" in notices["refused"]["text"]


def test_the_browser_complained_of_nothing(page: Page) -> None:
    """There was no blocked script, no missing file, and no dialog from malicious data."""
    assert page.complaints == []  # type: ignore[attr-defined]


def test_a_viewer_reads_and_may_not_write_in_the_embedded_default(stack: EmbeddedAirflow) -> None:
    viewer = {"Authorization": f"Bearer {token_of(stack, VIEWER, PASSWORD)}"}
    runs = f"{stack.url}/api/v2/dags/reoptimize__{JOB}/dagRuns"
    seen = [
        requests.get(f"{stack.url}/ballast/api/jobs", timeout=limit_s(30)).status_code,
        requests.get(
            f"{stack.url}/ballast/api/jobs", headers=viewer, timeout=limit_s(30)
        ).status_code,
        requests.post(
            runs, json={"logical_date": None}, headers=viewer, timeout=limit_s(30)
        ).status_code,
    ]
    assert seen == [401, 200, 403]
    login = token_of(stack, ADMIN, stack.admin_password)
    foreign = {"Cookie": f"_token={login}", "Origin": "https://elsewhere.example"}
    refused = requests.post(runs, json={"logical_date": None}, headers=foreign, timeout=limit_s(30))
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
