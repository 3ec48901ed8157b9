"""What end-to-end tests of the review page share: Airflow with its users, a webhook, a browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from ballast.contracts.settings import Settings
from embedded.airflow import ADMIN, EmbeddedAirflow
from embedded.processes import write_private
from tests.support.browser import ADVICE, ensure_chromium
from tests.support.http_script import Script, serving
from tests.support.ports import free_port
from tools.browser import FLAGS

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / ".ballast" / "screenshots"
VIEWER, PASSWORD = "vera", "only for this test"


@contextmanager
def notice_webhook() -> Iterator[Script]:
    """A webhook that accepts the notices of plans."""
    with serving() as made:
        made.answers["POST /notices"] = [(200, {})]
        yield made


@contextmanager
def launched_airflow(
    settings: Settings, webhook: Script, *, schedules: bool, webhook_token: str | None = None
) -> Iterator[EmbeddedAirflow]:
    """Airflow with the project's DAGs, an administrator and a viewer, and notices to the webhook.

    Args:
        settings: where tables and policies are; Airflow's own files are beside them.
        webhook: gets the notices.
        schedules: whether runs start by schedule or by assets.
        webhook_token: sent with each notice; None sends none.
    """
    connection = {"conn_type": "http", "host": f"{webhook.url}/notices"}
    if webhook_token is not None:
        connection["password"] = webhook_token
    env = {
        "BALLAST_HOME": str(settings.home),
        "BALLAST_POLICIES": str(settings.policies),
        "BALLAST_JARS": str(ROOT / ".ballast" / "jars"),
        "BALLAST_SCHEDULES": "on" if schedules else "off",
        "AIRFLOW_CONN_BALLAST_WEBHOOK": json.dumps(connection),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{ADMIN}:admin,{VIEWER}:viewer",
    }
    made = EmbeddedAirflow(settings.home / "airflow", free_port(), env=env)
    made.prepare()
    write_private(made.passwords_file, json.dumps({ADMIN: made.admin_password, VIEWER: PASSWORD}))
    made.launch()
    try:
        yield made
    finally:
        made.stop()


@contextmanager
def chromium_browser() -> Iterator[Browser]:
    """A Chromium without a window; the test fails where there is none."""
    chromium = ensure_chromium()
    if chromium is None:
        pytest.fail(f"there is no Chromium; {ADVICE}")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS), headless=True)
        yield made
        made.close()


def picture(page: Page, name: str, *, whole: bool = False) -> None:
    """Save a screenshot of the page, as a whole or as the window shows it."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(PICTURES / f"{name}.png"), full_page=whole)
