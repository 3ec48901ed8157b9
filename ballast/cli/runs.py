"""Starts runs of a job's DAGs, prints their addresses, and waits for them with ``--wait``."""

from __future__ import annotations

import argparse
import urllib.parse
from typing import Any

from ballast.airflow.errors import DagNotReady, RunFailed
from ballast.airflow.rest import AirflowClient, Json
from ballast.cli.access import explained
from ballast.cli.progress import print_message, show_progress
from ballast.cli.render import print_json
from ballast.cli.terminal import print_parts

DEFAULT_TIMEOUT_S = 3600.0
LOG_LINES_SHOWN = 8


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that start or continue a run."""
    parser.add_argument("--wait", action="store_true", help="until the run has ended")
    parser.add_argument(
        "--timeout", type=float, default=DEFAULT_TIMEOUT_S, metavar="SECONDS",
        help=f"for --wait (default {DEFAULT_TIMEOUT_S:g})",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="for scripts")


def required_dag(client: AirflowClient, dag_id: str, what: str) -> None:
    """Check that a run of the DAG would start.

    Raises:
        DagNotReady: Airflow has no such DAG, or the DAG is paused.
    """
    with explained(client, what):
        found = client.dag(dag_id)
    if found is None:
        raise DagNotReady(
            f"cannot {what}: Airflow at {client.base_url} has no DAG {dag_id}; to fix it: check "
            "the job's name, and that its policy file is among those of Airflow (BALLAST_POLICIES)"
        )
    if found["is_paused"]:
        raise DagNotReady(
            f"cannot {what}: DAG {dag_id} is paused, and no run of it would start; to fix it: "
            f"switch it on at {_dag_page(client, dag_id)}"
        )


def start_run(client: AirflowClient, dag_id: str, conf: Json, what: str) -> str:
    """Start a run of a DAG and return the run's id; raises as :func:`required_dag` does."""
    required_dag(client, dag_id, what)
    with explained(client, what):
        return client.trigger(dag_id, conf=conf)


def report_run(
    client: AirflowClient, dag_id: str, run_id: str, action: str, args: argparse.Namespace,
    **more: Any,
) -> int:  # fmt: skip
    """Print the run and its address; with ``--wait``, wait for its end first.

    Args:
        client: the client of Airflow.
        dag_id: the DAG of the run.
        run_id: the run.
        action: what the command has done, for the first line.
        args: ``wait``, ``timeout`` and ``json``.
        more: further fields of the JSON output.

    Returns:
        0, the exit code.

    Raises:
        RunFailed: the run has failed.
    """
    page = _run_page(client, dag_id, run_id)
    state = None
    if args.wait:
        print_message(f"waiting for run {run_id}: {page}")
        state = _wait(client, dag_id, run_id, args.timeout)
    fields = {"dag_id": dag_id, "run_id": run_id, "state": state, "url": page, **more}
    if args.json:
        print_json(fields)
    else:
        print_parts(f"{action}: run {run_id} of {dag_id}{f', {state}' if state else ''}\n{page}")
    if state == "failed":
        raise RunFailed(f"run {run_id} of {dag_id} failed: {_failure_text(client, dag_id, run_id)}")
    return 0


def _wait(client: AirflowClient, dag_id: str, run_id: str, timeout_s: float) -> str:
    shown: set[tuple[str, str | None]] = set()

    with (
        show_progress(f"waiting for run {run_id}") as line,
        explained(client, f"wait for run {run_id}"),
    ):

        def show_changes() -> None:
            for task in client.task_runs(dag_id, run_id):
                if task.state is not None and (task.task_id, task.state) not in shown:
                    shown.add((task.task_id, task.state))
                    line.step(f"{task.task_id}: {task.state}")

        return client.wait_for_run(dag_id, run_id, timeout_s, on_poll=show_changes)


def _failure_text(client: AirflowClient, dag_id: str, run_id: str) -> str:
    """Return the end of the log of the task that failed first."""
    with explained(client, f"read the log of run {run_id}"):
        tasks = client.task_runs(dag_id, run_id)
        failed = [t for t in tasks if t.state == "failed"]
        if not failed:
            states = ", ".join(f"{t.task_id} {t.state}" for t in tasks)
            return f"no task of it did ({states}); see its page"
        task = failed[0]
        log = client.task_log(dag_id, run_id, task.task_id, task.try_number, task.map_index)
    lines = [line for line in log.splitlines() if line.strip() and not line.startswith("::")]
    shown = "\n".join(lines[-LOG_LINES_SHOWN:])
    return f"task {task.task_id}; end of its log:\n{shown}"


def _dag_page(client: AirflowClient, dag_id: str) -> str:
    return f"{client.base_url}/dags/{urllib.parse.quote(dag_id)}"


def _run_page(client: AirflowClient, dag_id: str, run_id: str) -> str:
    return f"{_dag_page(client, dag_id)}/runs/{urllib.parse.quote(run_id)}"
