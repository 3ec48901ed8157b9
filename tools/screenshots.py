"""Takes pictures of the Airflow UI: ``python -m tools.screenshots --out docs/images``.

It needs a running stack (``make run``) and a Chromium (CHROMIUM=... names one).
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from ballast.contracts.settings import load_settings
from embedded.airflow import ADMIN, EmbeddedAirflow
from embedded.checks import port_from
from tools.browser import FLAGS, find_chromium


def main() -> int:
    """Logs in, and saves the graph and the grid of a DAG."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dag", default="reoptimize__flights")
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    args = parser.parse_args()
    stack = EmbeddedAirflow(load_settings().home / "airflow", port_from(os.environ))
    args.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=list(FLAGS), headless=True
        )
        page = browser.new_page(viewport={"width": 1440, "height": 860})
        log_in(page, stack.url, stack.admin_password)
        runs = stack.client().runs(args.dag)
        run_id = next(run["dag_run_id"] for run in runs if run["state"] == "success")
        save(page, f"{stack.url}/dags/{args.dag}", args.out / "dag-grid.png")
        graph = f"{stack.url}/dags/{args.dag}/runs/{run_id}"
        save(page, graph, args.out / "dag-graph.png", button="graph")
        browser.close()
    return 0


def log_in(page: Page, url: str, password: str) -> None:
    """Logs in through the login form."""
    page.goto(f"{url}/auth/login/")
    page.fill("input[name=username]", ADMIN)
    page.fill("input[name=password]", password)
    page.click("button[type=submit]")
    # The address of the form itself begins in the same way: wait until it has been left.
    page.wait_for_url(lambda address: "/auth/login" not in address)
    page.wait_for_load_state("networkidle")


def save(page: Page, url: str, file: Path, button: str | None = None) -> None:
    """Opens a page, waits until it has loaded, presses a button if named, and saves a picture."""
    page.goto(url)
    page.wait_for_load_state("networkidle")
    if button:
        page.locator(f"[aria-label*='{button}' i]").first.click()
    page.wait_for_timeout(2500)
    page.screenshot(path=str(file))
    print(file)


if __name__ == "__main__":
    sys.exit(main())
