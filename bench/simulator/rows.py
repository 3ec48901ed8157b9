"""A simulated period as rows of the tables that a streaming job writes, for the pipeline to read.

Columns and types are those of ``ballast.contracts.tables``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

import pyarrow as pa

from ballast.contracts.table_schemas import arrow_schema
from ballast.contracts.tables import METRICS_KEY_GROUPS, METRICS_NODES, PLANS_ACKS
from bench.simulator.cluster import Migration, SimulatedCluster
from solvers.model.problem import FloatArray, IntArray


class Measured(Protocol):
    """The measurements of any simulated period: load in shares of a node, records and bytes."""

    @property
    def load(self) -> FloatArray: ...

    @property
    def records(self) -> IntArray: ...

    @property
    def state_bytes(self) -> IntArray: ...


def key_group_numbers(operators: Sequence[str]) -> list[int]:
    """The number of each key group within its operator."""
    seen: Counter[str] = Counter()
    numbers = []
    for operator in operators:
        numbers.append(seen[operator])
        seen[operator] += 1
    return numbers


def key_group_rows(
    job: str, cluster: SimulatedCluster, period: Measured, window: dict[str, Any], node_ms: float
) -> pa.Table:
    """Rows of metrics.key_groups: records and load of each key group, and its node."""
    cpu_ms = (period.load * node_ms).tolist()
    numbers, names = key_group_numbers(cluster.operators), cluster.node_ids()
    rows = [
        {
            "job": job,
            "operator_id": operator,
            "key_group": numbers[k],
            "node_id": names[cluster.current[k]],
            **window,
            "records": int(period.records[k]),
            "cpu_ms": cpu_ms[k],
            "busy_ms": cpu_ms[k],
            "state_bytes": int(period.state_bytes[k]),
            "bytes_in": 0,
            "bytes_out": 0,
        }
        for k, operator in enumerate(cluster.operators)
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(METRICS_KEY_GROUPS))


def node_rows(
    job: str, cluster: SimulatedCluster, period: Measured, window: dict[str, Any], node_ms: float
) -> pa.Table:
    """Rows of metrics.nodes: heartbeat, capacity and use of each node."""
    seconds = (window["window_end_at"] - window["window_start_at"]).total_seconds()
    used = cluster.node_loads(period.load) * node_ms
    rows = []
    for node in range(cluster.nodes):
        mine = cluster.current == node
        rows.append(
            {
                "job": job,
                "node_id": cluster.node_ids()[node],
                "cluster": "simulated",
                "rack": "simulated",
                "cpu_capacity_cores": node_ms / (1000.0 * seconds),
                "memory_capacity_bytes": None,
                "network_capacity_bytes_per_s": None,
                "state": "draining" if cluster.is_draining[node] else "alive",
                **window,
                "heartbeats": 1,
                "records": int(period.records[mine].sum()),
                "cpu_used_ms": float(used[node]),
                "memory_used_bytes": int(period.state_bytes[mine].sum()),
                "network_used_bytes": 0,
            }
        )
    return pa.Table.from_pylist(rows, schema=arrow_schema(METRICS_NODES))


def ack_row(
    job: str, version: int, plan_id: str, migration: Migration, at: datetime, batch_id: int
) -> pa.Table:
    """A row of plans.acks: the plan was applied, with the cost of moves that the simulator
    measured."""
    row = {
        "job": job,
        "version": version,
        "plan_id": plan_id,
        "status": "applied",
        "batch_id": batch_id,
        "reason": "",
        "moved_key_groups": migration.moves,
        "bytes_moved": migration.bytes,
        "pause_ms": 1000.0 * migration.pause_s,
        "acked_at": at,
    }
    return pa.Table.from_pylist([row], schema=arrow_schema(PLANS_ACKS))


def window_columns(start: datetime, seconds: float, batch_id: int, version: int) -> dict[str, Any]:
    """The columns that say which window a row of metrics covers."""
    end = start + timedelta(seconds=seconds)
    return {
        "window_date": end.date(),
        "window_start_at": start,
        "window_end_at": end,
        "first_batch_id": batch_id,
        "last_batch_id": batch_id,
        "plan_version": version,
        "emitted_at": end,
    }
