"""The readers of the reports, on a real broker."""

from __future__ import annotations

from ballast.engines.kafka.connection import ConnectionSettings
from ballast.engines.kafka.group_view import Broker
from ballast.engines.kafka.report_log import ReportLog
from embedded.kafka_broker import KafkaBroker
from tests.support.orders_group import wait_for


def test_a_reader_whose_join_was_left_half_done_gets_its_turn(broker: KafkaBroker) -> None:
    connection = ConnectionSettings({"bootstrap_servers": [broker.address]})
    made = Broker(connection)
    made.ensure_own_topics("halfjoin")
    made.close()
    reports = ReportLog("halfjoin", connection)
    try:
        wait_for("it may act", lambda: reports.poll(lambda _: None) or None, str)
        # What a leader is left with whose poll ended while the group answered.
        reports._consumer._coordinator.rejoining = True
        wait_for(
            "it is in the group again",
            lambda: (reports.poll(lambda _: None) and not _is_joining(reports)) or None,
            str,
        )
    finally:
        reports.close()


def _is_joining(reports: ReportLog) -> bool:
    return bool(reports._consumer._coordinator.rejoining)
