"""Which nodes are alive, draining or dead; a node that is merely silent fails the gate."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from ballast.contracts.errors import GateFailed
from ballast.contracts.policy import JobPolicy, NodePolicy
from ballast.contracts.scaling import nodes_in_use
from ballast.contracts.tables import NODE_COLUMNS
from spark_jobs.snapshot.messages import iso, some
from spark_jobs.snapshot.request import Period, Row

CAPACITIES = tuple(column.name for column in NODE_COLUMNS)


@dataclass(frozen=True)
class Reported:
    """What a node said in the windows looked at."""

    last_seen: datetime | None = None
    """End of its last window, bad rows included: a bad figure is not silence."""
    windows: frozenset[datetime] = frozenset()
    """Ends of the windows with a good row."""
    capacity: Mapping[str, Any] | None = None
    """Capacity, rack and cluster in its newest good row."""


@dataclass(frozen=True)
class NodeState:
    """A node of the snapshot."""

    node: NodePolicy
    state: str
    last_seen: datetime | None
    silent_windows: int
    reported: Reported
    since: datetime | None = None
    """End of its first window, of a node that was added lately: before, it was not in use."""

    def speaks_in(self, end: datetime) -> bool:
        """Whether it reported in a window, or was not in use yet."""
        return end in self.reported.windows or (self.since is not None and end < self.since)

    def row(self, job: str, snapshot_id: str) -> Row:
        """The row of ``snapshots.nodes``."""
        return {
            "job": job,
            "snapshot_id": snapshot_id,
            "node_id": self.node.id,
            **_capacities(self.node, self.reported.capacity or {}),
            "state": self.state,
            "last_seen_at": self.last_seen,
            "silent_windows": self.silent_windows,
        }


def reach_of_nodes(policy: JobPolicy, period: Period) -> datetime:
    """From when on nodes are read: far enough back to tell a dead node from a silent one."""
    return period.back(max(period.windows, policy.dead_after_windows))


def nodes_reported(good: DataFrame, rows: DataFrame, period: Period) -> dict[str, Reported]:
    """What each node said up to the period's end."""
    upto = fn.col("window_end_at") <= fn.lit(period.end)
    newest = fn.max_by(fn.struct(*CAPACITIES), "window_end_at")
    said = (
        good.where(upto)
        .groupBy("node_id")
        .agg(
            fn.collect_set(fn.unix_micros("window_end_at")).alias("windows"),
            newest.alias("capacity"),
        )
        .collect()
    )
    seen = {row["node_id"]: max(row["windows"]) for row in said}
    if rows is not good:
        last = rows.where(upto).groupBy("node_id").agg(
            fn.max(fn.unix_micros("window_end_at")).alias("end")
        )  # fmt: skip
        seen |= {row["node_id"]: row["end"] for row in last.collect()}
    by_node = {row["node_id"]: row for row in said}
    return {node: _reported(by_node.get(node), micros) for node, micros in seen.items()}


def node_states(
    policy: JobPolicy,
    period: Period,
    reported: Mapping[str, Reported],
    previous: Mapping[str, Row],
    in_use: Mapping[str, str] | None = None,
    added: Collection[str] = (),
) -> list[NodeState]:
    """The state of every node in use; raises for one that is silent but not yet dead.

    ``in_use`` has the nodes with what the plan in force makes of them (those that the policy
    does not spare, without one); ``added`` are nodes that it has just brought in.

    Silence is counted from the node's last window, or from the job's first window among those
    looked at when that is later: while the job itself stood still, no node could speak.
    """
    ends = [end for said in reported.values() for end in said.windows]
    first_start = min(ends, default=period.end) - period.window
    known = nodes_in_use(policy) if in_use is None else in_use
    states = [
        _state(policy, period, node, reported.get(node.id, Reported()), first_start,
               previous.get(node.id, {}).get("last_seen_at"), known[node.id], node.id in added)
        for node in policy.nodes
        if node.id in known
    ]  # fmt: skip
    silent = [state for state in states if state.state == "silent"]
    if silent:
        raise _silent(policy, period, silent, first_start, len(states))
    return states


def _state(
    policy: JobPolicy,
    period: Period,
    node: NodePolicy,
    said: Reported,
    first_start: datetime,
    seen_before: datetime | None,
    planned: str,
    is_added: bool,
) -> NodeState:
    last = said.last_seen or seen_before
    quiet = period.windows_since(max(last or first_start, first_start))
    if quiet >= policy.dead_after_windows:
        state = "dead"
    elif quiet > 0:
        state = "silent"
    else:
        state = planned
    since = min(said.windows, default=None) if is_added else None
    return NodeState(node, state, last, period.windows_since(last or first_start), said, since)


def _silent(
    policy: JobPolicy, period: Period, silent: list[NodeState], first_start: datetime, total: int
) -> GateFailed:
    names = [
        f"{state.node.id} since {iso(state.last_seen)}"
        if state.last_seen and state.last_seen >= first_start
        else f"{state.node.id}, never seen, since {iso(first_start)}"
        for state in silent
    ]
    since = min(max(state.last_seen or first_start, first_start) for state in silent)
    dead_at = since + policy.dead_after_windows * period.window
    return GateFailed(
        f"job {policy.job}: {len(silent)} of {total} nodes silent up to the newest "
        f"window, which ends at {iso(period.end)}: {some(names)}; a missing node is unknown, so "
        f"no plan is made. Bring the node back, or wait until {iso(dead_at)}, when it has been "
        f"silent for {policy.dead_after_windows} windows and is taken for dead"
    )


def _reported(row: Any, last_micros: int) -> Reported:
    if row is None:
        return Reported(last_seen=_time(last_micros))
    windows = frozenset(_time(micros) for micros in row["windows"])
    return Reported(_time(last_micros), windows, row["capacity"].asDict())


def _time(micros: int) -> datetime:
    # Exact, where a float of seconds would round.
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


def _capacities(node: NodePolicy, said: Mapping[str, Any]) -> Row:
    """What the node last said of itself; where it said nothing, what the policy says."""
    policy = {
        "cluster": node.cluster,
        "rack": node.rack,
        "cpu_capacity_cores": node.capacity.cpu_cores,
        "memory_capacity_bytes": node.capacity.memory_bytes,
        "network_capacity_bytes_per_s": node.capacity.network_bytes_per_s,
    }
    return {name: value if said.get(name) is None else said[name] for name, value in policy.items()}
