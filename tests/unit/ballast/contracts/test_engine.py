"""A policy that would lead to a plan that its engine cannot follow is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ballast.contracts.engine import CAPABILITIES, FLINK, KAFKA, SPARK, FlinkEngine, KafkaEngine
from ballast.contracts.errors import PolicyError
from ballast.contracts.policy import policy_from_json
from tests.support.policies import small_policy

KAFKA_FIELDS: dict[str, Any] = {
    "operators": {"count": 4, "join": 6},
    "edges": [],
    "engine": {"kind": "kafka", "group": "orders"},
}


def kafka_policy(**fields: Any) -> Any:
    return small_policy(**{**KAFKA_FIELDS, **fields})


def test_a_policy_without_an_engine_is_one_of_the_spark_library() -> None:
    assert small_policy().engine.kind == SPARK
    assert not CAPABILITIES[SPARK].runs_beside_job


def test_an_operator_reads_the_topic_of_its_name_unless_the_policy_names_another() -> None:
    engine = kafka_policy(
        engine={"kind": "kafka", "group": "g", "topics": {"join": "orders-v2"}}
    ).engine
    assert isinstance(engine, KafkaEngine)
    assert [engine.topic_of(name) for name in ("count", "join")] == ["count", "orders-v2"]


def test_the_engine_is_part_of_the_policy_that_a_snapshot_stores() -> None:
    policy = kafka_policy()
    assert policy_from_json(policy.to_json()) == policy


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"edges": [{"from": "count", "to": "join"}]}, "edges: engine 'kafka'"),
        ({"objective": {"kind": "joint"}}, "objective.kind: engine 'kafka'"),
        ({"scaling": {}}, "scaling: engine 'kafka'"),
        ({"take_up": {"moves_per_batch": 5}}, "take_up: engine 'kafka' takes a plan up at once"),
        ({"splits": {}}, "splits: engine 'kafka' cannot split single keys; leave splits out"),
        ({"objective": {"resources": ["memory"]},
          "nodes": [{"id": "a", "capacity": {"memory_bytes": 1.0}}]},
         "objective.resources: engine 'kafka' does not measure memory; allowed: cpu, network"),
        ({"regions": [{"id": "r", "workers": ["w-0", "w-1"]}]}, "region"),
        ({"engine": {"kind": "kafka", "group": "g", "topics": {"sum": "t"}}},
         "engine.topics: 'sum' is not an operator; allowed: count, join"),
        ({"engine": {"kind": "kafka", "group": "g", "topics": {"count": "t", "join": "t"}}},
         "topic 't' belongs to two operators"),
        ({"engine": {"kind": "kafka"}}, "group"),
        ({"engine": {"kind": "kafka", "group": "a b"}}, "group"),
        ({"engine": {"kind": "storm"}}, "engine"),
    ],
)  # fmt: skip
def test_what_a_consumer_group_cannot_follow_is_refused_by_name(
    fields: dict[str, Any], named: str
) -> None:
    with pytest.raises(PolicyError) as caught:
        kafka_policy(**fields)
    assert named in str(caught.value)


def test_every_kind_of_engine_has_capabilities() -> None:
    assert set(CAPABILITIES) == {SPARK, KAFKA, FLINK}


VERTICES = {"read": {"name": "Source: read"}, "count": {"name": "count", "parallelism": 2}}
FLINK_FIELDS: dict[str, Any] = {
    "operators": {"read": 1, "count": 6},
    "nodes": ["cluster"],
    "engine": {"kind": "flink", "job_name": "visits", "vertices": VERTICES},
    "scaling": {"method": "true_rate"},
}


def flink_policy(**fields: Any) -> Any:
    return small_policy(**{**FLINK_FIELDS, **fields})


def test_a_flink_job_has_edges_and_sizes_before_the_first_plan() -> None:
    policy = flink_policy()
    assert isinstance(policy.engine, FlinkEngine)
    assert policy.engine.first_sizes == {"read": 1, "count": 2}
    assert [(edge.source, edge.target) for edge in policy.edges] == [("read", "count")]
    assert policy_from_json(policy.to_json()) == policy
    assert flink_policy(scaling=None).scaling is None


def engine_with(**vertices: Any) -> dict[str, Any]:
    return {"kind": "flink", "job_name": "visits", "vertices": {**VERTICES, **vertices}}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"nodes": 2}, "nodes: engine 'flink' cannot place key groups on nodes; give one node"),
        ({"objective": {"kind": "joint"}}, "objective.kind: engine 'flink'"),
        ({"objective": {"resources": ["network"]},
          "nodes": [{"id": "a", "capacity": {"network_bytes_per_s": 1.0}}], "scaling": None},
         "does not measure network; allowed: cpu"),
        ({"regions": [{"id": "r", "workers": ["w-0", "w-1"]}]}, "region"),
        ({"scaling": {}}, "scaling.method is 'thresholds'; engine 'flink' sizes operators by"),
        ({"scaling": {"method": "true_rate", "max_nodes": 1}}, "scaling.max_nodes: engine 'flink'"),
        ({"nodes": [{"id": "a", "spare": True}]}, "in use"),
        ({"engine": engine_with(count={"name": "count", "parallelism": 7})},
         "engine.vertices.count.parallelism is 7; it may be at most the operator's key_groups, 6"),
        ({"engine": engine_with(join={"name": "join"})},
         "engine.vertices: 'join' is not an operator"),
        ({"engine": {"kind": "flink", "job_name": "v", "vertices": {"read": {"name": "r"}}}},
         "engine.vertices: 'count' has no vertex"),
        ({"engine": engine_with(count={"name": "Source: read"})}, "belongs to two operators"),
        ({"engine": engine_with(count={"name": "count", "parallelism": 0})}, "parallelism"),
        ({"engine": engine_with(count={"name": ""})}, "name"),
        ({"engine": {"kind": "flink", "vertices": VERTICES}}, "job_name"),
    ],
)  # fmt: skip
def test_what_a_flink_job_cannot_follow_is_refused_by_name(
    fields: dict[str, Any], named: str
) -> None:
    with pytest.raises(PolicyError) as caught:
        flink_policy(**fields)
    assert named in str(caught.value)
