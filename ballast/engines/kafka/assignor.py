"""The assignor of kafka-python: partitions follow the plan that the leader has read.

Cooperative (KIP-429): only partitions that move are given up. It never fails: an exception in an
assignor would stop every consumer of the group.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from ballast.engines.kafka.assignment import (
    GroupMemberState,
    Partition,
    PlannedPartitions,
    TargetAssignment,
    target_of,
    this_round,
)
from ballast.engines.kafka.messages import PlanMessage, UnreadableMessage

log = logging.getLogger("ballast.engines")
NAME = "ballast"
UserData = bytes | memoryview | str | None
"""Bytes between members; the admin client gives them as text."""
# Version 1 has the partitions that a member owns.
COOPERATIVE = 1


class PlanAssignor(AbstractPartitionAssignor):
    """Assigns partitions to members by the plan in force.

    Args:
        node_id: the node that this member is, as the policy names it.
        read_plan: gives the newest plan that was read; must not wait, because it is called while
            the group waits.
    """

    name = NAME

    def __init__(self, node_id: str, read_plan: Callable[[], PlannedPartitions]) -> None:
        self.node_id, self._read_plan = node_id, read_plan
        self.version = 0
        """The plan version that the present partitions were assigned under."""
        self._owned: frozenset[Partition] = frozenset()
        self._generation = -1

    def supported_protocols(self) -> list[RebalanceProtocol]:
        """Cooperative alone."""
        return [RebalanceProtocol.COOPERATIVE]

    def metadata(self, topics: set[str]) -> ConsumerProtocolSubscription:
        """What this member tells the leader: its node, its partitions, the plan it knows."""
        return ConsumerProtocolSubscription(
            version=COOPERATIVE,
            topics=sorted(topics),
            owned_partitions=[
                ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=numbers)
                for topic, numbers in _by_topic(self._owned).items()
            ],
            user_data=member_data(self.node_id, self._generation, self._read_plan().version),
        )

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, Any]:
        """The partitions of every member in this round; called on the leader alone."""
        said = [member_state(member.member_id, member.metadata) for member in members]
        states = [state for state in said if not state.is_trigger]
        if not states:
            return {m.member_id: ConsumerProtocolAssignment(COOPERATIVE, [], b"") for m in members}
        topics = {topic for state in states for topic in state.topics}
        partitions = [
            (topic, number)
            for topic in topics
            for number in cluster.partitions_for_topic(topic) or ()
        ]
        carried = _carried_plan(member.metadata.user_data for member in members)
        target = target_of(partitions, states, _newer(self._read_plan(), carried))
        if target.displaced:
            log.warning(
                "plan v%d: %d partitions stay on other nodes, because theirs are not in the group",
                target.version, len(target.displaced),
            )  # fmt: skip
        data = assignment_data(target, carried)
        parts = this_round(target, states)
        return {
            state.member_id: ConsumerProtocolAssignment(
                COOPERATIVE, sorted(parts.get(state.member_id, {}).items()), data
            )
            for state in said
        }

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Notes what this member got."""
        self._owned = frozenset((tp.topic, tp.partition) for tp in assignment.partitions())
        self._generation = generation
        self.version = version_of(assignment.user_data)

    def forget(self) -> None:
        """Notes that the group took this member's partitions away."""
        self._owned, self._generation = frozenset(), -1


def member_data(node_id: str, generation: int, known_version: int) -> bytes:
    """What a member adds to its subscription."""
    return json.dumps(
        {"node": node_id, "generation": generation, "version": known_version}
    ).encode()


def assignment_data(target: TargetAssignment, carried: PlanMessage | None = None) -> bytes:
    """What the leader adds to each assignment; with the plan that members carry, if they do."""
    values: dict[str, Any] = {"version": target.version, "displaced": len(target.displaced)}
    if carried is not None:
        values["plan"] = asdict(carried)
    return json.dumps(values).encode()


def is_trigger(user_data: UserData) -> bool:
    """Whether the data are those of a member that brings plans and gets no partitions."""
    return _values(user_data).get("trigger") is True


def node_of(user_data: UserData, member_id: str) -> str:
    """The node in the data of a member; its id, if it has none."""
    return str(_values(user_data).get("node") or member_id)


def version_of(user_data: UserData) -> int:
    """The plan version in the data of an assignment; 0 if it has none."""
    value = _values(user_data).get("version")
    return value if isinstance(value, int) and value >= 0 else 0


def member_state(member_id: str, subscription: Any) -> GroupMemberState:
    """What a member reports; a member with unreadable data has its id as its node."""
    values = _values(subscription.user_data)
    owned = frozenset(
        (part.topic, number)
        for part in subscription.owned_partitions or ()
        for number in part.partitions
    )
    known, generation = values.get("version"), values.get("generation")
    return GroupMemberState(
        member_id,
        node_of(subscription.user_data, member_id),
        frozenset(subscription.topics),
        owned,
        generation if isinstance(generation, int) else -1,
        known if isinstance(known, int) else 0,
        values.get("trigger") is True,
    )


def _carried_plan(user_data: Iterable[UserData]) -> PlanMessage | None:
    """The newest plan in the data of members; one that cannot be read is left out.

    Of one version the trigger's counts: the length of windows may have changed.
    """
    newest: PlanMessage | None = None
    for data in sorted(user_data, key=is_trigger, reverse=True):
        try:
            plan = PlanMessage.from_fields({"plan_id": "", "moves": 0, **_values(data)["plan"]})
        except (KeyError, TypeError, UnreadableMessage):
            continue
        if newest is None or plan.version > newest.version:
            newest = plan
    return newest


def _newer(read: PlannedPartitions, carried: PlanMessage | None) -> PlannedPartitions:
    if carried is None or carried.version <= read.version:
        return read
    return PlannedPartitions(carried.version, carried.node_by_partition)


def _values(user_data: UserData) -> dict[str, Any]:
    try:
        values = json.loads(user_data if isinstance(user_data, str) else bytes(user_data or b"{}"))
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def _by_topic(partitions: frozenset[Partition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for topic, number in sorted(partitions):
        found[topic].append(number)
    return dict(found)
