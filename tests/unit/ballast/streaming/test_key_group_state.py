"""Versions of state: repeated work reads what the first attempt read, not what it wrote."""

from __future__ import annotations

import os

import pytest

from ballast.contracts.errors import InvalidInput
from ballast.streaming.key_group_state import Slot, StateStore, newest_below, prunable, version_name


def slot(tmp_path, batch, stage=0):
    return Slot(str(tmp_path / "node-0" / "count" / "0000001"), batch, stage)


def step(tmp_path, batch, stage=0, key="a"):
    """One task: load, count, save."""
    here = slot(tmp_path, batch, stage)
    state, stored, names = here.load()
    state[key] = state.get(key, 0) + 1
    here.save(state, stored, names)
    return state


def test_names_sort_as_versions_do():
    versions = [(0, 0), (0, 1), (1, 0), (9, 3), (10, 0), (123_456_789_012, 0)]
    names = [version_name(*version) for version in versions]
    assert names == sorted(names)


def test_the_newest_version_strictly_below_is_read():
    names = [version_name(b, s) for b, s in [(1, 0), (1, 1), (3, 0)]]
    assert newest_below(names, 3, 0) == version_name(1, 1)
    assert newest_below(names, 3, 1) == version_name(3, 0)
    assert newest_below(names, 1, 0) is None


def test_doing_a_task_twice_counts_once(tmp_path):
    assert step(tmp_path, 0) == {"a": 1}
    assert step(tmp_path, 1) == {"a": 2}
    assert step(tmp_path, 1) == {"a": 2}


def test_a_second_stage_of_the_batch_continues_the_first(tmp_path):
    step(tmp_path, 1, 0)
    assert step(tmp_path, 1, 1) == {"a": 2}
    assert step(tmp_path, 1, 1) == {"a": 2}
    assert step(tmp_path, 1, 0) == {"a": 1}, "a re-run of the first stage starts before the batch"


def test_only_versions_no_replay_can_need_are_dropped(tmp_path):
    names = [version_name(b, s) for b, s in [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1)]]
    assert prunable(names, 3) == [version_name(1, 0), version_name(2, 0)]
    for batch in range(5):
        step(tmp_path, batch)
    kept = sorted(path.name for path in (tmp_path / "node-0" / "count" / "0000001").iterdir())
    assert kept == [version_name(3, 0), version_name(4, 0)]


def test_a_state_that_did_not_change_is_not_written_and_an_emptied_one_is(tmp_path):
    step(tmp_path, 0)
    here = slot(tmp_path, 1)
    state, stored, names = here.load()
    here.save(state, stored, names)
    assert not (tmp_path / "node-0" / "count" / "0000001" / version_name(1, 0)).exists()
    here.save({}, stored, names)
    assert slot(tmp_path, 2).load()[0] == {}


def test_an_operator_without_state_leaves_no_file(tmp_path):
    here = slot(tmp_path, 0)
    state, stored, names = here.load()
    assert here.save(state, stored, names) == 0
    assert not (tmp_path / "node-0").exists()


@pytest.mark.parametrize("state", [{1: 2}, {"a": {1, 2}}, {"a": float("nan")}])
def test_what_json_would_change_is_refused(tmp_path, state):
    with pytest.raises(InvalidInput, match="state of"):
        slot(tmp_path, 0).save(state, b"", [])


def test_text_that_is_no_unicode_comes_back_as_it_went_in(tmp_path):
    slot(tmp_path, 0).save({"\udc80": ["ü", "\ud800"]}, b"", [])
    assert slot(tmp_path, 1).load()[0] == {"\udc80": ["ü", "\ud800"]}


def test_what_a_take_up_wrote_is_read_by_its_batch_and_not_by_its_repetition(tmp_path):
    store = StateStore(tmp_path)
    step(tmp_path, 0)
    store.write_taken_up("node-0", "count", 1, 1, {"b": 7})
    assert slot(tmp_path, 1).load()[0] == {"b": 7}
    assert store.read("node-0", "count", 1) == {"b": 7}
    assert store.before_take_up("node-0", "count", 1, 1) == {"a": 1}
    store.discard_from(1)
    assert slot(tmp_path, 1).load()[0] == {"b": 7}
    assert store.before_take_up("node-0", "count", 1, 2) == {"b": 7}
    assert store.before_take_up("node-0", "count", 2, 1) is None


def test_a_copy_counts_its_bytes_and_can_be_made_again(tmp_path):
    store = StateStore(tmp_path)
    step(tmp_path, 0)
    step(tmp_path, 1)
    size = store.size("node-0", "count", 1)
    (tmp_path / "node-1" / "count" / "0000001").mkdir(parents=True)
    (tmp_path / "node-1" / "count" / "0000001" / version_name(9, 0)).write_text('{"stale":1}')
    for _ in range(2):
        assert store.copy("count", 1, "node-0", "node-1", 2) == size > 0
    assert store.read("node-1", "count", 1) == {"a": 2}
    store.forget("node-0", "count", 1)
    assert store.read("node-0", "count", 1) == {}
    assert store.copy("count", 7, "node-0", "node-1", 2) == 0


def test_a_copy_takes_the_state_from_before_the_batch(tmp_path):
    store = StateStore(tmp_path)
    step(tmp_path, 0)
    step(tmp_path, 1)
    store.copy("count", 1, "node-0", "node-1", 1)
    assert store.read("node-1", "count", 1) == {"a": 1}


def test_what_a_broken_attempt_left_is_discarded(tmp_path):
    store = StateStore(tmp_path)
    step(tmp_path, 0)
    step(tmp_path, 1)
    (tmp_path / "node-0" / "count" / "0000001" / ".tmp-x").write_text("half")
    store.discard_from(1)
    assert store.read("node-0", "count", 1) == {"a": 1}
    assert len(list((tmp_path / "node-0" / "count" / "0000001").iterdir())) == 1


def test_an_emptied_state_is_written_once_and_weighs_nothing(tmp_path):
    step(tmp_path, 0)
    here = slot(tmp_path, 1)
    _, stored, names = here.load()
    assert here.save({}, stored, names) == 0
    store = StateStore(tmp_path)
    assert store.size("node-0", "count", 1) == 0
    before = sorted(os.listdir(here.folder))
    later = slot(tmp_path, 2)
    state, stored, names = later.load()
    assert state == {}
    later.save(state, stored, names)
    assert sorted(os.listdir(here.folder)) == before
    assert store.copy("count", 1, "node-0", "node-1", 3) == 0
    assert store.read("node-1", "count", 1) == {}


def test_a_running_job_neither_makes_nor_removes_files(tmp_path):
    """The cost of both grows with time; a key group with records in two stages has two writes."""
    folder = tmp_path / "node" / "counts" / "0000000"

    def run_batch(batch):
        for stage in (0, 1):
            slot = Slot(str(folder), batch, stage)
            state, stored, names = slot.load()
            assert state == ({"n": 2 * batch + stage} if batch or stage else {})
            slot.save({"n": 2 * batch + stage + 1}, stored, names)
        return {path.stat().st_ino for path in folder.iterdir()}

    inodes = [run_batch(batch) for batch in range(10)]
    assert inodes[3] == inodes[9]
    assert len(inodes[9]) <= 5
