"""What a job does with other plans, limits and routes while it makes the steps of a plan."""

from __future__ import annotations

from collections import Counter

import pytest

from ballast.contracts.settings import load_settings
from ballast.store.plans import read_acks
from ballast.store.table_schema import ensure_tables
from ballast.streaming import batch_runner
from ballast.streaming.job_state import job_folder, placement_in_force, read_states
from tests.faults.routed_job import POLICY, WORDS, FakeRoutes, Frame, policy_in_steps, run_stages
from tests.support.streaming_parts import JOB, topology_by_key
from tests.support.streaming_plans import publish


class JobInSteps:
    """A job without Spark that runs batch after batch, and may be started again."""

    def __init__(self, settings):
        self.settings, self.batches = settings, 0
        self.sent: list[FakeRoutes] = []
        """The routes that were sent when each batch ran."""
        self.start(3)

    def start(self, moves_per_batch):
        policy = policy_in_steps(moves_per_batch) if moves_per_batch else POLICY
        self.runtime = batch_runner.JobRuntime(
            topology_by_key(policy), "value", self.settings, policy,
            job_folder(self.settings, JOB),
        )  # fmt: skip

    def run(self, batches):
        for _ in range(batches):
            self.runtime.on_batch(Frame(), self.batches)
            self.batches += 1
            self.sent.append(self.runtime.sent_routes)

    def statuses(self, version):
        return [ack.status for ack in read_acks(self.settings, JOB, version)]

    def check_counts(self):
        counted = {}
        for state in read_states(self.settings, JOB, "count").values():
            counted |= state
        assert counted == {word: n * self.batches for word, n in Counter(WORDS).items()}


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.setattr(batch_runner, "run_stages", run_stages)
    monkeypatch.setattr(batch_runner, "SentRoutes", FakeRoutes)
    settings = load_settings({"BALLAST_HOME": str(tmp_path)})
    ensure_tables(settings)
    job = JobInSteps(settings)
    publish(settings, POLICY, 1, shifted(0))
    job.run(14)
    assert job.statuses(1)[-1] == "applied"
    return job


def shifted(by):
    return lambda operator, group: f"node-{(group + by + len(operator)) % 3}"


def test_a_newer_plan_that_is_refused_ends_no_step(job):
    publish(job.settings, POLICY, 2, shifted(1))
    job.run(1)
    publish(job.settings, POLICY, 3, lambda *_: "node-9")
    job.run(12)
    assert job.statuses(3) == ["refused"]
    steps = read_acks(job.settings, JOB, 2)[-1].steps
    assert job.statuses(2) == ["accepted", *["progress"] * (steps - 1), "applied"]
    assert placement_in_force(job.settings, JOB).name == (2, None)
    job.check_counts()


@pytest.mark.parametrize("other_limit", [1, 12, None])
def test_a_job_that_starts_with_other_limits_goes_on_with_the_recorded_steps(job, other_limit):
    publish(job.settings, POLICY, 2, shifted(1))
    job.run(2)
    steps = read_acks(job.settings, JOB, 2)[0].steps
    assert steps > 3
    job.start(other_limit)
    job.run(steps - 2)
    acks = read_acks(job.settings, JOB, 2)
    assert [(a.status, a.step) for a in acks[-2:]] == [("progress", steps - 1), ("applied", steps)]
    job.check_counts()


def test_a_rollback_in_the_middle_moves_back_what_the_steps_moved(job):
    before = placement_in_force(job.settings, JOB)
    publish(job.settings, POLICY, 2, shifted(1))
    job.run(2)
    moved = [name for ack in read_acks(job.settings, JOB, 2) for name in ack.moved or ()]
    publish(job.settings, POLICY, 3, shifted(0))
    job.run(12)
    assert job.statuses(2) == ["accepted", "progress", "progress", "superseded"]
    applied = read_acks(job.settings, JOB, 3)[-1]
    assert (applied.status, applied.moved_key_groups) == ("applied", len(moved))
    assert placement_in_force(job.settings, JOB).nodes == before.nodes
    job.check_counts()


def test_routes_are_sent_once_and_not_for_each_step(job):
    first = [("count", word, 0) for word in WORDS[:5]]
    publish(job.settings, POLICY, 2, shifted(1), first)
    job.run(14)
    assert job.statuses(2)[-1] == "applied"
    job.sent.clear()
    publish(job.settings, POLICY, 3, shifted(2), [("count", word, 1) for word in WORDS[:5]])
    job.run(14)
    steps = read_acks(job.settings, JOB, 3)[-1].steps
    assert steps > 2
    assert len(set(map(id, job.sent[: steps - 1]))) == 1, "as before, in all steps but the last"
    assert len(set(map(id, job.sent))) == 2
    job.check_counts()


def test_no_placement_of_an_earlier_step_is_kept(job):
    publish(job.settings, POLICY, 2, shifted(1))
    job.run(14)
    folder = job_folder(job.settings, JOB) / "decisions"
    steps = read_acks(job.settings, JOB, 2)[-1].steps
    kept = {path.stem for path in folder.glob("placement-*.json")}
    assert kept == {"placement-2", f"placement-2-step-{steps - 1}"}
