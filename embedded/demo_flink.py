"""A Flink job that follows plans, on one machine: ``make demo-flink``.

A real cluster runs a job that knows nothing of Ballast and gets more visits than it can count. The
programs of the pipeline make a plan with more subtasks, which waits for a person; it is approved
as a person would approve it, the engine rescales the job, and the capacity is measured. Then a plan
for the drained job gives subtasks up, and a rollback brings the first plan back. The program exits
with 0 only if all of this happened and every visit was counted once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from ballast.contracts.errors import BallastError, GateFailed
from ballast.contracts.policy import JobPolicy, load_policy
from ballast.contracts.records import Ack, Draft, Head
from ballast.contracts.scaling import operator_sizes, scaled
from ballast.contracts.settings import Settings, load_settings
from ballast.contracts.spark import JARS, SHORT_LIVED_JVM
from ballast.store.plans import (
    read_acks,
    read_head,
    read_outcomes,
    read_plans,
    read_scaling,
)
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import read_rows
from embedded.airflow import ROOT
from embedded.errors import EmbeddedError, WaitedTooLong
from embedded.flink_cluster import FlinkCluster, compile_job
from embedded.flink_report import FlinkRun, ShownVersion, report_lines, shortcomings
from embedded.machine_speed import MachineSpeed
from embedded.processes import Stopped, ending_signals_raise
from embedded.progress import print_progress
from examples.visits.check import visit_counts

T = TypeVar("T")
JOB, COUNT = "visits", "count"
TASK_MANAGERS, SLOTS, MOST = 2, 3, 6
RATE, COST_US, STATE_BYTES, FIRST_SIZE = 700, 2000, 1000, 1
FOR_EVER = 10**9
WINDOWS, PERIOD_WINDOWS, GATE_TRIES = 8, 6, 6
# Limits on a machine of usual speed.
WAIT_LIMIT_S, PROGRAM_LIMIT_S = 240.0, 600.0
USUAL_CLUSTER_START_S = 15.0
PERSON = "the demonstration, in place of a person"
POLICY: dict[str, Any] = {
    "job": JOB,
    "engine": {
        "kind": "flink",
        "job_name": JOB,
        "vertices": {
            "visits": {"name": "Source: visits"},
            COUNT: {"name": "count -> end: Writer", "parallelism": FIRST_SIZE},
        },
    },
    "window_s": 4,
    "statistics_period_s": 4 * PERIOD_WINDOWS,
    "operators": [
        {"id": "visits", "key_groups": 1, "partition_key": ["visit"]},
        {"id": COUNT, "key_groups": MOST, "partition_key": ["page"]},
    ],
    "edges": [{"from": "visits", "to": COUNT}],
    "nodes": [{"id": "cluster", "capacity": {"cpu_cores": float(MOST)}}],
    "review": {"mode": "person"},
    "thresholds": {"stop_after_broken_promises": None},
    "scaling": {
        "method": "true_rate",
        "boundaries": {"lower": 0.5, "target": 0.6, "upper": 0.8},
        "interval_s": 4.0 * PERIOD_WINDOWS,
        "catch_up_s": 15.0,
        "restart_s": 2.0,
        "backlog_threshold_s": 2.0,
        "cool_down_s": 20.0,
        "stabilisation_rounds": 1,
        "max_step_out": 5.0,
    },
}


def main() -> int:
    """Runs the demonstration; returns 0 only if it showed everything that it must show."""
    try:
        with ending_signals_raise():
            return _run()
    except Stopped as stopped:
        print_progress("stopped")
        return stopped.signal_number + 128
    except BallastError as error:
        print(f"ballast: {error}", file=sys.stderr, flush=True)
        return error.exit_code


def _run() -> int:
    began = time.monotonic()
    demo = FlinkDemo(_fresh_settings())
    try:
        demo.start()
        run = demo.show()
    finally:
        demo.stop()
    print("\n" + "\n".join(report_lines(run)) + "\n", flush=True)
    problems = shortcomings(run)
    for problem in problems:
        print(f"NOT SHOWN: {problem}", flush=True)
    print_progress(f"{'failed' if problems else 'done'} after {time.monotonic() - began:.0f} s")
    return 1 if problems else 0


def _fresh_settings() -> Settings:
    """Settings with an empty home of their own inside of the usual one."""
    usual = load_settings()
    home = (usual.home / "demo-flink").absolute()
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    settings = replace(
        usual, home=home, warehouse=str(home / "warehouse"), policies=home / "policies"
    )
    settings.policies.mkdir()
    text = yaml.safe_dump(POLICY, sort_keys=False)
    (settings.policies / f"{JOB}.yaml").write_text(text, encoding="utf-8")
    ensure_tables(settings)
    return settings


@dataclass(frozen=True)
class _Applied:
    """A version that was taken up."""

    head: Head
    ack: Ack


class ProgramFailed(EmbeddedError):
    """A program of the pipeline failed."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class FlinkDemo:
    """The cluster, the job, the engine's service and the programs of the pipeline.

    Args:
        settings: an empty home and warehouse, with the policy.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._policy: JobPolicy = load_policy(settings.policies / f"{JOB}.yaml")
        jars = load_settings().home / "flink-jars"
        self._cluster = FlinkCluster(jars.absolute(), settings.home / "cluster", SLOTS)
        self._jars, self._out = jars.absolute(), settings.home / "counts"
        self._service: subprocess.Popen[bytes] | None = None
        self._job_id = ""
        self._speed = MachineSpeed()
        self._runs = 0

    def start(self) -> None:
        """Starts cluster, job and service."""
        began = time.monotonic()
        self._cluster.start(TASK_MANAGERS)
        self._speed.observe(time.monotonic() - began, USUAL_CLUSTER_START_S)
        print_progress(f"a Flink cluster with {TASK_MANAGERS * SLOTS} slots runs at "
                       f"{self._cluster.url}")  # fmt: skip
        source = ROOT / "examples" / "visits" / "VisitCount.java"
        jar = compile_job(source, self._jars, self._settings.home / "job")
        self._out.mkdir()
        arguments = [JOB, FOR_EVER, RATE, COST_US, STATE_BYTES, FIRST_SIZE, self._out]
        self._job_id = self._cluster.submit(jar, [str(each) for each in arguments])
        print_progress(f"job {JOB} gets {RATE} visits per second, each takes {COST_US} us")
        with (self._settings.home / "service.log").open("ab") as log:
            self._service = subprocess.Popen(
                [sys.executable, "-m", "ballast.cli.main", "engine", "run", JOB],
                stdout=log, stderr=log, env=self._environment(), cwd=ROOT,
            )  # fmt: skip

    def show(self) -> FlinkRun:
        """Runs the loop, and returns what was seen."""
        versions = []
        self._wait_for_windows(0, "before the first plan")
        # The first visits wait inside of the job, where no source reports them.
        self._wait("visits wait at the source", lambda: self._backlog() > 2 * RATE or None)
        backlog = self._backlog()
        print_progress(f"{backlog:,} visits wait")
        self._plan_and_publish()
        first = self._take_up()
        versions.append(self._measured(first, "plan, approved by a person"))
        self._wait("the backlog is worked off", lambda: self._backlog() < RATE or None)
        self._wait_for_windows(first.head.version, "under the drained job")
        self._plan_and_publish()
        second = self._take_up()
        versions.append(self._measured(second, "plan, approved by a person"))
        self._program(
            "rollback", "--version", str(first.head.version), "--reason", "more room is wanted",
            "--by", PERSON,
        )  # fmt: skip
        third = self._take_up()
        versions.append(self._measured(third, f"rollback to {first.head.version}"))
        left = self._backlog()
        return FlinkRun(FIRST_SIZE, backlog, left, versions, self._ended())

    def stop(self) -> None:
        """Ends every process."""
        if self._service is not None and self._service.poll() is None:
            self._service.terminate()
            self._service.wait()
        self._cluster.stop()

    def _plan_and_publish(self) -> None:
        """Makes a plan, which waits, and approves it as the review would."""
        self._runs += 1
        run_id = f"run-{self._runs}"
        self._condense(run_id)
        for program in ("solve", "publish"):
            self._program(program, "--job", JOB, "--run-id", run_id, own_ids=True)
        draft = self._draft(run_id)
        print_progress(f"plan {draft.plan_id}: {draft.scaling_reason}")
        if draft.status == "unchanged":
            raise EmbeddedError(f"the plan of {run_id} changes nothing: {draft.scaling_reason}")
        content = ("--plan-id", draft.plan_id, "--content-hash", draft.content_hash)
        self._program("prepare", "--job", JOB, "--run-id", run_id, *content, own_ids=True)
        self._program(
            "publish", "--job", JOB, "--run-id", run_id, "--answer", "approved",
            "--answered-by", PERSON, *content, own_ids=True,
        )  # fmt: skip

    def _condense(self, run_id: str) -> None:
        """Makes a snapshot; waits for more windows while the gate says that too many are missing.

        On a busy machine a window may pass without a look at its end.
        """
        for tried in range(1, GATE_TRIES + 1):
            try:
                self._program("condense", "--job", JOB, "--run-id", run_id, own_ids=True)
            except ProgramFailed as error:
                if error.code != GateFailed.exit_code or tried == GATE_TRIES:
                    raise
                print_progress("  condense: too few whole windows yet; tried again")
                time.sleep(self._policy.statistics_period_s)
            else:
                return

    def _draft(self, run_id: str) -> Draft:
        return next(d for d in read_plans(self._settings, JOB) if d.run_id == run_id)

    def _take_up(self) -> _Applied:
        head = read_head(self._settings, JOB)
        if head is None:
            raise EmbeddedError("no version was published: see the lines of the programs above")
        print_progress(f"version {head.version} is published; waiting for take-up")

        def look() -> Ack | None:
            acks = read_acks(self._settings, JOB, head.version)
            refused = next((ack for ack in acks if ack.status == "refused"), None)
            if refused is not None:
                raise EmbeddedError(f"version {head.version} was refused: {refused.reason}")
            return next((ack for ack in acks if ack.status == "applied"), None)

        ack = self._wait(f"version {head.version} is taken up", look)
        print_progress(f"taken up: {ack.reason}, pause {ack.pause_ms:.0f} ms")
        return _Applied(head, ack)

    def _measured(self, applied: _Applied, what: str) -> ShownVersion:
        version = applied.head.version
        self._wait_for_windows(version, f"under version {version}")
        self._runs += 1
        self._program("measure", "--job", JOB, "--run-id", f"run-{self._runs}", own_ids=True)
        figure = next(
            (
                each
                for each in read_outcomes(self._settings, JOB)
                if each.version == version and each.figure == f"capacity_records_per_s/{COUNT}"
            ),
            None,
        )
        rows = read_scaling(self._settings, JOB, applied.head.plan_id)
        return ShownVersion(
            version,
            what,
            operator_sizes(scaled(rows))[COUNT],
            figure.before if figure else None,
            figure.promised if figure else None,
            figure.measured if figure else None,
            applied.ack.pause_ms,
            applied.ack.reason,
        )

    def _wait_for_windows(self, version: int, what: str) -> None:
        print_progress(f"waiting for {WINDOWS} windows of {self._policy.window_s:g} s {what}")
        since = time.time()

        def look() -> bool | None:
            rows = read_rows(
                self._settings, "metrics.nodes", job=JOB,
                columns=["plan_version", "window_start_at"],
            ).to_pylist()  # fmt: skip
            ends = [
                row
                for row in rows
                if row["plan_version"] == version and row["window_start_at"].timestamp() >= since
            ]
            return True if len(ends) >= WINDOWS else None

        self._wait(f"{WINDOWS} windows under version {version}", look)

    def _backlog(self) -> int:
        """Visits that wait, by the newest window."""
        rows = read_rows(
            self._settings, "metrics.sources", job=JOB,
            columns=["window_end_at", "backlog_records"],
        ).to_pylist()  # fmt: skip
        newest = max(rows, key=lambda row: row["window_end_at"])
        return int(newest["backlog_records"])

    def _ended(self) -> Any:
        """Stops the job after the visits that it has read, and compares the counts."""
        self._cluster.call("POST", f"/jobs/{self._job_id}/stop", {"drain": True})
        self._wait(
            "the job is finished",
            lambda: (
                self._cluster.call("GET", f"/jobs/{self._job_id}")["state"] == "FINISHED" or None
            ),
        )
        return visit_counts(self._out)

    def _program(self, name: str, *arguments: str, own_ids: bool = False) -> None:
        """Runs a program of the pipeline as the DAG does."""
        if not own_ids:
            self._runs += 1
            arguments = ("--job", JOB, "--run-id", f"run-{self._runs}", *arguments)
        settings = self._settings
        command = [
            str(Path(sys.executable).parent / "spark-submit"),
            "--jars", ",".join(str(settings.jars.absolute() / jar) for jar in JARS),
            "--driver-java-options", SHORT_LIVED_JVM,
            str(ROOT / "spark_jobs" / f"{name}.py"), *arguments,
        ]  # fmt: skip
        began = time.monotonic()
        done = subprocess.run(
            command, env=self._environment(), cwd=settings.home, capture_output=True, text=True,
            timeout=self._speed.limit(PROGRAM_LIMIT_S), check=False,
        )  # fmt: skip
        if done.returncode != 0:
            lines = (done.stdout + done.stderr).splitlines()
            said = [f"  {line}" for line in lines if " INFO " not in line][-20:]
            text = "\n".join((f"{name} ended with {done.returncode}; end of its output:", *said))
            raise ProgramFailed(text, done.returncode)
        print_progress(f"  {name}: done in {time.monotonic() - began:.0f} s")

    def _environment(self) -> dict[str, str]:
        settings = self._settings
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "BALLAST_HOME": str(settings.home.absolute()),
            "BALLAST_WAREHOUSE": str(Path(settings.warehouse).absolute()),
            "BALLAST_POLICIES": str(settings.policies.absolute()),
            "BALLAST_JARS": str(settings.jars.absolute()),
            "BALLAST_FLINK_URL": self._cluster.url,
        }

    def _wait(self, what: str, look: Callable[[], T | None]) -> T:
        deadline = time.monotonic() + self._speed.limit(WAIT_LIMIT_S)
        while time.monotonic() < deadline:
            found = look()
            if found is not None:
                return found
            self._check_service()
            time.sleep(1.0)
        raise WaitedTooLong(f"waited too long: {what}; the logs are in {self._settings.home}")

    def _check_service(self) -> None:
        code = self._service.poll() if self._service else None
        if code is not None:
            log = (self._settings.home / "service.log").read_text(encoding="utf-8")
            raise EmbeddedError(f"the engine's service ended with {code}:\n{log[-2000:]}")


if __name__ == "__main__":
    sys.exit(main())
