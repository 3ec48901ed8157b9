"""Every route of the review page, and every write of its buttons, for each kind of user.

The tests run on the FAB auth manager, which has rights per DAG, and a real API server. They print
expected and actual responses.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from ballast.contracts.settings import load_settings
from bench.review_page.warehouse import SampleJob, job_policy, write_job
from embedded.airflow import EmbeddedAirflow, airflow_command
from embedded.processes import Child
from plugins.review.app import build_app
from tests.e2e.test_embedded_airflow import wait_for
from tests.support.fab_setup import PASSWORD
from tests.support.limits import limit_s
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
FAB = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
JOB = "/ballast/api/jobs/clicks"
RUNS = "/api/v2/dags/{}__clicks/dagRuns"
APPROVAL = (
    "/api/v2/dags/review__clicks/dagRuns/some/taskInstances/approve/-1/hitlDetails",
    {"chosen_options": ["Approve"], "params_input": {}},
)
WHO = ("no token", "bad token", "viewer", "editor of another", "editor", "own page", "cross-site")
pytestmark = pytest.mark.timeout(limit_s(300))


@dataclass(frozen=True)
class Route:
    """A request, and the expected response for each user of WHO."""

    method: str
    url: str
    expected: tuple[int, ...]
    body: Any = None


def read(url: str, of_another: int = 200) -> Route:
    """Readable by all who may read the job; another site cannot read the response."""
    return Route("GET", url, (401, 403, 200, of_another, 200, 200, 200))


def write(method: str, url: str, body: Any, done: int = 200) -> Route:
    """Allowed to users who may edit the job's DAG, from a page of the same origin or with a
    token."""
    return Route(method, url, (401, 403, 403, 403, done, done, 403), body)


def nothing(url: str) -> Route:
    """Not found for every user."""
    return Route("GET", url, (404,) * len(WHO))


ROUTES = (
    read("/ballast/"),
    read("/ballast/assets/main.js"),
    read("/ballast/api/jobs"),
    read(JOB, 403),
    read(f"{JOB}/noise", 403),
    read(f"{JOB}/log", 403),
    read(f"{JOB}/run?run_id=x", 403),
    read(f"{JOB}/plans/2", 403),
    read(f"{JOB}/plans/2/nodes", 403),
    read(f"{JOB}/plans/2/traffic", 403),
    read(f"{JOB}/plans/2/moves", 403),
    read(f"{JOB}/plans/2/difference?against=1", 403),
    read(f"{JOB}/plans/2/node_difference?against=1", 403),
    read(f"{JOB}/plans/2/route_difference?against=1", 403),
    # Rights are those of the job in the path, not of other names in the request.
    read(f"{JOB}?dag_id=reoptimize__orders", 403),
    nothing("/ballast/docs"),
    nothing("/ballast/redoc"),
    nothing("/ballast/openapi.json"),
    write("POST", RUNS.format("reoptimize"), {"logical_date": None}),
    write("POST", RUNS.format("rollback"), {"logical_date": None, "conf": {"version": 1}}),
    write("POST", RUNS.format("rollback") + "?dag_id=rollback__orders", {"logical_date": None}),
    # Allowed, but this stack runs no task that waits for an answer.
    write("PATCH", *APPROVAL, done=404),
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an API server without other processes, on a warehouse with plans of two
    jobs."""
    folder = tmp_path_factory.mktemp("fab")
    (folder / "dags").mkdir()
    ours = {"BALLAST_HOME": str(folder), "BALLAST_POLICIES": str(folder / "policies")}
    settings = load_settings(ours)
    for job in ("clicks", "orders"):
        write_job(settings, SampleJob(job_policy(job, 2, 8, 3), per_version=2), 2)
    stack = EmbeddedAirflow(
        folder / "airflow", free_port(), dags=folder / "dags",
        env={**ours, "AIRFLOW__CORE__AUTH_MANAGER": FAB},
    )  # fmt: skip
    stack.prepare()
    subprocess.run(
        [sys.executable, "-m", "tests.support.fab_setup", str(stack.dags)],
        cwd=ROOT, env=stack.environment(), check=True, capture_output=True,
    )  # fmt: skip
    words = airflow_command("api-server", "--workers", "1")
    server = Child("api-server", words, stack.home / "run", stack.log_of("api-server"))
    server.start(stack.environment(), cwd=stack.home)
    try:
        assert wait_for(lambda: answers(f"{stack.url}/ballast/"), 90), server.log.read_text()
        yield stack.url
    finally:
        stack.stop()


def answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=limit_s(5)).status_code == 401
    except requests.ConnectionError:
        return False


@pytest.fixture(scope="module")
def tokens(url: str) -> dict[str, str]:
    def token(name: str) -> str:
        login = {"username": name, "password": PASSWORD}
        answer = requests.post(f"{url}/auth/token", json=login, timeout=limit_s(30))
        assert answer.status_code == 201, answer.text
        return str(answer.json()["access_token"])

    return {name: token(name) for name in ("vera", "clara", "otto")}


def headers_of(who: str, url: str, tokens: dict[str, str]) -> dict[str, str]:
    cookie = {"Cookie": f"_token={tokens['clara']}"}
    return {
        "no token": {},
        "bad token": {"Authorization": "Bearer not.a.token"},
        "viewer": {"Authorization": f"Bearer {tokens['vera']}"},
        "editor of another": {"Authorization": f"Bearer {tokens['otto']}"},
        "editor": {"Authorization": f"Bearer {tokens['clara']}"},
        "own page": {**cookie, "Origin": url, "Sec-Fetch-Site": "same-origin"},
        "cross-site": {**cookie, "Origin": "https://elsewhere.example"},
    }[who]


def test_every_route_answers_everyone_as_expected(url: str, tokens: dict[str, str]) -> None:
    lines, wrong = [], []
    for route in ROUTES:
        seen = [
            requests.request(
                route.method, url + route.url, json=route.body, allow_redirects=False,
                headers=headers_of(who, url, tokens), timeout=limit_s(30),
            ).status_code
            for who in WHO
        ]  # fmt: skip
        cells = [f"{e} / {s}" for e, s in zip(route.expected, seen, strict=True)]
        lines.append(f"| {route.method} {route.url} | {' | '.join(cells)} |")
        wrong += [
            (route, who, s) for who, e, s in zip(WHO, route.expected, seen, strict=True) if e != s
        ]
    table = [f"| expected / seen | {' | '.join(WHO)} |", f"|---{'|---' * len(WHO)}|", *lines]
    print("\n".join(table))
    folder = ROOT / ".ballast"
    folder.mkdir(exist_ok=True)
    (folder / "review-rights.md").write_text("\n".join(table) + "\n")
    assert wrong == []


def test_it_is_the_origin_that_is_refused(url: str, tokens: dict[str, str]) -> None:
    foreign = headers_of("cross-site", url, tokens)
    answer = requests.patch(
        url + APPROVAL[0], json=APPROVAL[1], headers=foreign, timeout=limit_s(30)
    )
    assert "came from another site" in answer.json()["detail"]


def test_the_list_of_jobs_holds_those_that_a_person_may_see(
    url: str, tokens: dict[str, str]
) -> None:
    def names(user: str) -> list[str]:
        answer = requests.get(
            f"{url}/ballast/api/jobs",
            headers={"Authorization": f"Bearer {tokens[user]}"},
            timeout=limit_s(30),
        )
        return [line["job"] for line in answer.json()["jobs"]]

    assert names("vera") == ["clicks", "orders"]
    assert (names("clara"), names("otto")) == (["clicks"], ["orders"])


def test_every_route_of_the_app_is_in_the_table() -> None:
    class Nobody:
        def login(self) -> None:
            """Accept every user."""

        def may_see(self, _request: object, _job: str) -> bool:
            return False

    names = {"{job}": "clicks", "{plan}": "2", "{name}": "main.js"}
    paths = set()
    for route in build_app(None, Nobody()).routes:
        path = f"/ballast{route.path}"
        for name, value in names.items():
            path = path.replace(name, value)
        paths.add(path)
    assert paths <= {route.url.partition("?")[0] for route in ROUTES}
