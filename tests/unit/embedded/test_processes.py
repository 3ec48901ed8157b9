"""Children are identified by more than their pid, and are stopped with all their processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from embedded.errors import EmbeddedError
from embedded.processes import (
    Child,
    ProcessRecord,
    Stopped,
    deferred_signals,
    ending_signals_raise,
    is_alive,
    marked_environment,
    marked_processes,
    stop_all,
    tail,
    write_private,
)

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
STUBBORN_PROGRAM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("on", flush=True)
time.sleep(600)
"""
STUBBORN = [sys.executable, "-c", STUBBORN_PROGRAM]
# Starts a grandchild in a session of its own and ends: an orphan that no process group reaches.
ORPHAN_MAKING_PROGRAM = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
"""
ORPHAN_MAKER = [sys.executable, "-c", ORPHAN_MAKING_PROGRAM]


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    yield str(tmp_path)
    for process in marked_processes(str(tmp_path)):
        process.kill()


def start(command: list[str], mark: str, folder: Path, name: str = "worker") -> Child:
    child = Child(name, command, folder / "run", folder / "logs" / f"{name}.log")
    child.start(os.environ | marked_environment(mark), cwd=folder)
    # The environment of a process, and so its mark, cannot be read while its program is loaded.
    while child.exit_code() is None and not marked_processes(mark):
        time.sleep(0.01)
    return child


def wait_for_log(child: Child, text: str) -> None:
    while text not in tail(child.log) and child.exit_code() is None:
        time.sleep(0.05)


def test_a_started_child_is_recorded_for_its_owner_alone(mark: str, tmp_path: Path) -> None:
    child = start(SLEEP, mark, tmp_path)
    record = ProcessRecord.load(child.record_file)
    assert record is not None
    process = record.live_process()
    assert process is not None
    assert process.pid == child.pid
    assert child.record_file.stat().st_mode & 0o777 == 0o600


SUPERVISOR = """
import os, sys, time
from pathlib import Path
from embedded.processes import Child, marked_environment

folder, mark = Path(sys.argv[1]), sys.argv[2]
child = Child("worker", ["sleep", "600"], folder, folder / "log")
child.start(os.environ | marked_environment(mark), cwd=folder)
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_child_ends_when_its_supervisor_is_killed(mark: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", SUPERVISOR, str(tmp_path), mark]
    supervisor = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert supervisor.stdout is not None
    child = psutil.Process(int(supervisor.stdout.readline()))
    assert is_alive(child)
    supervisor.kill()
    supervisor.communicate()
    psutil.wait_procs([child], timeout=60)
    assert not is_alive(child)


def test_a_recycled_pid_is_not_taken_for_ours(mark: str, tmp_path: Path) -> None:
    child = start(SLEEP, mark, tmp_path)
    record = ProcessRecord.load(child.record_file)
    assert record is not None
    other_start = ProcessRecord(record.name, record.pid, record.started - 5, record.command)
    other_command = ProcessRecord(record.name, record.pid, record.started, ["vi", "thesis.tex"])
    assert other_start.live_process() is None
    assert other_command.live_process() is None


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"name": "x", "pid": "y"}'])
def test_a_broken_record_is_no_record(tmp_path: Path, content: str) -> None:
    file = tmp_path / "record.json"
    file.write_text(content)
    assert ProcessRecord.load(file) is None


def test_the_error_for_a_child_that_ended_has_the_end_of_its_log(mark: str, tmp_path: Path) -> None:
    child = start([sys.executable, "-c", "print('out of memory'); exit(3)"], mark, tmp_path)
    while child.exit_code() is None:
        time.sleep(0.05)
    with pytest.raises(EmbeddedError, match=r"worker ended with 3(.|\n)*out of memory"):
        child.check_alive()


def test_the_log_of_the_run_before_is_kept(mark: str, tmp_path: Path) -> None:
    for word in ("first", "second"):
        child = start([sys.executable, "-c", f"print('{word}')"], mark, tmp_path)
        while child.exit_code() is None:
            time.sleep(0.05)
    assert "second" in tail(child.log)
    assert "first" in tail(child.log.with_suffix(".previous.log"))


def test_term_is_enough_for_a_process_that_listens(mark: str, tmp_path: Path) -> None:
    child = start(SLEEP, mark, tmp_path)
    assert stop_all(lambda: marked_processes(mark), term_s=10) == []
    assert child.exit_code() == -signal.SIGTERM


def test_a_process_that_ignores_term_is_killed_after_the_limit(mark: str, tmp_path: Path) -> None:
    child = start(STUBBORN, mark, tmp_path)
    wait_for_log(child, "on")
    assert stop_all(lambda: marked_processes(mark), term_s=0.3) == []
    assert child.exit_code() == -signal.SIGKILL


def test_an_orphan_in_another_session_is_stopped_too(mark: str, tmp_path: Path) -> None:
    child = start(ORPHAN_MAKER, mark, tmp_path)
    while child.exit_code() is None:
        time.sleep(0.05)
    assert len(marked_processes(mark)) == 1
    assert stop_all(lambda: marked_processes(mark)) == []
    assert marked_processes(mark) == []


def test_a_process_seen_once_is_stopped_though_its_mark_cannot_be_read_again(
    mark: str, tmp_path: Path
) -> None:
    child = start(STUBBORN, mark, tmp_path)
    wait_for_log(child, "on")
    named = iter([marked_processes(mark)])
    assert stop_all(lambda: next(named, []), term_s=0.3) == []
    assert child.exit_code() == -signal.SIGKILL


def test_a_zombie_process_is_not_alive() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    process = psutil.Process(ended.pid)
    deadline = time.monotonic() + 20
    while is_alive(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert process.is_running()
    assert not is_alive(process)
    ended.wait()


def test_processes_without_the_mark_are_let_be(mark: str, tmp_path: Path) -> None:
    bystander = subprocess.Popen(SLEEP)
    try:
        start(SLEEP, mark, tmp_path)
        stop_all(lambda: marked_processes(mark))
        assert psutil.Process(bystander.pid).is_running()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_ending_signal_becomes_an_exception_with_its_exit_code(number: int) -> None:
    with pytest.raises(Stopped) as stopped, ending_signals_raise():
        signal.raise_signal(number)
    assert stopped.value.code == 128 + number


def test_a_deferred_signal_acts_after_the_block() -> None:
    done: list[str] = []

    def block() -> None:
        with deferred_signals():
            signal.raise_signal(signal.SIGTERM)
            done.append("block")
        done.append("after the block")

    with pytest.raises(Stopped), ending_signals_raise():
        block()
    assert done == ["block"]


def test_a_private_file_is_replaced_whole_and_closed_to_others(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("old")
    file.chmod(0o644)
    write_private(file, "new")
    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]
