"""Rows of the metric tables, made from windows and written exactly once, a commit a table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from ballast.contracts.policy import JobPolicy
from ballast.contracts.scaling import ALIVE, nodes_in_use
from ballast.contracts.settings import Settings
from ballast.contracts.table_schemas import arrow_schema
from ballast.contracts.tables import KEY_PAIR_COLUMNS, METRICS_KEY_PAIRS
from ballast.store.metric_windows import (
    append_windows,
    capacity_columns,
    utc_time,
    window_columns,
)
from ballast.streaming.heavy_keys import Item, Summary
from ballast.streaming.metrics_window import MetricsWindow

log = logging.getLogger("ballast.streaming")

Row = dict[str, Any]
NodeStates = Callable[[int], Mapping[str, str]]
"""Nodes in use under a plan version, and which of them drain."""


class MetricsWriter:
    """Writes the windows of one job.

    Args:
        settings: where the tables are.
        policy: the job's policy.
        source_operator: the operator that reads the source.
        node_states: gives the states of the nodes under a plan version.
    """

    def __init__(
        self,
        settings: Settings,
        policy: JobPolicy,
        source_operator: str,
        node_states: NodeStates,
    ) -> None:
        self.settings, self.policy = settings, policy
        self.source_operator, self.node_states = source_operator, node_states

    def write(self, windows: Sequence[MetricsWindow], number: int) -> None:
        """Appends the rows of windows; a table that has ``number`` already is left as it is."""
        append_windows(
            self.settings, self.policy.job, self._rows(windows, datetime.now(UTC)), number
        )

    def log_window(self, window: MetricsWindow, head_age_s: float | None = None) -> None:
        """Logs one line about a window that was written; the head's age None if never read."""
        cpu = {node: use.cpu_ms for node, use in window.node_use().items()}
        version = window.last.plan_version
        log.info(
            "window %s: %.0f records/s, load distance %.1f %%, plan v%d, %d batches, head %s",
            utc_time(window.end_ms).strftime("%H:%M:%S"),
            window.records / ((window.end_ms - window.start_ms) / 1000),
            load_distance_pct(cpu, self.policy, self.node_states(version)),
            version,
            len(window.batches),
            "not read yet" if head_age_s is None else f"read {head_age_s:.0f} s ago",
        )

    def _rows(
        self, windows: Sequence[MetricsWindow], now: datetime
    ) -> dict[str, list[Row] | pa.Table]:
        job, policy = self.policy.job, self.policy
        pairs = [key_pair_rows(job, window, now) for window in windows]
        return {
            "metrics.key_pairs": pa.concat_tables(pairs) if pairs else [],
            "metrics.traffic": [row for w in windows for row in traffic_rows(job, w, now)],
            "metrics.key_groups": [row for w in windows for row in key_group_rows(job, w, now)],
            "metrics.sources": [
                row for w in windows for row in source_rows(job, w, self.source_operator, now)
            ],
            "metrics.nodes": [
                row
                for w in windows
                for row in node_rows(job, w, policy, now, self.node_states(w.last.plan_version))
            ],
        }


def key_group_rows(job: str, window: MetricsWindow, emitted_at: datetime) -> list[Row]:
    """Rows of ``metrics.key_groups`` for a window."""
    common = _common(job, window, emitted_at)
    return [
        {
            **common,
            "operator_id": operator,
            "key_group": number,
            "node_id": figures.node_id,
            "records": figures.records,
            "cpu_ms": figures.cpu_ms,
            "busy_ms": figures.busy_ms,
            "state_bytes": figures.state_bytes,
            "bytes_in": figures.bytes_in,
            "bytes_out": figures.bytes_out,
            "wire_ms": figures.wire_ms,
        }
        for (operator, number), figures in window.groups.items()
    ]


def traffic_rows(job: str, window: MetricsWindow, emitted_at: datetime) -> list[Row]:
    """Rows of ``metrics.traffic`` for a window."""
    common = _common(job, window, emitted_at)
    return [
        {
            **common,
            "from_operator_id": from_operator,
            "from_key_group": from_group,
            "to_operator_id": to_operator,
            "to_key_group": to_group,
            "records": records,
            "bytes": size,
        }
        for (from_operator, from_group, to_operator, to_group), (records, size) in (
            window.traffic.items()
        )
    ]


def key_pair_rows(job: str, window: MetricsWindow, emitted_at: datetime) -> pa.Table:
    """Rows of ``metrics.key_pairs`` for a window, as columns because there are thousands."""
    names: list[tuple[str, str, str | None, str | None, str | None]] = []
    amounts: list[tuple[int, int]] = []
    for operator, keys in window.keys.items():
        names += [("key", operator, key, None, None) for key in keys.counts]
        names.append(("other_keys", operator, None, None, None))
        amounts += _amounts(keys)
    for (source, target), pairs in window.pairs.items():
        names += [("pair", source, a, target, b) for a, b in pairs.counts]
        names.append(("other_pairs", source, None, target, None))
        amounts += _amounts(pairs)
    schema = arrow_schema(METRICS_KEY_PAIRS)
    columns = dict(
        zip(
            (*(column.name for column in KEY_PAIR_COLUMNS), "records", "error_records"),
            zip(*(name + amount for name, amount in zip(names, amounts, strict=True)), strict=True),
            strict=True,
        )
        if names
        else ()
    )
    common = _common(job, window, emitted_at)
    return pa.table(
        [
            columns.get(name, [common[name]] * len(names) if name in common else [])
            for name in schema.names
        ],
        schema=schema,
    )


def _amounts(summary: Summary[Item]) -> list[tuple[int, int]]:
    """Records and error of each item, then of all others together."""
    own = [(count, summary.errors.get(item, 0)) for item, count in summary.counts.items()]
    return [*own, (summary.others, summary.missed)]


def source_rows(job: str, window: MetricsWindow, operator: str, emitted_at: datetime) -> list[Row]:
    """The row of ``metrics.sources`` for a window; a job has one source."""
    return [
        {
            **_common(job, window, emitted_at),
            "source_id": operator,
            "operator_id": operator,
            "records": window.records,
            "arrived_records": window.arrived,
            "backlog_records": window.last.backlog,
        }
    ]


def node_rows(
    job: str,
    window: MetricsWindow,
    policy: JobPolicy,
    emitted_at: datetime,
    states: Mapping[str, str] | None = None,
) -> list[Row]:
    """Rows of ``metrics.nodes`` for a window; ``states`` has the states of nodes under the plan."""
    common = _common(job, window, emitted_at)
    known = {node.id: node for node in policy.nodes}
    planned = nodes_in_use(policy) if states is None else states
    return [
        {
            **common,
            **capacity_columns(known[node_id]),
            "state": planned.get(node_id, "alive"),
            "heartbeats": use.heartbeats,
            "records": use.records,
            "cpu_used_ms": use.cpu_ms,
            "memory_used_bytes": use.state_bytes,
            "network_used_bytes": use.network_bytes,
        }
        for node_id, use in window.node_use().items()
        if node_id in known
    ]


def load_distance_pct(
    cpu_ms: Mapping[str, float], policy: JobPolicy, states: Mapping[str, str] | None = None
) -> float:
    """CPU load distance of the nodes that stay, in percent of the mean (docs/glossary.md)."""
    used = nodes_in_use(policy) if states is None else states
    capacity = {n.id: n.capacity.cpu_cores for n in policy.nodes if used.get(n.id) == ALIVE}
    mean = sum(cpu_ms.values()) / sum(capacity.values())
    if mean <= 0:
        return 0.0
    loads = [cpu_ms.get(node, 0.0) / cores for node, cores in capacity.items()]
    return 100 * max(abs(load - mean) for load in loads) / mean


def _common(job: str, window: MetricsWindow, emitted_at: datetime) -> Row:
    ids = [batch.batch_id for batch in window.batches]
    batches = (min(ids), max(ids)) if ids else None
    span = (window.start_ms, window.end_ms)
    return window_columns(job, span, batches, window.last.plan_version, emitted_at)
