"""Synthetic metrics: the rows a streaming job would have written for some windows.

    end = write_windows(settings, policy, START, 6, loads=lambda op, group, window: 100.0)

writes six complete windows and returns the end of the last, a good ``as_of``. ``silent`` leaves out
the rows of a node and its key groups in a window. ``change`` is called with every row and returns
the rows to write in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from ballast.contracts.policy import JobPolicy, NodePolicy
from ballast.contracts.scaling import nodes_in_use
from ballast.contracts.settings import Settings
from ballast.store.tables import append

Row = dict[str, Any]
Placement = Mapping[tuple[str, int], str]
Loads = float | Callable[[str, int, int], float]
Change = Callable[[str, Row], Row | list[Row] | None]

START = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
TABLES_IN_ORDER = ("metrics.traffic", "metrics.key_groups", "metrics.nodes")
"""The order in which a streaming job commits a window: the heartbeats of the nodes come last."""


def write_windows(
    settings: Settings,
    policy: JobPolicy,
    start: datetime,
    windows: int,
    *,
    commit_each: bool = False,
    **rows: Any,
) -> datetime:
    """Append the rows of consecutive windows from ``start`` on; returns the end of the last.

    With ``commit_each`` every window is a commit, and so a file, of its own. The other arguments
    are those of :func:`window_rows`.
    """
    numbers = range(windows)
    for part in ([n] for n in numbers) if commit_each else [list(numbers)]:
        for table, written in window_rows(policy, start, part, **rows).items():
            if written:
                append(settings, table, written)
    return start + timedelta(seconds=policy.window_s * windows)


def window_rows(
    policy: JobPolicy,
    start: datetime,
    windows: Iterable[int],
    *,
    loads: Loads = 50.0,
    nodes: Placement | None = None,
    state_bytes: int = 1000,
    silent: Mapping[str, Collection[int]] | None = None,
    traffic: bool = True,
    plan_version: int = 0,
    change: Change | None = None,
    in_use: Collection[str] | None = None,
    backlog: int | None = None,
) -> dict[str, list[Row]]:
    """The rows by table; ``loads`` is the CPU milliseconds of a key group in a window.

    ``in_use`` are the nodes that report (by default all that are not spare). With a ``backlog`` the
    sources report as well, each with 100 records a window.
    """
    used = nodes_in_use(policy) if in_use is None else in_use
    placement = {**round_robin(policy), **(nodes or {})}
    written: dict[str, list[Row]] = {table: [] for table in TABLES_IN_ORDER}
    for number in windows:
        quiet = {node for node, numbers in (silent or {}).items() if number in numbers}
        window = _window(policy, start, number, plan_version)
        groups = {group: node for group, node in placement.items() if node not in quiet}
        figures = {
            group: _load(loads, group, number) for group in groups
        }  # fmt: skip
        written["metrics.key_groups"] += [
            _key_group_row(policy, window, group, node, figures[group], state_bytes)
            for group, node in groups.items()
        ]
        written["metrics.nodes"] += [
            _node_row(policy, window, node, groups, figures)
            for node in policy.nodes
            if node.id in used and node.id not in quiet
        ]
        if backlog is not None:
            written.setdefault("metrics.sources", []).extend(_source_rows(policy, window, backlog))
        if traffic:
            written["metrics.traffic"] += _traffic_rows(policy, window, groups)
    return written if change is None else _changed(written, change)


def round_robin(policy: JobPolicy) -> dict[tuple[str, int], str]:
    """Place every key group: the i-th of an operator on the i-th node, modulo the nodes."""
    nodes = list(nodes_in_use(policy))
    return {
        (operator.id, group): nodes[group % len(nodes)]
        for operator in policy.operators
        for group in range(operator.key_groups)
    }


def _load(loads: Loads, group: tuple[str, int], window: int) -> float:
    return loads(*group, window) if callable(loads) else loads


def _window(policy: JobPolicy, start: datetime, number: int, plan_version: int) -> Row:
    begin = start + timedelta(seconds=policy.window_s * number)
    end = begin + timedelta(seconds=policy.window_s)
    return {
        "job": policy.job,
        "window_date": end.date(),
        "window_start_at": begin,
        "window_end_at": end,
        "first_batch_id": number,
        "last_batch_id": number,
        "plan_version": plan_version,
        "emitted_at": end + timedelta(milliseconds=200),
    }


def _key_group_row(
    policy: JobPolicy, window: Row, group: tuple[str, int], node: str, cpu: float, state: int
) -> Row:
    return {
        **window,
        "operator_id": group[0],
        "key_group": group[1],
        "node_id": node,
        "records": 100,
        "cpu_ms": cpu,
        "busy_ms": cpu * 1.5,
        "state_bytes": state,
        "bytes_in": 3000,
        "bytes_out": 2000,
    }


def _node_row(
    policy: JobPolicy, window: Row, node: NodePolicy, groups: Placement, figures: Mapping[Any, Any]
) -> Row:
    own = [group for group, holder in groups.items() if holder == node.id]
    return {
        **window,
        "node_id": node.id,
        "cluster": node.cluster,
        "rack": node.rack,
        "cpu_capacity_cores": node.capacity.cpu_cores,
        "memory_capacity_bytes": node.capacity.memory_bytes,
        "network_capacity_bytes_per_s": node.capacity.network_bytes_per_s,
        "state": "draining" if node.draining else "alive",
        "heartbeats": 1,
        "records": 100 * len(own),
        "cpu_used_ms": float(sum(figures[group] for group in own)),
        "memory_used_bytes": 1000 * len(own),
        "network_used_bytes": 5000 * len(own),
    }


def _source_rows(policy: JobPolicy, window: Row, backlog: int) -> list[Row]:
    return [
        {**window, "source_id": name, "operator_id": name, "records": 100, "arrived_records": 100,
         "backlog_records": backlog}
        for name in policy.entry_operators
    ]  # fmt: skip


def _traffic_rows(policy: JobPolicy, window: Row, groups: Placement) -> list[Row]:
    """Each key group sends to the key group of the same number along every edge."""
    return [
        {
            **window,
            "from_operator_id": edge.source,
            "from_key_group": number,
            "to_operator_id": edge.target,
            "to_key_group": number % policy.operator(edge.target).key_groups,
            "records": 50,
            "bytes": 1000,
        }
        for edge in policy.edges
        for operator, number in groups
        if operator == edge.source
    ]


def _changed(written: Mapping[str, list[Row]], change: Change) -> dict[str, list[Row]]:
    changed: dict[str, list[Row]] = {}
    for table, rows in written.items():
        replaced = [change(table, dict(row)) for row in rows]
        changed[table] = [
            row
            for each in replaced
            for row in (each if isinstance(each, list) else [each])
            if row is not None
        ]
    return changed
