"""Whole deployments that work, and one that fails for each reason."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from ballast.cli.main import main
from ballast.contracts.contract_version import CONTRACT_PROPERTY, CONTRACT_VERSION
from ballast.contracts.settings import load_settings
from ballast.contracts.spark import JARS
from ballast.doctor.examination import examine, is_usable
from ballast.doctor.finding import CheckStatus, Finding
from ballast.doctor.folders import check_home, check_shared_home
from ballast.doctor.warehouse import CommitRace, check_warehouse, judge_race
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import address, append
from ballast.streaming.state_token import StateTokens
from tests.support.policies import small_policy, write_policy
from tests.support.rows import row_of
from tests.support.s3_server import BUCKET, client_variables, s3_server, stored_keys

OK, WARNING, FAILED, SKIPPED = (
    CheckStatus.OK, CheckStatus.WARNING, CheckStatus.FAILED, CheckStatus.NOT_CHECKED,
)  # fmt: skip
JOB = "clicks"
NOBODY = 65534


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A deployment with tables, a policy, jars and a job that has run."""
    env = {
        "BALLAST_HOME": str(tmp_path / "home"), "BALLAST_POLICIES": str(tmp_path / "policies"),
        "PATH": os.environ["PATH"],
    }  # fmt: skip
    settings = load_settings(env)
    ensure_tables(settings)
    settings.policies.mkdir()
    write_policy(settings.policies, small_policy(JOB))
    settings.jars.mkdir()
    for jar in JARS:
        (settings.jars / jar).touch()
    job = settings.home / "jobs" / JOB
    (job / "decisions").mkdir(parents=True)
    StateTokens(job / "state", job / "decisions" / "state-token.json").start(is_first_start=True)
    _write_window(env, datetime.now(UTC))
    return env


def _write_window(env: dict[str, str], end: datetime) -> None:
    row = row_of("metrics.nodes", job=JOB, window_end_at=end, window_date=end.date())
    append(load_settings(env), "metrics.nodes", [row])


def found(findings: list[Finding], check: str) -> Finding:
    (finding,) = [each for each in findings if each.check == check]
    return finding


@contextmanager
def as_nobody() -> Iterator[None]:
    """Give up the rights of root, which may write everywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A folder that everyone may read and nobody write."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_deployment_that_works(environment: dict[str, str]) -> None:
    before = sorted(Path(environment["BALLAST_HOME"]).rglob("*"))
    findings = examine(environment)
    wrong = [each for each in findings if each.check not in ("java", "airflow")
             and each.status in (WARNING, FAILED)]  # fmt: skip
    assert wrong == []
    assert found(findings, "atomic commit").seen == "4 writers, 5 rounds: one winner each"
    assert f"contract version {CONTRACT_VERSION}" in found(findings, "tables").seen
    assert found(findings, "state folders").status is OK
    assert found(findings, "clock of the metrics").status is OK
    assert sorted(Path(environment["BALLAST_HOME"]).rglob("*")) == before


def test_a_home_on_an_object_store(environment: dict[str, str]) -> None:
    findings = examine(environment | {"BALLAST_HOME": "s3a://bucket/home"})
    settings = found(findings, "settings")
    assert settings.status is FAILED
    assert "BALLAST_HOME is 's3a://bucket/home', which is no folder" in settings.seen
    assert "shared file system" in settings.remedy
    assert found(findings, "warehouse").status is SKIPPED
    assert not is_usable(findings)


def test_a_read_only_home_and_warehouse(environment: dict[str, str], read_only: Path) -> None:
    with as_nobody():
        home = check_home(read_only)
        below = check_home(read_only / "home")
        env = environment | {"BALLAST_WAREHOUSE": str(read_only)}
        warehouse, race, clock = check_warehouse(load_settings(env))
    assert (home.status, "Permission denied" in home.seen) == (FAILED, True)
    assert (below.status, "is not writable" in below.seen) == (FAILED, True)
    assert (warehouse.status, str(read_only) in warehouse.seen) == (FAILED, True)
    assert (race.status, clock.status) == (SKIPPED, SKIPPED)
    assert list(read_only.iterdir()) == []


def test_places_that_are_not_there_yet(environment: dict[str, str], tmp_path: Path) -> None:
    new = str(tmp_path / "new")
    findings = examine(environment | {"BALLAST_HOME": new, "BALLAST_JARS": f"{new}/jars"})
    assert found(findings, "home").status is WARNING
    assert found(findings, "warehouse").status is WARNING
    assert found(findings, "tables").status is SKIPPED
    assert not Path(new).exists()
    assert check_home(Path(__file__)).status is FAILED


def test_policies_that_are_missing_or_wrong(environment: dict[str, str]) -> None:
    folder = Path(environment["BALLAST_POLICIES"])
    append(load_settings(environment), "plans.heads", [row_of("plans.heads", job="orders")])
    orphan = found(examine(environment), "policies")
    assert (orphan.status, "no policy of orders" in orphan.seen) == (WARNING, True)
    (folder / "orders.yaml").write_text("job: orders\nnodes: many\n")
    wrong = found(examine(environment), "policies")
    assert (wrong.status, "1 of 2 are not valid" in wrong.seen) == (FAILED, True)
    shutil.rmtree(folder)
    missing = found(examine(environment), "policies")
    assert (missing.status, "is no folder" in missing.seen) == (FAILED, True)


def test_a_state_folder_that_is_not_the_one_of_the_last_start(environment: dict[str, str]) -> None:
    state = Path(environment["BALLAST_HOME"]) / "jobs" / JOB / "state"
    shutil.rmtree(state)
    state.mkdir()
    finding = found(examine(environment), "state folders")
    assert (finding.status, str(state) in finding.seen) == (FAILED, True)
    record = state.parent / "decisions" / "state-token.json"
    record.write_text("{")
    assert found(examine(environment), "state folders").status is FAILED


def test_hosts_of_a_cluster_see_each_other_in_a_shared_home(tmp_path: Path) -> None:
    assert check_shared_home(tmp_path, "driver", is_local_spark=True).status is SKIPPED
    alone = check_shared_home(tmp_path, "driver", is_local_spark=False)
    assert (alone.status, "only this host, driver" in alone.seen) == (WARNING, True)
    both = check_shared_home(tmp_path, "worker/1", is_local_spark=False)
    assert (both.status, "worker_1, driver" in both.seen) == (OK, True)


@pytest.mark.parametrize("wrong_by_s", [-3600.0, 3600.0])
def test_a_wrong_clock_of_this_host(environment: dict[str, str], wrong_by_s: float) -> None:
    findings = examine(environment, clock=lambda: time.time() + wrong_by_s)
    store = found(findings, "clock of the store")
    assert store.status is FAILED
    assert ("behind" if wrong_by_s > 0 else "ahead of") in store.seen
    assert "NTP" in store.remedy


def test_windows_of_the_future(environment: dict[str, str]) -> None:
    _write_window(environment, datetime.now(UTC) + timedelta(minutes=30))
    finding = found(examine(environment), "clock of the metrics")
    assert (finding.status, f"window of job {JOB}" in finding.seen) == (FAILED, True)


def test_a_table_of_a_newer_contract_version(environment: dict[str, str]) -> None:
    table = DeltaTable(address(load_settings(environment), "plans.heads"))
    newer = {CONTRACT_PROPERTY: str(CONTRACT_VERSION + 1)}
    table.alter.set_table_properties(newer, raise_if_not_exists=False)
    finding = found(examine(environment), "tables")
    assert finding.status is FAILED
    assert f"plans.heads has contract version {CONTRACT_VERSION + 1}" in finding.seen


def test_a_table_that_cannot_be_read(environment: dict[str, str]) -> None:
    log = Path(address(load_settings(environment), "plans.acks")) / "_delta_log"
    for file in log.iterdir():
        file.write_text("not a commit\n")
    finding = found(examine(environment), "tables")
    assert (finding.status, "plans.acks cannot be read" in finding.seen) == (FAILED, True)


@pytest.mark.parametrize(
    ("rounds", "status", "seen"),
    [
        ([CommitRace(1, 3)] * 5, OK, "one winner each"),
        ([CommitRace(1, 3), CommitRace(2, 2)], FAILED, "in 1 of them more than one writer"),
        ([CommitRace(0, 3, ("NotImplemented",))], FAILED, "NotImplemented"),
        ([CommitRace(1, 2, ("timed out",))], FAILED, "timed out"),
        ([CommitRace(0, 4)], FAILED, "no writer made the commit"),
        ([], SKIPPED, "no scratch table"),
    ],
)
def test_a_race_has_one_winner_in_each_round(
    rounds: list[CommitRace], status: CheckStatus, seen: str
) -> None:
    finding = judge_race(rounds)
    assert (finding.status, seen in finding.seen) == (status, True)


def test_the_command_prints_findings_and_its_exit_code_is_for_scripts(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("BALLAST_WAREHOUSE", raising=False)
    monkeypatch.setenv("BALLAST_POLICIES", "/nowhere/policies")
    assert main(["doctor", "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert printed["ok"] is False
    assert set(printed["checks"][0]) == {"check", "status", "seen", "remedy"}
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "policies: set BALLAST_POLICIES to the folder" in text
    assert f"{len(printed['checks'])} checks: " in text


@contextmanager
def warehouse_at(url: str) -> Iterator[dict[str, str]]:
    """Variables of a deployment whose warehouse is on an S3 server."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in client_variables(url).items():
            patch.setenv(name, value)
        yield {"BALLAST_WAREHOUSE": f"s3a://{BUCKET}/warehouse"}


def test_an_object_store_with_conditional_put(environment: dict[str, str]) -> None:
    with s3_server() as url, warehouse_at(url) as own:
        findings = examine(environment | own)
        assert stored_keys(url) == []
    for check in ("warehouse", "atomic commit", "clock of the store"):
        assert found(findings, check).status is OK, check
    assert found(findings, "tables").status is SKIPPED


def test_an_object_store_without_conditional_put_and_with_a_wrong_clock(
    environment: dict[str, str],
) -> None:
    with s3_server(has_conditional_put=False, ahead_s=1800.0) as url, warehouse_at(url) as own:
        findings = examine(environment | own)
    race, clock = found(findings, "atomic commit"), found(findings, "clock of the store")
    assert (race.status, "more than one writer made the same commit" in race.seen) == (FAILED, True)
    assert "conditional put" in race.remedy
    assert (clock.status, "ahead of this host" in clock.seen) == (FAILED, True)


def test_an_object_store_that_does_not_answer(environment: dict[str, str]) -> None:
    # No server listens on the port: every call is refused at once.
    with warehouse_at("http://127.0.0.1:9") as own:
        findings = examine(environment | own)
    warehouse = found(findings, "warehouse")
    assert (warehouse.status, bool(warehouse.remedy)) == (FAILED, True)
    assert found(findings, "tables").status is SKIPPED
