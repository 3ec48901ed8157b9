"""Connects collector and applier of a Flink job to its cluster."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path
from typing import IO

from ballast.contracts.engine import FlinkEngine
from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings
from ballast.engines.flink.applier import FlinkApplier
from ballast.engines.flink.collector import FlinkCollector
from ballast.engines.flink.connection import FlinkConnection
from ballast.engines.flink.followed_plan import FollowedPlan, followed_plan
from ballast.engines.flink.job_view import FlinkJob
from ballast.engines.flink.rest import RestClient
from ballast.store.table_schema import ensure_tables

TABLES = (
    "metrics.key_groups", "metrics.sources", "metrics.nodes", "plans.acks", "plans.scaling",
)  # fmt: skip
LOOK_S = 0.2
WAIT_S = 1.0


class FlinkSession:
    """The session of ``ballast engine run`` for one Flink job.

    Of the sessions that share ``BALLAST_HOME`` one acts: it holds a lock on a file, which ends with
    its process. Elsewhere two may act; they ask for the same, and rows are written once.

    Args:
        settings: where the tables are.
        policy: the job's policy, with ``engine.kind: flink``.
        connection: how to connect to the cluster.
    """

    def __init__(self, settings: Settings, policy: JobPolicy, connection: FlinkConnection) -> None:
        engine = policy.engine
        assert isinstance(engine, FlinkEngine)  # noqa: S101 - the registry chose this session
        ensure_tables(settings, TABLES)
        self._settings, self._policy, self._engine = settings, policy, engine
        self._followed: FollowedPlan | None = None
        self._lock = _TurnLock(settings.home / "engines" / f"{policy.job}.lock")
        job = FlinkJob(RestClient(connection), engine)
        self.collector = FlinkCollector(settings, policy, job, self._plan)
        self.applier = FlinkApplier(settings, policy, engine, job, self._plan, self._forget_plan)

    def wait_for_turn(self) -> bool:
        """Wait for a moment; whether this process has the lock."""
        if self._lock.is_held:
            time.sleep(LOOK_S)
            return True
        if self._lock.take():
            # Another process may have applied a version meanwhile.
            self._forget_plan()
            return True
        time.sleep(WAIT_S)
        return False

    def close(self) -> None:
        """Give the lock up, so that another session may act at once."""
        self._lock.release()

    def _plan(self) -> FollowedPlan:
        if self._followed is None:
            self._followed = followed_plan(self._settings, self._policy, self._engine)
        return self._followed

    def _forget_plan(self) -> None:
        self._followed = None


class _TurnLock:
    """A lock on a file; the system gives it up when the process ends."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._held: IO[bytes] | None = None

    @property
    def is_held(self) -> bool:
        return self._held is not None

    def take(self) -> bool:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        opened = self._file.open("ab")
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            opened.close()
            return False
        self._held = opened
        return True

    def release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.close()
