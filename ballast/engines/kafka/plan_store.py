"""The plan topic of a job as the applier uses it: the last plan that was sent, and the next one."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition

from ballast.engines.kafka.connection import ConnectionSettings
from ballast.engines.kafka.messages import PlanMessage, UnreadableMessage, plan_topic

log = logging.getLogger("ballast.engines")
SEND_LIMIT_S = 10.0
POLL_MS = 200


class PlanStore:
    """Reads and writes the plan topic of a job.

    Args:
        job: the job.
        connection: how to connect to the broker.
        hand_over: called with each plan that was read or sent, for members that do not read the
            topic.

    Raises:
        KafkaError: the broker does not answer, or refuses; every method may raise it.
    """

    def __init__(
        self,
        job: str,
        connection: ConnectionSettings,
        hand_over: Callable[[PlanMessage], None] | None = None,
    ) -> None:
        self._job, self._connection, self._hand_over = job, connection, hand_over
        self._producer = KafkaProducer(
            **connection, acks="all", linger_ms=0, allow_auto_create_topics=False,
            max_block_ms=int(1000 * SEND_LIMIT_S),
        )  # fmt: skip

    def read(self) -> PlanMessage | None:
        """The newest plan in the topic; None without a readable one."""
        partition = TopicPartition(plan_topic(self._job), 0)
        consumer = KafkaConsumer(
            **self._connection, group_id=None, enable_auto_commit=False,
            auto_offset_reset="earliest", allow_auto_create_topics=False,
        )  # fmt: skip
        newest: PlanMessage | None = None
        try:
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            end = consumer.end_offsets([partition])[partition]
            while consumer.position(partition) < end:
                for records in consumer.poll(timeout_ms=POLL_MS).values():
                    for record in records:
                        newest = _newer(newest, record.value)
        finally:
            consumer.close()
        if newest is not None:
            self._hand(newest)
        return newest

    def send(self, plan: PlanMessage) -> None:
        """Append a plan, and wait until the broker has it."""
        sent = self._producer.send(
            plan_topic(self._job), key=self._job.encode(), value=plan.to_bytes()
        )
        sent.get(timeout=SEND_LIMIT_S)
        self._hand(plan)

    def close(self) -> None:
        """Disconnect."""
        self._producer.close(timeout=SEND_LIMIT_S)

    def _hand(self, plan: PlanMessage) -> None:
        if self._hand_over is not None:
            self._hand_over(plan)


def _newer(known: PlanMessage | None, value: bytes | None) -> PlanMessage | None:
    try:
        found = PlanMessage.from_bytes(value or b"")
    except UnreadableMessage as error:
        log.warning("a record of the plan topic is left out: %s", error)
        return known
    return found if known is None or found.version >= known.version else known
