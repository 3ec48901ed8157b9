"""Condense: validate the metrics of a job's last statistics period and make a snapshot of them.

    spark-submit spark_jobs/condense.py --job flights --run-id RUN [--as-of TIME] [--policies DIR]

Exit 0: the run has a snapshot (an earlier attempt's, if it made one). Exit 4: the metrics are
missing or broken; one line says what is missing and when enough will be there.
"""

from __future__ import annotations

import importlib
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ballast.contracts.errors import GateFailed
from ballast.contracts.identity import digest
from ballast.contracts.policy import load_policy
from ballast.contracts.process_exit import exit_now
from ballast.contracts.settings import Settings
from ballast.contracts.tables import TABLES
from ballast.store.snapshots import snapshot_of_run
from expectations.policy_rules import CheckedTable, checked_table
from expectations.suites import Suite
from spark_jobs.program.arguments import add_as_of_argument, add_run_arguments
from spark_jobs.program.fault_points import fault_point
from spark_jobs.program.run import progress, run_program, spark_session
from spark_jobs.snapshot.connections import newest_connections, tell_of_silence
from spark_jobs.snapshot.load_series import load_series, reach_of, source_rates
from spark_jobs.snapshot.loads import (
    key_group_loads,
    key_pair_rates,
    last_known_loads,
    stranded_loads,
    traffic_rates,
)
from spark_jobs.snapshot.lookup import (
    ensure_used_tables,
    look_up,
    nodes_of_snapshot,
)
from spark_jobs.snapshot.node_states import NodeState, node_states, nodes_reported, reach_of_nodes
from spark_jobs.snapshot.request import Found, Request, Row
from spark_jobs.snapshot.row_checks import is_good, of_job_since, with_facts, with_reasons
from spark_jobs.snapshot.validation import (
    Gated,
    Validate,
    in_words,
    require_good,
    set_aside,
    split_bad_rows,
)
from spark_jobs.snapshot.window_selection import TakeUp, select_windows, windows_needed
from spark_jobs.snapshot.windows import (
    GROUP,
    expected_groups,
    incomplete_period,
    missing_groups,
    period_windows,
)
from spark_jobs.snapshot.write import frame_of, write_details, write_snapshot
from spark_jobs.warehouse.plan_log import Event, append_event
from spark_jobs.warehouse.spark_tables import read_table

KEY_GROUPS, NODES, TRAFFIC = "metrics.key_groups", "metrics.nodes", "metrics.traffic"
KEY_PAIRS, SOURCES = "metrics.key_pairs", "metrics.sources"
CONNECTIONS = "metrics.connections"
# How far back the last known load of a dead node's key group is looked for in the metrics, if no
# snapshot says it.
LAST_KNOWN_DAYS = 7

Session = Callable[[], AbstractContextManager[SparkSession]]


def condense(settings: Settings, request: Request, session: Session) -> Row:
    """The snapshot in force for the run, taken now unless the run has one.

    A gate that fails leaves the bad rows in ``metrics.rejected``, one line in ``plans.log``, and
    nothing else.
    """
    ensure_used_tables(settings)
    done = snapshot_of_run(settings, request.job, request.run_id)
    if done is not None:
        progress.info("run %s has snapshot %s; nothing to do", request.run_id, done["snapshot_id"])
        return done
    try:
        found = look_up(settings, request)
        progress.info("period of %d windows up to %s, tables pinned at %s",
                      found.period.windows, found.period.end.isoformat(), found.pins)  # fmt: skip
        validate = _imported_meanwhile()
        with session() as spark:
            _take_snapshot(_Run(spark, settings, request, found, validate))
    except GateFailed as error:
        append_event(settings, _gate_event(request, str(error)))
        raise
    return _in_force(settings, request, found)


@dataclass(frozen=True)
class _Run:
    """What every step of one run needs."""

    spark: SparkSession
    settings: Settings
    request: Request
    found: Found
    validate: Validate


def _take_snapshot(run: _Run) -> None:
    gated, reasons = _gated_rows(run)
    key_groups, nodes, traffic = gated[KEY_GROUPS], gated[NODES], gated[TRAFFIC]
    states = _states(run, nodes)
    stranded = _stranded(run, key_groups, states)
    complete = _complete_windows(run, key_groups.good, states, stranded)
    policy, job = run.request.policy, run.request.job
    loads = key_group_loads(_without(key_groups.good, stranded), complete, policy.window_s)
    snapshot_id = run.found.snapshot_id(run.request)
    rows = [state.row(job, snapshot_id) for state in states]
    details = {
        "snapshots.key_groups": loads if stranded is None else loads.unionByName(stranded),
        "snapshots.nodes": frame_of(run.spark, "snapshots.nodes", rows),
        "snapshots.traffic": traffic_rates(traffic.good, complete, policy.window_s),
    }
    if KEY_PAIRS in gated:
        details["snapshots.key_pairs"] = key_pair_rates(
            gated[KEY_PAIRS].good, complete, policy.window_s
        )
    if CONNECTIONS in gated:
        newest = newest_connections(gated[CONNECTIONS].good, policy, run.found.period)
        details["snapshots.connections"] = newest
        tell_of_silence(run.settings, run.request, run.found, newest)
    if policy.scaling is not None:
        details |= _scaling_details(run, gated, stranded, complete)
    write_details(run.settings, job, snapshot_id, details)
    write_snapshot(run.settings, run.request, run.found,
                   windows=len(complete), rejected_rows=reasons.total())  # fmt: skip
    progress.info("wrote the snapshot")


def _scaling_details(
    run: _Run, gated: dict[str, Gated], stranded: DataFrame | None, complete: list[datetime]
) -> dict[str, DataFrame]:
    """Load series back to the last round, and sources over the period."""
    policy, found = run.request.policy, run.found
    reach = reach_of(policy, found.period, found.previous)
    good = gated[KEY_GROUPS].good
    if reach.since < found.period.start:
        rows, checked = _rows(run, KEY_GROUPS, found.pins.key_groups, reach.since)
        good = with_reasons(rows, checked).where(is_good())
    total = sum(operator.key_groups for operator in policy.operators)
    expected = total - (stranded.count() if stranded is not None else 0)
    return {
        "snapshots.load_series": load_series(_without(good, stranded), expected, reach),
        "snapshots.sources": source_rates(gated[SOURCES].good, complete, policy.window_s),
    }


def _gated_rows(run: _Run) -> tuple[dict[str, Gated], Counter[str]]:
    """The period's rows of each table, after the gate; bad rows have been set aside."""
    pins, period = run.found.pins, run.found.period
    wanted = [
        (KEY_GROUPS, pins.key_groups, period.start),
        (NODES, pins.nodes, reach_of_nodes(run.request.policy, period)),
        (TRAFFIC, pins.traffic, period.start),
    ]
    if pins.key_pairs is not None:
        wanted.append((KEY_PAIRS, pins.key_pairs, period.start))
    if pins.sources is not None:
        wanted.append((SOURCES, pins.sources, period.start))
    if pins.connections is not None:
        wanted.append((CONNECTIONS, pins.connections, period.start))
    with ThreadPoolExecutor(len(wanted)) as pool:
        # Side by side: opening a Delta table is mostly one thread's work in the driver.
        rows = list(pool.map(lambda table: _rows(run, *table), wanted))
    progress.info("opened the tables of metrics")
    gated = {
        checked.table.name: split_bad_rows(
            frame, checked, run.validate, may_be_empty=_may_be_empty(checked)
        )
        for frame, checked in rows
    }
    reasons = set_aside(run.spark, run.settings, run.request, gated.values())
    fault_point("condense.after_rejected")
    if reasons:
        progress.info("set %d bad rows aside: %s", reasons.total(), in_words(reasons))
    for table in gated.values():
        require_good(table, run.validate, may_be_empty=_may_be_empty(table.checked))
    return gated, reasons


def _may_be_empty(checked: CheckedTable) -> bool:
    """Key groups may have nothing to say to each other, and of sources nobody may have told, which
    is for scaling to judge; a region that is silent stops no plan. Of all else there must be rows.
    """
    return checked.table.name in (TRAFFIC, KEY_PAIRS, SOURCES, CONNECTIONS)


def _rows(run: _Run, name: str, version: int, since: datetime) -> tuple[DataFrame, CheckedTable]:
    """The job's rows of a table since a time, with the facts its rules are about."""
    checked = checked_table(TABLES[name], run.request.policy, run.request.as_of)
    table = read_table(run.spark, run.settings, name, version)
    rows = with_facts(of_job_since(table, run.request.job, since), checked)
    # Small, and read by every check and step that follows.
    return rows.persist(), checked


def _states(run: _Run, nodes: Gated) -> list[NodeState]:
    reported = nodes_reported(nodes.good, nodes.rows, run.found.period)
    before = nodes_of_snapshot(run.settings, run.request.job, run.found.previous)
    policy, found = run.request.policy, run.found
    states = node_states(policy, found.period, reported, before, found.in_use(policy), found.added)
    progress.info("nodes: %s", dict(Counter(state.state for state in states)))
    return states


def _stranded(run: _Run, key_groups: Gated, states: Sequence[NodeState]) -> DataFrame | None:
    """Last known loads of the key groups that fell silent on dead nodes; None without any."""
    dead = [state.node.id for state in states if state.state == "dead"]
    if not dead:
        return None
    request, found = run.request, run.found
    previous = found.previous
    since = found.period.end - timedelta(days=LAST_KNOWN_DAYS)
    if previous is not None:
        # What was last heard before the newest snapshot is in that snapshot.
        since = max(since, previous["period_start_at"])
    rows, _ = _rows(run, KEY_GROUPS, found.pins.key_groups, since)
    upto = rows.where(rows.window_end_at <= found.period.end)
    good = with_reasons(upto, key_groups.checked).where(is_good())
    speaking = key_groups.good.where(key_groups.good.window_end_at == found.period.end)
    silent = expected_groups(run.spark, request.policy).join(speaking, list(GROUP), "left_anti")
    measured = last_known_loads(
        good.join(silent, list(GROUP), "left_semi"),
        request.policy.statistics_period_s,
        request.policy.window_s,
    )
    snapshot = _snapshot_key_groups(run, previous, silent) if previous else None
    stranded = stranded_loads(measured, snapshot, dead, _placed(run)).persist()
    progress.info("%d key groups stranded on dead nodes %s", stranded.count(), ", ".join(dead))
    return stranded


def _placed(run: _Run) -> DataFrame | None:
    """Where the plan that the windows ran under has put key groups; None before the first."""
    plan_id = run.found.applied_plan_id
    if plan_id is None:
        return None
    rows = read_table(run.spark, run.settings, "plans.assignments")
    return rows.where((rows.job == run.request.job) & (rows.plan_id == plan_id))


def _snapshot_key_groups(run: _Run, snapshot: Row, silent: DataFrame) -> DataFrame:
    rows = read_table(run.spark, run.settings, "snapshots.key_groups")
    own = (rows.job == snapshot["job"]) & (rows.snapshot_id == snapshot["snapshot_id"])
    return rows.where(own).join(silent, list(GROUP), "left_semi")


def _complete_windows(
    run: _Run, good: DataFrame, states: Sequence[NodeState], stranded: DataFrame | None
) -> list[datetime]:
    policy, period = run.request.policy, run.found.period
    speaking = _without(good, stranded)
    windows = period_windows(speaking, period, states)
    groups = {window.end_at: window.key_groups for window in windows}
    total = sum(operator.key_groups for operator in policy.operators)
    expected = total - (stranded.count() if stranded is not None else 0)
    version = run.found.version
    selected = select_windows(windows, expected, TakeUp(version, run.found.applied_batch))
    usable = [window.end_at for window in selected.usable]
    progress.info("%d of %d windows complete, %d of them wholly under version %d",
                  len(selected.complete), period.windows, len(usable), version)  # fmt: skip
    if len(usable) >= windows_needed(policy, policy.thresholds.complete_windows_share):
        return usable
    partly = [end for end in period.ends if 0 < groups[end] < expected]
    everyone = _without(expected_groups(run.spark, policy), stranded)
    missing = missing_groups(everyone, speaking, partly) if partly else []
    mixed = len(selected.complete) - len(usable)
    raise incomplete_period(policy, period, usable, groups, missing, states, mixed, version)


def _without(frame: DataFrame, stranded: DataFrame | None) -> DataFrame:
    return frame if stranded is None else frame.join(stranded, list(GROUP), "left_anti")


def _in_force(settings: Settings, request: Request, found: Found) -> Row:
    """The run's snapshot as it stands: another attempt may have been first."""
    row = snapshot_of_run(settings, request.job, request.run_id)
    if row is None:
        raise RuntimeError(f"run {request.run_id} has no snapshot after writing one")
    own = row["snapshot_id"] == found.snapshot_id(request)
    progress.info("snapshot %s of %d windows is in force for run %s%s", row["snapshot_id"],
                  row["windows"], request.run_id,
                  "" if own else ", taken by another attempt")  # fmt: skip
    return row


def _gate_event(request: Request, reason: str) -> Event:
    """A failed gate: logged once for a run and a reason, because a retry may fail for another."""
    run_id = request.run_id
    return Event(
        request.job, "gate_failed", run_id, f"condense of run {run_id}", reason,
        unique_by=f"{run_id}:None:None:{digest(reason)}",
    )  # fmt: skip


def _imported_meanwhile() -> Validate:
    """Great Expectations' runner, imported in a thread while Spark starts: both take seconds.

    What both of them import has been imported above, so that the two cannot wait for each other.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="import")
    runner: Future[Any] = pool.submit(importlib.import_module, "expectations.runner")
    pool.shutdown(wait=False)

    def validate(frame: DataFrame, suite: Suite, *, count: bool = True) -> Any:
        return runner.result().validate(frame, suite, count=count)

    return validate


def _add_arguments(parser: ArgumentParser) -> None:
    add_run_arguments(parser)
    add_as_of_argument(parser)


def _body(arguments: Namespace, settings: Settings) -> None:
    policy = load_policy(settings.policies / f"{arguments.job}.yaml")
    request = Request(policy, arguments.run_id, arguments.as_of or datetime.now(UTC))
    condense(
        settings, request, lambda: spark_session(settings, f"ballast condense {arguments.job}")
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program."""
    return run_program("condense", "Make a snapshot of a job's metrics.", _add_arguments, _body,
                       argv)  # fmt: skip


if __name__ == "__main__":
    exit_now(main())
