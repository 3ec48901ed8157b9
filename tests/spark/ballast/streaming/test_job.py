"""A job of depth 3 on Spark: exact counts over plan changes, correct acknowledgements and
metrics."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from ballast.contracts.errors import BallastError, InvalidInput, JobStalled, StateNotShared
from ballast.store.plans import read_acks
from ballast.streaming import Operator
from ballast.streaming import job as job_module
from ballast.streaming.job_state import job_folder, placement_in_force
from tests.support.streaming_bench import FAST, POLICY, WORDS, Bench
from tests.support.streaming_parts import JOB, OPERATORS, count, policy_of
from tests.support.streaming_plans import publish


def check_counts(bench):
    assert bench.state("count") == dict(bench.counted)
    letters = Counter()
    for word, times in bench.counted.items():
        letters[f"{word[0]}:word"] += times
        letters[f"{word[0]}:counted"] += times
    assert bench.state("total") == dict(letters)


@pytest.fixture
def bench(spark, settings, tmp_path):
    return Bench(spark, settings, tmp_path, OPERATORS)


def shifted(by):
    return lambda operator, group: f"node-{(group + by + len(operator)) % 3}"


def test_what_a_program_has_to_say_of_the_policy_is_logged_at_the_start(bench, caplog):
    bench.job = replace(bench.job, advise=lambda policy: [f"job {policy.job} could be better"])
    with caplog.at_level("INFO", logger="ballast.streaming"), bench.start():
        pass
    assert f"advice: job {JOB} could be better" in caplog.messages


def test_counts_stay_exact_over_plan_changes_and_restarts(bench):
    with bench.start() as running:
        for _ in range(2):
            bench.feed()
            running.drain()
        before = placement_in_force(bench.settings, JOB)
        held = sum(f.stat().st_size for f in bench_states(bench, before))
        publish(bench.settings, POLICY, 1, shifted(0))
        bench.feed()
        running.drain()
    check_counts(bench)
    after = placement_in_force(bench.settings, JOB)
    assert after.version == 1
    assert after.node_of("count", 2) == shifted(0)("count", 2)
    accepted, applied = read_acks(bench.settings, JOB)
    assert (accepted.status, applied.status) == ("accepted", "applied")
    assert accepted.batch_id == applied.batch_id == 2
    moved = [
        (name, group)
        for name, nodes in before.nodes.items()
        for group, node in enumerate(nodes)
        if node != after.node_of(name, group)
    ]
    assert applied.moved_key_groups == len(moved)
    assert 0 < applied.bytes_moved <= held
    assert applied.pause_ms > 0
    assert accepted.bytes_moved == 0

    publish(bench.settings, POLICY, 2, shifted(1))
    with bench.start() as running:
        bench.feed()
        running.drain()
    check_counts(bench)
    assert bench.acks() == [(1, "accepted"), (1, "applied"), (2, "accepted"), (2, "applied")]
    _check_metrics(bench)


def bench_states(bench, placement):
    root = job_folder(bench.settings, JOB) / "state"
    for operator, nodes in placement.nodes.items():
        for group, node in enumerate(nodes):
            versions = sorted((root / node / operator / f"{group:07d}").glob("*.json"))
            yield from versions[-1:]


def _check_metrics(bench):
    groups, nodes = bench.rows("metrics.key_groups"), bench.rows("metrics.nodes")
    key = ["operator_id", "key_group", "window_start_at"]
    assert not groups.duplicated(key).any()
    assert (groups.groupby("window_start_at").size() == 12).all(), "every key group every window"
    assert (nodes.groupby("window_start_at").size() == 3).all(), "every node every window"
    total = sum(bench.counted.values())
    records = groups.groupby("operator_id").records.sum().to_dict()
    assert records == {"parse": total, "count": total, "total": 2 * total}
    busy = groups[groups.records > 0]
    assert (busy.cpu_ms > 0).all()
    idle = groups[groups.first_batch_id.isna()]
    assert (idle.records == 0).all()
    assert nodes.heartbeats.sum() == 3 * 4, "each node answered in each of four batches"
    assert abs(nodes.cpu_used_ms.sum() - groups.cpu_ms.sum()) < 1e-6
    traffic = bench.rows("metrics.traffic")
    assert traffic.records.sum() == 3 * total
    assert traffic.bytes.sum() == groups.bytes_out.sum() == groups.bytes_in.sum() > 0
    assert set(groups.plan_version) >= {1, 2}
    assert (groups.window_date == groups.window_end_at.dt.date).all()


def test_nodes_are_added_drained_and_removed_at_batch_boundaries(bench):
    nodes = [{"id": "node-0"}, {"id": "node-1"}, {"id": "node-2", "spare": True}]
    policy = policy_of(3, window_s=1, statistics_period_s=10, nodes=nodes, scaling={})
    bench.job = replace(bench.job, backlog=lambda taken: 0)

    def spread(over):
        return lambda operator, group: f"node-{(group + len(operator)) % over}"

    plans = [
        (spread(3), {"node-0": "keep", "node-1": "keep", "node-2": "add"}),
        (spread(3), {"node-0": "keep", "node-1": "keep", "node-2": "drain"}),
        (spread(2), {"node-0": "keep", "node-1": "keep", "node-2": "drain"}),
        (spread(2), {"node-0": "keep", "node-1": "keep", "node-2": "remove"}),
    ]
    with bench.start(policy) as running:
        bench.feed()
        running.drain()
        for version, (node_of, actions) in enumerate(plans, start=1):
            publish(bench.settings, policy, version, node_of, nodes=actions)
            bench.feed()
            running.drain()
        publish(bench.settings, policy, 5, spread(3), nodes=plans[-1][1])
        bench.feed()
        running.drain()
    check_counts(bench)
    words = [status for _, status in bench.acks()]
    assert words == ["accepted", "applied"] * 4 + ["refused"]
    assert "does not use" in read_acks(bench.settings, JOB)[-1].reason
    rows = bench.rows("metrics.nodes")
    spoke = rows[rows.heartbeats > 0].groupby("plan_version").node_id.agg(set).to_dict()
    assert rows.groupby("node_id").heartbeats.sum().to_dict() == {
        "node-0": 6, "node-1": 6, "node-2": 3,
    }  # fmt: skip
    assert "node-2" not in spoke.get(0, set())
    sources = bench.rows("metrics.sources")
    assert sources.records.sum() == sum(bench.counted.values())
    assert set(sources.source_id) == {"parse"}


def test_only_records_for_another_node_are_serialised(bench):
    publish(bench.settings, POLICY, 1, lambda *_: "node-1")
    with bench.start() as running:
        bench.feed()
        running.drain()
    check_counts(bench)
    traffic, groups = bench.rows("metrics.traffic"), bench.rows("metrics.key_groups")
    assert traffic.records.sum() == 3 * len(WORDS)
    assert traffic.bytes.sum() == groups.bytes_in.sum() == 0
    assert set(groups.node_id) == {"node-1"}
    nodes = bench.rows("metrics.nodes")
    assert nodes[nodes.node_id == "node-0"].heartbeats.sum() == 1, "an idle node still answers"


def test_a_plan_with_an_unknown_node_is_refused_once_and_the_old_one_kept(bench):
    publish(bench.settings, POLICY, 1, shifted(0))
    with bench.start() as running:
        bench.feed()
        running.drain()
        publish(bench.settings, POLICY, 2, lambda *_: "node-9")
        for _ in range(2):
            bench.feed()
            running.drain()
    check_counts(bench)
    assert placement_in_force(bench.settings, JOB).version == 1
    refused = [ack for ack in read_acks(bench.settings, JOB) if ack.status == "refused"]
    assert [ack.version for ack in refused] == [2]
    assert "unknown node node-9" in refused[0].reason
    assert "node-0, node-1, node-2" in refused[0].reason


def test_a_head_that_cannot_be_read_does_not_stop_the_job(bench, monkeypatch, caplog):
    def broken(*_):
        raise OSError("storage is away")

    monkeypatch.setattr("ballast.streaming.head_reader.read_head", broken)
    with bench.start() as running:
        bench.feed()
        running.drain()
    check_counts(bench)
    assert "storage is away" in caplog.text


def test_a_store_that_hangs_does_not_hold_batches_up(bench, monkeypatch, caplog):
    answers = threading.Event()

    def hung(*_):
        answers.wait(300)

    monkeypatch.setattr("ballast.streaming.head_reader.read_head", hung)
    try:
        with bench.start() as running:
            running.runtime.heads.read_now.wait_s = 0.1
            for _ in range(2):
                bench.feed()
                running.drain()
        check_counts(bench)
    finally:
        answers.set()
    assert caplog.text.count("reading the head of the plan has not ended") == 1


def test_a_second_instance_is_refused_while_the_first_runs(bench):
    with bench.start(), pytest.raises(InvalidInput, match="already runs in process"):
        bench.start()


class HangWhile:
    """Counts, but waits while a file exists; another file says that it waits."""

    def __init__(self, flag, waits):
        self.flag, self.waits = flag, waits

    def __call__(self, state, key, record):
        while os.path.exists(self.flag):
            Path(self.waits).touch()
            time.sleep(0.05)
        return count(state, key, record)


def eventually(is_so):
    deadline = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def test_a_batch_that_hangs_is_cancelled_when_the_job_stops_and_repeated_exactly(bench, tmp_path):
    flag, waits = tmp_path / "hangs", tmp_path / "waits"
    flag.touch()
    hanging = Operator("count", key=OPERATORS[1].key, process=HangWhile(str(flag), str(waits)))
    bench.job = replace(bench.job, operators=[OPERATORS[0], hanging, OPERATORS[2]])
    running = bench.start(options=replace(FAST, stop_limit_s=0.5))
    bench.feed()
    eventually(waits.exists)
    with pytest.raises(JobStalled, match="was cancelled, and the next start of the job repeats it"):
        running.stop()
    assert not running.query.isActive
    flag.unlink()
    with bench.start() as running:
        running.drain()
    check_counts(bench)


def test_a_job_without_executors_leaves_no_zeros_and_ends(bench, monkeypatch, caplog):
    executors = [1]
    monkeypatch.setattr(job_module, "executors_of", lambda context: executors[0])
    running = bench.start(options=replace(FAST, end_without_executors_s=4))
    bench.feed()
    running.drain()
    eventually(lambda: len(bench.rows("metrics.nodes")))
    executors[0] = 0
    running.wait(threading.Event())
    with pytest.raises(JobStalled, match="has had no executor since"):
        running.stop()
    states = bench.rows("metrics.jobs")
    lost = states[states.state == "no_executors"]
    assert (lost.executors == 0).all()
    since = lost.state_since_at.min()
    windows = bench.rows("metrics.nodes").window_start_at
    assert len(lost) >= 1
    assert windows.max() <= since, "no window without executors has a row of a node"
    assert (
        bench.rows("metrics.nodes").records.sum() == bench.rows("metrics.key_groups").records.sum()
    )
    assert "its windows are missing in the tables, not zero" in caplog.text


class FailOnce:
    """Counts records; the first time that one record is processed, its task fails."""

    def __init__(self, flag: Path) -> None:
        self.flag = str(flag)

    def __call__(self, state, key, record):
        if key == "b7" and state.get(key, 0) == 1 and not os.path.exists(self.flag):
            Path(self.flag).touch()
            raise RuntimeError("struck by a test")
        return count(state, key, record)


def run_with_private_state(bench, folder):
    """A start whose tasks see, in place of the shared folder, one of their own."""
    with bench.start() as running:
        folder.rename(folder.with_name("aside"))
        folder.mkdir()
        bench.feed()
        with suppress(StreamingQueryException):
            running.drain()


def test_tasks_that_do_not_see_the_state_folder_stop_the_job_before_any_sum(bench):
    with bench.start() as running:
        bench.feed()
        running.drain()
    folder = job_folder(bench.settings, JOB) / "state"
    before = dict(bench.counted)
    with pytest.raises(StateNotShared, match="nothing was processed"):
        run_with_private_state(bench, folder)
    assert not list(folder.glob("*/*/*/*")), "no task wrote state"
    with pytest.raises(StateNotShared, match="is missing, or is not the one"):
        bench.start()
    folder.rmdir()
    folder.with_name("aside").rename(folder)
    assert bench.state("count") == before
    with bench.start() as running:
        running.drain()
    check_counts(bench)


def test_a_batch_that_failed_half_way_is_repeated_exactly(spark, settings, tmp_path):
    operators = [OPERATORS[0], Operator("count", FailOnce(tmp_path / "flag"), OPERATORS[1].key)]
    bench = Bench(spark, settings, tmp_path, [*operators, OPERATORS[2]])
    running = bench.start()
    bench.feed()
    running.drain()
    bench.feed()
    running.wait(threading.Event())
    with pytest.raises(BallastError, match="struck by a test"):
        running.stop()
    with bench.start() as running:
        running.drain()
    check_counts(bench)
    groups = bench.rows("metrics.key_groups")
    assert groups[groups.operator_id == "count"].records.sum() == 2 * len(WORDS)
