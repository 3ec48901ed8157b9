"""The flights job takes a plan up in steps and is killed by SIGKILL in each of them.

Process k repeats the batch that process k - 1 left unfinished, makes the next step and is killed
there. The last process is stopped by SIGTERM once the plan is applied. All points of a step are in
``test_streaming_crash_steps.py``, without Spark.
"""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import dataclass

import pytest
import yaml

from ballast.contracts.policy import load_policy
from ballast.contracts.records import Ack
from ballast.contracts.settings import Settings, load_settings
from ballast.store.plans import read_acks
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import read_rows
from ballast.streaming.job_state import job_folder, placement_in_force
from examples.flights.check import SumsReport, check_sums
from examples.flights.feed import FlightsFolder
from tests.faults.test_streaming_crash import (
    FEW,
    JOB,
    ROOT,
    run_process,
    run_until_term,
    write_chunks,
)
from tests.support.streaming_plans import publish

KILLS = ("during_move@1.1", "moves_recorded@1.2", "after_state@1.3")


@dataclass(frozen=True)
class KilledInSteps:
    """All processes of the job, and its results."""

    settings: Settings
    exit_codes: dict[str, int]
    last_exit_code: int
    report: SumsReport
    acks: list[Ack]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> KilledInSteps:
    home = tmp_path_factory.mktemp("steps")
    settings = load_settings(
        {"BALLAST_HOME": str(home), "BALLAST_POLICIES": str(home / "policies")}
    )
    path = settings.policies / f"{JOB}.yaml"
    path.parent.mkdir()
    content = yaml.safe_load((ROOT / "policies" / f"{JOB}.yaml").read_text())
    path.write_text(yaml.safe_dump(content | {"take_up": {"moves_per_batch": 30}}))
    policy = load_policy(path)
    ensure_tables(settings)
    write_chunks(FlightsFolder(job_folder(settings, JOB)).chunks)
    run_process(settings, *FEW)
    before = placement_in_force(settings, JOB)
    following = {node.id: policy.nodes[n - 1].id for n, node in enumerate(policy.nodes)}
    publish(settings, policy, 1, lambda o, g: following[before.node_of(o, g)])
    codes = {point: run_process(settings, *FEW, fault=point) for point in KILLS}
    code, _ = run_until_term(settings, lambda: is_applied(settings))
    return KilledInSteps(settings, codes, code, check_sums(settings), read_acks(settings, JOB, 1))


def is_applied(settings: Settings) -> bool:
    return any(ack.status == "applied" for ack in read_acks(settings, JOB, 1))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_process_was_killed_in_its_step(story: KilledInSteps) -> None:
    assert story.exit_codes == dict.fromkeys(KILLS, -signal.SIGKILL)
    assert story.last_exit_code == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_after_kills_in_every_step_every_sum_is_that_of_the_input(story: KilledInSteps) -> None:
    assert story.report.equal, story.report.text()
    assert placement_in_force(story.settings, JOB).name == (1, None)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_step_was_made_and_acknowledged_once(story: KilledInSteps) -> None:
    last = story.acks[-1]
    assert last.steps is not None
    assert last.steps > len(KILLS)
    statuses = Counter(ack.status for ack in story.acks)
    assert statuses == {"accepted": 1, "progress": last.steps - 1, "applied": 1}
    assert last.moved_key_groups == 120
    batches = [ack.batch_id for ack in story.acks[1:]]
    assert batches == list(range(batches[0], batches[0] + last.steps))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_metric_is_lost_or_doubled_over_the_steps(story: KilledInSteps) -> None:
    groups = read_rows(story.settings, "metrics.key_groups", job=JOB).to_pandas()
    assert not groups.duplicated(["operator_id", "key_group", "window_start_at"]).any()
    counted = groups[groups.operator_id == "extract_delays"].records.sum()
    assert counted == story.report.flights
