"""Which nodes are in use follows from the policy and the plan in force alone."""

from __future__ import annotations

from typing import Any

import pytest

from ballast.contracts.errors import PolicyError
from ballast.contracts.policy import JobPolicy, parse_policy, policy_from_json
from ballast.contracts.scaling import nodes_in_use
from tests.support.policies import small_policy

NODES = ["a", "b", {"id": "c", "spare": True}]


def scaled_policy(nodes: Any = NODES, **scaling: Any) -> JobPolicy:
    return small_policy(nodes=nodes, scaling=scaling)


def test_spare_nodes_are_not_used_until_a_plan_adds_them() -> None:
    policy = scaled_policy()
    assert nodes_in_use(policy) == {"a": "alive", "b": "alive"}
    added = [("node", "a", "keep", None), ("node", "b", "drain", None), ("node", "c", "add", None)]
    assert nodes_in_use(policy, added) == {"a": "alive", "b": "draining", "c": "alive"}


def test_a_removed_node_is_not_used_and_one_new_to_the_policy_is() -> None:
    policy = small_policy(nodes=["a", "b", "new"], scaling={})
    plan = [("node", "a", "keep", None), ("node", "b", "remove", None), ("cluster", "b", "in", 1)]
    assert nodes_in_use(policy, plan) == {"a": "alive", "new": "alive"}


def test_a_node_that_the_policy_drains_drains_whatever_the_plan_says() -> None:
    policy = small_policy(nodes=["a", {"id": "b", "draining": True}], scaling={})
    assert nodes_in_use(policy, [("node", "b", "keep", None)])["b"] == "draining"


def test_a_scaling_section_survives_its_json() -> None:
    policy = scaled_policy(method="true_rate", catch_up_s=60.0, max_nodes=3)
    assert policy_from_json(policy.to_json()) == policy
    assert policy.entry_operators == ("parse",)


@pytest.mark.parametrize(
    ("scaling", "words"),
    [
        ({"boundaries": {"lower": 0.9, "upper": 0.5}}, "thresholds cross"),
        ({"boundaries": {"target": 0.2}}, "lower < target < upper"),
        ({"min_nodes": 3, "max_nodes": 2}, "at least min_nodes, 3"),
        ({"max_nodes": 4}, "the policy has 3 nodes"),
        ({"method": "by_feel"}, "thresholds"),
        ({"catch_up_s": 60.0}, "parameter of true_rate"),
        ({"limits": {"cpu": {}}, "method": "from_load"}, "multi_resource and forecast"),
        ({"resource": "memory"}, "not in objective.resources"),
        ({"interval_s": 10.0}, "at least statistics_period_s, 30"),
        ({"stabilisation_rounds": 5, "memory_rounds": 4}, "at least stabilisation_rounds, 5"),
        ({"cool_down_s": -1.0}, "greater than or equal to 0"),
    ],
)
def test_scaling_that_cannot_work_is_refused_with_the_reason(
    scaling: dict[str, Any], words: str
) -> None:
    with pytest.raises(PolicyError, match=words):
        scaled_policy(**scaling)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nodes": NODES}, "no scaling section"),
        ({"nodes": [{"id": "a", "spare": True}], "scaling": {}}, "at least one must be in use"),
        (
            {"nodes": ["a", {"id": "b", "spare": True, "draining": True}], "scaling": {}},
            "spare and draining",
        ),
        (
            {"nodes": ["a", {"id": "b", "cluster": "x"}], "scaling": {"method": "true_rate"}},
            "sizes one cluster",
        ),
    ],
)
def test_spares_that_cannot_be_used_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        small_policy(**changes)


def test_scaling_is_off_unless_it_is_given() -> None:
    data = {
        "job": "j", "window_s": 5, "statistics_period_s": 30, "nodes": [{"id": "a"}],
        "operators": [{"id": "o", "key_groups": 1, "partition_key": ["k"]}],
    }  # fmt: skip
    assert parse_policy(data, "j.yaml").scaling is None
