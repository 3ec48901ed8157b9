"""The streaming engine of a job: its section of the policy, and what its jobs can follow.

A plan that an engine cannot follow is never made: a policy that would lead to one is refused when
it is loaded, by ``ballast policy check`` and by every stage of the pipeline alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from ballast.contracts.strict_model import StrictModel

if TYPE_CHECKING:
    from ballast.contracts.policy import JobPolicy

SPARK, KAFKA = "spark", "kafka"

GroupId = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")]
TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]


class SparkEngine(StrictModel):
    """A job on ``ballast.streaming``, the library for Spark Structured Streaming."""

    kind: Literal["spark"] = "spark"


class KafkaEngine(StrictModel):
    """A Kafka consumer group: a partition is a key group, a member is a node."""

    kind: Literal["kafka"]
    group: GroupId
    """The ``group.id`` of the consumers."""
    topics: dict[str, TopicName] = {}  # noqa: RUF012 - pydantic copies it
    """The topic of an operator; an operator that is not named reads the topic of its own name."""

    def topic_of(self, operator_id: str) -> str:
        """The topic whose partitions are the key groups of an operator."""
        return self.topics.get(operator_id, operator_id)


EnginePolicy = Annotated[SparkEngine | KafkaEngine, Field(discriminator="kind")]


@dataclass(frozen=True)
class Capabilities:
    """What a plan for a job of an engine may contain, and what the engine measures."""

    placement: bool
    """Key groups are placed on nodes one by one."""
    parallelism: bool
    """The number of nodes may change."""
    routes: bool
    """Single keys may be routed to other key groups."""
    splits: bool
    """Single keys may be split over several key groups."""
    weights: bool
    """Workers of ordered regions have weights."""
    steps: bool
    """A plan may be taken up in steps."""
    traffic: bool
    """Records between key groups are measured, so that plans may collocate them."""
    resources: tuple[str, ...]
    """Resources whose use is measured."""
    runs_beside_job: bool
    """``ballast engine run`` collects and applies; otherwise the job itself does."""


CAPABILITIES: Mapping[str, Capabilities] = {
    SPARK: Capabilities(
        placement=True, parallelism=True, routes=True, splits=True, weights=True, steps=True,
        traffic=True, resources=("cpu", "memory", "network"), runs_beside_job=False,
    ),
    KAFKA: Capabilities(
        placement=True, parallelism=False, routes=False, splits=False, weights=False,
        steps=False, traffic=False,
        resources=("cpu", "network"), runs_beside_job=True,
    ),
}  # fmt: skip


def check_engine(policy: JobPolicy) -> None:
    """Check that the policy leads to no plan that its engine cannot follow.

    Raises:
        ValueError: it asks for something that the engine cannot do.
    """
    kind = policy.engine.kind
    for field, wanted, remedy in _beyond(policy, CAPABILITIES[kind]):
        raise ValueError(f"{field}: engine {kind!r} {wanted}; {remedy}")
    if isinstance(policy.engine, KafkaEngine):
        _check_topics(policy.engine, [operator.id for operator in policy.operators])


def _beyond(policy: JobPolicy, able: Capabilities) -> Iterator[tuple[str, str, str]]:
    """Fields that ask for more than the engine can, why it cannot, and what to do."""
    if not able.traffic and policy.edges:
        yield "edges", "does not measure records between operators", "leave edges out"
    if not able.traffic and policy.objective.kind == "joint":
        yield "objective.kind", "cannot collocate key groups", "use 'balance'"
    if not able.routes and policy.routing.edges:
        yield "routing.edges", "cannot route single keys", "leave routing out"
    if not able.splits and policy.splits is not None:
        yield "splits", "cannot split single keys", "leave splits out"
    if not able.parallelism and policy.scaling is not None:
        yield "scaling", "cannot start or stop nodes in this version", "leave scaling out"
    if not able.weights and policy.regions:
        yield "regions", "has no ordered regions", "leave regions out"
    if not able.steps and policy.take_up.limits.is_limited:
        yield "take_up", "takes a plan up at once", "leave take_up out"
    for resource in policy.objective.resources:
        if resource not in able.resources:
            known = ", ".join(able.resources)
            yield "objective.resources", f"does not measure {resource}", f"allowed: {known}"


def _check_topics(engine: KafkaEngine, operators: list[str]) -> None:
    unknown = next((name for name in engine.topics if name not in operators), None)
    if unknown is not None:
        raise ValueError(
            f"engine.topics: {unknown!r} is not an operator; allowed: {', '.join(operators)}"
        )
    topics = [engine.topic_of(operator) for operator in operators]
    twice = next((name for name in topics if topics.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"engine.topics: topic {twice!r} belongs to two operators; one may")
