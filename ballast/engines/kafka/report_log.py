"""The reports of a job's members, read as one consumer of a group of its own.

The topic has one partition, so of several engine services one reads it: that one may act. When it
stops or dies, the broker gives the partition to another one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from kafka import KafkaConsumer
from kafka.structs import OffsetAndMetadata, TopicPartition

from ballast.engines.kafka.connection import ConnectionSettings
from ballast.engines.kafka.coordinator_access import CoordinatorAccess
from ballast.engines.kafka.messages import (
    Report,
    UnreadableMessage,
    report_from_bytes,
    report_topic,
)

log = logging.getLogger("ballast.engines")
SESSION_MS = 10_000
POLL_MS = 200


@dataclass(frozen=True)
class ReportRecord:
    """A report and its place in the topic."""

    offset: int
    report: Report


class ReportLog:
    """Reads reports; the caller says up to where they are done with.

    Args:
        job: the job.
        connection: how to connect to the broker.
    """

    def __init__(self, job: str, connection: ConnectionSettings) -> None:
        self._job = job
        self._partition = TopicPartition(report_topic(job), 0)
        self._consumer = KafkaConsumer(
            **connection, group_id=f"ballast-engine-{job}", enable_auto_commit=False,
            auto_offset_reset="earliest", allow_auto_create_topics=False,
            session_timeout_ms=SESSION_MS, heartbeat_interval_ms=SESSION_MS // 5,
        )  # fmt: skip
        self._access = CoordinatorAccess(self._consumer)
        self._consumer.subscribe([self._partition.topic])

    def poll(self, take: Callable[[ReportRecord], None]) -> bool:
        """Hand on what is new, and say whether this reader is the one that may act."""
        for records in self._consumer.poll(timeout_ms=POLL_MS).values():
            for record in records:
                try:
                    take(ReportRecord(record.offset, report_from_bytes(record.value or b"")))
                except UnreadableMessage as error:
                    log.warning("job %s: report %d is left out: %s",
                                self._job, record.offset, error)  # fmt: skip
        # The only reader is the leader of its group, and the topic may have just been made: its
        # metadata change while it joins, and a join that is left half done would never end.
        if self._access.finish_half_join():
            log.info("job %s: a join of the reports' readers that was left half done is finished",
                     self._job)  # fmt: skip
        return self._partition in self._consumer.assignment()

    def done_until(self, offset: int | None) -> None:
        """Note that reports before an offset are not needed again; None: none of those read."""
        position = self._consumer.position(self._partition) if offset is None else offset
        self._consumer.commit({self._partition: OffsetAndMetadata(position, "", -1)})

    def close(self) -> None:
        """Leave the group, so that another reader may act at once."""
        self._consumer.close(autocommit=False)
