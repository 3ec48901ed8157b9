"""The page's app on real tables, with rights that a test sets."""

from __future__ import annotations

import hashlib
import json
import re
import time
from pathlib import Path

import pytest
from fastapi import HTTPException, Request
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from ballast.cli.approve import WAITING
from ballast.contracts.contract_version import CONTRACT_PROPERTY
from ballast.contracts.records import Snapshot
from ballast.contracts.settings import Settings, load_settings
from ballast.store.cache import TableCache
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import open_table
from bench.review_page.warehouse import SampleJob, ids_of, job_policy, write_job
from plugins.review.app import build_app
from plugins.review.assets import WEB
from plugins.review.routes import place_of, text_of

JOB = "clicks"


class Chosen:
    """Accepts requests that name a user, and allows the jobs that the request names."""

    def login(self, request: Request) -> None:
        if "x-user" not in request.headers:
            raise HTTPException(401, "Not authenticated")

    def may_see(self, request: Request, job: str) -> bool:
        return job in request.headers["x-user"].split(",")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    home = tmp_path_factory.mktemp("home")
    made = load_settings({"BALLAST_HOME": str(home), "BALLAST_POLICIES": str(home / "policies")})
    write_job(made, SampleJob(job_policy(JOB, 2, 10, 3), per_version=3), 2)
    made.policies.mkdir()
    (made.policies / "orders.yaml").write_text("")
    return made


@pytest.fixture(scope="module")
def client(settings: Settings) -> TestClient:
    made = TestClient(
        build_app(TableCache(settings), Chosen()), headers={"x-user": f"{JOB},orders"}
    )
    made.follow_redirects = False
    return made


def routes(client: TestClient) -> list[str]:
    names = {"{job}": JOB, "{plan}": "2", "{name}": "main.js"}
    found = []
    for route in client.app.routes:  # type: ignore[attr-defined]
        assert isinstance(route, APIRoute), "docs, schema and static folders are not ours to serve"
        assert route.methods == {"GET"}, "the app writes nothing"
        path = route.path
        for name, value in names.items():
            path = path.replace(name, value)
        found.append(path)
    return found


QUERIES = {f"/api/jobs/{JOB}/run": "?run_id=x"} | {
    f"/api/jobs/{JOB}/plans/2/{what}": "?against=1"
    for what in ("difference", "node_difference", "route_difference")
}


def test_every_route_answers_only_those_with_the_right(client: TestClient) -> None:
    for path in routes(client):
        url = path + QUERIES.get(path, "")
        assert client.get(url).status_code == 200, url
        assert client.get(url, headers={"x-user": JOB}).status_code == 200, url
        of_a_job = f"/{JOB}" in path
        assert client.get(url, headers={"x-user": "orders"}).status_code == (
            403 if of_a_job else 200
        ), url
        client.headers.pop("x-user")
        assert client.get(url).status_code == 401, url
        client.headers["x-user"] = f"{JOB},orders"


def test_every_answer_has_the_strict_headers(client: TestClient) -> None:
    for url in ("/", "/assets/main.js", "/assets/none.js", "/api/jobs", "/api/jobs/other", "/x"):
        headers = client.get(url).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
    assert client.get("/api/jobs").headers["cache-control"] == "no-store"


def test_a_person_sees_the_jobs_they_may_see(client: TestClient) -> None:
    def names(user: str) -> list[str]:
        answer = client.get("/api/jobs", headers={"x-user": user}).json()
        return [line["job"] for line in answer["jobs"]]

    assert names(f"{JOB},orders") == [JOB, "orders"]
    assert names("orders") == ["orders"]
    assert names("nobody") == []


def test_documents_of_the_api_are_off(client: TestClient) -> None:
    for url in ("/docs", "/redoc", "/openapi.json"):
        assert client.get(url).status_code == 404


@pytest.mark.parametrize("job", ["..", "Clicks", "clicks%0a", "clicks%20", "a" * 64, "%2e%2e%2fx"])
def test_a_name_that_is_no_job_name_is_refused(client: TestClient, job: str) -> None:
    client.headers["x-user"] = f"{JOB},orders,clicks\n"
    try:
        assert client.get(f"/api/jobs/{job}").status_code in (400, 404)
    finally:
        client.headers["x-user"] = f"{JOB},orders"


@pytest.mark.parametrize("name", ["../app.py", "..%2fapp.py", "%2fetc%2fpasswd", "vendor.lock", ""])
def test_no_file_is_read_by_a_name_from_the_request(client: TestClient, name: str) -> None:
    assert client.get(f"/assets/{name}").status_code == 404


def test_nothing_is_written_by_any_method(client: TestClient) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert client.request(method, f"/api/jobs/{JOB}").status_code == 405


def test_a_job_without_plans_and_an_unknown_version_say_what_to_do(client: TestClient) -> None:
    empty = client.get("/api/jobs/orders").json()
    assert (empty["job"]["version"], empty["versions"]) == (0, [])
    missing = client.get(f"/api/jobs/{JOB}/plans/77")
    assert missing.status_code == 404
    assert missing.json()["kind"] == "not_found"
    assert missing.json()["remedy"]


def test_a_broken_table_is_named_without_its_address(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = load_settings({"BALLAST_HOME": str(tmp_path), "BALLAST_POLICIES": str(tmp_path)})
    log = Path(broken.warehouse, "plans", "log", "_delta_log")
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("{")
    answer = TestClient(build_app(TableCache(broken), Chosen()), headers={"x-user": JOB}).get(
        "/api/jobs"
    )
    assert answer.status_code == 503
    assert answer.json()["problem"] == "table plans.log cannot be read"
    assert str(tmp_path) not in answer.text
    assert str(tmp_path) in caplog.text


def test_a_table_of_a_later_version_is_named_with_what_to_install(tmp_path: Path) -> None:
    newer = load_settings({"BALLAST_HOME": str(tmp_path), "BALLAST_POLICIES": str(tmp_path)})
    ensure_tables(newer, ["plans.heads"])
    changed = {CONTRACT_PROPERTY: "99"}
    heads = open_table(newer, "plans.heads")
    heads.alter.set_table_properties(changed, raise_if_not_exists=False)
    client = TestClient(build_app(TableCache(newer), Chosen()), headers={"x-user": JOB})
    answer = client.get("/api/jobs")
    assert (answer.status_code, answer.json()["kind"]) == (503, "newer_table")
    assert "plans.heads has contract version 99" in answer.json()["problem"]
    assert "install that version here too" in answer.json()["remedy"]


def test_values_of_tables_come_as_they_are(client: TestClient) -> None:
    wanted = {"operator": "<script>alert(1)</script>", "limit": "5"}
    answer = client.get(f"/api/jobs/{JOB}/plans/2/moves", params=wanted)
    assert answer.json() == {"rows": [], "after": None}
    assert answer.headers["content-type"] == "application/json"


def test_moves_are_paged_by_where_the_last_page_ended(client: TestClient) -> None:
    url = f"/api/jobs/{JOB}/plans/{ids_of(JOB, 1)[2]}/moves"
    for order in ("key", "bytes"):
        everything = client.get(url, params={"order": order}).json()["rows"]
        found, after = [], None
        while True:
            values = {"order": order, "limit": "1"} | ({"after": after} if after else {})
            page = client.get(url, params=values).json()
            found += page["rows"]
            after = page["after"]
            if after is None:
                break
        assert found == everything


@pytest.mark.parametrize("after", ["", "x", "1", "-1.op", "9" * 20 + ".op", "1e3.op"])
def test_a_page_that_no_page_led_to_is_refused(client: TestClient, after: str) -> None:
    url = f"/api/jobs/{JOB}/plans/1/moves"
    assert client.get(url, params={"after": after}).status_code == 400


def test_places_survive_names_with_dots() -> None:
    assert place_of(text_of(("a.b.c", 3)), "key") == ("a.b.c", 3)
    assert place_of(text_of((7, "a.b.c", 3)), "bytes") == (7, "a.b.c", 3)


def test_a_server_reads_ahead_when_it_starts(settings: Settings) -> None:
    cache = TableCache(settings)
    with TestClient(build_app(cache, Chosen())):
        deadline = time.monotonic() + 20
        while not cache.is_cached(Snapshot, JOB):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_an_asset_that_the_browser_has_is_not_sent_again(client: TestClient) -> None:
    first = client.get("/assets/style.css")
    again = client.get("/assets/style.css", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_vendored_files_are_those_of_the_lock() -> None:
    lock = (WEB / "vendor" / "vendor.lock").read_text().splitlines()
    files = dict(line.split()[1:] for line in lock if line.startswith("file "))
    assert len(files) == 3
    for name, digest in files.items():
        assert hashlib.sha256((WEB / "vendor" / name).read_bytes()).hexdigest() == digest


def test_scripts_put_data_into_the_page_as_text_alone() -> None:
    ours = list(WEB.glob("*.js"))
    assert len(ours) > 8
    for file in ours:
        text = file.read_text()
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in text, (file.name, word)
        assert "://" not in text, f"{file.name} names another server"


def test_the_page_lists_questions_in_the_states_that_the_command_answers() -> None:
    """A question that is visible before its task waits must not be answered: that failed the
    run."""
    said = re.search(r"const WAITING = (\[.*\]);", (WEB / "api.js").read_text())
    assert said is not None
    assert set(json.loads(said[1])) == WAITING
    assert "&& WAITING.includes(row.state)" in (WEB / "api.js").read_text()
