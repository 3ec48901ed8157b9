"""A member that brings plans gets no partitions, whoever leads the group."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from ballast.engines.kafka.assignment import PlannedPartitions
from ballast.engines.kafka.assignor import PlanAssignor, is_trigger
from ballast.engines.kafka.messages import PlanMessage
from ballast.engines.kafka.trigger_member import TriggerAssignor

PLAN = PlanMessage(
    "orders", 4, 5000, {"orders": ("node-0", "node-1", "node-1", "node-1")}, "id", 2
)  # fmt: skip


@dataclass
class JoinedConsumer:
    member_id: str
    metadata: Any


class OrdersCluster:
    def partitions_for_topic(self, _: str) -> set[int]:
        return {0, 1, 2, 3}


def wire(assignor: PlanAssignor) -> Any:
    return ConsumerProtocolSubscription.decode(assignor.metadata({"orders"}).encode())


def consumer(node: str) -> PlanAssignor:
    return PlanAssignor(node, PlannedPartitions)


def group() -> list[JoinedConsumer]:
    return [
        JoinedConsumer("a", wire(consumer("node-0"))),
        JoinedConsumer("b", wire(consumer("node-1"))),
        JoinedConsumer("t", wire(TriggerAssignor(PLAN))),
    ]


@pytest.mark.parametrize("leader", [consumer("node-0"), TriggerAssignor(PLAN)])
def test_the_plan_that_it_brings_is_followed_and_handed_on(leader: PlanAssignor) -> None:
    given = leader.assign(OrdersCluster(), group())
    sizes = {member: len(each.partitions()) for member, each in given.items()}
    assert sizes == {"a": 1, "b": 3, "t": 0}
    data = json.loads(bytes(given["a"].user_data))
    assert data["version"] == 4
    assert data["plan"]["placement"]["orders"] == list(PLAN.placement["orders"])


def test_a_plan_that_a_consumer_carries_is_as_good() -> None:
    data = {"node": "node-0", "version": 4, "plan": {
        "job": "orders", "version": 4, "window_ms": 5000, "placement": dict(PLAN.placement),
    }}  # fmt: skip
    java = ConsumerProtocolSubscription(
        version=1, topics=["orders"], owned_partitions=[], user_data=json.dumps(data).encode()
    )
    received = ConsumerProtocolSubscription.decode(java.encode())
    members = [JoinedConsumer("a", received), JoinedConsumer("b", wire(consumer("node-1")))]
    given = consumer("node-1").assign(OrdersCluster(), members)
    assert {m: len(each.partitions()) for m, each in given.items()} == {"a": 1, "b": 3}


@pytest.mark.parametrize("plan", [None, 7, {}, {"version": -1, "window_ms": 1, "placement": {}}])
def test_a_carried_plan_that_cannot_be_read_is_left_out(plan: object) -> None:
    strange = ConsumerProtocolSubscription(
        version=1, topics=["orders"], owned_partitions=[],
        user_data=json.dumps({"node": "node-0", "plan": plan}).encode(),
    )  # fmt: skip
    received = ConsumerProtocolSubscription.decode(strange.encode())
    given = consumer("x").assign(
        OrdersCluster(), [JoinedConsumer("a", received), JoinedConsumer("b", received)]
    )
    assert sorted(len(each.partitions()) for each in given.values()) == [2, 2]


def test_a_group_of_it_alone_assigns_nothing() -> None:
    trigger = TriggerAssignor(PLAN)
    given = trigger.assign(OrdersCluster(), [JoinedConsumer("t", wire(trigger))])
    assert [len(each.partitions()) for each in given.values()] == [0]


def test_it_is_known_by_its_data() -> None:
    assert is_trigger(TriggerAssignor(PLAN).metadata({"orders"}).user_data)
    assert not is_trigger(consumer("node-0").metadata({"orders"}).user_data)
    assert not is_trigger(b"no json")
