"""State follows keys and key groups exactly once, also if a take-up is interrupted."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from dataclasses import replace

import pytest

from ballast.streaming.key_group_state import Slot, StateStore
from ballast.streaming.operators import Operator
from ballast.streaming.routing import Placement, key_group_of
from ballast.streaming.state_merge import StateMerge
from ballast.streaming.take_up import carry_over, forget_old_places, transfers_between

GROUPS = 4
KEYS = [f"k{number}" for number in range(24)] + ["", "o'clock", "two\nlines", "ü", "\udc80"]


class Broken(Exception):
    """Raised where the process is killed."""


def placement(version, nodes, routes=None):
    return Placement(version, f"p{version}", {"count": tuple(nodes)}, {"count": routes or {}})


def count_batch(store, placed, batch_id):
    """Count one record of each key, as a stage would."""
    of_group = Counter()
    for key in KEYS:
        of_group[placed.group_of("count", key)] += 1
    for group in of_group:
        slot = Slot(str(store.folder(placed.node_of("count", group), "count", group)), batch_id, 0)
        state, stored, names = slot.load()
        for key in KEYS:
            if placed.group_of("count", key) == group:
                state[key] = state.get(key, 0) + 1
        slot.save(state, stored, names)


def everything(store):
    """Every readable copy of every key, on any node: key -> (group, count)."""
    found = []
    for folder in store.root.glob("*/*/*"):
        node, operator, group = folder.relative_to(store.root).parts
        state = store.read(node, operator, int(group))
        found += [(key, node, int(group), count) for key, count in state.items()]
    return found


def check(store, placed, times):
    expected = {
        (key, placed.node_of("count", g), g, times)
        for key in KEYS
        for g in [placed.group_of("count", key)]
    }
    found = everything(store)
    assert len(found) == len(set(found)) == len(KEYS)
    assert set(found) == expected


ROUTES = {"k1": 2, "k2": 2, "k3": 0, "ü": 1, "": 3, "two\nlines": 3}
PLANS = {
    "added": ("abab", {}, "abab", ROUTES),
    "removed": ("abab", ROUTES, "abab", {}),
    "changed": ("abab", ROUTES, "abab", {**ROUTES, "k1": 0, "k5": 1}),
    "added while key groups move": ("abab", {}, "bbca", ROUTES),
    "changed while key groups move": ("abab", ROUTES, "baba", {"k1": 3, "k2": 0}),
    "removed while key groups move": ("abab", ROUTES, "baba", {}),
    "all to one": ("abab", {}, "abab", dict.fromkeys(KEYS[:-1], 1)),
    "only key groups": ("abab", ROUTES, "baab", ROUTES),
}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("dies_after", [None, *range(GROUPS + 1)])
def test_every_key_is_in_its_key_group_once_wherever_a_take_up_breaks_off(
    tmp_path, plan, dies_after
):
    nodes, routes, new_nodes, new_routes = PLANS[plan]
    old, new = placement(1, nodes, routes), placement(2, new_nodes, new_routes)
    store = StateStore(tmp_path)
    for batch in range(3):
        count_batch(store, old, batch)
    transfers = transfers_between(old, new, ["count"])

    def die(done):
        if done == dies_after:
            raise Broken

    if dies_after is not None and dies_after <= len(transfers):
        with contextlib.suppress(Broken):
            carry_over(store, transfers, 3, die)
        store.discard_from(3)  # as the next process does
    first = carry_over(store, transfers, 3)
    assert carry_over(store, transfers, 3) == first, "a repetition counts the same"
    forget_old_places(store, transfers)
    check(store, new, 3)
    for batch in (3, 3, 4):  # the batch is repeated once more
        count_batch(store, new, batch)
    check(store, new, 5)


def test_bytes_are_those_that_came_from_another_node(tmp_path):
    store = StateStore(tmp_path)
    old = placement(1, "abab")
    count_batch(store, old, 0)
    here, there = (key_group_of("k1", 4) + 2) % 4, (key_group_of("k1", 4) + 1) % 4
    near = transfers_between(old, placement(2, "abab", {"k1": here}), ["count"])
    assert (carry_over(store, near, 1).bytes, carry_over(store, near, 1).keys) == (0, 1)
    far = transfers_between(old, placement(2, "abab", {"k1": there}), ["count"])
    assert carry_over(store, far, 1).bytes == len('{"k1":1}')


def test_a_moved_key_group_weighs_what_it_keeps(tmp_path):
    store = StateStore(tmp_path)
    old = placement(1, "abab")
    count_batch(store, old, 0)
    group = key_group_of("k1", 4)
    kept = {key: 1 for key in KEYS if key_group_of(key, 4) == group and key != "k1"}
    nodes = "".join("c" if g == group else "abab"[g] for g in range(4))
    new = placement(2, nodes, {"k1": (group + 2) % 4})  # stays on the node that the group leaves
    transfers = transfers_between(old, new, ["count"])
    store.write_taken_up("x", "count", 0, 1, kept)
    assert carry_over(store, transfers, 1).bytes == store.size("x", "count", 0)


def test_a_key_without_state_is_no_work(tmp_path):
    store = StateStore(tmp_path)
    transfers = transfers_between(
        placement(1, "abab"), placement(2, "abab", {"new": (key_group_of("new", 4) + 1) % 4}),
        ["count"],
    )  # fmt: skip
    carried = carry_over(store, transfers, 0)
    assert (carried.bytes, carried.keys) == (0, 0)
    assert list(tmp_path.glob("*/*/*/*")) == []


def test_routes_that_say_what_the_hash_says_move_nothing():
    same = {key: key_group_of(key, 4) for key in KEYS}
    assert transfers_between(placement(1, "abab"), placement(2, "abab", same), ["count"]) == []


def test_many_plans_one_after_another(tmp_path):
    draw = random.Random(4)
    store, current = StateStore(tmp_path), placement(0, "aaaa")
    for batch in range(30):
        routes = {key: draw.randrange(4) for key in KEYS if draw.random() < 0.5}
        following = placement(batch + 1, draw.choices("abc", k=4), routes)
        transfers = transfers_between(current, following, ["count"])
        carry_over(store, transfers, batch)
        forget_old_places(store, transfers)
        current = following
        count_batch(store, current, batch)
        check(store, current, batch + 1)


SPLIT = {"k1": (0, 1, 2, 3), "ü": (0, 3), "": (1, 2)}
HOMES = {key: {key_group_of(key, GROUPS)} for key in SPLIT}
SPLIT = {key: tuple(sorted({*groups, *HOMES[key]})) for key, groups in SPLIT.items()}
ADDED = Operator("count", lambda state, key, record: None, state_by_key=True,
                 merge=StateMerge(lambda a, b: a + b, [1, 2, 3]))  # fmt: skip
SPLITS = {
    "a key is split": ("abab", {}, {}, "abab", {}, SPLIT),
    "split keys are joined": ("abab", {}, SPLIT, "abab", {}, {}),
    "split keys are joined while key groups move": ("abab", {}, SPLIT, "bbca", {}, {}),
    "split keys stay while key groups move": ("abab", {}, SPLIT, "cbca", {}, SPLIT),
    "a key is split over fewer": ("abab", {}, SPLIT, "abab", {}, {"k1": SPLIT["k1"][:-1]}),
    "joined in the key group of a new route": ("abab", {}, SPLIT, "abab", {"k1": 2, "": 0}, {}),
}


def split_placement(version, nodes, routes, splits):
    found = Placement(
        version, f"p{version}", {"count": tuple(nodes)}, {"count": routes},
        splits={"count": splits} if splits else {},
    )  # fmt: skip
    fewer = {
        key: tuple(sorted({*groups, found.group_of("count", key)}))
        for key, groups in splits.items()
    }
    return replace(found, splits={"count": fewer} if fewer else {})


def count_parts(store, placed, batch_id):
    """Count one record of each key in each of its parts."""
    for group in range(GROUPS):
        slot = Slot(str(store.folder(placed.node_of("count", group), "count", group)), batch_id, 0)
        state, stored, names = slot.load()
        for key in KEYS:
            if group in placed.parts_of("count", key):
                state[key] = state.get(key, 0) + 1
        slot.save(state, stored, names)


@pytest.mark.parametrize("plan", SPLITS)
@pytest.mark.parametrize("dies_after", [None, *range(GROUPS + 1)])
def test_the_parts_of_a_key_are_merged_once_wherever_a_take_up_breaks_off(
    tmp_path, plan, dies_after
):
    nodes, routes, splits, new_nodes, new_routes, new_splits = SPLITS[plan]
    store = StateStore(tmp_path)
    old = split_placement(1, nodes, routes, splits)
    new = split_placement(2, new_nodes, new_routes, new_splits)
    for batch in (1, 2):
        count_parts(store, old, batch)
    times = {key: 2 * len(old.parts_of("count", key)) for key in KEYS}
    transfers = transfers_between(old, new, ["count"])

    def die(done):
        if done == dies_after:
            raise Broken

    with contextlib.suppress(Broken):
        carry_over(store, transfers, 3, die, [ADDED])
    if dies_after is not None:
        store.discard_from(3)
        carry_over(store, transfers, 3, operators=[ADDED])
    forget_old_places(store, transfers)
    forget_old_places(store, transfers)
    found = Counter()
    for key, node, group, count in everything(store):
        assert node == new.node_of("count", group)
        assert group in new.parts_of("count", key)
        found[key] += count
    assert found == times
    count_parts(store, new, 3)
    after = Counter()
    for key, _, _, count in everything(store):
        after[key] += count
    assert after == {key: times[key] + len(new.parts_of("count", key)) for key in KEYS}


def test_a_split_moves_no_state_and_a_key_in_two_places_without_an_operator_stops(tmp_path):
    one, split = placement(1, "abab"), split_placement(2, "abab", {}, SPLIT)
    assert transfers_between(one, split, ["count"]) == []
    store = StateStore(tmp_path)
    count_parts(store, split, 1)
    with pytest.raises(RuntimeError, match="a key has state in"):
        carry_over(store, transfers_between(split, one, ["count"]), 2)
