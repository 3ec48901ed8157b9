"""Rules of a policy: what names they may use, and which of them conflict."""

from __future__ import annotations

from typing import Any

import pytest

from ballast.contracts.errors import PolicyError
from ballast.contracts.policy import JobPolicy, policy_from_json
from ballast.contracts.rules import crowded_members, smallest_conflict
from tests.support.policies import small_policy

NODES = [
    {"id": "a", "labels": ["ssd", "large"]},
    {"id": "b", "labels": ["ssd"]},
    {"id": "c"},
    {"id": "d", "draining": True},
]


def policy(*place: dict[str, Any]) -> JobPolicy:
    return small_policy(nodes=NODES, rules={"place": list(place)})


def test_rules_survive_the_json_of_a_snapshot() -> None:
    found = policy({"name": "fast", "operators": ["parse"], "labels": ["ssd"]})
    assert policy_from_json(found.to_json()) == found
    assert found.rules.names == ("fast",)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"operators": ["prase"], "stay": True}, r"rules\.place\.0\.operators: 'prase' is not an"),
        ({"key_groups": ["parse/4"], "stay": True}, r"parse has the key groups 0 to 3"),
        ({"key_groups": ["prase/1"], "stay": True}, r"'prase/1' is of no operator"),
        ({"key_groups": ["parse"], "stay": True}, r"rules\.place\.0\.key_groups\.0: is 'parse'"),
        ({"operators": ["parse"], "nodes": ["x"]}, r"rules\.place\.0\.nodes: 'x' is not a node"),
        ({"operators": ["parse"], "labels": ["gpu"]}, "no node has the label 'gpu'; allowed: lar"),
        ({"operators": ["parse"], "nodes": ["d"]}, r"\(one\): d drains, so no key group"),
        ({"operators": ["parse"]}, r"rules\.place\.0: has none of nodes, labels and stay"),
        ({"operators": ["parse"], "nodes": ["a"], "stay": True}, "has nodes and stay; give one"),
        ({"nodes": ["a"]}, "names no operators and no key_groups"),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_kept_is_refused_with_its_field(
    rule: dict[str, Any], message: str
) -> None:
    with pytest.raises(PolicyError, match=message):
        policy({"name": "one", **rule})


def test_labels_that_no_node_has_together_are_refused() -> None:
    nodes = [{"id": "a", "labels": ["ssd"]}, {"id": "b", "labels": ["large"]}]
    rule = {"name": "one", "operators": ["parse"], "labels": ["ssd", "large"]}
    with pytest.raises(PolicyError, match="no node has all of ssd, large"):
        small_policy(nodes=nodes, rules={"place": [rule]})


def test_the_smallest_set_of_rules_that_conflict_is_named() -> None:
    with pytest.raises(PolicyError, match=r"key group parse/1 .*: fast and far permit no common"):
        policy(
            {"name": "fast", "operators": ["parse"], "labels": ["ssd"]},
            {"name": "near", "operators": ["parse"], "nodes": ["a", "b"]},
            {"name": "far", "key_groups": ["parse/1"], "nodes": ["c"]},
        )  # fmt: skip


def test_a_node_that_drains_is_no_common_node() -> None:
    with pytest.raises(PolicyError, match="left and right permit no common node that stays"):
        policy(
            {"name": "left", "operators": ["parse"], "nodes": ["a", "d"]},
            {"name": "right", "operators": ["parse"], "nodes": ["c", "d"]},
        )


def test_rules_share_no_name() -> None:
    one = {"name": "one", "operators": ["parse"], "stay": True}
    with pytest.raises(PolicyError, match="rules: the name 'one' is given twice"):
        policy(one, one)


def test_the_smallest_conflict_may_need_three_rules() -> None:
    allowed = {"p": {"a", "b"}, "q": {"b", "c"}, "r": {"a", "c"}, "s": {"a", "b", "c"}}
    assert smallest_conflict(allowed) == ("p", "q", "r")
    assert smallest_conflict({"p": {"a"}, "s": {"a", "b"}}) == ()
    assert smallest_conflict({}) == ()


def test_of_very_many_rules_none_that_is_named_can_be_left_out() -> None:
    allowed = {f"wide-{i}": {"a", "b"} for i in range(20)} | {"left": {"a"}, "right": {"b"}}
    assert smallest_conflict(allowed) == ("left", "right")


def several(**rules: Any) -> JobPolicy:
    return small_policy(
        nodes=[{"id": "a", "rack": "r1"}, {"id": "b", "rack": "r1"}, {"id": "c", "rack": "r2"}],
        rules=rules,
    )


@pytest.mark.parametrize(
    ("apart", "message"),
    [
        ({"key_groups": ["parse/0"]}, r"rules\.apart\.0\.key_groups"),
        ({"key_groups": ["parse/0", "parse/0"]}, "'parse/0' is given twice"),
        ({"key_groups": ["parse/0", "parse/9"]}, r"rules\.apart\.0\.key_groups: 'parse/9' does"),
        (
            {"key_groups": ["parse/0", "parse/1", "parse/2"], "share_no": "rack"},
            r"\(pair\): parse/0, parse/1, parse/2 may share no rack, and there are only 2 for 3",
        ),
    ],
)  # fmt: skip
def test_a_rule_for_key_groups_apart_is_refused_with_its_field(
    apart: dict[str, Any], message: str
) -> None:
    with pytest.raises(PolicyError, match=message):
        several(apart=[{"name": "pair", **apart}])


def test_key_groups_apart_that_another_rule_keeps_together_name_both_rules() -> None:
    place = {"name": "left", "operators": ["parse"], "nodes": ["a", "b"]}
    racks = {"name": "pair", "key_groups": ["parse/0", "parse/1"], "share_no": "rack"}
    with pytest.raises(
        PolicyError, match=r"\(pair and left\): .* there is only 1 for 2 of them: r1"
    ):
        several(place=[place], apart=[racks])
    nodes = racks | {"share_no": "node"}
    assert several(place=[place], apart=[nodes]).rules.names == ("left", "pair")


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"operators": ["parse"]}, r"rules\.moves\.0: has none of moves, bytes and share"),
        ({"operators": ["prase"], "moves": 1}, r"rules\.moves\.0\.operators: 'prase' is not"),
        ({"operators": ["parse"], "share": 1.5}, r"rules\.moves\.0\.share: is 1\.5"),
    ],
)
def test_a_limit_on_moves_is_refused_with_its_field(limit: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        several(moves=[{"name": "slow", **limit}])


def test_members_find_places_also_where_others_have_to_give_way() -> None:
    assert crowded_members({"p": {"a", "b"}, "q": {"a"}, "r": {"b", "c"}}) == ()
    assert crowded_members({"p": {"a", "b"}, "q": {"a", "b"}, "r": {"a", "b"}, "s": {"c"}}) == (
        "p", "q", "r",
    )  # fmt: skip
    assert crowded_members({"p": set()}) == ("p",)


@pytest.mark.parametrize(
    ("headroom", "message"),
    [
        ({"loss_of": ["rack"], "max_utilisation_pct": 0}, "max_utilisation_pct: is 0"),
        ({"loss_of": []}, r"rules\.headroom\.loss_of"),
        ({"loss_of": ["cluster"]}, r"rules\.headroom\.loss_of\.0"),
        ({"limit": 1}, r"rules\.headroom\.limit: is not a field of a policy"),
    ],
)
def test_a_rule_for_headroom_is_refused_with_its_field(
    headroom: dict[str, Any], message: str
) -> None:
    with pytest.raises(PolicyError, match=message):
        several(headroom=headroom)


def test_headroom_for_a_rack_needs_two_racks_that_stay() -> None:
    nodes = [{"id": "a", "rack": "r1"}, {"id": "b", "rack": "r2", "draining": True}, {"id": "c"}]
    rule = {"loss_of": ["rack"], "max_utilisation_pct": 80.0}
    assert several(headroom=rule).rules.names == ("headroom",)
    with pytest.raises(PolicyError, match=r"'rack' needs nodes on two racks .* only r1"):
        small_policy(nodes=[*nodes[:2], {"id": "c", "rack": "r1"}], rules={"headroom": rule})
