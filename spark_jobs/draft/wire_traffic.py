"""Bytes between nodes under a placement, from a snapshot's traffic. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from ballast.contracts.identity import key_group_name, split_key_group_name

NodeOf = Mapping[str, str]
"""Name of a key group to its node."""


@dataclass(frozen=True)
class Flow:
    """Records and bytes a second between two key groups; 0 bytes if they share a node."""

    source: str
    target: str
    operators: tuple[str, str]
    records: float
    bytes: float


@dataclass(frozen=True)
class Wire:
    """The measured traffic, and the bytes of a record between nodes by pair of operators."""

    flows: tuple[Flow, ...]
    bytes_by_operators: Mapping[tuple[str, str], float]
    bytes_per_record: float

    @property
    def bytes_per_s(self) -> float:
        """Measured bytes a second between nodes."""
        return sum(flow.bytes for flow in self.flows)

    def rerouted(self, rates: Mapping[tuple[str, str], float]) -> Wire:
        """The traffic with other rates between key groups, after keys were routed elsewhere."""
        known = {(flow.source, flow.target): flow for flow in self.flows}
        flows = []
        for (source, target), rate in rates.items():
            flow = known.get((source, target))
            if flow is None or flow.records <= 0:
                operators = split_key_group_name(source)[0], split_key_group_name(target)[0]
                flows.append(Flow(source, target, operators, rate, 0.0))
            else:
                share = rate / flow.records
                flows.append(replace(flow, records=rate, bytes=flow.bytes * share))
        return replace(self, flows=tuple(flows))

    def bytes_under(self, node_of: NodeOf) -> float:
        """Bytes a second between nodes under another placement.

        Key groups that shared a node and no longer do get the bytes per record of their operators.
        """
        return sum(self._bytes_under(flow, node_of) for flow in self.flows)

    def _bytes_under(self, flow: Flow, node_of: NodeOf) -> float:
        if node_of[flow.source] == node_of[flow.target]:
            return 0.0
        weight = self.bytes_by_operators.get(flow.operators, self.bytes_per_record)
        return flow.bytes or flow.records * weight


def wire_of(traffic: pa.Table) -> Wire:
    """The traffic in rows of snapshots.traffic."""
    flows = tuple(_flows(traffic))
    records: dict[tuple[str, str], float] = defaultdict(float)
    n_bytes: dict[tuple[str, str], float] = defaultdict(float)
    for flow in flows:
        if flow.bytes > 0:
            records[flow.operators] += flow.records
            n_bytes[flow.operators] += flow.bytes
    by_operators = {pair: n_bytes[pair] / count for pair, count in records.items() if count > 0}
    total = sum(records.values())
    return Wire(flows, by_operators, sum(n_bytes.values()) / total if total > 0 else 0.0)


def _flows(traffic: pa.Table) -> Iterator[Flow]:
    names = (
        "from_operator_id", "from_key_group", "to_operator_id", "to_key_group", "records_per_s",
        "bytes_per_s",
    )  # fmt: skip
    columns = (traffic[name].to_pylist() for name in names)
    for from_operator, from_group, to_operator, to_group, records, n_bytes in zip(
        *columns, strict=True
    ):
        yield Flow(
            key_group_name(from_operator, from_group),
            key_group_name(to_operator, to_group),
            (from_operator, to_operator),
            records,
            n_bytes,
        )


def serialise_us(key_groups: pa.Table, traffic: pa.Table) -> float | None:
    """CPU microseconds of a record between nodes, both ends; None without such records."""
    remote = traffic.filter(pc.greater(traffic["bytes_per_s"], 0.0))
    records = pc.sum(remote["records_per_s"]).as_py() or 0.0
    cores = pc.sum(key_groups["wire_load_cores"]).as_py() or 0.0
    return 1e6 * cores / records if records > 0 else None
