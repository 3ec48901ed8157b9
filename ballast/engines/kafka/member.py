"""A member of a consumer group that follows plans and measures each partition.

    member = GroupMember("orders", node_id="node-0", connection=connection)
    consumer = KafkaConsumer(..., partition_assignment_strategy=[member.assignor])
    member.subscribe(consumer, ["orders"])
    for partition, records in member.batches(timeout_ms=200): ...

Without a plan, without the engine service, or while the broker of the plans is away, the group is
balanced by the number of partitions, and the consumer works as any other.
"""

from __future__ import annotations

import inspect
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kafka import KafkaConsumer
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition

from ballast.contracts.settings import check_job_name
from ballast.engines.kafka.assignment import PlannedPartitions
from ballast.engines.kafka.assignor import PlanAssignor
from ballast.engines.kafka.connection import ConnectionSettings
from ballast.engines.kafka.control_channel import ControlChannel
from ballast.engines.kafka.coordinator_access import CoordinatorAccess
from ballast.engines.kafka.messages import TakeUpReport
from ballast.engines.kafka.meter import BatchUse, WindowMeter

log = logging.getLogger("ballast.engines")
PLAN_WAIT_S = 10.0
COMMIT_LIMIT_S = 5.0
NO_PLAN = PlannedPartitions()


class GroupMember:
    """The part of Ballast in one consumer process.

    Args:
        job: the job, as its policy names it.
        node_id: the node of the policy that this process is. One process should be one node.
        connection: how to connect to the broker.
        commit_interval_s: how often processed offsets are committed, if the consumer does not
            commit by itself (``enable_auto_commit``).
    """

    def __init__(
        self,
        job: str,
        node_id: str,
        connection: ConnectionSettings | Mapping[str, Any],
        commit_interval_s: float = 1.0,
    ) -> None:
        self._job, self._node_id = check_job_name(job), node_id
        self._process_id = uuid.uuid4().hex[:12]
        self._meter = WindowMeter(node_id, self._process_id)
        self._channel = ControlChannel(
            job, ConnectionSettings(connection), self._meter.finished
        )  # fmt: skip
        self._commit_interval_s = commit_interval_s
        self._committed_at = time.monotonic()
        self._done: dict[TopicPartition, int] = {}
        self._triggered = 0
        self._rebalance_began: float | None = None
        self._consumer: KafkaConsumer | None = None
        self._access: CoordinatorAccess | None = None
        self._commits = True
        self.assignor = PlanAssignor(node_id, self._placement)

    @property
    def version(self) -> int:
        """The plan version that this member's partitions are assigned under."""
        return self.assignor.version

    def subscribe(
        self, consumer: KafkaConsumer, topics: Sequence[str], listener: Any = None
    ) -> None:
        """Subscribe a consumer that has :attr:`assignor` as its only assignor.

        Waits a moment for the plan, so that a process that starts does not assign without it.

        Args:
            consumer: the consumer; it must not be subscribed yet.
            topics: the topics of the group.
            listener: a rebalance listener of your own; it is called before offsets are committed.

        Raises:
            InvalidInput: the installed kafka-python lacks what is needed.
        """
        self._consumer, self._access = consumer, CoordinatorAccess(consumer)
        self._commits = not consumer.config["enable_auto_commit"]
        self._channel.start()
        if not self._channel.has_read_plan.wait(PLAN_WAIT_S):
            log.warning("the plan of job %s was not read within %.0f s", self._job, PLAN_WAIT_S)
        consumer.subscribe(list(topics), listener=MemberListener(self, listener))

    def batches(
        self, timeout_ms: int = 200, max_records: int | None = None
    ) -> Iterator[tuple[TopicPartition, list[Any]]]:
        """Poll, and give the records of one partition after another.

        The time between one batch and the next is measured as the processing of the first. Offsets
        of a batch count as processed once the next one is asked for.
        """
        for partition, records in self.poll(timeout_ms, max_records).items():
            cpu, began = time.thread_time_ns(), time.perf_counter_ns()
            yield partition, records
            used = BatchUse(
                len(records), sum(map(_size, records)),
                (time.thread_time_ns() - cpu) / 1e6, (time.perf_counter_ns() - began) / 1e6,
            )  # fmt: skip
            self._done[partition] = records[-1].offset + 1
            self._meter.add((partition.topic, partition.partition), used)

    def poll(
        self, timeout_ms: int = 200, max_records: int | None = None
    ) -> dict[TopicPartition, list[Any]]:
        """Poll the consumer; records that are returned are not measured (see :meth:`batches`)."""
        consumer, access = self._attached()
        self._follow_plan(access)
        began, generation = time.monotonic(), access.generation
        was_rebalancing = access.is_rebalancing
        if self._commits and not was_rebalancing:
            self._commit_if_due()
        polled = consumer.poll(timeout_ms=timeout_ms, max_records=max_records)
        if access.finish_half_join():
            log.info("job %s: a join that was left half done is finished", self._job)
        if was_rebalancing or access.generation != generation:
            self._rebalance_began = self._rebalance_began or began
        self._report_rebalance(access)
        self._meter.set_version(self.assignor.version)
        self._meter.beat()
        held = consumer.assignment()
        return {tp: records for tp, records in polled.items() if tp in held}

    def commit(self) -> None:
        """Commit what was processed. An error of the broker is logged; it is tried again later."""
        consumer, _ = self._attached()
        self._committed_at = time.monotonic()
        offsets = {tp: OffsetAndMetadata(o, "", -1) for tp, o in self._done.items()}
        if not offsets:
            return
        try:
            consumer.commit(offsets, timeout_ms=int(1000 * COMMIT_LIMIT_S))
        except KafkaError as error:
            log.warning("job %s: offsets were not committed yet: %s", self._job, error)
            return
        for tp, committed in offsets.items():
            if self._done.get(tp) == committed.offset:
                del self._done[tp]

    def close(self) -> None:
        """Commit, leave the group and send the last reports."""
        if self._consumer is not None:
            self._consumer.close(autocommit=not self._commits)
        self._channel.stop()

    def _attached(self) -> tuple[KafkaConsumer, CoordinatorAccess]:
        if self._consumer is None or self._access is None:
            raise RuntimeError("subscribe() was not called")
        return self._consumer, self._access

    def _placement(self) -> PlannedPartitions:
        plan = self._channel.plan
        return PlannedPartitions(plan.version, plan.node_by_partition) if plan else NO_PLAN

    def _follow_plan(self, access: CoordinatorAccess) -> None:
        """Asks for a rebalance once for each version, as every member does.

        A group that waits for a member to hear of a rebalance by its heartbeat stands still for up
        to ``heartbeat_interval_ms``.
        """
        plan = self._channel.plan
        if plan is None:
            return
        self._meter.set_length(plan.window_ms)
        if plan.version > max(self.assignor.version, self._triggered):
            self._triggered = plan.version
            access.request_rebalance()

    def _report_rebalance(self, access: CoordinatorAccess) -> None:
        """Reports how long a rebalance took once it is over; until then polls return nothing."""
        if self._rebalance_began is None or access.is_rebalancing:
            return
        pause_ms = 1000 * (time.monotonic() - self._rebalance_began)
        self._rebalance_began = None
        if self.assignor.version > 0:
            self._channel.send(
                TakeUpReport(self._node_id, self._process_id, self.assignor.version, pause_ms)
            )

    def _commit_if_due(self) -> None:
        if self._done and time.monotonic() - self._committed_at >= self._commit_interval_s:
            self.commit()

    async def give_up(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit what was processed of partitions before others may read them."""
        _, access = self._attached()
        offsets = {tp: self._done.pop(tp) for tp in partitions if tp in self._done}
        self._meter.release((tp.topic, tp.partition) for tp in partitions)
        if offsets and self._commits:
            try:
                await access.commit(offsets, COMMIT_LIMIT_S)
            except KafkaError as error:
                log.error(
                    "job %s: offsets of partitions that were given up are not committed, so their "
                    "last records are processed again: %s", self._job, error,
                )  # fmt: skip

    def take(self, partitions: Sequence[TopicPartition]) -> None:
        """Note partitions that this member got."""
        self._meter.hold((tp.topic, tp.partition) for tp in partitions)

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget partitions that the group took away; others read them already."""
        for tp in partitions:
            self._done.pop(tp, None)
        self._meter.release((tp.topic, tp.partition) for tp in partitions)
        self.assignor.forget()


class MemberListener(AsyncConsumerRebalanceListener):
    """Calls the user's listener and the member, also if the user's listener fails.

    Offsets of a partition that was given up must not stay with the member: committed later, they
    would set back those of the new owner.
    """

    def __init__(self, member: GroupMember, user: Any) -> None:
        self._member, self._user = member, user

    async def on_partitions_revoked(self, revoked: Any) -> None:
        try:
            await self._call("on_partitions_revoked", revoked)
        finally:
            await self._member.give_up(list(revoked))

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._member.take(list(assigned))
        await self._call("on_partitions_assigned", assigned)

    async def on_partitions_lost(self, lost: Any) -> None:
        self._member.lose(list(lost))
        await self._call("on_partitions_lost", lost)

    async def _call(self, name: str, partitions: Any) -> None:
        call: Callable[[Any], Any] | None = getattr(self._user, name, None)
        if call is not None:
            result = call(partitions)
            if inspect.isawaitable(result):
                await result


def _size(record: Any) -> int:
    """Bytes of key and value; kafka-python gives -1 for one that is not there."""
    return int(max(0, record.serialized_key_size) + max(0, record.serialized_value_size))
