"""Scaling on one machine: ``make demo-scale``.

The reference job runs on three nodes, and a fourth node is spare. The load is doubled: a plan adds
the spare node, the job takes the plan up, and the CPU of each node is compared with the promise.
Then the load is halved: a node is drained over several rounds, as the budget requires, and removed.
The program exits with 0 only if all of this happened and the job's sums are those of its input.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import yaml

from ballast.airflow.rest import AirflowClient
from ballast.contracts.errors import BallastError
from ballast.contracts.records import Draft, Outcome
from ballast.contracts.scaling import nodes_in_use, scaled
from ballast.contracts.settings import Settings, load_settings
from ballast.store.plans import (
    read_assignment,
    read_head,
    read_log,
    read_outcomes,
    read_plan,
    read_scaling,
)
from ballast.store.tables import read_rows
from ballast.streaming.job_state import job_folder
from embedded.errors import EmbeddedError
from embedded.loop import prepare_dag, run_dag, wait_for_take_up, wait_for_windows
from embedded.processes import Stopped, ending_signals_raise
from embedded.progress import print_progress
from embedded.scale_report import (
    BUDGET_MOVES,
    MAX_DRAIN_ROUNDS,
    NODES,
    SPARES,
    ScaleRun,
    report_lines,
    shortcomings,
)
from embedded.stack import JOB, Stack, start_afresh
from examples.flights.check import check_sums
from examples.flights.feed import FlightsFolder, set_rate

# Each statistics period of 120 s reads all 336,776 flights twice, or four times at the high rate.
# Two periods of one rate read the same flights, so they differ only in how long things took.
LOW_RATE, HIGH_RATE = 336_776 / 60, 336_776 / 30
# Nodes get the capacity at which the low rate uses half of it, however fast this machine is.
LOW_UTILISATION = 0.5
BOUNDARIES = {"lower": 0.45, "target": 0.6, "upper": 0.75}
# Solving for 120 key groups takes a fraction of this; the rest would go into proving a bound.
SOLVER_SECONDS = 1
CALIBRATION_WINDOWS, WARM_UP_WINDOWS = 4, 3
MAX_RUNS = 2 + MAX_DRAIN_ROUNDS
LEAST_INPUT_SHARE = 0.9


@dataclass(frozen=True)
class WindowRates:
    """What the job did in some windows."""

    records_per_s: float
    """Flights that came in."""
    cpu_cores: float


@dataclass(frozen=True)
class KeyGroupWindow:
    """One key group in one window: the columns of ``metrics.key_groups`` that are used here."""

    operator_id: str
    window_end_at: datetime
    records: int
    cpu_ms: float


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
    settings = with_scaling(load_settings(), cores=1.0)
    stack = Stack(settings, schedules=False, rate=round(LOW_RATE))
    began = time.monotonic()
    try:
        stack.airflow.claim()
        start_afresh(settings)
        stack.start()
        run = double_and_halve_load(stack)
        stack.stop_job()
    finally:
        stack.stop()
    sums = check_sums(settings)
    run.sums_equal, run.sums_text = sums.equal, sums.text()
    run.heartbeats = heartbeats_out_of_use(settings, stack)
    print("\n" + "\n".join(report_lines(run)) + "\n", flush=True)
    problems = shortcomings(run)
    for problem in problems:
        print(f"NOT SHOWN: {problem}", flush=True)
    print_progress(f"{'failed' if problems else 'done'} after {time.monotonic() - began:.0f} s")
    return 1 if problems else 0


def with_scaling(settings: Settings, cores: float) -> Settings:
    """Settings with a copy of the job's policy that scales, in a separate folder."""
    source = load_settings().policies / f"{JOB}.yaml"
    policy = yaml.safe_load(source.read_text(encoding="utf-8"))
    policy["nodes"] = [
        {"id": f"node-{i}", "capacity": {"cpu_cores": cores}, "spare": i >= NODES}
        for i in range(NODES + SPARES)
    ]
    policy["budgets"] = {"moves": BUDGET_MOVES}
    policy["solver"] = {**policy.get("solver", {}), "seconds": SOLVER_SECONDS}
    # The demonstration changes the load on purpose, so promises made before a change may break.
    policy["thresholds"] = {**policy.get("thresholds", {}), "stop_after_broken_promises": None}
    policy["scaling"] = {
        "method": "thresholds",
        "boundaries": BOUNDARIES,
        "min_nodes": NODES,
        "max_nodes": NODES + SPARES,
        "interval_s": 120.0,
        "cool_down_s": 30.0,
        "stabilisation_rounds": 1,
        "max_drain_rounds": MAX_DRAIN_ROUNDS,
    }
    folder = settings.home / "policies" / "scale"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / source.name).write_text(yaml.safe_dump(policy, sort_keys=False), encoding="utf-8")
    return replace(settings, policies=folder)


def double_and_halve_load(stack: Stack) -> ScaleRun:
    """Calibrates the nodes, doubles the load and halves it again; returns what the plans did."""
    client = stack.airflow.client()
    prepare_dag(stack, client)
    calibrate_node_capacity(stack)
    run = ScaleRun()
    # Condense reads the last period before its own start, several windows after the trigger, so it
    # does not read a batch that was running when the rate changed.
    period = stack.policy.windows_per_period
    change_rate(stack, HIGH_RATE)
    wait_for_windows(stack, "a period of the doubled load", period, after_batch=next_batch(stack))
    check_input_rate(newest_windows(stack, period).records_per_s, HIGH_RATE)
    add_node(stack, client, run)
    change_rate(stack, LOW_RATE)
    wait_for_windows(stack, "a period of the low load", period, after_batch=next_batch(stack))
    drain_node(stack, client, run)
    return run


def calibrate_node_capacity(stack: Stack) -> None:
    """Gives nodes the capacity at which the low rate uses half of it, and restarts the job."""
    wait_for_windows(stack, "what the low rate costs here", CALIBRATION_WINDOWS + WARM_UP_WINDOWS)
    rates = newest_windows(stack, CALIBRATION_WINDOWS)
    # Per flight, because a busy machine may feed fewer flights than it should.
    used = rates.cpu_cores / max(rates.records_per_s, 1.0) * LOW_RATE
    cores = used / (NODES * LOW_UTILISATION)
    print_progress(f"the low rate uses {used:.3f} cores; a node gets {cores:.4f}")
    with_scaling(stack.settings, cores)
    stack.restart_job()


def newest_windows(stack: Stack, count: int) -> WindowRates:
    """The rates of the newest ``count`` windows of the job."""
    columns = ["operator_id", "window_end_at", "records", "cpu_ms"]
    table = read_rows(stack.settings, "metrics.key_groups", job=JOB, columns=columns)
    rows = [KeyGroupWindow(**row) for row in table.to_pylist()]
    return rates_in(rows, count, stack.policy.window_s, stack.policy.entry_operators)


def rates_in(
    rows: Sequence[KeyGroupWindow], count: int, window_s: float, entries: Collection[str]
) -> WindowRates:
    """Flights and CPU a second in the newest ``count`` windows."""
    ends = set(sorted({row.window_end_at for row in rows})[-count:])
    newest = [row for row in rows if row.window_end_at in ends]
    seconds = max(1, len(ends)) * window_s
    records = sum(row.records for row in newest if row.operator_id in entries)
    return WindowRates(records / seconds, sum(row.cpu_ms for row in newest) / 1000 / seconds)


def check_input_rate(records_per_s: float, rate: float) -> None:
    """Raises if the job takes far fewer flights than the rate that was set."""
    if records_per_s < LEAST_INPUT_SHARE * rate:
        raise EmbeddedError(
            f"the job took {records_per_s:,.0f} flights a second of {rate:,.0f}: this machine is "
            "too busy for the load to be doubled; to fix it: end other programs, and try again"
        )


def change_rate(stack: Stack, rate: float) -> None:
    """Changes the rate of the input."""
    set_rate(FlightsFolder(job_folder(stack.settings, JOB)), rate)
    print_progress(f"the load is now {rate:,.0f} flights a second")


def next_batch(stack: Stack) -> int:
    """The batch after the newest one that is in a window."""
    rows = read_rows(stack.settings, "metrics.nodes", job=JOB, columns=["last_batch_id"])
    return 1 + max((b for b in rows["last_batch_id"].to_pylist() if b is not None), default=-1)


def add_node(stack: Stack, client: AirflowClient, run: ScaleRun) -> None:
    """Makes the plan that adds the node, then one that measures it and fills the node further."""
    version = one_round(stack, client, run)
    if version is None:
        raise EmbeddedError(f"the doubled load made no new version: {run.reasons[-1]}")
    run.added = nodes_with_action(stack, version, "add")
    plan = read_plan(stack.settings, JOB, plan_id_of(stack, version))
    one_round(stack, client, run)
    outcomes = [
        row
        for row in read_outcomes(stack.settings, JOB, version)
        if row.figure.startswith("cpu_load_cores/")
    ]
    run.promised = {
        row.figure.partition("/")[2]: (row.promised or 0.0, row.measured) for row in outcomes
    }
    if outcomes:
        run.flights_per_s = (planned_rate(stack, plan), measured_rate(stack, outcomes[0]))


def planned_rate(stack: Stack, plan: Draft) -> float:
    """Flights a second in the snapshot that the plan was made from."""
    rows = read_rows(
        stack.settings, "snapshots.key_groups", job=JOB,
        where=[
            ("snapshot_id", "=", plan.snapshot_id),
            ("operator_id", "in", list(stack.policy.entry_operators)),
        ],
        columns=["records_per_s"],
    )  # fmt: skip
    return float(sum(rows["records_per_s"].to_pylist()))


def measured_rate(stack: Stack, outcome: Outcome) -> float:
    """Flights a second in the windows over which the outcome was measured."""
    rows = read_rows(
        stack.settings, "metrics.key_groups", job=JOB,
        where=[
            ("window_end_at", ">", outcome.period_start_at),
            ("window_end_at", "<=", outcome.period_end_at),
            ("operator_id", "in", list(stack.policy.entry_operators)),
        ],
        columns=["window_end_at", "records"],
    )  # fmt: skip
    windows = len(set(rows["window_end_at"].to_pylist()))
    return float(sum(rows["records"].to_pylist())) / max(1.0, windows * stack.policy.window_s)


def drain_node(stack: Stack, client: AirflowClient, run: ScaleRun) -> None:
    """Makes plans until a node is removed."""
    for _ in range(MAX_RUNS):
        before = key_groups_by_node(stack)
        version = one_round(stack, client, run)
        if version is None:
            continue
        draining = nodes_with_action(stack, version, "drain")
        if draining:
            run.drained = sorted({*run.drained, *draining})
            after = key_groups_by_node(stack)
            run.key_groups_left = run.key_groups_left or [sum(before[node] for node in draining)]
            run.key_groups_left.append(sum(after[node] for node in draining))
            plan = read_plan(stack.settings, JOB, plan_id_of(stack, version))
            run.drain_moves.append(plan.moves)
            first, *_, last = run.key_groups_left
            print_progress(f"  {', '.join(draining)}: {last} of {first} key groups left")
        run.removed = nodes_with_action(stack, version, "remove")
        if run.removed:
            return


def key_groups_by_node(stack: Stack) -> Counter[str]:
    """Key groups of each node under the plan in force."""
    head = read_head(stack.settings, JOB)
    if head is None:
        raise EmbeddedError("no plan is in force; the doubled load should have made one")
    rows = read_assignment(stack.settings, JOB, head.plan_id)
    return Counter(row.node_id for row in rows)


def one_round(stack: Stack, client: AirflowClient, run: ScaleRun) -> int | None:
    """Runs the DAG once and waits for the take-up.

    Returns:
        The new version; None if the run made none.
    """
    before = read_head(stack.settings, JOB)
    run_id = run_dag(stack, client)
    reason = next(
        entry.reason
        for entry in read_log(stack.settings, JOB)
        if entry.run_id == run_id and entry.event in ("drafted", "unchanged")
    )
    run.reasons.append(reason)
    print_progress(f"  {reason[reason.find('scaling: ') :]}")
    head = read_head(stack.settings, JOB)
    if head is None or (before is not None and head.version == before.version):
        return None
    wait_for_take_up(stack, head)
    # A snapshot must not contain windows of two versions.
    wait_for_windows(
        stack, f"windows of version {head.version}", stack.policy.windows_per_period,
        after_batch=next_batch(stack),
    )  # fmt: skip
    return head.version


def plan_id_of(stack: Stack, version: int) -> str:
    """The plan id of the version in force, which must be this one."""
    head = read_head(stack.settings, JOB)
    if head is None or head.version != version:
        raise EmbeddedError(f"version {version} is no longer in force")
    return head.plan_id


def nodes_with_action(stack: Stack, version: int, action: str) -> list[str]:
    """Nodes that have this action in the plan of the version in force."""
    rows = read_scaling(stack.settings, JOB, plan_id_of(stack, version))
    return sorted(row.subject_id for row in rows if row.subject == "node" and row.action == action)


def heartbeats_out_of_use(settings: Settings, stack: Stack) -> list[str]:
    """Nodes that sent heartbeats in a window of a version that does not use them.

    The window in which a version is taken up also has the nodes of the version before.
    """
    plans = {
        entry.version: entry.plan_id
        for entry in read_log(settings, JOB)
        if entry.event == "published" and entry.version is not None and entry.plan_id is not None
    }
    used = {
        version: nodes_in_use(stack.policy, scaled(read_scaling(settings, JOB, plan_id)))
        for version, plan_id in plans.items()
    } | {0: nodes_in_use(stack.policy)}
    columns = ["node_id", "plan_version", "window_start_at"]
    rows = read_rows(settings, "metrics.nodes", job=JOB, columns=columns).to_pylist()
    first: dict[int, datetime] = {}
    for row in sorted(rows, key=lambda row: row["window_start_at"]):
        first.setdefault(row["plan_version"], row["window_start_at"])
    return sorted(
        {
            f"{row['node_id']} under version {row['plan_version']}"
            for row in rows
            if row["window_start_at"] > first[row["plan_version"]]
            and row["node_id"] not in used[row["plan_version"]]
        }
    )


if __name__ == "__main__":
    sys.exit(main())
