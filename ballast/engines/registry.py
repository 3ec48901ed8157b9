"""The engines that run beside their jobs, by the kind that a policy names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec

from ballast.contracts.engine import CAPABILITIES, FLINK, KAFKA
from ballast.contracts.errors import InvalidInput
from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings
from ballast.engines.interface import EngineSession


def open_session(settings: Settings, policy: JobPolicy) -> EngineSession:
    """Connect to the engine of a job.

    Raises:
        InvalidInput: the job collects and applies by itself, or the engine's package or settings
            are missing.
    """
    kind = policy.engine.kind
    if kind not in _OPENERS:
        beside = ", ".join(name for name, able in CAPABILITIES.items() if able.runs_beside_job)
        raise InvalidInput(
            f"job {policy.job} runs on engine {kind!r}, whose jobs write their metrics and follow "
            "plans by themselves",
            value=kind, allowed=beside, remedy="start the job; there is nothing to run beside it",
        )  # fmt: skip
    return _OPENERS[kind](settings, policy)


def _kafka(settings: Settings, policy: JobPolicy) -> EngineSession:
    if find_spec("kafka") is None:
        raise InvalidInput(
            "kafka-python is not installed", value="kafka", remedy="install ballast[kafka]"
        )
    from ballast.engines.kafka.connection import connection_settings
    from ballast.engines.kafka.session import KafkaSession

    return KafkaSession(settings, policy, connection_settings())


def _flink(settings: Settings, policy: JobPolicy) -> EngineSession:
    from ballast.engines.flink.connection import flink_connection
    from ballast.engines.flink.session import FlinkSession

    return FlinkSession(settings, policy, flink_connection())


_OPENERS: Mapping[str, Callable[[Settings, JobPolicy], EngineSession]] = {
    KAFKA: _kafka,
    FLINK: _flink,
}
