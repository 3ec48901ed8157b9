"""The whole loop on one machine: ``make run`` and ``make demo``.

Starts the reference job and embedded Airflow, triggers a run of the reoptimization DAG, waits until
the job has taken the plan up and the next run has measured it, and prints a report. With ``--stay``
everything then runs until Ctrl-C. Without it, everything stops, and the job's sums are compared
with its input.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import yaml

from ballast.airflow.rest import AirflowClient
from ballast.contracts.errors import BallastError
from ballast.contracts.policy import JobPolicy, load_policy
from ballast.contracts.records import Ack, Draft, Head, Outcome, Promise
from ballast.contracts.settings import Settings, load_settings
from ballast.store.plans import (
    read_head,
    read_log,
    read_outcomes,
    read_plan,
    read_promises,
)
from embedded.airflow import ADMIN
from embedded.busy_processes import spinning_processes
from embedded.errors import EmbeddedError, WaitedTooLong
from embedded.loop import (
    prepare_dag,
    run_dag,
    stage_seconds,
    wait_for_take_up,
    wait_for_windows,
)
from embedded.processes import Stopped, ending_signals_raise
from embedded.progress import print_progress
from embedded.report import Findings, Traffic, report_lines, shortcomings
from embedded.stack import DAG_ID, JOB, Stack, start_afresh
from examples.flights.check import check_sums

BALANCE, JOINT, ROUTES = "balance", "joint", "routes"
ROUTED_EDGES = [{"from": "extract_delays", "to": "sum_by_destination"}]
# The first windows include imports and code that is not compiled yet, and the states grow until
# every flight has been seen once, which takes 12 s or more. Some windows also pass between the
# trigger and the moment at which condense fixes the table versions.
WARM_UP_WINDOWS = 2
CHECK_EVERY_S = 2.0


@dataclass(frozen=True)
class MeasuredPlan:
    """A plan that was published, taken up and measured."""

    head: Head
    plan: Draft
    ack: Ack
    load_distance: Outcome
    promise: Promise
    """The promised load distance."""
    traffic: Traffic | None
    """Of a joint plan only."""
    stage_seconds: Mapping[str, float]
    unfinished_run_id: str
    """The run that measured it, whose later tasks may still run."""


@dataclass(frozen=True)
class SumsCheck:
    """The job's sums compared with its input."""

    equal: bool | None
    """None if they were not compared, because the job still runs."""
    text: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demonstration; returns 0 only if it showed everything that it must show."""
    args = _parser().parse_args(arguments)
    try:
        with ending_signals_raise(), spinning_processes(args.spin) as spinning:
            if spinning:
                print_progress(f"processes that use the processors: {' '.join(map(str, spinning))}")
            return _run(args)
    except Stopped as stopped:
        print_progress("stopped")
        return 0 if args.stay and stopped.signal_number == 2 else stopped.signal_number + 128
    except BallastError as error:
        print(f"ballast: {error}", file=sys.stderr, flush=True)
        return error.exit_code


def _run(args: argparse.Namespace) -> int:
    settings = with_objective(load_settings(), args.objective)
    stack = Stack(settings, schedules=args.stay, rate=args.rate)
    began = time.monotonic()
    try:
        if args.stay:
            stack.start()
            _stay(stack)
        stack.airflow.claim()
        start_afresh(settings)
        stack.start()
        return _show_and_stop(stack, began)
    finally:
        stack.stop()


def _stay(stack: Stack) -> NoReturn:
    """Shows the loop once, then keeps the stack running until a signal ends the program."""
    try:
        plan = measure_one_plan(stack)
        if plan is not None:
            sums = SumsCheck(None, "compared when the job stops (make demo)")
            _print_report(findings_of(plan, sums, stack.peak_memory_bytes))
    except BallastError as error:
        print_progress(str(error))
    _print_addresses(stack)
    while True:
        stack.check()
        time.sleep(CHECK_EVERY_S)


def _show_and_stop(stack: Stack, began: float) -> int:
    """Shows the loop once, stops the job and compares its sums with its input."""
    plan = measure_one_plan(stack)
    if plan is None:
        raise EmbeddedError("the run made no new version; `make demo` starts from the hash "
                            "placement and expects one: see the task logs")  # fmt: skip
    # If it stayed unfinished, it would block the first run of the next start.
    stack.airflow.client().end_run(
        DAG_ID, plan.unfinished_run_id, "make demo stops once the outcome is measured"
    )
    stack.stop_job()
    sums = check_sums(stack.settings)
    findings = findings_of(plan, SumsCheck(sums.equal, sums.text()), stack.peak_memory_bytes)
    _print_report(findings)
    problems = shortcomings(findings)
    for problem in problems:
        print(f"NOT SHOWN: {problem}", flush=True)
    print_progress(
        f"{'failed' if problems else 'done'} after {time.monotonic() - began:.0f} s; see the plan "
        f"with `.venv/bin/ballast plans show {JOB}`"
    )
    return 1 if problems else 0


def with_objective(settings: Settings, objective: str | None) -> Settings:
    """Settings with a copy of the job's policy that has another objective, in a separate folder."""
    if objective is None:
        return settings
    source = settings.policies / f"{JOB}.yaml"
    load_policy(source)  # an error in it then names the file that a person wrote
    policy = yaml.safe_load(source.read_text(encoding="utf-8"))
    kind = JOINT if objective == ROUTES else objective
    policy["objective"] = {**policy.get("objective", {}), "kind": kind}
    if objective == ROUTES:
        policy["routing"] = {**policy.get("routing", {}), "edges": ROUTED_EDGES}
    folder = settings.home / "policies" / objective
    folder.mkdir(parents=True, exist_ok=True)
    (folder / source.name).write_text(yaml.safe_dump(policy, sort_keys=False), encoding="utf-8")
    return replace(settings, policies=folder)


def measure_one_plan(stack: Stack) -> MeasuredPlan | None:
    """Makes a plan from the job's metrics, waits for its take-up, and measures it.

    Returns:
        The plan with its outcome; None if the run found nothing to change.
    """
    settings, policy = stack.settings, stack.policy
    client = stack.airflow.client()
    prepare_dag(stack, client)
    wait_for_windows(stack, "metrics for a first plan", policy.windows_per_period + WARM_UP_WINDOWS)
    parent = read_head(settings, JOB)
    first_run = run_dag(stack, client)
    head = read_head(settings, JOB)
    if head is None or (parent is not None and head.version == parent.version):
        events = [entry for entry in read_log(settings, JOB) if entry.run_id == first_run]
        reason = events[-1].reason if events else "see the task logs"
        print_progress(f"no new version: {reason}")
        return None
    ack = wait_for_take_up(stack, head)
    wait_for_windows(
        stack, f"windows of version {head.version}", policy.windows_per_period,
        after_batch=ack.batch_id,
    )  # fmt: skip
    second_run = run_dag(stack, client, until="measure")
    return _measured_plan(stack, client, head, ack, (first_run, second_run))


def _measured_plan(
    stack: Stack, client: AirflowClient, head: Head, ack: Ack, runs: tuple[str, str]
) -> MeasuredPlan:
    """The plan's promises and its outcome, for the report."""
    first_run, second_run = runs
    plan = read_plan(stack.settings, JOB, head.plan_id)
    promises = {row.figure: row for row in read_promises(stack.settings, JOB, head.plan_id)}
    outcomes = {row.figure: row for row in read_outcomes(stack.settings, JOB, head.version)}
    if "load_distance_pct" not in outcomes:
        raise WaitedTooLong(
            f"the second run measured nothing for version {head.version}; see measure's log"
        )
    measure_seconds = stage_seconds(client, second_run)["measure"]
    return MeasuredPlan(
        head=head,
        plan=plan,
        ack=ack,
        load_distance=outcomes["load_distance_pct"],
        promise=promises["load_distance_pct"],
        stage_seconds=stage_seconds(client, first_run) | {"measure": measure_seconds},
        traffic=traffic_of(plan, outcomes, stack.policy),
        unfinished_run_id=second_run,
    )


def traffic_of(plan: Draft, outcomes: Mapping[str, Outcome], policy: JobPolicy) -> Traffic | None:
    """The traffic figures of a joint plan; None if the plan is for the load alone."""
    if plan.objective != JOINT:
        return None
    return Traffic(
        plan.max_load_distance_pct,
        _three_figures(outcomes["collocation_factor_pct"]),
        _three_figures(outcomes["wire_bytes_per_record"]),
        _three_figures(outcomes["load_index_pct"])[1:],
        plan.rerouted_keys if policy.routing.edges else None,
    )


def _three_figures(outcome: Outcome) -> tuple[float, float, float]:
    """The figure before the plan, promised and measured."""
    if outcome.before is None or outcome.promised is None:
        raise EmbeddedError(f"version {outcome.version} promised no {outcome.figure}")
    return outcome.before, outcome.promised, outcome.measured


def findings_of(measured: MeasuredPlan, sums: SumsCheck, peak_memory_bytes: int) -> Findings:
    """The figures of the report."""
    plan, ack = measured.plan, measured.ack
    return Findings(
        job=JOB,
        version=measured.head.version,
        plan_id=plan.plan_id,
        before_pct=plan.load_distance_before_pct,
        promised=measured.promise,
        measured_pct=measured.load_distance.measured,
        bound_pct=plan.bound_pct,
        method=plan.method,
        status=plan.status,
        moves=plan.moves,
        moved_key_groups=ack.moved_key_groups,
        state_bytes=plan.bytes + (plan.route_bytes or 0),
        bytes_moved=ack.bytes_moved,
        pause_ms=ack.pause_ms,
        batch_id=ack.batch_id,
        windows=measured.load_distance.windows,
        stage_seconds=measured.stage_seconds,
        peak_memory_bytes=peak_memory_bytes,
        sums_equal=sums.equal,
        sums_text=sums.text,
        traffic=measured.traffic,
    )


def _print_report(findings: Findings) -> None:
    print("\n" + "\n".join(report_lines(findings)) + "\n", flush=True)


def _print_addresses(stack: Stack) -> None:
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
        help="replaces the policy's objective.kind; routes means joint with routed keys",
    )  # fmt: skip
    parser.add_argument("--rate", type=_rate, help="flights a second (default: the job's own)")
    parser.add_argument(
        "--spin", type=int, choices=range(9), default=0, metavar="N",
        help="also start N processes, 0 to 8, that keep processors busy until the end",
    )  # fmt: skip
    return parser


def _rate(text: str) -> int:
    rate = int(text) if re.fullmatch("[0-9]{1,6}", text) else 0
    if not 1 <= rate <= 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate; allowed: 1 to 100000 a second")
    return rate


if __name__ == "__main__":
    sys.exit(main())
