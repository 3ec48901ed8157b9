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

SPARK, KAFKA, FLINK = "spark", "kafka", "flink"

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
    clients: Literal["python", "java"] = "python"
    """python: every member reads plans and starts rebalances by itself. java: some member is a Java
    client; the engine service joins the group, without partitions, to do both."""
    topics: dict[str, TopicName] = {}  # noqa: RUF012 - pydantic copies it
    """The topic of an operator; an operator that is not named reads the topic of its own name."""

    def topic_of(self, operator_id: str) -> str:
        """The topic whose partitions are the key groups of an operator."""
        return self.topics.get(operator_id, operator_id)


FlinkName = Annotated[str, Field(min_length=1, max_length=1000)]


class FlinkVertex(StrictModel):
    """A vertex of a Flink job: an operator, or several that Flink chained."""

    name: FlinkName
    """Its name, as Flink's REST API and web page have it."""
    parallelism: Annotated[int, Field(strict=True, ge=1, le=32_768)] = 1
    """Subtasks before the first plan, as the job is started."""


class FlinkEngine(StrictModel):
    """A Flink job under the adaptive scheduler: plans say how many subtasks each operator has.

    An operator is a vertex, its ``key_groups`` are the most subtasks that a plan may give it, and
    the only node is the cluster.
    """

    kind: Literal["flink"]
    job_name: FlinkName
    """The name of the job on the cluster."""
    vertices: dict[str, FlinkVertex]
    """The vertex of each operator."""

    @property
    def first_sizes(self) -> dict[str, int]:
        """Subtasks of each operator before the first plan."""
        return {operator: vertex.parallelism for operator, vertex in self.vertices.items()}


EnginePolicy = Annotated[SparkEngine | KafkaEngine | FlinkEngine, Field(discriminator="kind")]


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
    sizes: bool
    """Plans say how many instances each operator has, and the job follows."""
    traffic: bool
    """Records between key groups are measured, so that plans may collocate them."""
    resources: tuple[str, ...]
    """Resources whose use is measured."""
    runs_beside_job: bool
    """``ballast engine run`` collects and applies; otherwise the job itself does."""


CAPABILITIES: Mapping[str, Capabilities] = {
    SPARK: Capabilities(
        placement=True, parallelism=True, routes=True, splits=True, weights=True, steps=True,
        sizes=False, traffic=True, resources=("cpu", "memory", "network"), runs_beside_job=False,
    ),
    KAFKA: Capabilities(
        placement=True, parallelism=False, routes=False, splits=False, weights=False,
        steps=False, sizes=False, traffic=False,
        resources=("cpu", "network"), runs_beside_job=True,
    ),
    FLINK: Capabilities(
        placement=False, parallelism=False, routes=False, splits=False, weights=False,
        steps=False, sizes=True,
        traffic=False, resources=("cpu",), runs_beside_job=True,
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
    if isinstance(policy.engine, FlinkEngine):
        most = {operator.id: operator.key_groups for operator in policy.operators}
        _check_vertices(policy.engine, most)
        _check_sizing(policy)


def _beyond(policy: JobPolicy, able: Capabilities) -> Iterator[tuple[str, str, str]]:
    """Fields that ask for more than the engine can, why it cannot, and what to do."""
    yield from _beyond_measured(policy, able)
    if not able.routes and policy.routing.edges:
        yield "routing.edges", "cannot route single keys", "leave routing out"
    if not able.placement and len(policy.nodes) > 1:
        yield "nodes", "cannot place key groups on nodes", "give one node, the whole cluster"
    if not able.splits and policy.splits is not None:
        yield "splits", "cannot split single keys", "leave splits out"
    if not able.parallelism and not able.sizes and policy.scaling is not None:
        yield "scaling", "cannot start or stop nodes in this version", "leave scaling out"
    if not able.weights and policy.regions:
        yield "regions", "has no ordered regions", "leave regions out"
    if not able.steps and policy.take_up.limits.is_limited:
        yield "take_up", "takes a plan up at once", "leave take_up out"


def _beyond_measured(policy: JobPolicy, able: Capabilities) -> Iterator[tuple[str, str, str]]:
    """The same of fields that need what the engine does not measure."""
    if not able.traffic and not able.sizes and policy.edges:
        yield "edges", "does not measure records between operators", "leave edges out"
    if not able.traffic and policy.objective.kind == "joint":
        yield "objective.kind", "cannot collocate key groups", "use 'balance'"
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


def _check_vertices(engine: FlinkEngine, most: Mapping[str, int]) -> None:
    """Check that each operator has a vertex of its own, and starts with a size that plans allow."""
    differing = sorted(engine.vertices.keys() ^ most.keys())
    if differing:
        known = differing[0] in most
        problem = "has no vertex" if known else "is not an operator"
        raise ValueError(
            f"engine.vertices: {differing[0]!r} {problem}; each of {', '.join(most)} needs one"
        )
    names = [vertex.name for vertex in engine.vertices.values()]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"engine.vertices: vertex {twice!r} belongs to two operators; one may")
    for operator, size in engine.first_sizes.items():
        if size > most[operator]:
            raise ValueError(
                f"engine.vertices.{operator}.parallelism is {size}; it may be at most the "
                f"operator's key_groups, {most[operator]}, which is the most that plans give it"
            )


def _check_sizing(policy: JobPolicy) -> None:
    """Check that scaling decides on subtasks alone, by the one method that can."""
    node, scaling = policy.nodes[0], policy.scaling
    if node.draining or node.spare:
        raise ValueError(
            f"nodes: {node.id!r} is the whole cluster of engine 'flink'; it may not be draining "
            "or spare"
        )
    if scaling is None:
        return
    if scaling.method != "true_rate":
        raise ValueError(
            f"scaling.method is {scaling.method!r}; engine 'flink' sizes operators by 'true_rate'"
        )
    defaults = type(scaling).model_fields
    for field in ("min_nodes", "max_nodes", "busy_per_node"):
        if getattr(scaling, field) != defaults[field].default:
            raise ValueError(
                f"scaling.{field}: engine 'flink' does not change nodes; leave it out, and give "
                "operators their most subtasks as key_groups"
            )
