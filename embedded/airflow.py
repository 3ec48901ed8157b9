"""Airflow on one machine: three supervised processes, SQLite, one loopback port.

``airflow standalone`` is not used, because it leaves processes running when it ends, and its log
servers listen on every interface (ADR 10).
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

import psutil

from ballast.airflow.rest import AirflowClient, Json
from ballast.contracts.settings import load_settings
from embedded import checks
from embedded.errors import AlreadyRunning, ApiError, EmbeddedError, WaitedTooLong
from embedded.processes import (
    Child,
    deferred_signals,
    marked_environment,
    marked_processes,
    stop_all,
    tail,
    write_private,
)

ROOT = Path(__file__).resolve().parent.parent
ADMIN = "admin"
# The speed of the machine is not measured yet.
START_LIMIT_S = 600.0
MIGRATE_LIMIT_S = 600.0
# One answer of the API server, which shares the cores with Spark.
ANSWER_LIMIT_S = 120.0
PROGRESS_EVERY_S = 10.0
COMPONENTS: dict[str, tuple[str, ...]] = {
    "api-server": ("api-server", "--workers", "1"),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
}
# The parts that /monitor/health must report as healthy before the stack is used.
HEALTHY_PARTS = ("metadatabase", "scheduler", "dag_processor")
# Where notices go; the alert of a deadline can read it only from here (ADR 51).
WEBHOOK_VARIABLE = "AIRFLOW_CONN_BALLAST_WEBHOOK"
SECRET_NAMES = ("api_secret", "jwt_secret", "admin_password", "fernet_key")


def print_line(line: str) -> None:
    print(f"airflow: {line}", flush=True)


class EmbeddedAirflow:
    """One Airflow with everything it writes below ``home``; use as a context manager.

    ``home`` may be used by one stack at a time. ``env`` is added to the environment of Airflow
    and of the tasks, and wins over what is set here.
    """

    def __init__(
        self,
        home: Path,
        port: int = checks.DEFAULT_PORT,
        *,
        dags: Path = ROOT / "dags",
        plugins: Path = ROOT / "plugins",
        env: Mapping[str, str] | None = None,
        progress: Callable[[str], None] = print_line,
    ) -> None:
        self.home = home.absolute()
        self.port = port
        self.dags = dags.absolute()
        self.plugins = plugins.absolute()
        self._extra = dict(env or {})
        self._progress = progress
        self._run_folder = self.home / "run"
        self._lock: int | None = None
        self._children = [
            Child(name, airflow_command(*words), self._run_folder, self.log_of(name))
            for name, words in COMPONENTS.items()
        ]

    # Where things are

    @property
    def url(self) -> str:
        return f"http://{checks.LOOPBACK}:{self.port}"

    @property
    def database(self) -> Path:
        return self.home / "airflow.db"

    @property
    def passwords_file(self) -> Path:
        return self.home / "passwords.json"

    @property
    def admin_password(self) -> str:
        return load_secrets(self.home)["admin_password"]

    def log_of(self, component: str) -> Path:
        return self.home / "logs" / f"{component}.log"

    def client(self) -> AirflowClient:
        """A client of the REST API; it logs in as the administrator at the first request."""
        return AirflowClient(self.url, ADMIN, self.admin_password, timeout_s=ANSWER_LIMIT_S)

    # Start and end

    def __enter__(self) -> EmbeddedAirflow:
        self.start()
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self, limit_s: float = START_LIMIT_S) -> None:
        """Check, prepare, start and wait until healthy; whatever fails leaves nothing running."""
        try:
            self.prepare()
            self.launch(limit_s)
        except BaseException:
            self.stop()
            raise

    def claim(self) -> None:
        """Make this the one stack of its home, and stop what a killed one left; once is enough."""
        if self._lock is not None:
            return
        checks.check_java()
        checks.check_disk(self.home)
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._take_lock()
        self._stop_leftovers()

    def prepare(self) -> None:
        """Does everything before the first process: lock, port, secrets, database."""
        self.claim()
        checks.check_port(self.port)
        make_secrets(self.home)
        write_private(self.passwords_file, json.dumps({ADMIN: self.admin_password}))
        self._migrate()

    def launch(self, limit_s: float = START_LIMIT_S) -> None:
        """Starts the processes and waits until they are healthy.

        Raises:
            EmbeddedError: a process ended by itself.
            WaitedTooLong: Airflow was not healthy in time.
        """
        began = time.monotonic()
        try:
            for child in self._children:
                child.start(self.environment(), cwd=self.home)
            self._progress(f"starting {', '.join(COMPONENTS)} (logs in {self.home / 'logs'})")
            self._wait_until_healthy(began, limit_s)
        except BaseException:
            self.stop()
            raise
        self._progress(f"healthy at {self.url} after {time.monotonic() - began:.0f} s")

    def stop(self) -> None:
        """Stops every process of this stack and frees its lock; may be called twice."""
        if self._lock is None:
            return
        # A second Ctrl-C must not leave half of them running.
        with deferred_signals():
            left = stop_all(self._processes)
            for child in self._children:
                child.forget()
            os.close(self._lock)
            self._lock = None
        if left:
            pids = " ".join(str(process.pid) for process in left)
            raise EmbeddedError(f"processes {pids} did not end; to fix it: kill -9 {pids}")
        self._progress("stopped")

    def check_alive(self) -> None:
        """Raises, with the end of its log, if a process has ended by itself."""
        for child in self._children:
            child.check_alive()

    # Configuration

    def environment(self) -> dict[str, str]:
        """Environment variables of every Airflow process; there is no configuration file."""
        # Settings of another Airflow on this machine must not reach this one.
        outer = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("AIRFLOW_") or name == WEBHOOK_VARIABLE
        }
        return outer | airflow_settings(self) | python_and_spark(outer) | self._extra

    # Steps

    def _take_lock(self) -> None:
        self._run_folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._run_folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(descriptor, 32, 0).decode() or "unknown"
            os.close(descriptor)
            raise AlreadyRunning(
                f"a stack is already running in {self.home} (process {owner}); to fix it: stop "
                f"that one (Ctrl-C in its terminal, or kill {owner}), or set BALLAST_HOME"
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        self._lock = descriptor

    def _stop_leftovers(self) -> None:
        """Stops processes of an earlier run; its supervisor is dead, because its lock is free."""
        left = self._processes()
        if not left:
            return
        for process in left:
            self._progress(f"stopping process {process.pid}, left by an earlier run")
        if stop_all(self._processes):
            raise EmbeddedError(
                "processes of an earlier run did not end; to fix it: kill -9 "
                + " ".join(str(process.pid) for process in left)
            )

    def _processes(self) -> list[psutil.Process]:
        """All processes of this home, by their records and by the mark in their environment."""
        known = {process for child in self._children for process in child.processes()}
        return sorted(known.union(marked_processes(str(self.home))), key=lambda p: p.pid)

    def _migrate(self) -> None:
        stamp = self.home / "airflow.db.version"
        wanted = version("apache-airflow-core")
        if self.database.exists() and stamp.exists() and stamp.read_text() == wanted:
            return
        self._progress("preparing the database")
        # A first migration that was interrupted must not be used as a database.
        target = self.database if stamp.exists() else self.database.with_suffix(".new")
        if target != self.database:
            target.unlink(missing_ok=True)
        env = self.environment() | {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": sqlite(target)}
        self._run_to_end("db-migrate", airflow_command("db", "migrate"), env)
        empty_write_ahead_log(target)
        target.replace(self.database)
        stamp.write_text(wanted)

    def _run_to_end(self, name: str, command: list[str], env: Mapping[str, str]) -> None:
        child = Child(name, command, self._run_folder, self.log_of(name))
        child.start(env, cwd=self.home)
        deadline = time.monotonic() + MIGRATE_LIMIT_S
        while child.exit_code() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        code = child.exit_code()
        child.forget()
        if code != 0:
            reason = "took too long" if code is None else f"ended with {code}"
            raise EmbeddedError(f"airflow {name} {reason}:\n{tail(child.log)}")

    def _wait_until_healthy(self, began: float, limit_s: float) -> None:
        client = self.client()
        reported = time.monotonic()
        while True:
            self.check_alive()
            waiting = unhealthy_parts(client)
            if not waiting:
                return
            now = time.monotonic()
            if now - began > limit_s:
                raise WaitedTooLong(
                    f"Airflow is not up after {limit_s:.0f} s, still waiting for "
                    f"{', '.join(waiting)}; see the logs in {self.home / 'logs'}"
                )
            if now - reported >= PROGRESS_EVERY_S:
                self._progress(f"{now - began:.0f} s, waiting for {', '.join(waiting)}")
                reported = now
            time.sleep(0.5)


def airflow_command(*words: str) -> list[str]:
    return [sys.executable, "-m", "airflow", *words]


def sqlite(file: Path) -> str:
    return f"sqlite:///{file}"


def empty_write_ahead_log(database: Path) -> None:
    """Writes all data into the one file that is renamed next."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def unhealthy_parts(client: AirflowClient) -> list[str]:
    """Parts that are not healthy yet, in the order in which they start."""
    try:
        health = client.health()
    except ApiError:
        return ["api-server"]
    return [part for part in HEALTHY_PARTS if _status(health, part) != "healthy"]


def _status(health: Json, part: str) -> str | None:
    entry = health.get(part) or {}
    status: str | None = entry.get("status")
    return status


def make_secrets(home: Path) -> None:
    """Generates missing secrets into a file that only this user can read."""
    file = home / "secrets.json"
    known = load_secrets(home) if file.exists() else {}
    if all(known.get(name) for name in SECRET_NAMES):
        return
    fresh = {
        "api_secret": secrets.token_hex(48),
        "jwt_secret": secrets.token_hex(48),
        "admin_password": secrets.token_urlsafe(18),
        "fernet_key": _fernet_key(),
    }
    write_private(file, json.dumps(fresh | known, indent=2))


def load_secrets(home: Path) -> dict[str, str]:
    file = home / "secrets.json"
    try:
        return {str(k): str(v) for k, v in json.loads(file.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError) as error:
        raise EmbeddedError(
            f"{file} cannot be read: {error}; to fix it: remove it, and new secrets are made"
        ) from error


def _fernet_key() -> str:
    import base64

    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


def spark_connection(master: str) -> str:
    """Airflow's ``spark_default`` connection for a Spark master URL, as JSON."""
    scheme, _, rest = master.partition("://")
    if scheme != "spark":
        return json.dumps({"conn_type": "spark", "host": master})
    # With standby masters the address is a list, and the connection's port is that of the last one.
    host, _, port = rest.rpartition(":")
    return json.dumps({"conn_type": "spark", "host": f"spark://{host}", "port": int(port)})


def python_and_spark(outer: Mapping[str, str]) -> dict[str, str]:
    """Variables by which tasks find this clone, this Python and its Spark."""
    path = [str(ROOT), *filter(None, [outer.get("PYTHONPATH")])]
    return {
        "PYTHONPATH": os.pathsep.join(path),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(spark_home()),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), outer.get("PATH", "")]),
        "GX_ANALYTICS_ENABLED": "false",
    }


def spark_home() -> Path:
    """Folder of the installed pyspark, found without importing it."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EmbeddedError("pyspark is not installed; to fix it: make setup")
    return Path(spec.origin).parent


def airflow_settings(stack: EmbeddedAirflow) -> dict[str, str]:
    """Airflow's configuration as environment variables."""
    keys = load_secrets(stack.home)
    return {
        **marked_environment(str(stack.home)),
        "AIRFLOW_HOME": str(stack.home),
        "AIRFLOW_CONN_SPARK_DEFAULT": spark_connection(load_settings().spark_master),
        "AIRFLOW__API__HOST": checks.LOOPBACK,
        "AIRFLOW__API__PORT": str(stack.port),
        "AIRFLOW__API__BASE_URL": stack.url,
        "AIRFLOW__API__SECRET_KEY": keys["api_secret"],
        "AIRFLOW__API_AUTH__JWT_SECRET": keys["jwt_secret"],
        "AIRFLOW__CORE__DAGS_FOLDER": str(stack.dags),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(stack.plugins),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{stack.url}/execution/",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__FERNET_KEY": keys["fernet_key"],
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        # The default is 32 idle workers.
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "false",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{ADMIN}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(stack.passwords_file),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": sqlite(stack.database),
        # A new DAG file appears within seconds, a changed policy within a minute. Parsing takes one
        # or two seconds of a core, which slows a streaming job on this machine down.
        "AIRFLOW__DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "5",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(stack.home / "logs" / "tasks"),
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "false",
    }
