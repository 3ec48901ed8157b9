"""The assignor says what the leader needs, and never fails on what others say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from ballast.engines.kafka.assignment import PlannedPartitions
from ballast.engines.kafka.assignor import PlanAssignor, member_state, version_of

PLAN = PlannedPartitions(4, {("orders", number): f"node-{number % 2}" for number in range(4)})


@dataclass
class Joined:
    member_id: str
    metadata: Any


class Cluster:
    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {0, 1, 2, 3} if topic == "orders" else None


def wire(assignor: PlanAssignor) -> Any:
    """What the leader gets from a member, through the bytes of the protocol."""
    return ConsumerProtocolSubscription.decode(assignor.metadata({"orders", "gone"}).encode())


def test_what_a_member_says_survives_the_protocol() -> None:
    assignor = PlanAssignor("node-0", lambda: PLAN)
    state = member_state("m", wire(assignor))
    assert (state.node_id, state.known_version, state.generation) == ("node-0", 4, -1)
    assert state.topics == {"orders", "gone"}


def test_partitions_go_to_the_members_of_their_nodes() -> None:
    first, second = PlanAssignor("node-0", lambda: PLAN), PlanAssignor("node-1", lambda: PLAN)
    given = first.assign(Cluster(), [Joined("a", wire(first)), Joined("b", wire(second))])
    for member, assignor in (("a", first), ("b", second)):
        assignor.on_assignment(type(given[member]).decode(given[member].encode()), 7)
    assert first._owned == {("orders", 0), ("orders", 2)}
    assert second._owned == {("orders", 1), ("orders", 3)}
    assert first.version == second.version == 4
    assert member_state("a", wire(first)).generation == 7


def test_a_member_that_lost_its_partitions_claims_none() -> None:
    assignor = PlanAssignor("node-0", lambda: PLAN)
    given = assignor.assign(Cluster(), [Joined("a", wire(assignor))])
    assignor.on_assignment(given["a"], 7)
    assignor.forget()
    assert member_state("a", wire(assignor)).owned == frozenset()


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe", b"[]", b'{"node": null, "version": "x", "generation": {}}']
)
def test_unreadable_data_of_a_member_fails_no_assignment(data: bytes) -> None:
    assignor = PlanAssignor("node-0", PlannedPartitions)
    strange = ConsumerProtocolSubscription(
        version=1, topics=["orders"], owned_partitions=[], user_data=data
    )
    received = ConsumerProtocolSubscription.decode(strange.encode())
    given = assignor.assign(Cluster(), [Joined("a", wire(assignor)), Joined("b", received)])
    assert sorted(len(each.partitions()) for each in given.values()) == [2, 2]


@pytest.mark.parametrize("data", [None, b"", b"no json", b'{"version": -3}', b'{"version": "4"}'])
def test_an_assignment_without_a_version_is_of_version_0(data: bytes | None) -> None:
    assert version_of(data) == 0
