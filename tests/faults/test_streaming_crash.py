"""The flights job is killed by SIGKILL at each point between reading a plan and acknowledging it.

One folder is used by one process for each fault point. Process k starts with version k published,
repeats the batch that process k-1 left unfinished under the version of that batch, takes version k
up in its next batch and is killed there. So a chain of n + 1 processes covers n fault points. The
last process is stopped by SIGTERM. Then all sums must be those of the input.

Every version moves half of the key groups to another node and leaves the others, and changes the
routes of single keys of all operators: versions 1, 4 and 7 add routes, 2, 5 and 8 change them, 3, 6
and 9 remove them. So at each point there are key groups that move, key groups that lose or get
keys, and key groups with both.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from ballast.contracts.fault_points import JOB_POINTS, VARIABLE
from ballast.contracts.policy import JobPolicy, load_policy
from ballast.contracts.settings import Settings, load_settings
from ballast.store.plans import read_acks
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import read_rows
from ballast.streaming.job_state import job_folder, placement_in_force, read_states
from examples.flights.check import SumsReport, check_sums
from examples.flights.feed import FlightsFolder
from tests.support.streaming_plans import publish

ROOT = Path(__file__).resolve().parents[2]
JOB = "flights"
TAILS = [f"N{number:03d}" for number in range(97)]
DESTS = [f"D{number:02d}" for number in range(31)]
FILES = 8
LINES = 250
FEW = ["--records", "2000", "--rate", "50000", "--trigger", "0.2"]  # two files


@dataclass(frozen=True)
class Death:
    """The files of the job after a process was killed at a fault point."""

    exit_code: int
    batch_id: int
    version: int
    applied: int


@dataclass(frozen=True)
class CrashedJob:
    """All processes of the job, and its results."""

    settings: Settings
    deaths: dict[str, Death]
    last_exit_code: int
    report: SumsReport
    stopped_by_term: str


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> CrashedJob:
    home = tmp_path_factory.mktemp("crash")
    settings = load_settings({"BALLAST_HOME": str(home)})
    policy = load_policy(ROOT / "policies" / "flights.yaml")
    ensure_tables(settings)
    write_chunks(FlightsFolder(job_folder(settings, JOB)).chunks)
    run_process(settings, *FEW)
    deaths = {}
    for version, point in enumerate(JOB_POINTS, start=1):
        node_of, nodes = shifted(policy, version), actions(policy, version)
        publish(settings, policy, version, node_of, routes(policy, version), nodes)
        code = run_process(settings, *FEW, fault=f"{point}@{version}")
        deaths[point] = death(settings, code, version)
    code, output = run_until_term(settings)
    return CrashedJob(settings, deaths, code, check_sums(settings), output)


def actions(policy: JobPolicy, version: int) -> dict[str, str]:
    """Every other version removes the last node, and the next one adds it again."""
    last = policy.nodes[-1].id
    kept = {node.id: "keep" for node in policy.nodes}
    return kept | {last: "remove" if version % 2 else "add"}


def shifted(policy: JobPolicy, by: int):
    nodes = [node for node, action in actions(policy, by).items() if action != "remove"]
    return lambda operator, group: nodes[(group + by * (group % 2) + len(operator)) % len(nodes)]


def routes(policy: JobPolicy, version: int) -> list[tuple[str, str, int]]:
    """Routes of half of the keys of each operator, in two thirds of the versions, different each
    time."""
    if version % 3 == 0:
        return []
    keys = {operator.id: TAILS for operator in policy.operators} | {"sum_by_destination": DESTS}
    return [
        (operator.id, key, (number + version) % operator.key_groups)
        for operator in policy.operators
        for number, key in enumerate(keys[operator.id])
        if (number + version) % 2
    ]


def write_chunks(folder: Path) -> None:
    """Flights of a small data set: several airplanes, some without a tail number or an arrival."""
    folder.mkdir(parents=True)
    for number in range(FILES):
        lines = []
        for line in range(number * LINES, (number + 1) * LINES):
            tail = "" if line % 40 == 0 else TAILS[line * 7 % 97]
            delay = "" if line % 25 == 0 else f"{float(line * 13 % 90 - 30)}"
            dest = DESTS[line * 5 % 31]
            lines.append(
                f"2013,1,1,517.0,515,2.0,830.0,819,{delay},UA,{line % 60},{tail},EWR,{dest},"
                "227.0,1400,5,15,2013-01-01T10:00:00Z\n"
            )
        (folder / f"chunk-{number:06d}.csv").write_text("".join(lines))


def environment(settings: Settings, fault: str | None = None) -> dict[str, str]:
    changes = {
        "BALLAST_HOME": str(settings.home),
        "BALLAST_JARS": str(ROOT / ".ballast" / "jars"),
        "BALLAST_POLICIES": str(ROOT / "policies"),
        "PYSPARK_PYTHON": sys.executable,
    }
    kept = {k: v for k, v in os.environ.items() if k not in (VARIABLE, "BALLAST_WAREHOUSE")}
    return kept | changes | ({VARIABLE: fault} if fault else {})


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "examples.flights", *arguments]


def run_process(settings: Settings, *arguments: str, fault: str | None = None) -> int:
    done = subprocess.run(
        command(*arguments),
        env=environment(settings, fault),
        cwd=ROOT,
        timeout=200,
        check=False,
        stderr=subprocess.PIPE,
        text=True,
    )
    if fault is None:
        assert done.returncode == 0, done.stderr[-3000:]
    return done.returncode


def run_until_term(settings: Settings) -> tuple[int, str]:
    """Run without a limit until some new batches are done, then send SIGTERM."""
    start = newest_decision(settings)["batch_id"]
    process = subprocess.Popen(
        command("--rate", "3000", "--trigger", "0.2"),
        env=environment(settings),
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while newest_decision(settings)["batch_id"] < start + 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    _, output = process.communicate(timeout=120)
    return process.returncode, output


def newest_decision(settings: Settings) -> dict[str, int]:
    found = sorted((job_folder(settings, JOB) / "decisions").glob("batch-*.json"))
    return json.loads(found[-1].read_text())


def death(settings: Settings, code: int, version: int) -> Death:
    decision = newest_decision(settings)
    applied = [a for a in read_acks(settings, JOB, version) if a.status == "applied"]
    return Death(code, decision["batch_id"], decision["version"], len(applied))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("version", "point"), list(enumerate(JOB_POINTS, start=1)))
def test_a_kill_between_reading_a_plan_and_acknowledging_it_is_survived(story, version, point):
    died = story.deaths[point]
    assert died.exit_code == -signal.SIGKILL, "the process ended at the fault point"
    assert died.version == version, "the decision was on disk"
    assert died.applied == (1 if point == "after_ack" else 0)
    acks = read_acks(story.settings, JOB, version)
    assert Counter(ack.status for ack in acks) == {"accepted": 1, "applied": 1}
    applied = next(ack for ack in acks if ack.status == "applied")
    assert applied.batch_id == died.batch_id, "the repetition used the decision of the batch"
    assert applied.moved_key_groups > 0
    assert applied.bytes_moved > 0
    assert applied.pause_ms > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_after_all_kills_every_sum_is_that_of_the_input(story):
    assert story.report.equal, story.report.text()
    assert story.report.flights > 2 * LINES * len(JOB_POINTS)
    assert placement_in_force(story.settings, JOB).version == len(JOB_POINTS)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_after_all_kills_every_key_is_in_its_key_group(story):
    placement = placement_in_force(story.settings, JOB)
    for operator in ("sum_by_airplane", "sum_by_destination"):
        found = [
            (group, key)
            for group, state in read_states(story.settings, JOB, operator).items()
            for key in state
        ]
        assert len({key for _, key in found}) == len(found) > 0, "no key is in two key groups"
        assert all(placement.group_of(operator, key) == group for group, key in found)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_after_all_kills_no_metric_is_lost_or_doubled(story):
    groups = read_rows(story.settings, "metrics.key_groups", job=JOB).to_pandas()
    assert not groups.duplicated(["operator_id", "key_group", "window_start_at"]).any()
    counted = groups[groups.operator_id == "extract_delays"].records.sum()
    assert counted == story.report.flights
    nodes = read_rows(story.settings, "metrics.nodes", job=JOB).to_pandas()
    assert not nodes.duplicated(["node_id", "window_start_at"]).any()
    pairs = read_rows(story.settings, "metrics.key_pairs", job=JOB).to_pandas()
    to_destinations = pairs[pairs.to_operator_id == "sum_by_destination"]
    assert to_destinations.records.sum() == story.report.flights


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sigterm_ends_the_job_at_a_batch_boundary_with_exit_code_zero(story):
    assert story.last_exit_code == 0, story.stopped_by_term[-3000:]
    left = job_folder(story.settings, JOB) / "acks"
    assert list(left.glob("ack-*")) == []
