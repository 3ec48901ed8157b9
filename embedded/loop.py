"""Steps of the loop on a running stack: windows, a run of the DAG, take-up of a version."""

from __future__ import annotations

import time
from datetime import datetime

from ballast.airflow.rest import ENDED, AirflowClient, wait_until
from ballast.contracts.records import Ack, Head
from ballast.contracts.settings import Settings
from ballast.store.plans import read_acks
from ballast.store.tables import read_rows, table_exists
from embedded.errors import EmbeddedError
from embedded.machine_speed import wait_while_progressing
from embedded.progress import print_progress
from embedded.stack import DAG_ID, JOB, Stack

# Limits on a machine of usual speed; the measured speed of this machine scales them.
DAG_LIMIT_S = 120.0
RUN_QUIET_LIMIT_S = 600.0
WINDOWS_QUIET_LIMIT_S = 180.0
TAKE_UP_LIMIT_S = 180.0
PROGRESS_EVERY_S = 10.0


def prepare_dag(stack: Stack, client: AirflowClient) -> None:
    """Waits for the DAG, ends runs of an earlier stack, and unpauses the DAG."""
    client.wait_for_dag(DAG_ID, stack.speed.limit(DAG_LIMIT_S))
    end_left_runs(client)
    client.unpause(DAG_ID)


def end_left_runs(client: AirflowClient) -> None:
    """Ends runs that an interrupted stack left; the DAG runs one at a time, so they would block."""
    for run in client.runs(DAG_ID):
        if run["state"] not in ENDED:
            client.end_run(DAG_ID, run["dag_run_id"], "left by a stack that was stopped")


def run_dag(stack: Stack, client: AirflowClient, until: str | None = None) -> str:
    """Triggers a run and prints the states of its tasks until it ends.

    Args:
        stack: the running stack.
        client: the client of its Airflow.
        until: a task; if named, its success is enough.

    Returns:
        The id of the run.

    Raises:
        EmbeddedError: a task failed.
        WaitedTooLong: no task changed its state for too long.
    """
    run_id = client.trigger(DAG_ID)
    print_progress(f"triggered {DAG_ID}, run {run_id}")
    states: dict[str, str | None] = {}

    def look() -> str | None:
        stack.check()
        for task in client.task_runs(DAG_ID, run_id):
            if task.state != states.get(task.task_id):
                states[task.task_id] = task.state
                if task.state in ("running", "success", "failed", "up_for_retry"):
                    seconds = f" in {task.seconds:.0f} s" if task.seconds else ""
                    print_progress(f"  {task.task_id}: {task.state}{seconds}")
        state = client.run_state(DAG_ID, run_id)
        return "success" if states.get(until or "") == "success" else ended(state)

    state = wait_while_progressing(
        look, states.copy, f"run {run_id} did not end", lambda: stack.speed.limit(RUN_QUIET_LIMIT_S)
    )
    if state != "success":
        failed = next(t for t in client.task_runs(DAG_ID, run_id) if t.state == "failed")
        log = client.task_log(DAG_ID, run_id, failed.task_id, failed.try_number)
        end = "\n".join(f"  {line}" for line in log.splitlines()[-30:])
        raise EmbeddedError(f"task {failed.task_id} of run {run_id} failed; end of its log:\n{end}")
    return run_id


def ended(state: str) -> str | None:
    """The state of a run if the run has ended, else None."""
    return state if state in ENDED else None


def stage_seconds(client: AirflowClient, run_id: str) -> dict[str, float]:
    """Seconds of each task of a run, in the order of the tasks."""
    return {task.task_id: task.seconds or 0.0 for task in client.task_runs(DAG_ID, run_id)}


def wait_for_windows(stack: Stack, what: str, needed: int, after_batch: int = -1) -> None:
    """Waits until the job wrote windows.

    Args:
        stack: the running stack.
        what: what the windows are for, for the progress line.
        needed: how many windows.
        after_batch: windows count only if they have no batch before this one.

    Raises:
        WaitedTooLong: no window was added for too long.
    """
    settings, policy = stack.settings, stack.policy
    print_progress(f"waiting for {needed} windows of {policy.window_s:g} s: {what}")
    printed = time.monotonic()
    found = 0

    def look() -> bool | None:
        nonlocal printed, found
        stack.check()
        found = count_windows(settings, after_batch, stack.started_at)
        if time.monotonic() - printed >= PROGRESS_EVERY_S:
            printed = time.monotonic()
            print_progress(f"  {min(found, needed)} of {needed} windows")
        return True if found >= needed else None

    wait_while_progressing(
        look,
        lambda: found,
        f"the job wrote too few windows, see {stack.job.log}",
        lambda: stack.speed.limit(WINDOWS_QUIET_LIMIT_S),
        every_s=2.5,
    )


def count_windows(settings: Settings, after_batch: int, since: datetime) -> int:
    """Windows with batches since a time; those with a batch before ``after_batch`` are left out."""
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


def wait_for_take_up(stack: Stack, head: Head) -> Ack:
    """Waits until the job applied a version, and returns its acknowledgement.

    Raises:
        EmbeddedError: the job refused the plan.
        WaitedTooLong: the job did not take the version up in time.
    """
    print_progress(
        f"version {head.version}, plan {head.plan_id}, is published; waiting for take-up"
    )

    def look() -> Ack | None:
        stack.check()
        acks = read_acks(stack.settings, JOB, head.version)
        last = acks[-1] if acks else None
        if last is not None and last.status == "refused":
            raise EmbeddedError(f"the job refused the plan: {last.reason}")
        return last if last is not None and last.status == "applied" else None

    limit = stack.speed.limit(TAKE_UP_LIMIT_S)
    ack = wait_until(look, f"version {head.version} was not taken up", limit)
    print_progress(f"taken up at batch {ack.batch_id}: {ack.moved_key_groups} key groups, "
        f"{ack.bytes_moved:,} bytes, {ack.pause_ms:.1f} ms")  # fmt: skip
    return ack
