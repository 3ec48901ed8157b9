"""Java consumers of the orders example, with the properties that users would set."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from embedded.errors import EmbeddedError
from embedded.java import java_command

PROJECT = Path(__file__).resolve().parents[1] / "engines" / "kafka-assignor"
MAIN = "orders.OrdersConsumer"
HEAP = ("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
STRATEGIES: Mapping[str, str] = {
    "plan": "ballast.kafka.BallastAssignor",
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "round-robin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
LOGGING = """
status = warn
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


@dataclass(frozen=True)
class JavaConsumer:
    """One Java consumer process."""

    node: str
    group: str
    topic: str
    assignor: str
    """One of :data:`STRATEGIES`."""
    cost_us: int
    first: str = "earliest"
    session_ms: int = 10_000

    def properties(self, address: str) -> dict[str, str]:
        """Its properties; the last two are all that Ballast adds."""
        own = {
            "bootstrap.servers": address,
            "group.id": self.group,
            "client.id": self.node,
            "auto.offset.reset": self.first,
            "enable.auto.commit": "false",
            "heartbeat.interval.ms": "500",
            "session.timeout.ms": str(self.session_ms),
            "fetch.max.wait.ms": "100",
            "max.poll.records": "50",
            "partition.assignment.strategy": STRATEGIES[self.assignor],
        }
        measures = {"interceptor.classes": "ballast.kafka.BallastInterceptor"}
        return {**own, **(measures if self.assignor == "plan" else {})}

    def command(self, jars: Path, address: str, folder: Path, log: Path) -> list[str]:
        """The command that runs it; writes its properties into a folder.

        Args:
            jars: the folder with Kafka's jars.
            address: the broker.
            folder: gets its properties.
            log: the file that gets a line for each order.

        Raises:
            EmbeddedError: there is no Java, or the assignor is not built.
        """
        java = java_command()
        built = sorted((PROJECT / "target").glob("ballast-kafka-assignor-*.jar"))
        if java is None or not built:
            raise EmbeddedError(
                "Java, or the assignor of Java consumers, is not there: run `make kafka-assignor`"
            )
        name = f"{self.assignor}-{self.node}"
        properties = folder / f"{name}.properties"
        lines = [f"{key}={value}\n" for key, value in self.properties(address).items()]
        properties.write_text("".join(lines), encoding="utf-8")
        logging = folder / "consumer-log4j2.properties"
        logging.write_text(LOGGING, encoding="utf-8")
        path = os.pathsep.join(
            [str(built[-1]), str(PROJECT / "target" / "test-classes"), str(jars / "*")]
        )
        return [
            java, *HEAP, f"-Dlog4j2.configurationFile={logging}", "-cp", path, MAIN,
            str(properties), self.topic, str(log), str(self.cost_us),
        ]  # fmt: skip
