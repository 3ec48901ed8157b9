"""Every partition has an owner, follows the plan where it can, and moves only if it must."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.engines.kafka.assignment import (
    GroupMemberState,
    Partition,
    PlannedPartitions,
    TargetAssignment,
    present_owners,
    target_of,
    this_round,
)

TOPICS = frozenset({"orders"})
PARTITIONS = [("orders", number) for number in range(12)]


def member(
    name: str, *owned: int, known: int = 0, generation: int = 5, node: str | None = None
) -> GroupMemberState:
    held = frozenset(("orders", number) for number in owned)
    return GroupMemberState(name, node or f"node-{name}", TOPICS, held, generation, known)


def plan(version: int, *nodes: str) -> PlannedPartitions:
    return PlannedPartitions(
        version, {("orders", number): node for number, node in enumerate(nodes)}
    )


def settled(members: list[GroupMemberState], placement: PlannedPartitions) -> dict[Partition, str]:
    """The owners after as many rounds as a cooperative rebalance needs."""
    for _ in range(4):
        target = target_of(PARTITIONS, members, placement)
        given_out = this_round(target, members)
        members = [
            GroupMemberState(
                m.member_id, m.node_id, m.topics,
                frozenset((t, n) for t, ns in given_out[m.member_id].items() for n in ns),
                m.generation + 1, m.known_version,
            )
            for m in members
        ]  # fmt: skip
    return present_owners(members)


def test_without_a_plan_members_have_equally_many_partitions() -> None:
    owners = settled([member("a"), member("b"), member("c")], PlannedPartitions())
    assert sorted(Counter(owners.values()).values()) == [4, 4, 4]


def test_a_member_that_joins_without_a_plan_gets_its_share_and_others_keep_theirs() -> None:
    before = [member("a", *range(6)), member("b", *range(6, 12)), member("c", generation=-1)]
    owners = settled(before, PlannedPartitions())
    assert sorted(Counter(owners.values()).values()) == [4, 4, 4]
    kept = [p for p in PARTITIONS if p in before[0].owned and owners[p] == "a"]
    assert len(kept) == 4


def test_a_plan_decides_the_owner_of_every_partition() -> None:
    nodes = ["node-a"] * 9 + ["node-b"] * 2 + ["node-c"]
    members = [member("a", *range(4)), member("b", *range(4, 8)), member("c", *range(8, 12))]
    owners = settled(members, plan(1, *nodes))
    assert [owners[p] for p in PARTITIONS] == [node.removeprefix("node-") for node in nodes]


def test_a_partition_that_moves_has_no_owner_until_the_old_one_revoked_it() -> None:
    members = [member("a", *range(12)), member("b")]
    target = TargetAssignment(1, {p: "a" if p[1] else "b" for p in PARTITIONS})
    given_out = this_round(target, members)
    assert given_out["b"] == {}
    assert given_out["a"]["orders"] == list(range(1, 12))


def test_partitions_of_a_missing_node_stay_where_they_are_and_others_follow_the_plan() -> None:
    nodes = ["node-gone"] * 6 + ["node-b"] * 6
    members = [member("a", *range(4)), member("b", *range(4, 12))]
    target = target_of(PARTITIONS, members, plan(3, *nodes))
    assert target.displaced == tuple(PARTITIONS[:6])
    assert [target.owner[p] for p in PARTITIONS[:4]] == ["a"] * 4
    assert {target.owner[p] for p in PARTITIONS[6:]} == {"b"}


def test_partitions_of_a_dead_member_go_to_those_with_the_fewest() -> None:
    nodes = ["node-a"] * 4 + ["node-b"] * 4 + ["node-gone"] * 4
    members = [member("a", *range(4)), member("b", *range(4, 8))]
    owners = settled(members, plan(3, *nodes))
    assert Counter(owners.values()) == {"a": 6, "b": 6}


def test_a_new_partition_that_the_plan_does_not_know_has_an_owner() -> None:
    target = target_of([*PARTITIONS, ("orders", 12)], [member("a")], plan(1, *["node-a"] * 12))
    assert target.owner[("orders", 12)] == "a"


def test_a_leader_that_is_behind_moves_nothing() -> None:
    members = [member("a", *range(10), known=2), member("b", 10, 11, known=1)]
    target = target_of(PARTITIONS, members, plan(1, *["node-b"] * 12))
    assert target.version == 1
    assert [target.owner[p] for p in PARTITIONS] == ["a"] * 10 + ["b"] * 2


def test_of_two_claims_the_newer_generation_owns_a_partition_and_equal_ones_do_not() -> None:
    assert present_owners([member("a", 1, generation=4), member("b", 1, generation=5)]) == {
        ("orders", 1): "b"
    }
    both = [member("a", 1), member("b", 1)]
    assert present_owners(both) == {}
    assert this_round(TargetAssignment(0, {("orders", 1): "a"}), both) == {"a": {}, "b": {}}


def test_of_two_members_of_a_node_the_one_that_has_its_partitions_keeps_them() -> None:
    members = [member("a", node="node-a"), member("z", *range(12), node="node-a")]
    target = target_of(PARTITIONS, members, plan(1, *["node-a"] * 12))
    assert set(target.owner.values()) == {"z"}


def test_a_partition_goes_only_to_members_that_read_its_topic() -> None:
    others = GroupMemberState("b", "node-b", frozenset({"payments"}))
    target = target_of(
        [*PARTITIONS, ("payments", 0)], [member("a"), others], plan(1, *["node-b"] * 12)
    )
    assert {target.owner[p] for p in PARTITIONS} == {"a"}
    assert target.owner[("payments", 0)] == "b"


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[GroupMemberState], PlannedPartitions]:
    names = draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5, unique=True))
    members = [
        member(
            name,
            *draw(st.sets(st.integers(0, 11))),
            known=draw(st.integers(0, 3)),
            generation=draw(st.integers(-1, 3)),
            node=draw(st.sampled_from(["node-a", "node-b", f"node-{name}"])),
        )
        for name in names
    ]
    nodes = draw(st.lists(st.sampled_from(["node-a", "node-b", "node-x"]), max_size=12))
    return members, plan(draw(st.integers(0, 3)), *nodes)


@settings(max_examples=200, deadline=None)
@given(groups())
def test_whatever_members_claim_every_partition_has_one_owner_in_the_end(
    group: tuple[list[GroupMemberState], PlannedPartitions],
) -> None:
    members, placement = group
    owners = settled(members, placement)
    assert set(owners) == set(PARTITIONS)
    first = this_round(target_of(PARTITIONS, members, placement), members)
    given_out = [(t, n) for topics in first.values() for t, ns in topics.items() for n in ns]
    assert len(given_out) == len(set(given_out))


@pytest.mark.parametrize("size", [1, 2, 5, 7, 12, 13])
def test_balanced_shares_differ_by_at_most_one(size: int) -> None:
    owners = settled([member(f"m{number}") for number in range(size)], PlannedPartitions())
    counts = Counter({f"m{number}": 0 for number in range(size)}) + Counter(owners.values())
    assert max(counts.values()) - min([counts[f"m{n}"] for n in range(size)]) <= 1
