"""Starts, identifies and stops child processes with all processes that they started.

A child runs in its own session. It has a record on disk (pid, start time, command) and a mark in
its environment. A pid alone is not enough: the system may have given it to another program.
"""

from __future__ import annotations

import ctypes
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
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
"""Option of prctl: the signal that a process gets when the one that started it ends."""
KILL_LIMIT_S = 30.0
# Start times are compared as floats that went through JSON.
SAME_START_S = 0.01


@dataclass(frozen=True)
class ProcessRecord:
    """Identifies a child process."""

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
        """The process of this record if it still runs; None if the pid is another process."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < SAME_START_S
            alive = same and process.status() != psutil.STATUS_ZOMBIE
            return process if alive and self._is_command(_cmdline(process)) else None
        except psutil.Error:
            return None

    def _is_command(self, words: list[str]) -> bool:
        """Whether these are the command's words, or a server's title (``airflow api_server``)."""
        title = words[0].split(maxsplit=1)[0] if words and words[0] else ""
        return words == self.command or title in self.command


def _cmdline(process: psutil.Process) -> list[str]:
    """The command line of a process; it is empty for a moment while the process starts."""
    for _ in range(50):
        words = process.cmdline()
        if words:
            return words
        time.sleep(0.01)
    return []


class Child:
    """One supervised process with a log file and a record file."""

    def __init__(self, name: str, command: Sequence[str], run_folder: Path, log: Path) -> None:
        self.name = name
        self.command = list(command)
        self.record_file = run_folder / f"{name}.json"
        self.log = log
        self._popen: subprocess.Popen[bytes] | None = None

    def start(self, env: Mapping[str, str], cwd: Path) -> None:
        """Starts it in its own session, so that Ctrl-C in the terminal does not reach it.

        It gets SIGTERM when this process ends, even by SIGKILL. The thread that calls this must be
        one that lives as long as the process.
        """
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
                preexec_fn=end_with(os.getpid()),
            )
            self._record(self._popen.pid).save(self.record_file)

    def _record(self, pid: int) -> ProcessRecord:
        started = psutil.Process(pid).create_time()
        return ProcessRecord(self.name, pid, started, self.command)

    @property
    def pid(self) -> int | None:
        return None if self._popen is None else self._popen.pid

    def processes(self) -> list[psutil.Process]:
        """The process while it runs, by handle or, from an earlier run, by record."""
        if self._popen is not None:
            # It was not waited for, so its pid cannot belong to another process.
            return [psutil.Process(self._popen.pid)] if self._popen.poll() is None else []
        record = ProcessRecord.load(self.record_file)
        process = None if record is None else record.live_process()
        return [] if process is None else [process]

    def exit_code(self) -> int | None:
        """Its exit code, or ``None`` if it runs or was never started."""
        return None if self._popen is None else self._popen.poll()

    def check_alive(self) -> None:
        """Raises, with the end of its log, if it has ended by itself."""
        code = self.exit_code()
        if code is not None:
            raise EmbeddedError(
                f"{self.name} ended with {code}; the end of {self.log}:\n{tail(self.log)}"
            )

    def forget(self) -> None:
        """Collects the exit status and removes the record, after it was stopped."""
        if self._popen is not None:
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(timeout=1)
        self.record_file.unlink(missing_ok=True)


def end_with(parent: int) -> Callable[[], None]:
    """A function for a new child: SIGTERM will end it when its parent ends, however it ends."""

    def prepare() -> None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent has ended meanwhile
            os.kill(os.getpid(), signal.SIGTERM)

    return prepare


def write_private(file: Path, text: str) -> None:
    """Writes a file atomically that only this user can read."""
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
    """Environment variables that mark a child and all processes that it starts."""
    # Airflow renames its processes, which would otherwise overwrite the readable environment.
    return {MARK: mark, "SPT_NOENV": "1"}


def marked_processes(mark: str) -> list[psutil.Process]:
    """Every process of this user that has the mark, orphaned ones included."""
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
    """Sends TERM to processes, then KILL after a limit, until none is left.

    Args:
        processes: gives the processes; called repeatedly, because a process that ends may have
            started another one. A process that it gave once is waited for even if it is not given
            again: while it ends, its environment, and so its mark, cannot be read.
        term_s: seconds until KILL.
        kill_s: seconds to wait after KILL.

    Returns:
        Processes that still run.
    """
    signalled: set[int] = set()
    seen: set[psutil.Process] = set()

    def living() -> list[psutil.Process]:
        seen.update(processes())
        return [process for process in seen if is_alive(process)]

    def signal_new() -> list[psutil.Process]:
        alive = living()
        for group, process in _by_group(alive).items():
            if group not in signalled:
                signalled.add(group)
                _send(process, signal.SIGTERM)
        return alive

    _repeat_until_none(signal_new, term_s)
    return _repeat_until_none(lambda: _kill(living()), kill_s)


def _by_group(processes: list[psutil.Process]) -> dict[int, psutil.Process]:
    """The processes to signal: the leader of each group, and each process without a leader."""
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
    """Signals the group of a process if it leads one, else the process alone."""
    with suppress(psutil.Error, ProcessLookupError, PermissionError):
        # psutil compares start times first, so that a reused pid is not signalled.
        if process.is_running() and os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)


def is_alive(process: psutil.Process) -> bool:
    """Whether it still runs; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


class Stopped(SystemExit):
    """Raised when a signal ends this process, so that every ``finally`` runs."""

    def __init__(self, number: int) -> None:
        self.signal_number = number
        super().__init__(128 + number)


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_Handler = Callable[[int, FrameType | None], None]


@contextmanager
def ending_signals_raise() -> Iterator[None]:
    """Turns SIGINT, SIGTERM and SIGHUP into ``Stopped`` inside the block."""

    def handler(number: int, _frame: FrameType | None) -> None:
        raise Stopped(number)

    with _handlers(handler):
        yield


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Delays ending signals until the block, which must not be interrupted, has ended."""
    held: list[int] = []

    # A handler instead of SIG_IGN, which children that start in the block would inherit.
    def handler(number: int, _frame: FrameType | None) -> None:
        held.append(number)

    with _handlers(handler):
        yield
    if held:
        signal.raise_signal(held[0])


@contextmanager
def _handlers(handler: _Handler) -> Iterator[None]:
    # Only the main thread may install signal handlers.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in _ENDING}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
