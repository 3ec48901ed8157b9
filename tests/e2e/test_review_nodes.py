"""Node changes, routes, weights and what-if answers on the page, in a browser.

This is the page's app without Airflow: requests to Airflow's API are answered here in the form of
Airflow, with the values that ``what_if`` writes. The page inside Airflow is tested in
``test_review_page.py``.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Page, Route, expect

from ballast.airflow.rest import wait_until
from ballast.contracts.settings import Settings, load_settings
from ballast.contracts.task_result import RESULT_FILE_VARIABLE, read_task_result
from ballast.store.cache import TableCache
from ballast.store.plans import read_head, read_log, versions_of
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append
from bench.review_page.__main__ import Everyone
from bench.review_page.warehouse import SampleJob, job_policy, write_job
from plugins.review.app import build_app
from spark_jobs.what_if import main as what_if
from tests.support.limits import limit_ms, limit_s
from tests.support.ports import free_port
from tests.support.review_stack import PICTURES, chromium_browser, picture
from tests.support.streaming_plans import weight_row

JOB = "clicks"
LAST = "node-07"
ADDS, DRAINS, REMOVES = 10, 12, 13
PATIENCE_MS = limit_ms(30)
pytestmark = pytest.mark.timeout(limit_s(180))


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    home = tmp_path_factory.mktemp("nodes")
    made = load_settings({"BALLAST_HOME": str(home), "BALLAST_POLICIES": str(home / "policies")})
    world = SampleJob(job_policy(JOB, 3, 40, 6, spares=2), per_version=8, routes=300)
    write_job(made, world, REMOVES)
    write_weights(made)
    return made


def write_weights(settings: Settings) -> None:
    """Write weights of an ordered region in the last two versions, the newest of which is taken
    up."""
    ensure_tables(settings, ["plans.weights", "plans.acks"])
    versions = versions_of(read_log(settings, JOB), read_head(settings, JOB))
    for version, fast in ((DRAINS, 500), (REMOVES, 900)):
        plan_id = versions[version]
        units = {"worker-a": fast, "worker-b": 1000 - fast}
        rows = [weight_row(JOB, plan_id, "enrich", name, n) for name, n in units.items()]
        append(settings, "plans.weights", rows)
    acknowledged = {
        "job": JOB, "version": REMOVES, "plan_id": plan_id, "status": "applied",
        "region_id": "enrich", "batch_id": 0, "reason": "", "moved_key_groups": 0,
        "bytes_moved": 0, "pause_ms": 0.0, "acked_at": datetime.now(UTC),
    }  # fmt: skip
    append(settings, "plans.acks", [acknowledged])


@pytest.fixture(scope="module")
def address(settings: Settings) -> Iterator[str]:
    app, port = FastAPI(), free_port()
    app.mount("/ballast", build_app(TableCache(settings), Everyone()))
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started, "the page's app does not start", limit_s(30))
        yield f"http://127.0.0.1:{port}/ballast/"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def page(address: str) -> Iterator[Page]:
    with chromium_browser() as browser:
        expect.set_options(timeout=PATIENCE_MS)
        made = browser.new_page(viewport={"width": 1366, "height": 768})
        made.set_default_timeout(PATIENCE_MS)
        made.errors = []  # type: ignore[attr-defined]
        made.on("pageerror", lambda error: made.errors.append(str(error)))
        made.goto(address)
        yield made


@pytest.mark.parametrize(
    ("version", "said", "why", "state"),
    [
        (ADDS, f"This plan adds {LAST}.", "above the upper boundary", "new"),
        (DRAINS, f"This plan drains {LAST}.", "below the lower boundary", "draining"),
        (REMOVES, f"This plan removes {LAST}.", "is empty and goes", "removed"),
    ],
)
def test_a_version_says_which_nodes_come_or_go_and_why(
    page: Page, address: str, version: int, said: str, why: str, state: str
) -> None:
    for theme in ("dark", "light"):
        page.evaluate(f"localStorage.setItem('theme', '{theme}')")
        page.goto(f"{address}?job={JOB}&plan={version}")
        section = page.locator("section.scaling")
        expect(section.get_by_text(said)).to_be_visible()
        for text in (why, "would have changed it", "kept spare", "node-06"):
            expect(section.get_by_text(text).first).to_be_visible()
        expect(page.locator(".uplot")).to_be_visible()
        picture(page, f"nodes-{state}-{theme}", whole=True)
        page.screenshot(
            path=str(PICTURES / f"{state}-{theme}.png"),
            full_page=True,
            clip={"x": 0, "y": 0, "width": 1366, "height": 960},
        )
    page.get_by_text("As a table (cpu)").click()
    row = page.get_by_role("row").filter(has_text=LAST).filter(has=page.locator(f".tag.{state}"))
    expect(row.last).to_contain_text(state)


def test_a_comparison_names_nodes_and_counts_keys(page: Page, address: str) -> None:
    page.goto(f"{address}?job={JOB}&plan={DRAINS}&against=9")
    expect(page.get_by_text("One node is in another state")).to_be_visible()
    row = page.get_by_role("row").filter(has_text=LAST).first
    expect(row).to_contain_text("not in use")
    expect(row).to_contain_text("draining")
    expect(page.get_by_text("keys are in another key group")).to_be_visible()
    page.get_by_text("Keys", exact=True).first.click()
    expect(page.get_by_role("cell", name="key-0").first).to_be_visible()
    picture(page, "compare-nodes", whole=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1366


def test_a_version_says_which_worker_of_a_region_gets_how_much(page: Page, address: str) -> None:
    page.goto(f"{address}?job={JOB}&plan={REMOVES}")
    section = page.locator("section.weights")
    row = section.get_by_role("row").filter(has_text="worker-a")
    expect(row).to_contain_text("90.0 %")
    expect(section.get_by_role("row").filter(has_text="applied")).to_contain_text("enrich")
    picture(page, "weights", whole=True)
    page.goto(f"{address}?job={JOB}&plan={REMOVES}&against={DRAINS}")
    changed = page.get_by_role("row").filter(has_text="worker-b")
    expect(changed).to_contain_text("50.0 %")
    expect(changed).to_contain_text("10.0 %")
    page.goto(f"{address}?job={JOB}&plan={ADDS}")
    expect(page.get_by_text("Who did what")).to_be_visible()
    expect(page.locator("section.weights")).to_have_count(0)


def test_the_answer_to_a_question_is_shown_side_by_side(
    page: Page, address: str, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RESULT_FILE_VARIABLE, str(tmp_path / "task-result.json"))
    asked = ["--without", "node-01", "--add", "1", "--hold-pct", "70", "--frontier", "true"]
    common = ["--job", JOB, "--run-id", "asked", "--warehouse", settings.warehouse]
    assert what_if([*common, *asked, "--seconds", "0.3"]) == 0
    handed = read_task_result(tmp_path / "task-result.json")
    conf = {"without": "node-01", "add": 1, "hold_pct": 70, "frontier": True}

    def answer(route: Route) -> None:
        if route.request.url.endswith("/xcomEntries/return_value"):
            route.fulfill(json={"key": "return_value", "value": json.dumps(handed)})
        elif "/xcomEntries/" in route.request.url:
            route.fulfill(status=404, json={"detail": "not found"})
        else:
            route.fulfill(json={"state": "success", "conf": conf})

    page.route("**/api/v2/dags/what_if__clicks/**", answer)
    page.goto(f"{address}?dag=what_if__{JOB}&run=manual__1")
    expect(page.get_by_role("heading", name=f"{JOB}: what if")).to_be_visible()
    expect(page.get_by_text("keep the load at or below 70")).to_be_visible()
    expect(page.locator(".uplot")).to_have_count(3)
    row = page.get_by_role("row").filter(has_text="moves off dead nodes")
    expect(row).to_contain_text(str(handed["asked"]["forced_moves"]))
    page.get_by_text("As a table (what is asked)").click()
    expect(page.get_by_role("row").filter(has_text="new-1").first).to_contain_text("new")
    picture(page, "what-if", whole=True)


def test_a_refused_question_says_why(page: Page, address: str) -> None:
    def answer(route: Route) -> None:
        if route.request.url.endswith("/xcomEntries/refusal"):
            route.fulfill(json={"key": "refusal", "value": "Infeasible: no node is alive"})
        else:
            route.fulfill(status=404, json={"detail": "not found"})

    page.unroute("**/api/v2/dags/what_if__clicks/**")
    page.route("**/api/v2/dags/what_if__clicks/**", answer)
    page.goto(f"{address}?dag=what_if__{JOB}&run=manual__2")
    expect(page.get_by_text("No answer: Infeasible: no node is alive")).to_be_visible()


def test_no_script_failed(page: Page) -> None:
    assert page.errors == []  # type: ignore[attr-defined]
