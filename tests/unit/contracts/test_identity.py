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
