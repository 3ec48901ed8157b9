"""What a batch measured, and what a window of batches says about key groups, links and nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import pyarrow as pa

from ballast.contracts.policy import JobPolicy, NodePolicy
from ballast.contracts.scaling import ALIVE, nodes_in_use
from ballast.contracts.schemas import arrow_schema
from ballast.contracts.tables import KEY_PAIR_COLUMNS, METRICS_KEY_PAIRS
from ballast.streaming.node import GroupUse, NodeReport
from ballast.streaming.operators import Topology
from ballast.streaming.pairs import (
    KEPT_IN_BATCH,
    KEPT_IN_WINDOW,
    Item,
    Summary,
    added,
    cut,
    from_json,
    joined,
    to_json,
)
from ballast.streaming.processor_speed import evened
from ballast.streaming.routing import Placement

KeyGroup = tuple[str, int]
Link = tuple[str, int, str, int]
Edge = tuple[str, str]
Pair = tuple[str, str]
Of = TypeVar("Of", str, int, Edge, tuple[int, int])
"""What a summary is of: an operator or an edge, by name or by number."""
Row = Any  # TRANSITION: typed records take its place


@dataclass(frozen=True)
class GroupFigures:
    """A key group in one batch or window."""

    node_id: str
    state_bytes: int
    records: int = 0
    cpu_ms: float = 0.0
    busy_ms: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0
    wire_ms: float = 0.0

    def plus(self, use: GroupUse, cpu_ns: float) -> GroupFigures:
        """With what one stage used, CPU time as given; the state is what that stage left."""
        return replace(
            self,
            state_bytes=use.state_bytes,
            records=self.records + use.records,
            cpu_ms=self.cpu_ms + cpu_ns / 1e6,
            # Evened out like the whole it is a part of.
            wire_ms=self.wire_ms + use.wire_ns / max(use.cpu_ns, 1) * cpu_ns / 1e6,
            busy_ms=self.busy_ms + use.busy_ns / 1e6,
            bytes_in=self.bytes_in + use.bytes_in,
            bytes_out=self.bytes_out + use.bytes_out,
        )

    def then(self, later: GroupFigures) -> GroupFigures:
        """With a later batch: activity adds up, node and state are the later ones."""
        return replace(
            later,
            records=self.records + later.records,
            cpu_ms=self.cpu_ms + later.cpu_ms,
            wire_ms=self.wire_ms + later.wire_ms,
            busy_ms=self.busy_ms + later.busy_ms,
            bytes_in=self.bytes_in + later.bytes_in,
            bytes_out=self.bytes_out + later.bytes_out,
        )

    def idle(self) -> GroupFigures:
        """The same key group doing nothing."""
        return GroupFigures(self.node_id, self.state_bytes)


@dataclass(frozen=True)
class BatchFigures:
    """Everything measured in one batch. Every key group is in it, so it stands for itself."""

    batch_id: int
    ended_ms: int
    window_ms: int
    """Start of the window the batch was counted in."""
    opens_life: bool
    """Whether it was the first batch of a process: nothing is known of the time before it."""
    plan_version: int
    groups: Mapping[KeyGroup, GroupFigures]
    traffic: Mapping[Link, tuple[int, int]]
    nodes: tuple[str, ...]
    """Nodes that answered."""
    keys: Mapping[str, Summary[str]] = field(default_factory=dict)
    pairs: Mapping[Edge, Summary[Pair]] = field(default_factory=dict)
    arrived: int | None = None
    """Records that came to the source since the batch before; None if nobody measured it."""
    backlog: int | None = None
    """Records that waited there when the batch ended; None if nobody measured it."""

    def to_json(self) -> dict[str, Any]:
        """As plain values, from which :meth:`from_json` makes it again."""
        return {
            "batch_id": self.batch_id,
            "ended_ms": self.ended_ms,
            "window_ms": self.window_ms,
            "opens_life": self.opens_life,
            "plan_version": self.plan_version,
            "groups": [
                [*name, f.node_id, f.state_bytes, f.records, f.cpu_ms, f.busy_ms, f.bytes_in,
                 f.bytes_out, f.wire_ms]
                for name, f in self.groups.items()
            ],
            "traffic": [[*link, *amount] for link, amount in self.traffic.items()],
            "nodes": list(self.nodes),
            "keys": [[operator, to_json(summary)] for operator, summary in self.keys.items()],
            "pairs": [[*edge, to_json(summary)] for edge, summary in self.pairs.items()],
            "arrived": self.arrived,
            "backlog": self.backlog,
        }  # fmt: skip

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> BatchFigures:
        """What :meth:`to_json` wrote down."""
        return cls(
            batch_id=found["batch_id"],
            ended_ms=found["ended_ms"],
            window_ms=found["window_ms"],
            opens_life=found["opens_life"],
            plan_version=found["plan_version"],
            groups={(g[0], g[1]): GroupFigures(*g[2:]) for g in found["groups"]},
            traffic={(t[0], t[1], t[2], t[3]): (t[4], t[5]) for t in found["traffic"]},
            nodes=tuple(found["nodes"]),
            # A batch counted by an earlier version has none of these.
            keys={k[0]: from_json(k[1]) for k in found.get("keys", [])},
            pairs={(p[0], p[1]): from_json(p[2]) for p in found.get("pairs", [])},
            arrived=found.get("arrived"),
            backlog=found.get("backlog"),
        )


@dataclass(frozen=True)
class Measured:
    """What the nodes reported of a batch, before it is known when the batch ended."""

    batch_id: int
    plan_version: int
    groups: Mapping[KeyGroup, GroupFigures]
    traffic: Mapping[Link, tuple[int, int]]
    nodes: tuple[str, ...]
    keys: Mapping[str, Summary[str]] = field(default_factory=dict)
    pairs: Mapping[Edge, Summary[Pair]] = field(default_factory=dict)
    arrived: int | None = None
    backlog: int | None = None

    def taken(self, operator: str) -> int:
        """Records that an operator processed."""
        return sum(f.records for (name, _), f in self.groups.items() if name == operator)


def measured_batch(
    batch_id: int,
    reports: Iterable[NodeReport],
    topology: Topology,
    placement: Placement,
    node_ids: Sequence[str],
    state_bytes: Mapping[KeyGroup, int],
) -> Measured:
    """Add the reports of all stages up; a key group nobody reported did nothing.

    CPU times are evened out over the whole batch: what one node took longer for because the
    processor was slower just then is no load of its key groups.
    """
    groups = {
        name: GroupFigures(placement.node_of(*name), state_bytes.get(name, 0))
        for name in topology.all_key_groups
    }
    traffic: dict[Link, tuple[int, int]] = {}
    answered = set()
    ids = topology.ids
    in_order = sorted(reports, key=lambda report: (report.stage, report.node))
    uses = [use for report in in_order for use in report.groups.values()]
    cpu_ns = iter(evened([use.cpu_ns for use in uses], [use.probe_ns for use in uses]))
    for report in in_order:
        answered.add(node_ids[report.node])
        for (operator, number), use in report.groups.items():
            name = ids[operator], number
            groups[name] = groups[name].plus(use, next(cpu_ns))
        for ((from_op, from_group), (to_op, to_group)), amount in report.traffic.items():
            link = (ids[from_op], from_group, ids[to_op], to_group)
            records, size = traffic.get(link, (0, 0))
            traffic[link] = (records + amount[0], size + amount[1])
    keys = _over_nodes([(report.node, report.keys) for report in in_order])
    pairs = _over_nodes([(report.node, report.pairs) for report in in_order])
    nodes = tuple(node for node in node_ids if node in answered)
    return Measured(
        batch_id,
        placement.version,
        groups,
        traffic,
        nodes,
        {ids[operator]: summary for operator, summary in keys.items()},
        {(ids[source], ids[target]): summary for (source, target), summary in pairs.items()},
    )


def _over_nodes(
    reported: Iterable[tuple[int, Mapping[Of, Summary[Item]]]],
) -> dict[Of, Summary[Item]]:
    """Summaries of a batch: a node's stages follow one another, and a key is on one node."""
    by_node: dict[Of, dict[int, Summary[Item]]] = defaultdict(dict)
    for node, summaries in reported:
        for name, summary in summaries.items():
            before = by_node[name].get(node)
            by_node[name][node] = summary if before is None else added(before, summary)
    return {name: cut(joined(list(of.values())), KEPT_IN_BATCH) for name, of in by_node.items()}


def _over_batches(batches: Iterable[Mapping[Of, Summary[Item]]]) -> dict[Of, Summary[Item]]:
    """Summaries of a window."""
    total: dict[Of, Summary[Item]] = {}
    for batch in batches:
        for name, summary in batch.items():
            before = total.get(name)
            total[name] = summary if before is None else added(before, summary)
    return {name: cut(summary, KEPT_IN_WINDOW) for name, summary in total.items()}


@dataclass(frozen=True)
class MetricsWindow:
    """A window of processing time: the batches that ended in it, and how it was at its end."""

    start_ms: int
    end_ms: int
    batches: tuple[BatchFigures, ...]
    last: BatchFigures
    """The last batch of the window, or of an earlier one if the window has none."""

    @property
    def groups(self) -> dict[KeyGroup, GroupFigures]:
        """Every key group's activity in the window."""
        total = {name: figures.idle() for name, figures in self.last.groups.items()}
        for batch in self.batches:
            for name, figures in batch.groups.items():
                total[name] = total[name].then(figures) if name in total else figures
        return total

    @property
    def traffic(self) -> dict[Link, tuple[int, int]]:
        """What each pair of key groups exchanged in the window."""
        total: dict[Link, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for batch in self.batches:
            for link, (records, size) in batch.traffic.items():
                before = total[link]
                total[link] = (before[0] + records, before[1] + size)
        return dict(total)

    @property
    def keys(self) -> dict[str, Summary[str]]:
        """The heaviest keys of each operator in the window."""
        return _over_batches([batch.keys for batch in self.batches])

    @property
    def pairs(self) -> dict[Edge, Summary[Pair]]:
        """The heaviest pairs of keys of each edge in the window."""
        return _over_batches([batch.pairs for batch in self.batches])

    @property
    def records(self) -> int:
        """Records the first operator took from the source."""
        first = next(iter(self.last.groups), ("", 0))[0]
        return sum(f.records for (operator, _), f in self.groups.items() if operator == first)

    @property
    def arrived(self) -> int | None:
        """Records that came to the source; None if that is not known of every batch."""
        if not self.batches:
            # What came meanwhile is counted with the next batch.
            return None if self.last.backlog is None else 0
        known = [batch.arrived for batch in self.batches if batch.arrived is not None]
        return sum(known) if len(known) == len(self.batches) else None

    def node_use(self) -> dict[str, tuple[int, int, float, int, int]]:
        """Per node that answered: heartbeats, records, CPU ms, state bytes, network bytes.

        Activity counts for the node that did the work, state for the one that holds it at the
        end. A window without a batch shows the nodes of the last one, with no heartbeat.
        """
        heartbeats = dict.fromkeys(self.last.nodes if not self.batches else (), 0)
        records: dict[str, int] = defaultdict(int)
        cpu: dict[str, float] = defaultdict(float)
        network: dict[str, int] = defaultdict(int)
        for batch in self.batches:
            for node in batch.nodes:
                heartbeats[node] = heartbeats.get(node, 0) + 1
            for figures in batch.groups.values():
                records[figures.node_id] += figures.records
                cpu[figures.node_id] += figures.cpu_ms
                network[figures.node_id] += figures.bytes_in + figures.bytes_out
        memory: dict[str, int] = defaultdict(int)
        for figures in self.last.groups.values():
            memory[figures.node_id] += figures.state_bytes
        return {
            node: (count, records[node], cpu[node], memory[node], network[node])
            for node, count in heartbeats.items()
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
    """Rows of ``metrics.key_pairs`` for a window, as columns: there are thousands."""
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
    """The row of ``metrics.sources`` for a window: a job has one source."""
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
    """Rows of ``metrics.nodes`` for a window; ``states`` are what the plan makes of nodes."""
    common = _common(job, window, emitted_at)
    known = {node.id: node for node in policy.nodes}
    planned = nodes_in_use(policy) if states is None else states
    return [
        {
            **common,
            **_capacity(known[node_id]),
            "state": planned.get(node_id, "alive"),
            "heartbeats": heartbeats,
            "records": records,
            "cpu_used_ms": cpu_ms,
            "memory_used_bytes": memory,
            "network_used_bytes": network,
        }
        for node_id, (heartbeats, records, cpu_ms, memory, network) in window.node_use().items()
        if node_id in known
    ]


def load_distance_pct(
    cpu_ms: Mapping[str, float], policy: JobPolicy, states: Mapping[str, str] | None = None
) -> float:
    """Load distance of the nodes that stay, for CPU, in percent of the mean (docs/glossary.md)."""
    used = nodes_in_use(policy) if states is None else states
    capacity = {n.id: n.capacity.cpu_cores for n in policy.nodes if used.get(n.id) == ALIVE}
    mean = sum(cpu_ms.values()) / sum(capacity.values())
    if mean <= 0:
        return 0.0
    loads = [cpu_ms.get(node, 0.0) / cores for node, cores in capacity.items()]
    return 100 * max(abs(load - mean) for load in loads) / mean


def at(ms: int) -> datetime:
    """A time of the clock in milliseconds, as a UTC time."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def _common(job: str, window: MetricsWindow, emitted_at: datetime) -> Row:
    ids = [batch.batch_id for batch in window.batches]
    return {
        "job": job,
        "window_date": at(window.end_ms).date(),
        "window_start_at": at(window.start_ms),
        "window_end_at": at(window.end_ms),
        "first_batch_id": min(ids) if ids else None,
        "last_batch_id": max(ids) if ids else None,
        "plan_version": window.last.plan_version,
        "emitted_at": emitted_at,
    }


def _capacity(node: NodePolicy) -> Row:
    return {
        "node_id": node.id,
        "cluster": node.cluster,
        "rack": node.rack,
        "cpu_capacity_cores": node.capacity.cpu_cores,
        "memory_capacity_bytes": node.capacity.memory_bytes,
        "network_capacity_bytes_per_s": node.capacity.network_bytes_per_s,
    }
