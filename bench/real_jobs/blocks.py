"""The blocks of records on each edge of a job in one batch, by pair of key groups, without
Spark."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ballast.streaming.node_task import Group, Pair
from ballast.streaming.operators import Topology
from ballast.streaming.routing import key_group_of
from examples.flights.weather import WEATHER_TAG

Edge = tuple[str, str]


@dataclass
class BlockFlow:
    """One batch: the blocks of every edge, and the CPU time of processing alone."""

    blocks: dict[Edge, list[list[Pair]]] = field(default_factory=dict)
    process_s: dict[str, float] = field(default_factory=dict)
    """CPU seconds per record of each operator: its function, and the keys of the records that it
    sends."""
    records: dict[str, int] = field(default_factory=dict)


def source_key_of(text: str) -> str:
    """The key of a line, as the jobs' ``source_key`` has it in SQL."""
    fields = text.split(",", 12)
    if fields[0] == WEATHER_TAG:
        return fields[1]
    return fields[11] or fields[9] + fields[10]


def flow_of(topology: Topology, lines: Iterable[str]) -> BlockFlow:
    """Run the operators over one batch in one process; every record is stored with its key."""
    inboxes: dict[Group, list[Pair]] = defaultdict(list)
    for text in lines:
        key = source_key_of(text)
        group = key_group_of(key, topology.key_groups[0])
        inboxes[0, group].append((key, {"value": text.rstrip("\n")}))
    flow = BlockFlow()
    for number, name in enumerate(topology.ids):
        groups = sorted(group for group in inboxes if group[0] == number)
        flow.records[name] = sum(len(inboxes[group]) for group in groups)
        used = 0.0
        for group in groups:
            began = time.thread_time()
            sent = _run_group(topology, number, inboxes[group])
            used += time.thread_time() - began
            for target, pairs in sent.items():
                edge = (name, topology.ids[target[0]])
                flow.blocks.setdefault(edge, []).append(pairs)
                inboxes[target] += pairs
        flow.process_s[name] = used / max(1, flow.records[name])
    return flow


def _run_group(topology: Topology, operator: int, pairs: Sequence[Pair]) -> dict[Group, list[Pair]]:
    state: dict[str, Any] = {}
    process = topology.operators[operator].process
    known: dict[tuple[int, str], Group] = {}
    sent: dict[Group, list[Pair]] = {}
    for key, record in pairs:
        for produced in process(state, key, record) or ():
            for target in topology.downstream[operator]:
                key_of = topology.operators[target].key
                to = None if key_of is None else key_of(produced)
                if to is None:
                    continue
                group = known.get((target, to))
                if group is None:
                    group = (target, key_group_of(to, topology.key_groups[target]))
                    known[target, to] = group
                sent.setdefault(group, []).append((to, produced))
    return sent
