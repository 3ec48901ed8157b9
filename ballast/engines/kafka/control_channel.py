"""A member's own thread beside polling: reads plans, and sends reports.

Neither may delay the records, so neither is done by the thread that polls. While the broker is away
the member keeps the plan that it has, and reports wait.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable

from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition

from ballast.engines.kafka.connection import ConnectionSettings
from ballast.engines.kafka.messages import (
    PlanMessage,
    Report,
    UnreadableMessage,
    plan_topic,
    report_to_bytes,
    report_topic,
)

log = logging.getLogger("ballast.engines")
LOOK_MS = 100
RETRY_S = 1.0
MISSING_TOPIC_S = 3.0
LONGEST_RETRY_S = 15.0
MOST_WAITING = 1_000
"""Reports that wait while the broker is away; later ones would be too late to count."""
CLOSE_S = 5.0


class ControlChannel(threading.Thread):
    """Reads the plan topic of a job into :attr:`plan`, and sends what is due.

    Args:
        job: the job.
        connection: how to connect to the broker.
        due: gives the reports that are due; called several times a second.
    """

    def __init__(
        self, job: str, connection: ConnectionSettings, due: Callable[[], Iterable[Report]]
    ) -> None:
        super().__init__(name=f"ballast {job}", daemon=True)
        self._job, self._connection, self._due = job, connection, due
        self._outbox: deque[Report] = deque(maxlen=MOST_WAITING)
        self._stopping = threading.Event()
        self.has_read_plan = threading.Event()
        """Set once the plan topic was read to its end, or does not exist."""
        self.plan: PlanMessage | None = None
        """The newest plan that was read; replaced as a whole, so that any thread may read it."""

    def send(self, report: Report) -> None:
        """Send a report soon; the oldest one that waits is dropped if too many do."""
        self._outbox.append(report)

    def stop(self) -> None:
        """Send what waits, if the broker answers, and end the thread."""
        self._stopping.set()
        if self.is_alive():
            self.join(2 * CLOSE_S)

    def run(self) -> None:
        """Serve until stopped; connect again after an error."""
        wait = RETRY_S
        while not self._stopping.is_set():
            try:
                self._serve()
                wait = RETRY_S
            except Exception as error:  # noqa: BLE001 - the member goes on with the plan it has
                log.warning("plans and reports of job %s: %s; tried again", self._job, error)
                self._stopping.wait(wait)
                wait = min(LONGEST_RETRY_S, 2 * wait)

    def _serve(self) -> None:
        consumer = KafkaConsumer(
            **self._connection, group_id=None, enable_auto_commit=False,
            auto_offset_reset="earliest", allow_auto_create_topics=False,
        )  # fmt: skip
        producer = None
        try:
            producer = KafkaProducer(
                **self._connection, acks="all", linger_ms=0, max_block_ms=5_000,
                allow_auto_create_topics=False,
            )  # fmt: skip
            if not self._found_topic(consumer):
                return
            while not self._stopping.is_set():
                self._read(consumer)
                self._report(producer)
            self._report(producer)
            producer.flush(timeout=CLOSE_S)
        finally:
            consumer.close(timeout_ms=1000 * CLOSE_S)
            if producer is not None:
                producer.close(timeout=CLOSE_S)

    def _found_topic(self, consumer: KafkaConsumer) -> bool:
        """Subscribes to the plan topic; False, after a moment, if it does not exist yet."""
        topic = plan_topic(self._job)
        if not consumer.partitions_for_topic(topic):
            self.has_read_plan.set()
            self._stopping.wait(MISSING_TOPIC_S)
            return False
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        while not self._stopping.is_set() and consumer.position(partition) < end:
            self._read(consumer)
        self.has_read_plan.set()
        return True

    def _read(self, consumer: KafkaConsumer) -> None:
        for records in consumer.poll(timeout_ms=LOOK_MS).values():
            for record in records:
                self._take(record.value)

    def _take(self, value: bytes | None) -> None:
        """Takes a plan, unless it is unreadable, of another job, or older than the present one."""
        try:
            plan = PlanMessage.from_bytes(value or b"")
        except UnreadableMessage as error:
            log.warning("plan of job %s cannot be read, the one before stays: %s", self._job, error)
            return
        if plan.job == self._job and (self.plan is None or plan.version >= self.plan.version):
            self.plan = plan

    def _report(self, producer: KafkaProducer) -> None:
        self._outbox.extend(self._due())
        while self._outbox:
            report = self._outbox.popleft()
            try:
                producer.send(report_topic(self._job), report_to_bytes(report))
            except Exception:
                self._outbox.appendleft(report)
                raise
