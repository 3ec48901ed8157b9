"""Which key group a key belongs to, and which node a key group is on."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ballast.contracts.errors import InvalidInput
from ballast.contracts.identity import content_hash, key_group_name
from ballast.streaming.operators import Topology

if TYPE_CHECKING:
    from ballast.contracts.policy import JobPolicy

FIRST_VERSION = 0
LARGEST_NODE_COUNT = 32_767


def key_group_of(key: str, key_groups: int) -> int:
    """The key group of a key; Spark's ``crc32`` over the UTF-8 bytes gives the same."""
    return zlib.crc32(key.encode()) % key_groups


@dataclass(frozen=True)
class Placement:
    """Where every key group is under one plan version: operator -> node of each key group."""

    version: int
    plan_id: str
    nodes: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        if self.version < FIRST_VERSION:
            raise ValueError(f"plan version {self.version}; allowed: {FIRST_VERSION} and above")

    @property
    def content_hash(self) -> str:
        """The identity of this content, as in ``plans.heads``."""
        return content_hash(
            (operator, group, node)
            for operator, nodes in self.nodes.items()
            for group, node in enumerate(nodes)
        )

    def node_of(self, operator_id: str, key_group: int) -> str:
        """The node that owns a key group."""
        return self.nodes[operator_id][key_group]


@dataclass(frozen=True)
class Move:
    """A key group that changes its node."""

    operator_id: str
    key_group: int
    source: str
    target: str


def first_placement(topology: Topology, policy: JobPolicy) -> Placement:
    """Version 0: key groups by hash of their names over the nodes that may get something."""
    nodes = [node.id for node in policy.nodes if not node.draining]
    return Placement(
        FIRST_VERSION,
        "",
        {
            operator: tuple(
                nodes[zlib.crc32(key_group_name(operator, group).encode()) % len(nodes)]
                for group in range(groups)
            )
            for operator, groups in zip(topology.ids, topology.key_groups, strict=True)
        },
    )


def moves_between(old: Placement, new: Placement, operators: Iterable[str]) -> list[Move]:
    """What moves from one placement to the next, in the order of the operators given."""
    return [
        Move(operator, group, before, after)
        for operator in operators
        for group, (before, after) in enumerate(
            zip(old.nodes[operator], new.nodes[operator], strict=True)
        )
        if before != after
    ]


def taking_turns(node_ids: tuple[str, ...], batch_id: int) -> tuple[str, ...]:
    """The nodes in the order of their partitions in a batch: another one is first each time.

    Spark starts partitions in order, and what else the machine does when a batch starts slows the
    first ones down. In a fixed order the same nodes would be measured as slower, batch after batch,
    and a key group would seem to cost less wherever it was moved late. A replay has the batch's id,
    and so the batch's order.
    """
    first = batch_id % len(node_ids)
    return node_ids[first:] + node_ids[:first]


def node_indexes(
    placement: Placement, topology: Topology, node_ids: tuple[str, ...]
) -> tuple[tuple[int, ...], ...]:
    """For each operator the number of each key group's node, checked to be a partition.

    Spark's ``repartitionById`` wraps a number out of range silently, so none may get there.
    """
    if len(node_ids) > LARGEST_NODE_COUNT:
        raise InvalidInput(
            f"the policy has {len(node_ids)} nodes", value=len(node_ids),
            allowed=f"up to {LARGEST_NODE_COUNT}", remedy="use fewer, larger nodes",
        )  # fmt: skip
    number = {node: position for position, node in enumerate(node_ids)}
    for operator in topology.ids:
        for node in placement.nodes[operator]:
            if node not in number:
                raise InvalidInput(
                    f"node {node!r} holds key groups of {operator} but is not in the policy",
                    value=node, allowed=", ".join(node_ids),
                    remedy="put it back with `draining: true` until a plan has emptied it",
                )  # fmt: skip
    return tuple(
        tuple(number[node] for node in placement.nodes[operator]) for operator in topology.ids
    )
