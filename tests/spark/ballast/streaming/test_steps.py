"""A job on Spark takes plans up in steps: exact counts, and a newer plan ends the steps."""

from __future__ import annotations

import pytest

from ballast.store.plans import read_acks
from ballast.streaming.job_state import placement_in_force
from tests.spark.ballast.streaming.test_job import check_counts
from tests.support.streaming_bench import Bench
from tests.support.streaming_parts import JOB, OPERATORS, policy_of
from tests.support.streaming_plans import publish

NODES = [{"id": "node-0"}, {"id": "node-1"}, {"id": "node-2", "spare": True}]
POLICY = policy_of(
    3, window_s=1, statistics_period_s=10, nodes=NODES, scaling={},
    take_up={"moves_per_batch": 4},
)  # fmt: skip
ACTIONS = {"node-0": "keep", "node-1": "keep"}


@pytest.fixture
def bench(spark, settings, tmp_path):
    return Bench(spark, settings, tmp_path, OPERATORS)


def spread(over, by=0):
    return lambda operator, group: f"node-{(group + by + len(operator)) % over}"


def feed(bench, running, times):
    for _ in range(times):
        bench.feed()
        running.drain()


def test_counts_stay_exact_over_steps_new_and_removed_nodes_restarts_and_a_newer_plan(bench):
    with bench.start(POLICY) as running:
        feed(bench, running, 2)
        publish(bench.settings, POLICY, 1, spread(3), nodes={**ACTIONS, "node-2": "add"})
        feed(bench, running, 8)
        assert placement_in_force(bench.settings, JOB).name == (1, None)
        publish(bench.settings, POLICY, 2, spread(2), nodes={**ACTIONS, "node-2": "remove"})
        feed(bench, running, 1)
        assert placement_in_force(bench.settings, JOB).name == (2, 1)
    # The next process goes on; then a newer plan ends the steps.
    with bench.start(POLICY) as running:
        feed(bench, running, 1)
        assert placement_in_force(bench.settings, JOB).name in {(2, 2), (2, None)}
        publish(bench.settings, POLICY, 3, spread(2, 1), nodes={**ACTIONS, "node-2": "drain"})
        feed(bench, running, 1)
        publish(bench.settings, POLICY, 4, spread(2), nodes={**ACTIONS, "node-2": "remove"})
        feed(bench, running, 8)
    check_counts(bench)
    assert placement_in_force(bench.settings, JOB).name == (4, None)
    said = {version: read_acks(bench.settings, JOB, version) for version in (1, 3, 4)}
    assert said[1][-1].status == said[4][-1].status == "applied"
    assert said[3][-1].status == "superseded"
    applied = said[1][-1]
    progress = [ack for ack in said[1] if ack.status == "progress"]
    assert [ack.step for ack in progress] == list(range(1, applied.steps))
    assert applied.moved_key_groups > sum(len(ack.moved) for ack in progress) > 0
    assert applied.batch_id == progress[0].batch_id + len(progress)
    assert applied.pause_ms >= applied.longest_pause_ms > 0
