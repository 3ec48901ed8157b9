"""What one batch measured: figures of key groups, of links between them, and of heavy keys.

``figures_of_batch`` sums the reports of all nodes and stages of a batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeVar

from ballast.streaming.heavy_keys import (
    KEPT_IN_BATCH,
    Item,
    Summary,
    added,
    cut,
    from_json,
    joined,
    to_json,
)
from ballast.streaming.node_task import GroupUse, NodeReport
from ballast.streaming.operators import Topology
from ballast.streaming.processor_speed import evened
from ballast.streaming.routing import Placement

KeyGroup = tuple[str, int]
"""Operator and number of a key group."""
Link = tuple[str, int, str, int]
"""Operator and key group of the sender, operator and key group of the receiver."""
Edge = tuple[str, str]
KeyPair = tuple[str, str]
Of = TypeVar("Of", str, int, Edge, tuple[int, int])
"""What a summary is of: an operator or an edge, by name or by number."""


@dataclass(frozen=True)
class GroupFigures:
    """What was measured of one key group in a batch or a window."""

    node_id: str
    state_bytes: int
    records: int = 0
    cpu_ms: float = 0.0
    busy_ms: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0
    wire_ms: float = 0.0

    def plus(self, use: GroupUse, cpu_ns: float) -> GroupFigures:
        """Adds what the key group used in one stage.

        Args:
            use: the figures of the stage; the state's size after it becomes the new size.
            cpu_ns: CPU time of the stage, corrected for the processor's speed.
        """
        return replace(
            self,
            state_bytes=use.state_bytes,
            records=self.records + use.records,
            cpu_ms=self.cpu_ms + cpu_ns / 1e6,
            # Corrected by the same factor as the CPU time that it is a part of.
            wire_ms=self.wire_ms + use.wire_ns / max(use.cpu_ns, 1) * cpu_ns / 1e6,
            busy_ms=self.busy_ms + use.busy_ns / 1e6,
            bytes_in=self.bytes_in + use.bytes_in,
            bytes_out=self.bytes_out + use.bytes_out,
        )

    def then(self, later: GroupFigures) -> GroupFigures:
        """Adds a later batch: activity is summed, node and state are those of the later batch."""
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
        """The same key group without activity."""
        return GroupFigures(self.node_id, self.state_bytes)


@dataclass(frozen=True)
class BatchFigures:
    """Everything that was measured in one batch; it has every key group of the job."""

    batch_id: int
    plan_version: int
    groups: Mapping[KeyGroup, GroupFigures]
    traffic: Mapping[Link, tuple[int, int]]
    """Records and serialised bytes of each link."""
    nodes: tuple[str, ...]
    """Nodes that reported."""
    keys: Mapping[str, Summary[str]] = field(default_factory=dict)
    pairs: Mapping[Edge, Summary[KeyPair]] = field(default_factory=dict)
    arrived: int | None = None
    """Records that arrived at the source since the batch before; None if not measured."""
    backlog: int | None = None
    """Records that waited at the source when the batch ended; None if not measured."""

    def records_of(self, operator: str) -> int:
        """Records that an operator processed."""
        return sum(f.records for (name, _), f in self.groups.items() if name == operator)

    def to_json(self) -> dict[str, Any]:
        """Plain values, which :meth:`from_json` reads."""
        return {
            "batch_id": self.batch_id,
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
    def from_json(cls, values: Mapping[str, Any]) -> BatchFigures:
        """The figures that :meth:`to_json` wrote."""
        return cls(
            batch_id=values["batch_id"],
            plan_version=values["plan_version"],
            groups={(g[0], g[1]): GroupFigures(*g[2:]) for g in values["groups"]},
            traffic={(t[0], t[1], t[2], t[3]): (t[4], t[5]) for t in values["traffic"]},
            nodes=tuple(values["nodes"]),
            # Files of earlier versions have none of these.
            keys={k[0]: from_json(k[1]) for k in values.get("keys", [])},
            pairs={(p[0], p[1]): from_json(p[2]) for p in values.get("pairs", [])},
            arrived=values.get("arrived"),
            backlog=values.get("backlog"),
        )


def figures_of_batch(
    batch_id: int,
    reports: Iterable[NodeReport],
    topology: Topology,
    placement: Placement,
    node_ids: Sequence[str],
    state_bytes: Mapping[KeyGroup, int],
) -> BatchFigures:
    """Sums the reports of all nodes and stages of a batch.

    Args:
        batch_id: the batch.
        reports: one report for each node and stage.
        topology: the operators and key groups of the job.
        placement: the nodes of the key groups in this batch.
        node_ids: the nodes, by the numbers that the reports use.
        state_bytes: state sizes before the batch, for key groups that no node reported.
    """
    in_order = sorted(reports, key=lambda report: (report.stage, report.node))
    reporting = {node_ids[report.node] for report in in_order}
    ids = topology.ids
    split = {topology.index[operator] for operator in placement.splits}
    keys = _over_nodes([(report.node, report.keys) for report in in_order], split)
    pairs = _over_nodes([(report.node, report.pairs) for report in in_order])
    idle = {
        name: GroupFigures(placement.node_of(*name), state_bytes.get(name, 0))
        for name in topology.all_key_groups
    }
    return BatchFigures(
        batch_id,
        placement.version,
        _group_figures(in_order, ids, idle),
        _traffic(in_order, ids),
        tuple(node for node in node_ids if node in reporting),
        {ids[operator]: summary for operator, summary in keys.items()},
        {(ids[source], ids[target]): summary for (source, target), summary in pairs.items()},
    )


def _group_figures(
    reports: Sequence[NodeReport], ids: Sequence[str], idle: Mapping[KeyGroup, GroupFigures]
) -> dict[KeyGroup, GroupFigures]:
    """Figures of every key group, with CPU times corrected over the whole batch.

    When the processor was slower for one node, its key groups used more CPU time for the same
    work; the correction removes that difference.
    """
    groups = dict(idle)
    uses = [use for report in reports for use in report.groups.values()]
    cpu_ns = iter(evened([use.cpu_ns for use in uses], [use.probe_ns for use in uses]))
    for report in reports:
        for (operator, number), use in report.groups.items():
            name = ids[operator], number
            groups[name] = groups[name].plus(use, next(cpu_ns))
    return groups


def _traffic(reports: Sequence[NodeReport], ids: Sequence[str]) -> dict[Link, tuple[int, int]]:
    traffic: dict[Link, tuple[int, int]] = {}
    for report in reports:
        for ((from_op, from_group), (to_op, to_group)), amount in report.traffic.items():
            link = (ids[from_op], from_group, ids[to_op], to_group)
            records, size = traffic.get(link, (0, 0))
            traffic[link] = (records + amount[0], size + amount[1])
    return traffic


def _over_nodes(
    reported: Iterable[tuple[int, Mapping[Of, Summary[Item]]]],
    on_many_nodes: Set[Of] = frozenset(),
) -> dict[Of, Summary[Item]]:
    """Summaries of a batch: stages of a node are added, nodes are joined (a key is on one node).

    Nodes are added as well where plans split keys: such a key is on several nodes.
    """
    by_node: dict[Of, dict[int, Summary[Item]]] = defaultdict(dict)
    for node, summaries in reported:
        for name, summary in summaries.items():
            before = by_node[name].get(node)
            by_node[name][node] = summary if before is None else added(before, summary)
    return {
        name: cut(
            reduce(added, of.values()) if name in on_many_nodes else joined(list(of.values())),
            KEPT_IN_BATCH,
        )
        for name, of in by_node.items()
    }
