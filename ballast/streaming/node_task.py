"""Runs one stage of a batch on one node, without Spark.

Key groups are processed one after another, so that the CPU time of each can be measured. A record
whose next key group is on the same node is processed at once. Only records for other nodes are
serialised, which is the cost that collocation saves [ICDE17, 4.3.2]. The order of processing does
not depend on the order of arrival, so that a repeated task sends the same records.
"""

from __future__ import annotations

import gc
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from operator import itemgetter
from typing import Any

from pyspark import cloudpickle

from ballast.contracts.errors import InvalidInput
from ballast.streaming.heavy_keys import KeyCounter, Summary
from ballast.streaming.key_group_state import Slot
from ballast.streaming.operators import KeyOf, Topology
from ballast.streaming.processor_speed import ProcessorSpeed, probe_ns
from ballast.streaming.routing import NO_ROUTES, NO_SPLITS, Routes, Splits, key_group_of
from ballast.streaming.state_token import StateToken

Pair = tuple[str, Any]
"""The key under which a record comes to an operator, and the record."""
Group = tuple[int, int]
"""A key group: number of the operator in the topology, and number of the key group."""
SOURCE: Group = (-1, -1)
_KEY = itemgetter(0)
NO_DEALERS: Mapping[str, Iterator[Group]] = {}


@dataclass(frozen=True)
class Delivery:
    """Records for one key group from one sender; ``open`` is called where its cost is measured."""

    sender: Group
    open: Callable[[], list[Pair]]
    wire_bytes: int = 0


@dataclass(frozen=True)
class Block:
    """Serialised records from one key group to a key group on another node."""

    target: Group
    sender: Group
    records: int
    payload: bytes


@dataclass
class GroupUse:
    """What a key group used in one stage."""

    records: int = 0
    cpu_ns: int = 0
    probe_ns: int = 1
    """CPU time of a fixed piece of work around it (ballast.streaming.processor_speed)."""
    wire_ns: int = 0
    """Part of ``cpu_ns``: serialising records for other nodes and reading those from them."""
    busy_ns: int = 0
    state_bytes: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass
class NodeReport:
    """A node's report on one stage for the driver; it is also the node's heartbeat."""

    node: int
    stage: int
    groups: dict[Group, GroupUse] = field(default_factory=dict)
    traffic: dict[tuple[Group, Group], tuple[int, int]] = field(default_factory=dict)
    keys: dict[int, Summary[str]] = field(default_factory=dict)
    """Records of each key, for operators that keep their state by key."""
    pairs: dict[tuple[int, int], Summary[tuple[str, str]]] = field(default_factory=dict)
    """Records of each pair of keys, for edges between two such operators."""


def no_routes() -> Mapping[str, Routes]:
    """No routes: every key goes by its hash."""
    return {}


@dataclass(frozen=True)
class BatchWork:
    """The work of one batch, sent to every task."""

    topology: Topology
    owners: tuple[tuple[int, ...], ...]
    node_ids: tuple[str, ...]
    batch_id: int
    state_root: str
    routes: Callable[[], Mapping[str, Routes]] = no_routes
    """Gives the routes on the worker, so that a million keys are not sent with every task."""
    counts_keys: bool = True
    token: StateToken | None = None
    """What every task must find in the state folder; None where one process does everything."""
    splits: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    """Key groups of each key that is split, by operator."""

    def owner(self, group: Group) -> int:
        """Number of the node that owns a key group in this batch."""
        return self.owners[group[0]][group[1]]

    def slot(self, node: int, group: Group, stage: int) -> Slot:
        """The folder of the key group's state."""
        operator = self.topology.ids[group[0]]
        folder = f"{self.state_root}/{self.node_ids[node]}/{operator}/{group[1]:07d}"
        return Slot(folder, self.batch_id, stage)


def pack(pairs: list[Pair]) -> bytes:
    """Serialises records for another node.

    A record must arrive unchanged, as it does on the same node. JSON would not do, because it turns
    tuples into lists. Records of one named tuple are stored column by column: pickle then writes
    the class once, which takes an eighth of the time. The less it costs to send a record, the less
    the load of a key group depends on the nodes of its neighbours.
    """
    keys, records = zip(*pairs, strict=True) if pairs else ((), ())
    kinds = set(map(type, records))
    kind = kinds.pop() if len(kinds) == 1 else object
    content = (keys, tuple(zip(*records, strict=True))) if _is_plain_named_tuple(kind) else None
    whole = (None, pairs) if content is None else (kind, content)
    try:
        return pickle.dumps(whole, protocol=5)
    except (pickle.PicklingError, AttributeError):
        # A class that workers cannot import, for example one of the job's script, is sent by value.
        by_value: bytes = cloudpickle.dumps(whole, protocol=5)
        return by_value


def unpack(payload: bytes) -> list[Pair]:
    """The records that :func:`pack` serialised, in another task of this job."""
    kind, content = pickle.loads(payload)  # noqa: S301
    if kind is None:
        pairs: list[Pair] = content
        return pairs
    keys, columns = content
    return list(zip(keys, map(kind._make, zip(*columns, strict=True)), strict=True))


def _is_plain_named_tuple(kind: type) -> bool:
    """Whether its fields are its whole content; a derived class may have more."""
    own = vars(kind).keys() & {"__iter__", "__reduce__", "__reduce_ex__", "__getstate__"}
    fields = getattr(kind, "_fields", ())
    return kind.__bases__ == (tuple,) and hasattr(kind, "_make") and bool(fields) and not own


def run_node(
    work: BatchWork, node: int, stage: int, inbox: dict[Group, list[Delivery]]
) -> tuple[NodeReport, list[Block]]:
    """Processes the records for the node's key groups, and what they cause on the same node.

    Args:
        work: the batch.
        node: number of the node.
        stage: number of the stage.
        inbox: deliveries by key group.

    Returns:
        The report for the driver, and the records for other nodes.

    Raises:
        StateNotShared: the driver writes another state folder than this process reads.
    """
    if work.token is not None:
        work.token.check_on_worker()
    _check_owner(work, node, inbox)
    _warm_up(work, node, stage, inbox)
    with _collector_off():
        return _run_operators(work, node, stage, inbox)


def _run_operators(
    work: BatchWork, node: int, stage: int, inbox: dict[Group, list[Delivery]]
) -> tuple[NodeReport, list[Block]]:
    report = NodeReport(node, stage)
    blocks: list[Block] = []
    pending = dict(inbox)
    speed = ProcessorSpeed()
    task = _Task(work, node, stage, _Counters(work))
    for operator in range(len(work.topology.operators)):
        outlets = _outlets(task, operator)
        for group in sorted(group for group in pending if group[0] == operator):
            deliveries = sorted(pending.pop(group), key=lambda delivery: delivery.sender)
            use, sent = _run_group(task, group, deliveries, outlets)
            speed.add(use.cpu_ns)
            report.groups[group] = use
            for target, (count, content) in sent.items():
                if isinstance(content, bytes):
                    blocks.append(Block(target, group, count, content))
                    report.traffic[group, target] = (count, len(content))
                else:
                    report.traffic[group, target] = (count, 0)
                    pending.setdefault(target, []).append(_local(group, content))
    for use, probe in zip(report.groups.values(), speed.probes_by_key_group(), strict=True):
        use.probe_ns = probe
    report.keys, report.pairs = task.counters.summaries()
    return report, blocks


def _warm_up(work: BatchWork, node: int, stage: int, inbox: dict[Group, list[Delivery]]) -> None:
    """Reads the first key group once without measuring it.

    A task starts with cold caches. Without this, the first key group would be charged half a
    millisecond a batch for them, a load that would not move with it. The first probe of the
    processor's speed is run for the same reason.
    """
    if inbox:
        probe_ns()
        first = min(inbox)
        work.slot(node, first, stage).load()
        pack(inbox[first][0].open())


@contextmanager
def _collector_off() -> Iterator[None]:
    """Turns Python's garbage collector off while key groups are measured.

    A full collection walks everything that the worker has imported and takes several milliseconds,
    which would be charged to the running key group. Imported objects are excluded once for good,
    and the garbage of the records is collected between tasks.
    """
    if gc.get_freeze_count() == 0:
        gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Counters:
    """Counters of one task, for the edges and operators whose keys a plan could route."""

    def __init__(self, work: BatchWork) -> None:
        edges = work.topology.edges_by_key if work.counts_keys else []
        self.pairs = {edge: KeyCounter() for edge in edges}
        counted = work.topology.operators_of_counted_keys if work.counts_keys else []
        self.keys = {operator: KeyCounter() for operator in counted}

    def summaries(
        self,
    ) -> tuple[dict[int, Summary[str]], dict[tuple[int, int], Summary[tuple[str, str]]]]:
        """The counts, without operators and edges that have none."""
        keys = {operator: counter.summary() for operator, counter in self.keys.items()}
        pairs = {edge: counter.summary() for edge, counter in self.pairs.items()}
        return (
            {operator: summary for operator, summary in keys.items() if summary.total},
            {edge: summary for edge, summary in pairs.items() if summary.total},
        )


class _Outlet:
    """One edge out of an operator; caches the key groups of keys.

    Pairs of keys are collected record by record and counted many at a time, which is cheaper.
    """

    def __init__(
        self,
        target: int,
        key: KeyOf,
        key_groups: int,
        routes: Routes = NO_ROUTES,
        counter: KeyCounter | None = None,
        dealers: Mapping[str, Iterator[Group]] = NO_DEALERS,
    ) -> None:
        self.target, self.key, self.key_groups, self.routes = target, key, key_groups, routes
        self.known: dict[str, Group] = {}
        self.dealers = dealers
        self.counter = counter
        self.pairs: list[tuple[str, str]] | None = None if counter is None else []

    def group_of(self, key: str) -> Group:
        group = self.known.get(key)
        if group is None:
            dealer = self.dealers.get(key)
            if dealer is not None:
                return next(dealer)
            number = self.routes.get(key)
            if number is None:
                number = key_group_of(key, self.key_groups)
            group = self.known[key] = (self.target, number)
        return group

    def count_pairs(self) -> None:
        if self.counter is not None and self.pairs:
            self.counter.count(self.pairs)
            self.pairs.clear()


@dataclass(frozen=True)
class _Task:
    """One node's part of one stage of a batch."""

    work: BatchWork
    node: int
    stage: int
    counters: _Counters


def _dealers(splits: Splits, target: int, first: int) -> dict[str, Iterator[Group]]:
    """The key groups of each split key in turn.

    Nodes and batches begin with different ones, or the first would get more. The order depends on
    the batch and the node alone, so that a repeated task deals as the first one did.
    """
    return {
        key: cycle((target, groups[(first + turn) % len(groups)]) for turn in range(len(groups)))
        for key, groups in splits.items()
    }


def _outlets(task: _Task, operator: int) -> list[_Outlet]:
    work, counters = task.work, task.counters
    topology, routes = work.topology, work.routes()
    outlets = []
    for target in topology.downstream[operator]:
        key = topology.operators[target].key
        if key is not None:  # always true: the topology was checked
            routed = routes.get(topology.ids[target], NO_ROUTES)
            counter = counters.pairs.get((operator, target))
            splits = work.splits.get(topology.ids[target], NO_SPLITS)
            dealers = _dealers(splits, target, work.batch_id + task.node)
            groups = topology.key_groups[target]
            outlets.append(_Outlet(target, key, groups, routed, counter, dealers))
    return outlets


def _run_group(
    task: _Task, group: Group, deliveries: list[Delivery], outlets: list[_Outlet]
) -> tuple[GroupUse, dict[Group, tuple[int, list[Pair] | bytes]]]:
    """Processes the records of one key group; returns what it used and what it sends."""
    work, keys = task.work, task.counters.keys.get(group[0])
    cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
    slot = work.slot(task.node, group, task.stage)
    state, stored, names = slot.load()
    use = GroupUse(bytes_in=sum(delivery.wire_bytes for delivery in deliveries))
    sent: dict[Group, list[Pair]] = {}
    process = work.topology.operators[group[0]].process
    for delivery in deliveries:
        pairs = _opened(delivery, use)
        use.records += len(pairs)
        if keys is not None:
            keys.count(map(_KEY, pairs))
        for key, record in pairs:
            produced = process(state, key, record)
            if produced is not None:
                _send(key, produced, outlets, sent, work.topology.ids[group[0]])
    for outlet in outlets:
        outlet.count_pairs()
    content = _sealed(work, task.node, sent, use)
    use.bytes_out = sum(len(data) for _, data in content.values() if isinstance(data, bytes))
    use.state_bytes = slot.save(state, stored, names)
    use.cpu_ns = time.thread_time_ns() - cpu
    use.busy_ns = time.perf_counter_ns() - wall
    return use, content


def _opened(delivery: Delivery, use: GroupUse) -> list[Pair]:
    """The records; the CPU time to read those of another node is added to ``use``."""
    if not delivery.wire_bytes:
        return delivery.open()
    began = time.thread_time_ns()
    pairs = delivery.open()
    use.wire_ns += time.thread_time_ns() - began
    return pairs


def _send(
    source_key: str,
    produced: Iterable[Any],
    outlets: list[_Outlet],
    sent: dict[Group, list[Pair]],
    operator: str,
) -> None:
    for record in produced:
        if not outlets:
            raise InvalidInput(
                f"operator {operator} sent a record on, but no edge leaves it", value=record,
                allowed="None or nothing from the last operator of a path",
                remedy="add an edge to the policy, or keep the result in the state",
            )  # fmt: skip
        for outlet in outlets:
            key = outlet.key(record)
            if key is not None:
                target = outlet.group_of(key)
                pairs = sent.get(target)
                if pairs is None:
                    sent[target] = [(key, record)]
                else:
                    pairs.append((key, record))
                if outlet.pairs is not None:
                    outlet.pairs.append((source_key, key))


def _sealed(
    work: BatchWork, node: int, sent: dict[Group, list[Pair]], use: GroupUse
) -> dict[Group, tuple[int, list[Pair] | bytes]]:
    """The sent records by target: unchanged for this node, serialised for other nodes."""
    content: dict[Group, tuple[int, list[Pair] | bytes]] = {
        target: (len(pairs), pairs) for target, pairs in sent.items()
    }
    leaving = [target for target in sent if work.owner(target) != node]
    if leaving:
        began = time.thread_time_ns()
        for target in leaving:
            content[target] = (len(sent[target]), pack(sent[target]))
        use.wire_ns += time.thread_time_ns() - began
    return content


def _local(sender: Group, content: list[Pair]) -> Delivery:
    return Delivery(sender, lambda: content)


def _check_owner(work: BatchWork, node: int, inbox: dict[Group, list[Delivery]]) -> None:
    """Raises if a record came to a node that does not own its key group."""
    for group in inbox:
        if work.owner(group) != node:
            raise RuntimeError(
                f"batch {work.batch_id}: key group {group[1]} of {work.topology.ids[group[0]]} "
                f"came to {work.node_ids[node]} but is owned by {work.node_ids[work.owner(group)]}"
            )
