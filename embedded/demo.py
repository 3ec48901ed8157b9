"""The whole loop on one machine: ``make run`` and ``make demo``.

Starts the reference job and embedded Airflow, lets a reoptimization run over the running job,
waits until the job has taken the plan up and the next run has measured it, and reports. With
``--stay`` everything then stays up until Ctrl-C; without, it stops and compares the job's sums
with its input.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import psutil
import yaml

from ballast.contracts.errors import BallastError
from ballast.contracts.policy import JobPolicy, load_policy
from ballast.contracts.records import Head
from ballast.contracts.settings import Settings, load_settings
from ballast.store.plans import read_acks, read_head, read_log, read_outcomes, read_plan
from ballast.store.tables import read_rows, table_exists
from ballast.streaming.job_lock import JobLock
from embedded import checks
from embedded.airflow import ADMIN, ROOT, EmbeddedAirflow
from embedded.errors import EmbeddedError, WaitedTooLong
from embedded.machine_speed import MachineSpeed, wait_while_progressing
from embedded.processes import Child, Stopped, ending_signals_raise, marked_environment
from embedded.report import Findings, Traffic, report_lines, shortcomings
from embedded.rest import ENDED, AirflowClient, wait_until
from embedded.spin import spinning_processes
from examples.flights.check import check_sums

JOB = "flights"
DAG_ID = f"reoptimize__{JOB}"
BALANCE, JOINT, ROUTES = "balance", "joint", "routes"
ROUTED_EDGES = [{"from": "extract_delays", "to": "sum_by_destination"}]
# The first windows pay for imports and for code that is not compiled yet; and until every flight
# has been seen once, which takes 12 s or more, the states still grow. Some windows also pass
# between the trigger and the moment at which condense pins its tables.
WARM_UP_WINDOWS = 2
# Limits on a machine of usual speed; the pace of this one scales them.
START_LIMIT_S = 600.0  # nothing is known of the speed yet
RUN_QUIET_LIMIT_S = 600.0
WINDOWS_QUIET_LIMIT_S = 180.0
TAKE_UP_LIMIT_S = 180.0
DRAIN_LIMIT_S = 180.0
PROGRESS_EVERY_S = 10.0


class Stack:
    """The reference job and Airflow, started and stopped together."""

    def __init__(self, settings: Settings, schedules: bool, rate: int | None) -> None:
        self.settings = settings
        self.policy: JobPolicy = load_policy(settings.policies / f"{JOB}.yaml")
        env = {
            "BALLAST_HOME": str(settings.home),
            "BALLAST_WAREHOUSE": settings.warehouse,
            "BALLAST_POLICIES": str(settings.policies),
            "BALLAST_JARS": str(settings.jars),
            "BALLAST_SCHEDULES": "on" if schedules else "off",
        }
        self.airflow = EmbeddedAirflow(
            settings.home / "airflow", checks.port_from(os.environ), env=env, tell=_tell_airflow
        )
        self.job = Child(
            "streaming-job",
            [sys.executable, "-m", "examples.flights", *(["--rate", str(rate)] if rate else [])],
            settings.home / "airflow" / "run",
            settings.home / "logs" / "flights.log",
        )
        # One core for the job, so that what it measures is not its own tasks in each other's way.
        alone = {"BALLAST_SPARK_MASTER": "local[1]"}
        self._job_environment = env | alone | marked_environment(str(self.airflow.home))
        self.peak_memory_bytes = 0
        self._memory_seen = 0.0
        self.started_at = datetime.now(UTC)
        self.speed = MachineSpeed()

    def start(self) -> None:
        """Start both; the job first, so that its windows fill while Airflow comes up."""
        self.airflow.prepare()
        self.job.start(self.airflow.environment() | self._job_environment, cwd=ROOT)
        say(f"streaming job started, process {self.job.pid}, log in {self.job.log}")
        began = time.monotonic()
        self.airflow.launch(START_LIMIT_S)
        self.speed.observe(time.monotonic() - began)
        say(f"this machine is {self.speed.slowdown:.1f} times slower than usual; limits of waiting "
            "grow with it")  # fmt: skip

    def restart_job(self) -> None:
        """Stop the job at a batch boundary and start it again, with its policy as it is now."""
        self.stop_job()
        self.policy = load_policy(self.settings.policies / f"{JOB}.yaml")
        self.job.start(self.airflow.environment() | self._job_environment, cwd=ROOT)
        say(f"streaming job started again, process {self.job.pid}")

    def stop_job(self) -> None:
        """Let the job finish its input and end by itself."""
        if self.job.exit_code() is not None or not self.job.processes():
            return
        say("stopping the streaming job at a batch boundary")
        self.job.processes()[0].terminate()
        limit = self.speed.limit(DRAIN_LIMIT_S)
        wait_until(lambda: self.job.exit_code(), "the streaming job did not stop", limit)
        if self.job.exit_code() != 0:
            self.job.check_alive()

    def stop(self) -> None:
        """Stop whatever still runs."""
        self.airflow.stop()
        self.job.forget()

    def look(self) -> None:
        """Notice a process that ended by itself, and how much memory all of them use."""
        self.airflow.check_alive()
        self.job.check_alive()
        # Adding memory up walks every process's pages: not so often that it disturbs the job.
        if time.monotonic() - self._memory_seen >= PROGRESS_EVERY_S:
            self._memory_seen = time.monotonic()
            self.peak_memory_bytes = max(self.peak_memory_bytes, memory_in_use())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; exit 0 only if it showed what it must."""
    args = _parser().parse_args(arguments)
    try:
        with ending_signals_raise(), spinning_processes(args.spin) as spinning:
            if spinning:
                say(f"beside processes that spin: {' '.join(map(str, spinning))}")
            return _run(args)
    except Stopped as stopped:
        say("stopped")
        return 0 if args.stay and stopped.signal_number == 2 else stopped.signal_number + 128
    except BallastError as error:
        print(f"ballast: {error}", file=sys.stderr, flush=True)
        return error.exit_code


def _run(args: argparse.Namespace) -> int:
    settings = with_objective(load_settings(), args.objective)
    stack = Stack(settings, schedules=args.stay, rate=args.rate)
    began = time.monotonic()
    try:
        if not args.stay:
            stack.airflow.claim()
            start_afresh(settings)
        stack.start()
        if not args.stay:
            return _finish(stack, go_round_the_loop(stack), began)
        _show(stack)
        _tell_where(stack)
        while True:
            stack.look()
            time.sleep(2)
    finally:
        stack.stop()


def with_objective(settings: Settings, objective: str | None) -> Settings:
    """The settings with the job's policy for another objective, in a folder of its own."""
    if objective is None:
        return settings
    source = settings.policies / f"{JOB}.yaml"
    load_policy(source)  # so that what is wrong with it is said of the file that a person wrote
    policy = yaml.safe_load(source.read_text(encoding="utf-8"))
    kind = JOINT if objective == ROUTES else objective
    policy["objective"] = {**policy.get("objective", {}), "kind": kind}
    if objective == ROUTES:
        policy["routing"] = {**policy.get("routing", {}), "edges": ROUTED_EDGES}
    folder = settings.home / "policies" / objective
    folder.mkdir(parents=True, exist_ok=True)
    (folder / source.name).write_text(yaml.safe_dump(policy, sort_keys=False), encoding="utf-8")
    return replace(settings, policies=folder)


def _show(stack: Stack) -> None:
    """Go round the loop and report; what goes wrong is said, and the stack stays up."""
    try:
        findings = go_round_the_loop(stack)
    except BallastError as error:
        say(str(error))
        return
    if findings is not None:
        findings.pop("unfinished_run")
        _print_report(_with_sums(stack, findings, compare=False))


def _finish(stack: Stack, findings: Any | None, began: float) -> int:
    if findings is None:
        raise EmbeddedError("the run made no new version; `make demo` starts from the hash "
                            "placement and expects one: see the task logs")  # fmt: skip
    # Left to itself it would block the next start's first run until Airflow gave it up.
    stack.airflow.client().end_run(
        DAG_ID, findings.pop("unfinished_run"), "make demo stops once the outcome is measured"
    )
    stack.stop_job()
    complete = _with_sums(stack, findings, compare=True)
    _print_report(complete)
    problems = shortcomings(complete)
    for problem in problems:
        print(f"NOT SHOWN: {problem}", flush=True)
    say(f"{'failed' if problems else 'done'} after {time.monotonic() - began:.0f} s; look again "
        f"with `.venv/bin/ballast plans show {JOB}`")  # fmt: skip
    return 1 if problems else 0


def go_round_the_loop(stack: Stack) -> Any | None:
    """Metrics, plan, take-up, outcome; None if the run found nothing to change."""
    settings, policy = stack.settings, stack.policy
    client = stack.airflow.client()
    client.wait_for_dag(DAG_ID)
    end_left_runs(client)
    client.unpause(DAG_ID)
    wait_for_windows(stack, "metrics for a first plan", policy.windows_per_period + WARM_UP_WINDOWS)
    parent = read_head(settings, JOB)
    first_run = run_dag(stack, client)
    head = read_head(settings, JOB)
    if head is None or (parent is not None and head.version == parent.version):
        events = [row for row in read_log(settings, JOB) if row["run_id"] == first_run]
        reason = events[-1]["reason"] if events else "see the task logs"
        say(f"no new version: {reason}")
        return None
    ack = wait_for_take_up(stack, head)
    wait_for_windows(
        stack, f"windows of version {head.version}", policy.windows_per_period,
        after_batch=int(ack["batch_id"]),
    )  # fmt: skip
    second_run = run_dag(stack, client, until="measure")
    stages = stage_seconds(client, first_run) | {
        "measure": stage_seconds(client, second_run)["measure"]
    }
    return figures(settings, head, ack, stages) | {"unfinished_run": second_run}


def end_left_runs(client: AirflowClient) -> None:
    """End what an interrupted start left: one run at a time, so it would block this one's."""
    for run in client.runs(DAG_ID):
        if run["state"] not in ENDED:
            client.end_run(DAG_ID, run["dag_run_id"], "left by a stack that was stopped")


def run_dag(stack: Stack, client: AirflowClient, until: str | None = None) -> str:
    """Trigger a run, say what its tasks do, and return its id once it, or one task, succeeded."""
    run_id = client.trigger(DAG_ID)
    say(f"triggered {DAG_ID}, run {run_id}")
    seen: dict[str, str | None] = {}

    def look() -> str | None:
        stack.look()
        for task in client.task_runs(DAG_ID, run_id):
            if task.state != seen.get(task.task_id):
                seen[task.task_id] = task.state
                if task.state in ("running", "success", "failed", "up_for_retry"):
                    seconds = f" in {task.seconds:.0f} s" if task.seconds else ""
                    say(f"  {task.task_id}: {task.state}{seconds}")
        state = client.run_state(DAG_ID, run_id)
        return "success" if seen.get(until or "") == "success" else ended(state)

    state = wait_while_progressing(
        look, seen.copy, f"run {run_id} did not end", lambda: stack.speed.limit(RUN_QUIET_LIMIT_S)
    )
    if state != "success":
        failed = next(t for t in client.task_runs(DAG_ID, run_id) if t.state == "failed")
        log = client.task_log(DAG_ID, run_id, failed.task_id, failed.try_number)
        end = "\n".join(f"  {line}" for line in log.splitlines()[-30:])
        raise EmbeddedError(f"task {failed.task_id} of run {run_id} failed; end of its log:\n{end}")
    return run_id


def ended(state: str) -> str | None:
    """The state of a run if it is a last one."""
    return state if state in ENDED else None


def wait_for_windows(stack: Stack, what: str, needed: int, after_batch: int = -1) -> None:
    """Wait until the job wrote that many windows, counting those that start at or after a batch."""
    settings, policy = stack.settings, stack.policy
    say(f"waiting for {needed} windows of {policy.window_s:g} s: {what}")
    said = time.monotonic()
    found = 0

    def look() -> bool | None:
        nonlocal said, found
        stack.look()
        found = count_windows(settings, after_batch, stack.started_at)
        if time.monotonic() - said >= PROGRESS_EVERY_S:
            said = time.monotonic()
            say(f"  {min(found, needed)} of {needed} windows")
        return True if found >= needed else None

    wait_while_progressing(
        look,
        lambda: found,
        f"the job wrote too few windows, see {stack.job.log}",
        lambda: stack.speed.limit(WINDOWS_QUIET_LIMIT_S),
        every_s=2.5,
    )


def count_windows(settings: Settings, after_batch: int, since: datetime) -> int:
    """Windows since a time that cover batches, but none before the given one."""
    if not table_exists(settings, "metrics.nodes"):
        return 0
    rows = read_rows(
        settings, "metrics.nodes", job=JOB, columns=["window_start_at", "first_batch_id"]
    ).to_pylist()
    return len({
        row["window_start_at"]
        for row in rows
        if row["first_batch_id"] is not None
        and row["first_batch_id"] >= after_batch
        and row["window_start_at"] >= since
    })  # fmt: skip


def wait_for_take_up(stack: Stack, head: Head) -> Any:
    """The job's acknowledgement that it applied the version."""
    say(f"version {head.version}, plan {head.plan_id}, is published; waiting for take-up")

    def look() -> Any | None:
        stack.look()
        acks = read_acks(stack.settings, JOB, head.version)
        last = acks[-1] if acks else {"status": ""}
        if last["status"] == "refused":
            raise EmbeddedError(f"the job refused the plan: {last['reason']}")
        return last if last["status"] == "applied" else None

    limit = stack.speed.limit(TAKE_UP_LIMIT_S)
    ack = wait_until(look, f"version {head.version} was not taken up", limit)
    say(f"taken up at batch {ack['batch_id']}: {ack['moved_key_groups']} key groups, "
        f"{ack['bytes_moved']:,} bytes, {ack['pause_ms']:.1f} ms")  # fmt: skip
    return ack


def figures(settings: Settings, head: Head, ack: Any, stages: dict[str, float]) -> Any:
    """What the tables say of the version, for the report."""
    plan = read_plan(settings, JOB, head.plan_id)
    outcomes = {row["figure"]: row for row in read_outcomes(settings, JOB, head.version)}
    if "load_distance_pct" not in outcomes:
        raise WaitedTooLong(
            f"the second run measured nothing for version {head.version}; see measure's log"
        )
    return {
        "job": JOB,
        "version": head.version,
        "plan_id": head.plan_id,
        "before_pct": plan["load_distance_before_pct"],
        "promised_pct": plan["load_distance_pct"],
        "measured_pct": outcomes["load_distance_pct"]["measured"],
        "bound_pct": plan["bound_pct"],
        "method": plan["method"],
        "status": plan["status"],
        "moves": plan["moves"],
        "moved_key_groups": ack["moved_key_groups"],
        "state_bytes": plan["bytes"] + (plan["route_bytes"] or 0),
        "bytes_moved": ack["bytes_moved"],
        "pause_ms": ack["pause_ms"],
        "batch_id": ack["batch_id"],
        "windows": outcomes["load_distance_pct"]["windows"],
        "stage_seconds": stages,
        "traffic": traffic_of(plan, outcomes, load_policy(settings.policies / f"{JOB}.yaml")),
    }


def traffic_of(plan: Any, outcomes: Any, policy: JobPolicy) -> Traffic | None:
    """What a joint plan made of the traffic; None where the plan is for the load alone."""
    if plan["objective"] != JOINT:
        return None
    factor, wire = outcomes["collocation_factor_pct"], outcomes["wire_bytes_per_record"]
    index = outcomes["load_index_pct"]
    return Traffic(
        plan["max_load_distance_pct"],
        (factor["before"], factor["promised"], factor["measured"]),
        (wire["before"], wire["promised"], wire["measured"]),
        (index["promised"], index["measured"]),
        plan["rerouted_keys"] if policy.routing.edges else None,
    )


def stage_seconds(client: AirflowClient, run_id: str) -> dict[str, float]:
    """Seconds each task of a run took, in the order they ran."""
    return {task.task_id: task.seconds or 0.0 for task in client.task_runs(DAG_ID, run_id)}


def start_afresh(settings: Settings) -> None:
    """Put tables and job state of an earlier run aside, so that the placement is by hash again."""
    if settings.warehouse != str(settings.home / "warehouse"):
        raise EmbeddedError(
            f"BALLAST_WAREHOUSE is {settings.warehouse}; make demo starts from empty tables and "
            "puts those it finds aside, which it does only in its own home; to fix it: unset "
            "BALLAST_WAREHOUSE, or use make run"
        )
    old = [settings.home / "warehouse", settings.home / "jobs"]
    if not any(folder.exists() for folder in old):
        return
    previous = settings.home / "previous" / time.strftime("%Y%m%dT%H%M%S")
    with nullcontext() if not old[1].exists() else JobLock(old[1] / JOB / "job.lock", JOB):
        previous.mkdir(parents=True)
        for folder in old:
            if folder.exists():
                folder.rename(previous / folder.name)
    say(f"starting from empty tables; what was there is now in {previous}")


def memory_in_use() -> int:
    """Resident memory of this process and all that descend from it; shared pages count once."""
    total = 0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            total += process.memory_full_info().pss
        except (psutil.Error, OSError):
            continue
    return total


def say(line: str) -> None:
    """One plain line of progress with the time."""
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def _tell_airflow(line: str) -> None:
    say(f"airflow: {line}")


def _with_sums(stack: Stack, found: Any, *, compare: bool) -> Findings:
    if not compare:
        equal, text = None, "compared when the job stops (make demo)"
    else:
        sums = check_sums(stack.settings)
        equal, text = sums.equal, sums.text()
    return Findings(
        **found, sums_equal=equal, sums_text=text, peak_memory_bytes=stack.peak_memory_bytes
    )


def _print_report(findings: Findings) -> None:
    print("\n" + "\n".join(report_lines(findings)) + "\n", flush=True)


def _tell_where(stack: Stack) -> None:
    print(
        f"Airflow is at {stack.airflow.url}\n"
        f"  log in as {ADMIN} with the password {stack.airflow.admin_password}\n"
        f"  the DAG is {DAG_ID}; plans: .venv/bin/ballast plans show {JOB}\n"
        "Ctrl-C stops everything.",
        flush=True,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="demo", description=__doc__.splitlines()[0])
    parser.add_argument("--stay", action="store_true", help="stay up until Ctrl-C (make run)")
    parser.add_argument(
        "--objective", choices=(BALANCE, JOINT, ROUTES),
        help="instead of the policy's objective.kind; routes: joint, and keys are routed",
    )  # fmt: skip
    parser.add_argument("--rate", type=_rate, help="flights a second (default: the job's own)")
    parser.add_argument(
        "--spin", type=int, choices=range(9), default=0, metavar="N",
        help="start so many processes that spin beside it, 0 to 8, and end them with it",
    )  # fmt: skip
    return parser


def _rate(text: str) -> int:
    rate = int(text) if re.fullmatch("[0-9]{1,6}", text) else 0
    if not 1 <= rate <= 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate; allowed: 1 to 100000 a second")
    return rate


if __name__ == "__main__":
    sys.exit(main())
