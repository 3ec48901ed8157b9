"""Which key group a key belongs to, and which node a key group is on.

A plan may route single keys: a key with a route belongs to the key group the route names, every
other key to the one its hash gives [MW16-LOCALITY, 3.1]. Key groups stay the unit of placement.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ballast.contracts.errors import InvalidInput
from ballast.contracts.identity import Scaled, content_hash, key_group_name
from ballast.contracts.regions import Weighted
from ballast.contracts.scaling import ALIVE, nodes_in_use
from ballast.streaming.operators import Topology

if TYPE_CHECKING:
    from ballast.contracts.policy import JobPolicy

FIRST_VERSION = 0
LARGEST_NODE_COUNT = 32_767


Routes = Mapping[str, int]
"""Key group of each key that has a route, of one operator."""
NO_ROUTES: Routes = {}
Splits = Mapping[str, tuple[int, ...]]
"""Key groups of each key that is split, of one operator, in order; its own key group is one."""
NO_SPLITS: Splits = {}

PlacementName = tuple[int, int | None]
"""A version, and the step of its take-up that was made last; None: all of them."""


def key_group_of(key: str, key_groups: int) -> int:
    """The key group of a key by its hash; Spark's ``crc32`` over its bytes gives the same."""
    return zlib.crc32(_bytes(key)) % key_groups


def _bytes(key: str) -> bytes:
    """The key in UTF-8; keys that are not valid Unicode are encoded too.

    Bytes that Python could not decode and kept as surrogates become the same bytes again.
    """
    try:
        return key.encode()
    except UnicodeEncodeError:
        pass
    try:
        return key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return key.encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class Placement:
    """The node of every key group under one plan version, by operator.

    ``routes`` has the key group of each routed key, for operators with routes.
    """

    version: int
    plan_id: str
    nodes: Mapping[str, tuple[str, ...]]
    routes: Mapping[str, Routes] = field(default_factory=dict)
    scaling: tuple[Scaled, ...] = ()
    """Actions on nodes; empty if the plan leaves the nodes to the policy."""
    weights: tuple[Weighted, ...] = ()
    """Weights of the workers of ordered regions, which the regions take up themselves."""
    splits: Mapping[str, Splits] = field(default_factory=dict)
    """Key groups of each key that is split, for operators with such keys."""
    step: int | None = None
    """The number of the step after which the key groups are there; None: after the last one."""

    @property
    def name(self) -> PlacementName:
        """What the files of the placement are named by."""
        return (self.version, self.step)

    def __post_init__(self) -> None:
        if self.version < FIRST_VERSION:
            raise ValueError(f"plan version {self.version}; allowed: {FIRST_VERSION} and above")

    @property
    def content_hash(self) -> str:
        """The identity of this content, as in ``plans.heads``."""
        return content_hash(
            (
                (operator, group, node)
                for operator, nodes in self.nodes.items()
                for group, node in enumerate(nodes)
            ),
            (
                (operator, key, group)
                for operator, routes in self.routes.items()
                for key, group in routes.items()
            ),
            self.scaling,
            self.weights,
            (
                (operator, key, group)
                for operator, splits in self.splits.items()
                for key, groups in splits.items()
                for group in groups
            ),
        )

    def node_of(self, operator_id: str, key_group: int) -> str:
        """The node that owns a key group."""
        return self.nodes[operator_id][key_group]

    def routes_of(self, operator_id: str) -> Routes:
        """The routes of an operator; empty for most operators."""
        return self.routes.get(operator_id, NO_ROUTES)

    def group_of(self, operator_id: str, key: str) -> int:
        """The key group of a key: by its route if it has one, else by its hash."""
        routed = self.routes_of(operator_id).get(key)
        return key_group_of(key, len(self.nodes[operator_id])) if routed is None else routed

    def parts_of(self, operator_id: str, key: str) -> tuple[int, ...]:
        """The key groups that a key is split over; its one key group if it is not split."""
        parts = self.splits.get(operator_id, NO_SPLITS).get(key)
        return (self.group_of(operator_id, key),) if parts is None else parts


@dataclass(frozen=True)
class Move:
    """A key group that changes its node."""

    operator_id: str
    key_group: int
    source: str
    target: str


def first_placement(topology: Topology, policy: JobPolicy) -> Placement:
    """Version 0: each key group on a node by the hash of its name; draining nodes get none."""
    nodes = [node for node, state in nodes_in_use(policy).items() if state == ALIVE]
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
    """Key groups that change their node, in the order of ``operators``."""
    return [
        Move(operator, group, before, after)
        for operator in operators
        for group, (before, after) in enumerate(
            zip(old.nodes[operator], new.nodes[operator], strict=True)
        )
        if before != after
    ]


@dataclass(frozen=True)
class KeyTransfer:
    """A key, or a part of one, that changes its key group, and the nodes of the two."""

    operator_id: str
    key: str
    from_group: int
    to_group: int
    source: str
    target: str


def key_transfers_between(
    old: Placement, new: Placement, operators: Iterable[str]
) -> list[KeyTransfer]:
    """Keys that change their key group, in the order of the operators and then of the keys.

    A key group that loses its part of a split key sends it to the key's own key group under the new
    placement. A key group that only gets a part of the records sends and receives nothing.
    """
    return [
        KeyTransfer(
            operator,
            key,
            before,
            after,
            old.node_of(operator, before),
            new.node_of(operator, after),
        )
        for operator in operators
        for key in sorted(_placed_otherwise(old, new, operator))
        for after in [new.group_of(operator, key)]
        for before in old.parts_of(operator, key)
        if before not in new.parts_of(operator, key)
    ]


def _placed_otherwise(old: Placement, new: Placement, operator: str) -> set[str]:
    """Keys whose route or split was added, removed or changed."""
    routed = old.routes_of(operator).items() ^ new.routes_of(operator).items()
    split = (
        old.splits.get(operator, NO_SPLITS).items() ^ new.splits.get(operator, NO_SPLITS).items()
    )
    return {key for key, _ in routed} | {key for key, _ in split}


def taking_turns(node_ids: tuple[str, ...], batch_id: int) -> tuple[str, ...]:
    """The nodes in the order of their partitions in a batch, starting with another one each time.

    Spark starts partitions in order, and the first ones are slowed down by other work at the start
    of a batch. In a fixed order the same nodes would always be measured as slower. The order
    depends on the batch id alone, so that a replay has the same order.
    """
    first = batch_id % len(node_ids)
    return node_ids[first:] + node_ids[:first]


def node_indexes(
    placement: Placement, topology: Topology, node_ids: tuple[str, ...]
) -> tuple[tuple[int, ...], ...]:
    """For each operator, the number of each key group's node.

    Spark's ``repartitionById`` silently wraps numbers that are out of range, so they are checked.

    Raises:
        InvalidInput: there are too many nodes, or a key group is on a node that is not in use.
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
                    f"node {node!r} holds key groups of {operator} but is not in use by the policy",
                    value=node, allowed=", ".join(node_ids),
                    remedy="put it back with `draining: true` until a plan has emptied it",
                )  # fmt: skip
    return tuple(
        tuple(number[node] for node in placement.nodes[operator]) for operator in topology.ids
    )
