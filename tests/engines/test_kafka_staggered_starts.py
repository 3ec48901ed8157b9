"""Twenty groups whose members start one after another, on a real broker."""

from __future__ import annotations

import random
import threading
import time

from kafka import KafkaConsumer
from kafka.admin import KafkaAdminClient

from ballast.engines.kafka import GroupMember
from ballast.engines.kafka.connection import ConnectionSettings
from ballast.engines.kafka.coordinator_access import CoordinatorAccess
from ballast.engines.kafka.group_view import STABLE, Broker
from embedded.kafka_broker import KafkaBroker
from tests.support.orders_group import NODES, wait_for

STARTS = 20
PARTITIONS = 6
TOPIC = "staggered"


class PollingMember(threading.Thread):
    """A member that polls every 2 ms, which ends polls while the group still joins (ADR 75)."""

    def __init__(self, address: str, group: str, node: str) -> None:
        super().__init__(name=f"{group} {node}", daemon=True)
        self._stopping = threading.Event()
        connection = ConnectionSettings({"bootstrap_servers": [address]})
        self._member = GroupMember(TOPIC, node_id=node, connection=connection)
        self._consumer = KafkaConsumer(
            **connection, group_id=group, enable_auto_commit=False,
            partition_assignment_strategy=[self._member.assignor],
            heartbeat_interval_ms=300, session_timeout_ms=6_000,
        )  # fmt: skip

    def run(self) -> None:
        self._member.subscribe(self._consumer, [TOPIC])
        while not self._stopping.is_set():
            for _ in self._member.batches(timeout_ms=2):
                pass
        self._member.close()

    def rests(self) -> bool:
        """Whether it is in the group, with partitions; a half-joined member joins for ever."""
        return (
            bool(self._consumer.assignment())
            and not CoordinatorAccess(self._consumer).is_rebalancing
        )

    def stop(self) -> None:
        self._stopping.set()
        self.join()


def test_twenty_staggered_starts_leave_no_member_idle(broker: KafkaBroker) -> None:
    admin = KafkaAdminClient(bootstrap_servers=[broker.address])
    admin.create_topics({TOPIC: {"num_partitions": PARTITIONS}}, wait_for_metadata=True)
    admin.close()
    view = Broker(ConnectionSettings({"bootstrap_servers": [broker.address]}))
    chosen = random.Random(7)
    try:
        for number in range(STARTS):
            start_and_stop(broker.address, view, f"{TOPIC}-{number}", chosen)
    finally:
        view.close()


def start_and_stop(address: str, view: Broker, group: str, chosen: random.Random) -> None:
    members = []
    try:
        for node in NODES:
            members.append(PollingMember(address, group, node))
            members[-1].start()
            time.sleep(chosen.uniform(0, 0.3))

        def look() -> bool | None:
            seen = view.group(group)
            owners = seen.node_by_partition
            is_whole = seen.state == STABLE and len(owners) == PARTITIONS
            is_level = all(list(owners.values()).count(node) == 2 for node in NODES)
            return (is_whole and is_level and all(m.rests() for m in members)) or None

        wait_for(f"all members of {group} have partitions", look, lambda: str(view.group(group)))
    finally:
        for member in members:
            member.stop()
