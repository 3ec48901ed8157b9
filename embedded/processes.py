"""Child processes that are known by more than their pid, and that are always stopped whole.

A child is a session of its own with a record on disk (pid, start time, command) and a mark in its
environment. A pid alone is never trusted: it may have been given to another program since.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

import psutil

from embedded.errors import EmbeddedError

MARK = "BALLAST_STACK"
TERM_LIMIT_S = 20.0
KILL_LIMIT_S = 30.0
# Start times are compared as floats that went through JSON.
SAME_START_S = 0.01


@dataclass(frozen=True)
class ProcessRecord:
    """What is written down about a child, enough to know it again."""

    name: str
    pid: int
    started: float
    command: list[str]

    def save(self, file: Path) -> None:
        write_private(file, json.dumps(asdict(self)))

    @staticmethod
    def load(file: Path) -> ProcessRecord | None:
        """The record in a file, or ``None`` if there is none that can be read."""
        try:
            fields = json.loads(file.read_text(encoding="utf-8"))
            return ProcessRecord(
                str(fields["name"]),
                int(fields["pid"]),
                float(fields["started"]),
                [str(word) for word in fields["command"]],
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def live_process(self) -> psutil.Process | None:
        """The process this record is about if it still runs, never a later one of that pid."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < SAME_START_S
            alive = same and process.status() != psutil.STATUS_ZOMBIE
            return process if alive and self._is_command(_cmdline(process)) else None
        except psutil.Error:
            return None

    def _is_command(self, words: list[str]) -> bool:
        """As started, or as a server that names itself after its role (``airflow api_server``)."""
        title = words[0].split(maxsplit=1)[0] if words and words[0] else ""
        return words == self.command or title in self.command


def _cmdline(process: psutil.Process) -> list[str]:
    """The command line of a process, which is empty for a moment while it is being started."""
    for _ in range(50):
        words = process.cmdline()
        if words:
            return words
        time.sleep(0.01)
    return []


class Child:
    """One supervised process: started into a log file, stopped with all it started."""

    def __init__(self, name: str, command: Sequence[str], run_folder: Path, log: Path) -> None:
        self.name = name
        self.command = list(command)
        self.record_file = run_folder / f"{name}.json"
        self.log = log
        self._popen: subprocess.Popen[bytes] | None = None

    def start(self, env: Mapping[str, str], cwd: Path) -> None:
        """Start it in a session of its own, so that Ctrl-C in the terminal does not reach it."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".previous.log"))
        with deferred_signals(), self.log.open("wb") as output:
            self._popen = subprocess.Popen(
                self.command,
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._record(self._popen.pid).save(self.record_file)

    def _record(self, pid: int) -> ProcessRecord:
        started = psutil.Process(pid).create_time()
        return ProcessRecord(self.name, pid, started, self.command)

    @property
    def pid(self) -> int | None:
        return None if self._popen is None else self._popen.pid

    def processes(self) -> list[psutil.Process]:
        """The process itself while it runs, known by handle or, from an earlier run, by record."""
        if self._popen is not None:
            # Not waited for yet, so its pid cannot be another's.
            return [psutil.Process(self._popen.pid)] if self._popen.poll() is None else []
        record = ProcessRecord.load(self.record_file)
        process = None if record is None else record.live_process()
        return [] if process is None else [process]

    def exit_code(self) -> int | None:
        """How it ended, or ``None`` while it runs or was never started."""
        return None if self._popen is None else self._popen.poll()

    def check_alive(self) -> None:
        """Raise with the end of its log if it has ended by itself."""
        code = self.exit_code()
        if code is not None:
            raise EmbeddedError(
                f"{self.name} ended with {code}; the end of {self.log}:\n{tail(self.log)}"
            )

    def forget(self) -> None:
        """Collect the exit status and remove the record, once it is stopped."""
        if self._popen is not None:
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(timeout=1)
        self.record_file.unlink(missing_ok=True)


def write_private(file: Path, text: str) -> None:
    """Write a file that only this user may read, whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
    temporary.replace(file)


def tail(log: Path, lines: int = 20) -> str:
    """The last lines of a log."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "  (no log)"
    return "\n".join(f"  {line}" for line in text.splitlines()[-lines:])


def marked_environment(mark: str) -> dict[str, str]:
    """Variables by which everything a child starts is found again."""
    # Airflow renames its processes, which would overwrite the environment that ps and we read.
    return {MARK: mark, "SPT_NOENV": "1"}


def marked_processes(mark: str) -> list[psutil.Process]:
    """Every process of this user that carries the mark, however it was started or orphaned."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                found.append(process)
    return found


def stop_all(
    processes: Callable[[], list[psutil.Process]],
    term_s: float = TERM_LIMIT_S,
    kill_s: float = KILL_LIMIT_S,
) -> list[psutil.Process]:
    """TERM, then KILL after a limit, until none is left; returns those that would not die.

    ``processes`` is asked again and again: a process that ends may have started another one. One
    that was seen is waited for even when it is not named again: while it ends or becomes another
    program its environment, and so its mark, cannot be read.
    """
    told: set[int] = set()
    seen: set[psutil.Process] = set()

    def living() -> list[psutil.Process]:
        seen.update(processes())
        return [process for process in seen if is_alive(process)]

    def tell_new() -> list[psutil.Process]:
        alive = living()
        for group, process in _by_group(alive).items():
            if group not in told:
                told.add(group)
                _send(process, signal.SIGTERM)
        return alive

    _repeat_until_none(tell_new, term_s)
    return _repeat_until_none(lambda: _kill(living()), kill_s)


def _by_group(processes: list[psutil.Process]) -> dict[int, psutil.Process]:
    """One process to signal per group: its leader, or each one alone where the leader is gone."""
    pids = {process.pid for process in processes}
    groups: dict[int, psutil.Process] = {}
    for process in processes:
        with suppress(ProcessLookupError):
            group = os.getpgid(process.pid)
            if process.pid == group or group not in pids:
                groups[process.pid] = process
    return groups


def _kill(alive: list[psutil.Process]) -> list[psutil.Process]:
    for process in alive:
        _send(process, signal.SIGKILL)
    return alive


def _repeat_until_none(
    step: Callable[[], list[psutil.Process]], limit_s: float
) -> list[psutil.Process]:
    deadline = time.monotonic() + limit_s
    alive = step()
    while alive and time.monotonic() < deadline:
        time.sleep(0.1)
        alive = step()
    return alive


def _send(process: psutil.Process, number: int) -> None:
    """Signal a process's whole group if it leads one, else the process alone."""
    with suppress(psutil.Error, ProcessLookupError, PermissionError):
        # psutil compares the start time first, so a recycled pid is not signalled.
        if process.is_running() and os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)


def is_alive(process: psutil.Process) -> bool:
    """Whether it still runs: one that has ended and that nobody has collected yet does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


class Stopped(SystemExit):
    """A signal asked this process to end; an exception, so that every ``finally`` runs."""

    def __init__(self, number: int) -> None:
        self.signal_number = number
        super().__init__(128 + number)


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_Handler = Callable[[int, FrameType | None], None]


@contextmanager
def ending_signals_raise() -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into ``Stopped``, for the time of the block."""

    def handler(number: int, _frame: FrameType | None) -> None:
        raise Stopped(number)

    with _handlers(handler):
        yield


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Hold ending signals back for a block that must not be cut in two; they act after it."""
    held: list[int] = []

    # A handler and not SIG_IGN, which the children started in the block would inherit.
    def handler(number: int, _frame: FrameType | None) -> None:
        held.append(number)

    with _handlers(handler):
        yield
    if held:
        signal.raise_signal(held[0])


@contextmanager
def _handlers(handler: _Handler) -> Iterator[None]:
    # Python delivers signals to the main thread and lets only that one install handlers.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in _ENDING}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
