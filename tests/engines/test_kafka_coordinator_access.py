"""The private members of kafka-python do what following a plan needs, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer
from kafka import __version__ as installed
from kafka.admin import KafkaAdminClient

from ballast.contracts.errors import InvalidInput
from ballast.engines.kafka.assignment import PlannedPartitions
from ballast.engines.kafka.assignor import PlanAssignor
from ballast.engines.kafka.coordinator_access import KNOWN_VERSION, CoordinatorAccess
from embedded.kafka_broker import KafkaBroker
from tests.support.orders_group import wait_for


@pytest.fixture
def consumer(broker: KafkaBroker, request: pytest.FixtureRequest) -> Iterator[KafkaConsumer]:
    topic = "access"
    admin = KafkaAdminClient(bootstrap_servers=[broker.address])
    if topic not in admin.list_topics():
        admin.create_topics({topic: {"num_partitions": 2}}, wait_for_metadata=True)
    admin.close()
    made = KafkaConsumer(
        topic, bootstrap_servers=[broker.address], group_id=request.node.name[:60],
        partition_assignment_strategy=[PlanAssignor("node-0", PlannedPartitions)],
        enable_auto_commit=False,
    )  # fmt: skip
    yield made
    made.close()


def joined(consumer: KafkaConsumer, access: CoordinatorAccess) -> int | None:
    consumer.poll(timeout_ms=100)
    is_in = len(consumer.assignment()) == 2 and not access.is_rebalancing
    return access.generation if is_in else None


def resting(consumer: KafkaConsumer, access: CoordinatorAccess) -> int | None:
    """The generation, once ten polls in a row have not changed it."""
    seen = [joined(consumer, access) for _ in range(10)]
    return seen[0] if len(set(seen)) == 1 else None


def test_the_extra_pins_the_version_that_was_read() -> None:
    assert installed == KNOWN_VERSION


def test_a_requested_rebalance_makes_a_new_generation(consumer: KafkaConsumer) -> None:
    access = CoordinatorAccess(consumer)
    first = wait_for("the group rests", lambda: resting(consumer, access), str)
    access.request_rebalance()
    assert access.is_rebalancing
    second = wait_for("joined again", lambda: joined(consumer, access), str)
    assert second > first


def test_a_half_join_is_seen_and_finished(consumer: KafkaConsumer) -> None:
    access = CoordinatorAccess(consumer)
    wait_for("joined", lambda: joined(consumer, access), str)
    # What a leader is left with whose poll ended while the group answered.
    consumer._coordinator.rejoining = True
    assert access.finish_half_join()
    wait_for("joined again", lambda: joined(consumer, access), str)
    assert not access.finish_half_join()


def test_a_client_without_these_members_is_refused_by_name() -> None:
    class Other:
        _coordinator = object()

    with pytest.raises(InvalidInput, match=r"has no request_rejoin, .*3\.0\.12"):
        CoordinatorAccess(Other())
