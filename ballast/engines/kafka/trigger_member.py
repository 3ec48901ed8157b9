"""A member of a group of Java consumers that gets no partitions: it brings plans.

A Java assignor cannot start a rebalance. This member joins again with each new plan, in the data of
its subscription; the leader hands the plan to the other members, which keep it. They hear of the
rebalance by their heartbeats. While this member is away they stay under the plan that they have.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kafka import KafkaConsumer
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from ballast.engines.kafka.assignment import PlannedPartitions
from ballast.engines.kafka.assignor import COOPERATIVE, PlanAssignor
from ballast.engines.kafka.connection import ConnectionSettings
from ballast.engines.kafka.coordinator_access import CoordinatorAccess
from ballast.engines.kafka.messages import PlanMessage

log = logging.getLogger("ballast.engines")
HEARTBEAT_MS = 500
SESSION_MS = 10_000
POLL_MS = 100
RETRY_S = 2.0
STOP_LIMIT_S = 10.0


class TriggerAssignor(PlanAssignor):
    """The assignor of the member that brings the plan; it assigns as any other if it leads.

    Args:
        plan: the plan that it brings.
    """

    def __init__(self, plan: PlanMessage) -> None:
        self.plan = plan
        super().__init__("", self._placement)

    def metadata(self, topics: set[str]) -> ConsumerProtocolSubscription:
        """What this member tells the leader: the plan, and that it wants no partitions."""
        data = {"trigger": True, "version": self.plan.version, "plan": asdict(self.plan)}
        return ConsumerProtocolSubscription(
            version=COOPERATIVE, topics=sorted(topics), owned_partitions=[],
            user_data=json.dumps(data).encode(),
        )  # fmt: skip

    def _placement(self) -> PlannedPartitions:
        return PlannedPartitions(self.plan.version, self.plan.node_by_partition)


class TriggerMember:
    """Brings plans into a group.

    Args:
        group: the ``group.id`` of the consumers.
        topics: their topics; the leader has to know the partitions of all of them.
        connection: how to connect to the broker.
    """

    def __init__(self, group: str, topics: Sequence[str], connection: ConnectionSettings) -> None:
        self._group, self._topics, self._connection = group, list(topics), connection
        self._stopping = threading.Event()
        self._plan: PlanMessage | None = None
        self._thread: threading.Thread | None = None

    def follow(self, plan: PlanMessage) -> None:
        """Bring this plan from now on; the first one makes the member join."""
        self._plan = plan
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name=f"trigger of {self._group}", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Leave the group."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_LIMIT_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._serve()
            except Exception as error:  # noqa: BLE001 - the group goes on, and it joins again
                log.warning("group %s gets no plans: %s; tried again", self._group, error)
                self._stopping.wait(RETRY_S)

    def _serve(self) -> None:
        assert self._plan is not None  # noqa: S101 - the first plan starts the thread
        assignor = TriggerAssignor(self._plan)
        consumer = self._consumer(assignor)
        try:
            access = CoordinatorAccess(consumer)
            consumer.subscribe(self._topics)
            while not self._stopping.is_set():
                if assignor.plan is not self._plan:
                    assignor.plan = self._plan
                    access.request_rebalance()
                consumer.poll(timeout_ms=POLL_MS)
                access.finish_half_join()
        finally:
            consumer.close(autocommit=False)

    def _consumer(self, assignor: Any) -> KafkaConsumer:
        return KafkaConsumer(
            **self._connection, group_id=self._group, client_id="ballast-trigger",
            partition_assignment_strategy=[assignor], enable_auto_commit=False,
            allow_auto_create_topics=False, heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=SESSION_MS,
        )  # fmt: skip
