"""A policy that would lead to a plan that its engine cannot follow is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ballast.contracts.engine import CAPABILITIES, KAFKA, SPARK, KafkaEngine
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
    assert set(CAPABILITIES) == {SPARK, KAFKA}
