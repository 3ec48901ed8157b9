"""Declared operators and the policy: valid combinations, and errors for invalid ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ballast.contracts.errors import InvalidInput
from ballast.streaming.operators import Operator, build_topology
from tests.support.streaming_parts import (
    JOB,
    OPERATORS,
    OPERATORS_BY_KEY,
    policy_of,
    topology_of,
)


def test_operators_are_ordered_upstream_first_whatever_the_order_of_declaration():
    topology = build_topology(JOB, OPERATORS[::-1], policy_of())
    assert topology.ids == ("parse", "count", "total")
    assert topology.key_groups == (4, 6, 2)
    assert topology.downstream == ((1, 2), (2,), ())


def test_there_is_one_stage_per_operator_on_the_longest_path():
    assert topology_of().stages == 3
    flat = policy_of(edges=[{"from": "parse", "to": "count"}, {"from": "parse", "to": "total"}])
    assert topology_of(flat).stages == 2


def test_a_policy_of_another_job_is_refused():
    with pytest.raises(InvalidInput, match=r"named 'other'.*policies/other\.yaml"):
        build_topology("other", OPERATORS, policy_of())


def test_an_operator_that_is_missing_is_named():
    with pytest.raises(InvalidInput, match=r"declares the operators count, parse.*total"):
        build_topology(JOB, OPERATORS[:2], policy_of())


def test_two_operators_without_an_edge_into_them_are_refused():
    with pytest.raises(InvalidInput, match="parse, count have no edge"):
        build_topology(JOB, OPERATORS, policy_of(edges=[{"from": "count", "to": "total"}]))


def test_a_downstream_operator_needs_a_key_and_the_first_must_not_have_one():
    keyless = [OPERATORS[0], Operator("count", OPERATORS[1].process), OPERATORS[2]]
    with pytest.raises(InvalidInput, match="count has no key"):
        build_topology(JOB, keyless, policy_of())
    keyed = [Operator("parse", OPERATORS[0].process, key=str), *OPERATORS[1:]]
    with pytest.raises(InvalidInput, match="parse is fed by the source"):
        build_topology(JOB, keyed, policy_of())


ROUTED = {
    "objective": {"kind": "joint"},
    "routing": {"edges": [{"from": "count", "to": "total"}]},
}


def without_state_by_key(name):
    return [replace(o, state_by_key=o.id != name) for o in OPERATORS_BY_KEY]


def test_a_policy_may_route_the_keys_of_operators_that_keep_their_state_by_key():
    assert build_topology(JOB, OPERATORS_BY_KEY, policy_of(**ROUTED)).ids[0] == "parse"
    assert build_topology(JOB, without_state_by_key("count"), policy_of()).ids[0] == "parse"


@pytest.mark.parametrize("end", ["count", "total"])
def test_an_end_of_a_routed_edge_that_does_not_keep_its_state_by_key_is_refused(end):
    with pytest.raises(InvalidInput, match=f"operator {end} does not say.*state_by_key=True"):
        build_topology(JOB, without_state_by_key(end), policy_of(**ROUTED))


def test_an_operator_with_the_partition_key_of_a_routed_one_must_keep_its_state_by_key():
    said = "operator parse, which has the partition key of count, does not say.*of its own"
    with pytest.raises(InvalidInput, match=said):
        build_topology(JOB, without_state_by_key("parse"), policy_of(**ROUTED))
