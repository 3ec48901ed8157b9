"""A job is killed at each point of a take-up in steps, and at every step.

The job is that of ``routed_job.py``. Every version moves all key groups and changes routes, so its
take-up has several steps, and the last one changes the routes. Three stories, one after the other
with the same state:

- one version is killed in each of its steps, and each next process goes on where it was;
- versions are killed at each point of their second step, and the next version supersedes them;
- versions are killed at each point of their last step.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from ballast.contracts.fault_points import JOB_POINTS
from ballast.contracts.records import Ack
from ballast.contracts.settings import Settings, load_settings
from ballast.store.plans import read_acks
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import read_rows
from ballast.streaming.job_state import placement_in_force, read_states
from tests.faults.routed_job import POLICY, WORDS, committed, live
from tests.faults.test_streaming_crash_routes import routes
from tests.support.streaming_parts import JOB
from tests.support.streaming_plans import publish

MOVES_PER_BATCH = 3
KEY_GROUPS = 12


def nodes(by: int) -> Callable[[str, int], str]:
    """All key groups are on other nodes for the next ``by``, and for the one after it."""
    return lambda operator, group: f"node-{(group + by + len(operator)) % 3}"


@dataclass
class CrashedSteps:
    """All processes of the job."""

    settings: Settings
    exit_codes: dict[str, int | None] = field(default_factory=dict)
    """By fault point; those without one are not listed."""
    lives: int = 0
    version: int = 0

    def publish(self) -> int:
        """Publish the next version; returns it."""
        self.version += 1
        content = routes(1 + self.version % 2) if self.version > 1 else []
        publish(self.settings, POLICY, self.version, nodes(self.version), content)
        return self.version

    def run(self, batches: int, fault: str = "") -> None:
        """Run one process; without a fault point it must end by itself."""
        life = multiprocessing.get_context("forkserver").Process(
            target=live, args=(str(self.settings.home), batches, fault, MOVES_PER_BATCH)
        )
        life.start()
        life.join(240)
        if fault:
            self.exit_codes[fault] = life.exitcode
        else:
            assert life.exitcode == 0

    def acks(self, version: int | None = None) -> list[Ack]:
        return read_acks(self.settings, JOB, version)

    def steps(self, version: int) -> int:
        """Steps of a version, as the job acknowledged them."""
        return self.acks(version)[0].steps or 1


@dataclass(frozen=True)
class Stories:
    """The versions of each story."""

    job: CrashedSteps
    every_step: int
    superseded: Sequence[int]
    last_step: Sequence[int]


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Stories:
    settings = load_settings({"BALLAST_HOME": str(tmp_path_factory.mktemp("steps"))})
    ensure_tables(settings)
    # Each process is forked from one that has imported everything and has not started a job.
    multiprocessing.get_context("forkserver").set_forkserver_preload(["tests.faults.routed_job"])
    job = CrashedSteps(settings)
    job.publish()
    job.run(KEY_GROUPS + 2)

    every_step = job.publish()
    job.run(1)
    for step in range(2, job.steps(every_step) + 1):
        job.run(3, f"after_move@{every_step}.{step}")
    superseded = []
    for point in JOB_POINTS:
        superseded.append(job.publish())
        job.run(4, f"{point}@{superseded[-1]}.2")
    last_step = []
    for point in JOB_POINTS:
        last_step.append(job.publish())
        job.run(2)
        job.run(KEY_GROUPS + 2, f"{point}@{last_step[-1]}.{job.steps(last_step[-1])}")
    job.run(1)
    return Stories(job, every_step, superseded, last_step)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_process_was_killed_at_its_point(stories: Stories) -> None:
    codes = stories.job.exit_codes
    assert len(codes) >= 2 * len(JOB_POINTS) + 3
    assert codes == dict.fromkeys(codes, -signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_after_all_kills_every_count_is_that_of_the_input(stories: Stories) -> None:
    batches = committed(stories.job.settings)
    assert states(stories, "count") == {word: n * batches for word, n in Counter(WORDS).items()}
    letters = Counter(word[0] for word in WORDS)
    assert states(stories, "total") == {
        letter: {"word": n * batches, "counted": n * batches} for letter, n in letters.items()
    }


def states(stories: Stories, operator: str) -> dict[str, object]:
    """State by key; no key is in two key groups, or in a wrong one."""
    placement = placement_in_force(stories.job.settings, JOB)
    merged: dict[str, object] = {}
    for group, state in read_states(stories.job.settings, JOB, operator).items():
        assert {placement.group_of(operator, key) for key in state} <= {group}
        merged |= state
    return merged


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_after_all_kills_no_state_is_left_at_an_old_place(stories: Stories) -> None:
    settings = stories.job.settings
    placement = placement_in_force(settings, JOB)
    for file in (settings.home / "jobs" / JOB / "state").glob("*/*/*/*.json"):
        node, operator, group = file.parts[-4:-1]
        assert placement.node_of(operator, int(group)) == node


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_version_that_was_killed_in_every_step_was_applied_with_every_step_once(
    stories: Stories,
) -> None:
    acks = stories.job.acks(stories.every_step)
    last = acks[0].steps
    assert last is not None
    assert last > 2
    progress = [ack for ack in acks if ack.status == "progress"]
    assert [ack.status for ack in acks] == ["accepted", *["progress"] * (last - 1), "applied"]
    assert [ack.step for ack in acks] == [*range(last), last]
    moved = [name for ack in progress for name in ack.moved or ()]
    assert len(moved) == len(set(moved)) == KEY_GROUPS, "the last step moves keys alone"
    applied = acks[-1]
    assert applied.moved_key_groups == KEY_GROUPS
    assert applied.bytes_moved >= sum(ack.bytes_moved for ack in progress) > 0
    assert applied.longest_pause_ms is not None
    longest = max(ack.longest_pause_ms or 0 for ack in progress)
    assert longest <= applied.longest_pause_ms <= applied.pause_ms


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_rest_of_a_version_is_superseded_once_by_the_next_version(stories: Stories) -> None:
    for version in stories.superseded:
        acks = stories.job.acks(version)
        statuses = Counter(ack.status for ack in acks)
        # The second step was made before the kill, or by the process that repeated its batch.
        assert statuses == {"accepted": 1, "progress": 2, "superseded": 1}
        last = acks[-1]
        assert (last.status, last.step) == ("superseded", 2)
        assert f"version {version + 1} was accepted after step 2" in last.reason
        assert last.moved_key_groups == sum(len(ack.moved or ()) for ack in acks)
        assert last.bytes_moved == sum(a.bytes_moved for a in acks if a.status == "progress")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_version_that_was_killed_in_its_last_step_was_applied_once(stories: Stories) -> None:
    for version in stories.last_step:
        statuses = Counter(ack.status for ack in stories.job.acks(version))
        steps = stories.job.steps(version)
        assert statuses == {"accepted": 1, "progress": steps - 1, "applied": 1}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_after_all_kills_no_metric_is_lost_or_doubled(stories: Stories) -> None:
    settings = stories.job.settings
    groups = read_rows(settings, "metrics.key_groups", job=JOB).to_pandas()
    assert not groups.duplicated(["operator_id", "key_group", "window_start_at"]).any()
    parsed = groups[groups.operator_id == "parse"].records.sum()
    assert parsed == len(WORDS) * committed(settings)
