"""Which nodes are alive, draining or dead; a node that is only silent fails the gate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from ballast.contracts.errors import GateFailed
from ballast.contracts.policy import JobPolicy, NodePolicy
from ballast.contracts.records import SnapshotNode
from ballast.contracts.scaling import nodes_in_use
from ballast.contracts.tables import NODE_COLUMNS
from spark_jobs.snapshot.message_text import shortened_list, utc_text
from spark_jobs.snapshot.statistics_period import StatisticsPeriod

Value = TypeVar("Value")
CAPACITIES = tuple(column.name for column in NODE_COLUMNS)


@dataclass(frozen=True)
class ReportedCapacity:
    """Cluster, rack and capacity as a node reported them; None for what it did not report."""

    cluster: str | None = None
    rack: str | None = None
    cpu_capacity_cores: float | None = None
    memory_capacity_bytes: float | None = None
    network_capacity_bytes_per_s: float | None = None


@dataclass(frozen=True)
class NodeActivity:
    """When a node reported in the windows that were read, and with which capacity."""

    last_seen: datetime | None = None
    """End of its last window, bad rows included: a node with bad figures is not silent."""
    windows: frozenset[datetime] = frozenset()
    """Ends of the windows with a good row."""
    capacity: ReportedCapacity = ReportedCapacity()
    """Capacity, rack and cluster in its newest good row."""


@dataclass(frozen=True)
class NodeStatus:
    """A node of the snapshot."""

    node: NodePolicy
    state: str
    last_seen: datetime | None
    silent_windows: int
    report: NodeActivity
    since: datetime | None = None
    """End of the first window of a node that was just added: before, it was not in use."""

    def reports_in(self, end: datetime) -> bool:
        """Whether it reported in a window, or was not in use yet."""
        return end in self.report.windows or (self.since is not None and end < self.since)

    def record(self, job: str, snapshot_id: str) -> SnapshotNode:
        """The row of ``snapshots.nodes``; the policy's capacity if the node reported none."""
        reported, planned = self.report.capacity, self.node.capacity
        return SnapshotNode(
            job=job,
            snapshot_id=snapshot_id,
            node_id=self.node.id,
            cluster=_first(reported.cluster, self.node.cluster),
            rack=_first(reported.rack, self.node.rack),
            cpu_capacity_cores=_first(reported.cpu_capacity_cores, planned.cpu_cores),
            memory_capacity_bytes=_first(reported.memory_capacity_bytes, planned.memory_bytes),
            network_capacity_bytes_per_s=_first(
                reported.network_capacity_bytes_per_s, planned.network_bytes_per_s
            ),
            state=self.state,
            last_seen_at=self.last_seen,
            silent_windows=self.silent_windows,
        )


def _first(reported: Value | None, otherwise: Value) -> Value:
    return otherwise if reported is None else reported


def silent_nodes(states: Sequence[NodeStatus], end: datetime) -> int:
    """Number of nodes that are not dead and did not report in the window that ends at ``end``."""
    return sum(not state.reports_in(end) for state in states if state.state != "dead")


def nodes_since(policy: JobPolicy, period: StatisticsPeriod) -> datetime:
    """From when on nodes are read: early enough to tell a dead node from a silent one."""
    return period.back(max(period.windows, policy.dead_after_windows))


def node_activity(
    good: DataFrame, rows: DataFrame, period: StatisticsPeriod
) -> dict[str, NodeActivity]:
    """What each node reported up to the period's end, in good rows and in all rows."""
    is_upto = fn.col("window_end_at") <= fn.lit(period.end)
    newest = fn.max_by(fn.struct(*CAPACITIES), "window_end_at")
    reports = (
        good.where(is_upto)
        .groupBy("node_id")
        .agg(
            fn.collect_set(fn.unix_micros("window_end_at")).alias("windows"),
            newest.alias("capacity"),
        )
        .collect()
    )
    found = {
        row["node_id"]: NodeActivity(
            _time(max(row["windows"])),
            frozenset(_time(micros) for micros in row["windows"]),
            ReportedCapacity(**row["capacity"].asDict()),
        )
        for row in reports
    }
    if rows is good:
        return found
    last = rows.where(is_upto).groupBy("node_id").agg(
        fn.max(fn.unix_micros("window_end_at")).alias("end")
    )  # fmt: skip
    for row in last.collect():
        known = found.get(row["node_id"], NodeActivity())
        found[row["node_id"]] = NodeActivity(_time(row["end"]), known.windows, known.capacity)
    return found


def _time(micros: int) -> datetime:
    # Exact; a float of seconds would be rounded.
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


@dataclass(frozen=True)
class _NodeFacts:
    """What the state of one node follows from."""

    node: NodePolicy
    report: NodeActivity
    last_seen: datetime | None
    planned_state: str
    is_added: bool


def node_states(
    policy: JobPolicy,
    period: StatisticsPeriod,
    reports: Mapping[str, NodeActivity],
    seen_before: Mapping[str, datetime | None],
    in_use: Mapping[str, str] | None = None,
    added: Collection[str] = (),
) -> list[NodeStatus]:
    """The state of every node in use.

    Silence is counted from the node's last window, or from the job's first window among those
    read if that is later: while the job stood still, no node could report.

    Args:
        policy: the job's policy.
        period: the statistics period.
        reports: what nodes reported, by node.
        seen_before: when nodes were last seen according to the newest snapshot.
        in_use: nodes in use with their states under the plan in force; without a plan those that
            the policy does not keep as spares.
        added: nodes that the plan in force has just added.

    Raises:
        GateFailed: a node is silent, but not for long enough to be dead.
    """
    ends = [end for report in reports.values() for end in report.windows]
    first_start = min(ends, default=period.end) - period.window
    planned = nodes_in_use(policy) if in_use is None else in_use
    states = []
    for node in policy.nodes:
        if node.id in planned:
            report = reports.get(node.id, NodeActivity())
            last = report.last_seen or seen_before.get(node.id)
            facts = _NodeFacts(node, report, last, planned[node.id], node.id in added)
            states.append(_state(policy, period, facts, first_start))
    silent = [state for state in states if state.state == "silent"]
    if silent:
        raise _silent_error(policy, period, silent, first_start, len(states))
    return states


def _state(
    policy: JobPolicy, period: StatisticsPeriod, facts: _NodeFacts, first_start: datetime
) -> NodeStatus:
    last = facts.last_seen or first_start
    silent_windows = period.windows_since(max(last, first_start))
    if silent_windows >= policy.dead_after_windows:
        state = "dead"
    elif silent_windows > 0:
        state = "silent"
    else:
        state = facts.planned_state
    since = min(facts.report.windows, default=None) if facts.is_added else None
    return NodeStatus(
        facts.node, state, facts.last_seen, period.windows_since(last), facts.report, since
    )


def _silent_error(
    policy: JobPolicy,
    period: StatisticsPeriod,
    silent: Sequence[NodeStatus],
    first_start: datetime,
    total: int,
) -> GateFailed:
    names = [
        f"{state.node.id} since {utc_text(state.last_seen)}"
        if state.last_seen and state.last_seen >= first_start
        else f"{state.node.id}, never seen, since {utc_text(first_start)}"
        for state in silent
    ]
    since = min(max(state.last_seen or first_start, first_start) for state in silent)
    dead_at = since + policy.dead_after_windows * period.window
    return GateFailed(
        f"job {policy.job}: {len(silent)} of {total} nodes silent up to the newest window, which "
        f"ends at {utc_text(period.end)}: {shortened_list(names)}; the load of a silent node is "
        "unknown, so no plan is made. Bring the node back, or wait until "
        f"{utc_text(dead_at)}: then it has been silent for {policy.dead_after_windows} windows "
        "and counts as dead"
    )
