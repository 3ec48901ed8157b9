"""Ordered regions in a policy, and weights as content of a plan."""

from __future__ import annotations

from typing import Any

import pytest

from ballast.contracts.errors import PolicyError
from ballast.contracts.identity import content_hash
from ballast.contracts.policy import policy_from_json
from ballast.contracts.regions import even_units, worker_names
from tests.support.policies import small_policy

ROWS = [("a", 0, "n1"), ("a", 1, "n2")]
WEIGHTS = [("r", "w-0", 600), ("r", "w-1", 400)]


def test_a_region_names_its_workers_or_says_how_many_there_are() -> None:
    policy = small_policy(
        regions=[{"id": "tag", "workers": 2}, {"id": "geo", "workers": ["east", "west"]}]
    )
    assert policy_from_json(policy.to_json()) == policy
    tag, geo = policy.regions
    assert tag.worker_ids == ("worker-0", "worker-1")
    assert geo.worker_ids == ("east", "west")
    assert (tag.method, tag.min_units, tag.max_change_units) == ("service", 1, 1000)
    assert policy.region("geo") is geo
    assert policy.region("none") is None
    assert small_policy().regions == ()


@pytest.mark.parametrize(
    ("regions", "why"),
    [
        ([{"id": "tag", "workers": 0}], "greater than or equal to 1"),
        ([{"id": "tag", "workers": 1001}], "less than or equal to 1000"),
        ([{"id": "tag", "workers": []}], "at least 1 item"),
        ([{"id": "tag", "workers": ["a", "a"]}], "two workers called 'a'"),
        ([{"id": "tag", "workers": ["a'b"]}], "pattern"),
        ([{"id": "tag", "workers": 2}, {"id": "tag", "workers": 3}], "'tag' is given twice"),
        ([{"id": "parse", "workers": 2}], "'parse' is an operator as well"),
        ([{"id": "tag", "workers": 2, "method": "guess"}], "'service' or 'blocking'"),
        ([{"id": "tag", "workers": 200, "min_units": 6}], "min_units is 6 for each of 200"),
        ([{"id": "tag", "workers": 2, "max_change_units": 0}], "greater than or equal to 1"),
        ([{"id": "tag", "workers": 2, "min_gain_pct": -1.0}], "greater than or equal to 0"),
        ([{"id": "tag", "workers": 2, "unknown": 1}], "unknown"),
    ],
)
def test_a_region_that_cannot_be_is_refused_with_the_value(
    regions: list[dict[str, Any]], why: str
) -> None:
    with pytest.raises(PolicyError, match=why):
        small_policy(regions=regions)


def test_weights_change_the_hash_and_their_order_does_not() -> None:
    whole = content_hash(ROWS, (), (), WEIGHTS)
    assert whole == content_hash(ROWS, (), (), reversed(WEIGHTS))
    assert content_hash(ROWS, (), (), []) == content_hash(ROWS), "as before there were any"
    others = [
        content_hash(ROWS),
        content_hash(ROWS, (), (), WEIGHTS[:1]),
        content_hash(ROWS, (), (), [("r", "w-0", 601), ("r", "w-1", 399)]),
        content_hash(ROWS, (), (), [("s", "w-0", 600), ("r", "w-1", 400)]),
        content_hash(ROWS, (), [("weights", "r", "w-0", 600)], WEIGHTS[1:]),
        content_hash(ROWS, [("weights", "r", 600)], (), ()),
    ]
    assert len({whole, *others}) == 7


def test_even_units_add_up() -> None:
    for count in (1, 3, 7, 1000):
        units = even_units(worker_names(count))
        assert sum(units.values()) == 1000
        assert max(units.values()) - min(units.values()) <= 1
