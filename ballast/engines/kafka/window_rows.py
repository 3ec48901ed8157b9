"""From the reports of a window to rows of the tables of metrics. Pure.

A partition has a row only if one member held it during the whole window and said so. A partition
that changed its owner, and one whose owner died, has none: not all of its work was measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ballast.contracts.policy import JobPolicy
from ballast.engines.kafka.assignment import Partition
from ballast.engines.kafka.messages import PartitionReport, WindowReport
from ballast.store.metric_windows import capacity_columns, window_columns

Row = dict[str, Any]


@dataclass(frozen=True)
class Arrivals:
    """What the broker says of a topic in a window; None where it was not asked in time."""

    arrived: int | None = None
    backlog: int | None = None


@dataclass(frozen=True)
class CollectedWindow:
    """All reports of one window."""

    start_ms: int
    length_ms: int
    reports: tuple[WindowReport, ...]
    arrivals: Mapping[str, Arrivals]
    """By topic."""

    @property
    def number(self) -> int:
        """The number of the window since 1970; the batch id of its rows."""
        return self.start_ms // self.length_ms

    def columns(self, job: str, version: int, emitted_at: datetime) -> Row:
        """The columns that all its rows share."""
        span = (self.start_ms, self.start_ms + self.length_ms)
        return window_columns(job, span, (self.number, self.number), version, emitted_at)


@dataclass(frozen=True)
class _Held:
    """A partition that one member held during the whole window."""

    report: WindowReport
    figures: PartitionReport


def rows_of_window(
    window: CollectedWindow, policy: JobPolicy, topics: Mapping[str, str], emitted_at: datetime
) -> dict[str, list[Row]]:
    """The rows of a window by table; ``metrics.nodes`` last.

    Args:
        window: the window.
        policy: the job's policy; nodes that it does not have get no rows.
        topics: the topic of each operator.
        emitted_at: when the rows are written.
    """
    known = {node.id for node in policy.nodes}
    reports = [report for report in window.reports if report.node_id in known]
    held = _held_throughout(reports)
    return {
        "metrics.key_groups": _key_group_rows(window, policy, topics, held, emitted_at),
        "metrics.sources": _source_rows(window, policy, topics, held, emitted_at),
        "metrics.nodes": _node_rows(window, policy, reports, emitted_at),
    }


def unknown_nodes(window: CollectedWindow, policy: JobPolicy) -> list[str]:
    """Nodes that report and that the policy does not have."""
    known = {node.id for node in policy.nodes}
    return sorted({report.node_id for report in window.reports} - known)


def _held_throughout(reports: Sequence[WindowReport]) -> dict[Partition, _Held]:
    holders: dict[Partition, list[_Held]] = defaultdict(list)
    for report in reports:
        for figures in report.partitions:
            holders[figures.topic, figures.partition].append(_Held(report, figures))
    return {
        partition: found[0]
        for partition, found in holders.items()
        if len(found) == 1 and found[0].figures.is_whole
    }


def _key_group_rows(
    window: CollectedWindow,
    policy: JobPolicy,
    topics: Mapping[str, str],
    held: Mapping[Partition, _Held],
    emitted_at: datetime,
) -> list[Row]:
    return [
        {
            **window.columns(policy.job, found.report.version, emitted_at),
            "operator_id": operator.id,
            "key_group": number,
            "node_id": found.report.node_id,
            "records": found.figures.records,
            "cpu_ms": found.figures.cpu_ms,
            "busy_ms": found.figures.busy_ms,
            # The state of a consumer is its own; nothing of it moves with a partition.
            "state_bytes": 0,
            "bytes_in": found.figures.bytes,
            "bytes_out": 0,
        }
        for operator in policy.operators
        for number in range(operator.key_groups)
        if (found := held.get((topics[operator.id], number))) is not None
    ]


def _source_rows(
    window: CollectedWindow,
    policy: JobPolicy,
    topics: Mapping[str, str],
    held: Mapping[Partition, _Held],
    emitted_at: datetime,
) -> list[Row]:
    """A row for each topic of which every partition was measured."""
    rows = []
    for operator in policy.operators:
        topic = topics[operator.id]
        found = [held.get((topic, number)) for number in range(operator.key_groups)]
        whole = [each for each in found if each is not None]
        if len(whole) < len(found):
            continue
        arrivals = window.arrivals.get(topic, Arrivals())
        rows.append(
            {
                **window.columns(policy.job, max(h.report.version for h in whole), emitted_at),
                "source_id": operator.id,
                "operator_id": operator.id,
                "records": sum(each.figures.records for each in whole),
                "arrived_records": arrivals.arrived,
                "backlog_records": arrivals.backlog,
            }
        )
    return rows


def _node_rows(
    window: CollectedWindow,
    policy: JobPolicy,
    reports: Sequence[WindowReport],
    emitted_at: datetime,
) -> list[Row]:
    """A row for each node that measured the whole window."""
    by_node: dict[str, list[WindowReport]] = defaultdict(list)
    for report in reports:
        if report.is_whole:
            by_node[report.node_id].append(report)
    rows = []
    for node in policy.nodes:
        of_node = by_node.get(node.id)
        if not of_node:
            continue
        parts = [part for report in of_node for part in report.partitions]
        rows.append(
            {
                **window.columns(policy.job, max(r.version for r in of_node), emitted_at),
                **capacity_columns(node),
                "state": "draining" if node.draining else "alive",
                "heartbeats": sum(report.heartbeats for report in of_node),
                "records": sum(part.records for part in parts),
                "cpu_used_ms": sum(part.cpu_ms for part in parts),
                "memory_used_bytes": 0,
                "network_used_bytes": sum(part.bytes for part in parts),
            }
        )
    return rows
