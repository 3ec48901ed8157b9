"""Decisions survive the process; checkpoint, state and policy must belong together."""

from __future__ import annotations

import fcntl
import os
from dataclasses import replace

import pytest

from ballast.contracts.errors import InvalidInput, NotFound
from ballast.contracts.settings import load_settings
from ballast.streaming.atomic_files import write_json
from ballast.streaming.batch_versions import DecisionLog, MoveFigures, VersionDecision
from ballast.streaming.job_lock import JobLock
from ballast.streaming.job_state import read_key_states, read_states
from ballast.streaming.key_group_state import StateStore
from ballast.streaming.operators import Operator, build_topology
from ballast.streaming.routing import first_placement
from tests.support.streaming_parts import OPERATORS_BY_KEY, policy_of, topology_of


def test_a_decision_is_found_again_by_another_process(tmp_path):
    DecisionLog(tmp_path).record(VersionDecision(7, 3, 2))
    found = DecisionLog(tmp_path).of_batch(7)
    assert found == VersionDecision(7, 3, 2)
    assert found.takes_up
    assert not VersionDecision(8, 3, 3).takes_up
    assert DecisionLog(tmp_path).of_batch(8) is None


def test_the_latest_decision_is_the_newest_batch_and_old_ones_go(tmp_path):
    log = DecisionLog(tmp_path)
    assert log.latest() is None
    for batch in range(50):
        log.record(VersionDecision(batch, 0, 0))
    assert log.latest() == VersionDecision(49, 0, 0)
    assert len(list(tmp_path.glob("batch-*"))) <= 20


def test_a_placement_and_figures_survive_the_disk(tmp_path):
    log = DecisionLog(tmp_path)
    placement = first_placement(topology_of(), policy_of())
    log.record_placement(placement)
    log.record_moved((0, None), MoveFigures(3, 1000, 1.25))
    assert log.placement((0, None)) == placement
    assert log.moved((0, None)) == MoveFigures(3, 1000, 1.25)
    assert log.placement((1, None)) is None
    log.forget_placements(keep=((1, None),))
    assert log.placement((0, None)) is None
    assert log.moved((0, None)) is None


def test_routes_survive_the_disk_whatever_their_keys(tmp_path):
    placement = first_placement(topology_of(), policy_of())
    routed = replace(placement, version=1, routes={"count": {"": 1, "o'x\n": 2, "\x00ü": 3}})
    DecisionLog(tmp_path).record_placement(routed)
    assert DecisionLog(tmp_path).placement((1, None)) == routed


def test_splits_survive_the_disk(tmp_path):
    placement = first_placement(topology_of(), policy_of())
    split = replace(placement, version=1, splits={"total": {"a": (0, 1), "": (0, 1)}})
    DecisionLog(tmp_path).record_placement(split)
    assert DecisionLog(tmp_path).placement((1, None)) == split
    assert split.content_hash != placement.content_hash


def test_the_parts_of_a_split_key_are_read_as_one(tmp_path):
    settings = load_settings({"BALLAST_HOME": str(tmp_path)})
    log = DecisionLog(tmp_path / "jobs" / "diamond" / "decisions")
    placement = replace(
        first_placement(topology_of(), policy_of()), splits={"total": {"a": (0, 1)}}
    )
    log.record_placement(placement)
    log.record(VersionDecision(0, 0, 0))
    store = StateStore(tmp_path / "jobs" / "diamond" / "state")
    for group, state in enumerate(({"a": {"word": 2}, "b": {"word": 1}}, {"a": {"counted": 3}})):
        store.write_taken_up(placement.node_of("total", group), "total", group, 1, state)
    total = OPERATORS_BY_KEY[2]
    assert read_key_states(settings, "diamond", total) == {
        "a": {"counted": 3, "word": 2}, "b": {"word": 1},
    }  # fmt: skip
    with pytest.raises(InvalidInput, match="declares no merge function"):
        read_key_states(settings, "diamond", replace(total, merge=None))


def test_what_an_earlier_version_wrote_down_is_read(tmp_path):
    placement = first_placement(topology_of(), policy_of())
    nodes = {name: list(of) for name, of in placement.nodes.items()}
    write_json(tmp_path / "placement-0.json", {"version": 0, "plan_id": "", "nodes": nodes})
    write_json(
        tmp_path / "moved-0.json", {"moved_key_groups": 1, "bytes_moved": 2, "pause_ms": 3.0}
    )
    assert DecisionLog(tmp_path).placement((0, None)) == placement
    assert DecisionLog(tmp_path).moved((0, None)) == MoveFigures(1, 2, 3.0)


def test_a_checkpoint_of_another_state_folder_is_refused(tmp_path):
    log = DecisionLog(tmp_path)
    log.check_continues(0)
    with pytest.raises(InvalidInput, match=r"continues with batch 4.*expect 0"):
        log.check_continues(4)
    log.record(VersionDecision(4, 0, 0))
    log.check_continues(4)
    log.check_continues(5)
    with pytest.raises(InvalidInput, match="remove both"):
        log.check_continues(0)


def test_other_key_groups_than_the_state_was_kept_for_are_refused(tmp_path):
    DecisionLog(tmp_path).check_topology(topology_of())
    DecisionLog(tmp_path).check_topology(topology_of())
    parse = {"id": "parse", "key_groups": 9, "partition_key": ["word"]}
    changed = policy_of(edges=[], operators=[parse])
    other = build_topology("diamond", [Operator("parse", lambda *_: None)], changed)
    with pytest.raises(InvalidInput, match="the policy has"):
        DecisionLog(tmp_path).check_topology(other)


def test_a_second_instance_of_a_job_is_refused_with_the_process_that_runs(tmp_path):
    path = tmp_path / "job.lock"
    with (
        JobLock(path, "flights"),
        pytest.raises(InvalidInput, match=rf"already runs in process {os.getpid()}"),
        JobLock(path, "flights"),
    ):
        pass
    with JobLock(path, "flights"):
        pass
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_reading_states_of_a_job_that_never_ran_says_so(tmp_path):
    settings = load_settings({"BALLAST_HOME": str(tmp_path)})
    with pytest.raises(NotFound, match="has not run a batch"):
        read_states(settings, "flights", "count")
