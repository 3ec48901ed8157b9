"""Two plans are the same exactly when their content and their snapshot are."""

from __future__ import annotations

import random

from ballast.contracts.identity import (
    content_hash,
    digest,
    key_group_name,
    plan_id,
    snapshot_id,
    split_key_group_name,
)

ROWS = [("a", 0, "n1"), ("a", 1, "n2"), ("b", 0, "n1")]


def test_the_order_of_rows_does_not_matter() -> None:
    shuffled = ROWS[:]
    random.Random(1).shuffle(shuffled)
    assert content_hash(shuffled) == content_hash(ROWS)


def test_any_change_of_a_row_matters() -> None:
    assert content_hash([("a", 0, "n2"), *ROWS[1:]]) != content_hash(ROWS)
    assert content_hash(ROWS[1:]) != content_hash(ROWS)
    assert content_hash([*ROWS, ROWS[0]]) != content_hash(ROWS)


def test_a_plan_without_routes_keeps_the_hash_it_had_before_there_were_routes() -> None:
    assert content_hash(ROWS) == "ac34e3418975924eb7668f0554abea257b570207c422a5e76d0e50296b95412e"
    assert content_hash(ROWS, []) == content_hash(ROWS)


def test_routes_are_content_in_any_order_and_with_any_key() -> None:
    keys = ["", "q\"'", "line\nbreak", "\udc80", "ü", "x" * 2**20]
    routes = [(operator, key, 1) for operator in ("a", "b") for key in keys]
    whole = content_hash(ROWS, routes)
    assert whole == content_hash(ROWS, reversed(routes))
    for number, (operator, key, group) in enumerate(routes):
        rest = routes[:number] + routes[number + 1 :]
        changed = {
            content_hash(ROWS, rest),
            content_hash(ROWS, [*rest, (operator, key, group + 1)]),
            content_hash(ROWS, [*rest, (operator, key + "?", group)]),
            content_hash(ROWS, [*routes, routes[number]]),
        }
        assert len(changed) == 4
        assert whole not in changed


def test_a_key_is_routed_at_its_own_operator() -> None:
    assert content_hash(ROWS, [("a", "k", 0)]) != content_hash(ROWS, [("b", "k", 0)])
    assert content_hash(ROWS, [("a", "k", 0), ("b", "l", 0)]) != content_hash(
        ROWS, [("a", "l", 0), ("b", "k", 0)]
    )


def test_actions_on_nodes_are_content_and_plans_without_them_keep_their_hash() -> None:
    scaling = [("node", "n1", "keep", None), ("operator", "a", "size", 3)]
    whole = content_hash(ROWS, [], scaling)
    assert content_hash(ROWS, [], []) == content_hash(ROWS)
    assert whole == content_hash(ROWS, [], reversed(scaling))
    others = [
        content_hash(ROWS),
        content_hash(ROWS, [], scaling[:1]),
        content_hash(ROWS, [], [("node", "n1", "drain", None), scaling[1]]),
        content_hash(ROWS, [], [scaling[0], ("operator", "a", "size", 2)]),
        content_hash(ROWS, [("scaling", "node", 1)], scaling),
    ]
    assert len({whole, *others}) == 6


def test_parts_do_not_run_together() -> None:
    assert digest("ab", "c") != digest("a", "bc")


def test_a_plan_is_its_job_snapshot_and_content() -> None:
    base = plan_id("job", "s1", "c1")
    assert base == plan_id("job", "s1", "c1")
    assert len({base, plan_id("job2", "s1", "c1"), plan_id("job", "s2", "c1"),
                plan_id("job", "s1", "c2")}) == 4  # fmt: skip


def test_a_snapshot_is_its_run_and_its_pins() -> None:
    assert snapshot_id("j", "r", ["1"]) == snapshot_id("j", "r", ["1"])
    assert snapshot_id("j", "r", ["1"]) != snapshot_id("j", "r", ["2"])


def test_a_key_group_name_can_be_taken_apart() -> None:
    assert split_key_group_name(key_group_name("a/b", 7)) == ("a/b", 7)


def test_splits_are_part_of_the_content_and_none_leave_the_hash_as_it_is():
    splits = [("count", "k", 2), ("count", "k", 0), ("count", "other", 1), ("count", "other", 3)]
    whole = content_hash(ROWS, splits=splits)
    assert whole == content_hash(ROWS, splits=reversed(splits))
    others = {
        content_hash(ROWS),
        content_hash(ROWS, splits=splits[:2]),
        content_hash(ROWS, splits=[("count", "k", 0), ("count", "other", 2), *splits[2:]]),
        content_hash(ROWS, splits=[("sum", key, group) for _, key, group in splits]),
        content_hash(ROWS, routes=splits),
    }
    assert whole not in others
    assert len(others) == 5
    assert content_hash(ROWS, splits=()) == content_hash(ROWS)
