"""Spinning processes run within the block, and none is left after it, also after an error."""

from __future__ import annotations

import psutil
import pytest

from embedded.busy_processes import spinning_processes


def test_as_many_run_as_were_asked_for_and_none_is_left() -> None:
    with spinning_processes(2) as pids:
        assert len(set(pids)) == 2
        assert all(psutil.pid_exists(pid) for pid in pids)
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_none_is_left_where_the_block_fails() -> None:
    with pytest.raises(RuntimeError), spinning_processes(1) as pids:
        raise RuntimeError
    assert not psutil.pid_exists(pids[0])


def test_none_are_started_where_none_are_asked_for() -> None:
    with spinning_processes(0) as pids:
        assert pids == []
