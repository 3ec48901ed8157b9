"""A consumer group as the broker sees it: its members, who has which partition, offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError, TopicAlreadyExistsError, for_code
from kafka.protocol.consumer import OffsetSpec
from kafka.structs import TopicPartition

from ballast.contracts.errors import NotFound
from ballast.engines.kafka.assignment import Partition
from ballast.engines.kafka.assignor import NAME, is_trigger, node_of, version_of
from ballast.engines.kafka.connection import ConnectionSettings
from ballast.engines.kafka.messages import plan_topic, report_topic

STABLE = "Stable"
REBALANCING = ("PreparingRebalance", "CompletingRebalance")
REPORTS_KEPT_MS = 24 * 3600 * 1000
UNKNOWN_TOPIC = 3


@dataclass(frozen=True)
class MemberView:
    """A member of the group."""

    member_id: str
    node_id: str
    partitions: frozenset[Partition]
    version: int
    """The plan version that the leader assigned them under."""


@dataclass(frozen=True)
class GroupView:
    """A consumer group at one moment."""

    state: str
    """As the broker says: Stable, PreparingRebalance, CompletingRebalance, Empty or Dead."""
    protocol: str
    """The assignor that the group has chosen; empty while it has none."""
    members: tuple[MemberView, ...] = ()

    @property
    def is_rebalancing(self) -> bool:
        """Whether members join at the moment, so that it is not known who is in the group."""
        return self.state in REBALANCING

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes that are in the group."""
        return frozenset(member.node_id for member in self.members)

    @property
    def node_by_partition(self) -> dict[Partition, str]:
        """The node that has each partition."""
        return {p: member.node_id for member in self.members for p in member.partitions}

    @property
    def follows_plans(self) -> bool:
        """Whether the group assigns by plans."""
        return self.protocol == NAME

    def has_taken_up(self, version: int, placement: Mapping[Partition, str]) -> bool:
        """Whether the group is stable under a plan.

        Every partition has an owner: its node, or any other if its node is not in the group.
        """
        owner, nodes = self.node_by_partition, self.nodes
        return (
            self.state == STABLE
            and all(member.version >= version for member in self.members)
            and all(
                partition in owner and (owner[partition] == node or node not in nodes)
                for partition, node in placement.items()
            )
        )


@dataclass(frozen=True)
class TopicOffsets:
    """Offsets of the partitions of a topic at one moment."""

    ends: Mapping[Partition, int] = field(default_factory=dict)
    """The offset of the next record that is written."""
    committed: Mapping[Partition, int] = field(default_factory=dict)
    """The offset that the group has committed; a partition without one is left out."""


class Broker:
    """Questions to the broker about the topics and the group of a job.

    Raises:
        KafkaError: the broker does not answer, or refuses; every method may raise it.
    """

    def __init__(self, connection: ConnectionSettings) -> None:
        self._admin = KafkaAdminClient(**connection)

    def close(self) -> None:
        """Disconnect."""
        self._admin.close()

    def group(self, group_id: str) -> GroupView:
        """The group; one that does not exist has no members."""
        found = self._admin.describe_groups([group_id])[group_id]
        if found["error"]:
            raise KafkaError(f"group {group_id}: {found['error']}")
        protocol = str(found.get("protocol_data") or "")
        return GroupView(
            str(found["group_state"]),
            protocol,
            _member_views(found["members"]) if protocol == NAME else (),
        )

    def partition_counts(self, topics: Sequence[str]) -> dict[str, int]:
        """The number of partitions of each topic.

        Raises:
            NotFound: a topic does not exist.
        """
        counts = {}
        for topic in self._admin.describe_topics(list(topics)):
            if topic["error_code"] == UNKNOWN_TOPIC:
                raise NotFound(
                    f"topic {topic['name']} does not exist", value=topic["name"],
                    remedy="correct engine.topics in the policy, or create the topic",
                )  # fmt: skip
            _raise_for(topic["error_code"], f"topic {topic['name']}")
            counts[topic["name"]] = len(topic["partitions"])
        return counts

    def offsets(self, group_id: str, counts: Mapping[str, int]) -> TopicOffsets:
        """Where the topics end and what the group has committed."""
        every = [TopicPartition(t, number) for t, size in counts.items() for number in range(size)]
        ends = self._admin.list_partition_offsets(dict.fromkeys(every, OffsetSpec.LATEST))
        committed = self._admin.list_group_offsets({group_id: every})[group_id]
        return TopicOffsets(
            {(tp.topic, tp.partition): int(found.offset) for tp, found in ends.items()},
            {
                (tp.topic, tp.partition): int(found.offset)
                for tp, found in committed.items()
                if found.offset >= 0
            },
        )

    def ensure_own_topics(self, job: str) -> None:
        """Create the topics of plans and reports where they do not exist."""
        wanted: dict[str, dict[str, Any]] = {
            plan_topic(job): {"cleanup.policy": "compact", "segment.ms": "3600000"},
            report_topic(job): {
                "cleanup.policy": "delete", "retention.ms": str(REPORTS_KEPT_MS),
            },
        }  # fmt: skip
        described = self._admin.describe_topics(list(wanted))
        missing = {topic["name"] for topic in described if topic["error_code"] == UNKNOWN_TOPIC}
        if not missing:
            return
        try:
            self._admin.create_topics(
                {
                    name: {"num_partitions": 1, "configs": wanted[name]}
                    for name in wanted if name in missing
                },
                wait_for_metadata=True,
            )  # fmt: skip
        except TopicAlreadyExistsError:
            # Another engine service was first.
            self._admin.wait_for_topics(list(wanted))


def _member_views(members: Sequence[Mapping[str, Any]]) -> tuple[MemberView, ...]:
    """The members that may have partitions."""
    return tuple(
        _member_view(member)
        for member in members
        if not is_trigger(_decoded(member["member_metadata"]).get("user_data"))
    )


def _member_view(member: Mapping[str, Any]) -> MemberView:
    assignment = _decoded(member["member_assignment"])
    subscription = _decoded(member["member_metadata"])
    held = {
        (part["topic"], number)
        for part in assignment.get("assigned_partitions") or ()
        for number in part["partitions"]
    }
    return MemberView(
        member["member_id"],
        node_of(subscription.get("user_data"), member["member_id"]),
        frozenset(held),
        version_of(assignment.get("user_data")),
    )


def _decoded(value: Any) -> Mapping[str, Any]:
    """What the client could decode; empty while a member joins."""
    return value if isinstance(value, Mapping) else {}


def _raise_for(code: int, what: str) -> None:
    error = for_code(code)
    if code:
        raise error(what)
