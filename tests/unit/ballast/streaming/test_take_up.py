"""State follows keys and key groups exactly once, also if a take-up is interrupted."""

from __future__ import annotations

import contextlib
import random
from collections import Counter

import pytest

from ballast.streaming.key_group_state import Slot, StateStore
from ballast.streaming.routing import Placement, key_group_of
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
