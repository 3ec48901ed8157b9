"""Connects collector and applier of a consumer group to its broker."""

from __future__ import annotations

from contextlib import ExitStack

from ballast.contracts.engine import KafkaEngine
from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings
from ballast.engines.kafka.applier import KafkaApplier
from ballast.engines.kafka.collector import KafkaCollector
from ballast.engines.kafka.connection import ConnectionSettings
from ballast.engines.kafka.group_view import Broker
from ballast.engines.kafka.plan_store import PlanStore
from ballast.engines.kafka.report_log import ReportLog
from ballast.engines.kafka.trigger_member import TriggerMember
from ballast.store.table_schema import ensure_tables

TABLES = ("metrics.key_groups", "metrics.sources", "metrics.nodes", "plans.acks")


class KafkaSession:
    """The session of ``ballast engine run`` for one consumer group.

    Args:
        settings: where the tables are.
        policy: the job's policy, with ``engine.kind: kafka``.
        connection: how to connect to the broker.

    Raises:
        KafkaError: the broker does not answer.
    """

    def __init__(
        self, settings: Settings, policy: JobPolicy, connection: ConnectionSettings
    ) -> None:
        ensure_tables(settings, TABLES)
        with ExitStack() as stack:
            broker = Broker(connection)
            stack.callback(broker.close)
            broker.ensure_own_topics(policy.job)
            trigger = _trigger(policy, connection)
            if trigger is not None:
                stack.callback(trigger.close)
            plans = PlanStore(policy.job, connection, trigger.follow if trigger else None)
            stack.callback(plans.close)
            self._reports = ReportLog(policy.job, connection)
            stack.callback(self._reports.close)
            self.collector = KafkaCollector(settings, policy, broker, self._reports.done_until)
            self.applier = KafkaApplier(
                settings, policy, broker, plans,
                self.collector.pauses_ms, self.collector.forget_take_ups,
            )  # fmt: skip
            self._stack = stack.pop_all()

    def wait_for_turn(self) -> bool:
        """Read reports for a moment; whether this process is the one that reads them."""
        return self._reports.poll(self.collector.take)

    def close(self) -> None:
        """Leave the readers of the reports, and disconnect."""
        self._stack.close()


def _trigger(policy: JobPolicy, connection: ConnectionSettings) -> TriggerMember | None:
    """The member that brings plans into a group of Java consumers; it joins with the first one."""
    engine = policy.engine
    assert isinstance(engine, KafkaEngine)  # noqa: S101 - the session was made for one
    if engine.clients != "java":
        return None
    topics = [engine.topic_of(operator.id) for operator in policy.operators]
    return TriggerMember(engine.group, topics, connection)
