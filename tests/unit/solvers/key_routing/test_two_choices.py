"""The power of two choices levels the load and splits the state."""

from __future__ import annotations

import numpy as np
import pytest

from ballast.contracts.errors import InvalidInput
from solvers.key_routing.key_bytes import key_bytes
from solvers.key_routing.routing_table import hash_server
from solvers.key_routing.two_choices import TwoChoices, run_two_choices, two_choices


def test_two_choices_level_the_load_and_split_the_state() -> None:
    rng = np.random.default_rng(1)
    keys = [f"k{i}" for i in rng.zipf(1.6, 20_000) % 500]
    outcome = run_two_choices([(key, 1.0) for key in keys], 8)
    hashed = np.bincount([hash_server(key_bytes(k), 8) for k in keys], minlength=8)
    assert outcome.load.max() < hashed.max()
    assert outcome.load.sum() == len(keys)
    assert len(set(keys)) < outcome.partials <= 2 * len(set(keys))
    assert outcome.merges == outcome.merge_load.sum() > 0


def test_a_key_only_ever_goes_to_its_two_servers() -> None:
    outcome = run_two_choices([("one", 1.0)] * 10, 50, n_sources=3)
    used = set(np.flatnonzero(outcome.load).tolist())
    assert used <= set(two_choices(b"one", 50))
    # Each source knows its own count alone: 4, 3 and 3 records, 2 + 2 + 2 of them to the first.
    assert outcome.load[two_choices(b"one", 50)[0]] == 6


@pytest.mark.parametrize("at_once", [1, 50])
def test_two_choices_of_numbered_keys_are_two_and_the_less_loaded_is_taken(at_once: int) -> None:
    two = TwoChoices.drawn(3, 5, 40)
    assert np.all(two.choices[0] != two.choices[1])
    keys = np.random.default_rng(1).integers(0, 40, 2000)
    sent = two.send(keys, at_once=at_once)
    assert np.all((sent == two.choices[0, keys]) | (sent == two.choices[1, keys]))
    counted = np.bincount(sent, minlength=5)
    hashed = np.bincount(two.choices[0, keys], minlength=5)
    assert np.ptp(counted) < np.ptp(hashed)
    # On one view of the loads all go to the first of their two.
    blind = two.send(keys, at_once=len(keys))
    assert np.array_equal(blind, two.choices[0, keys])


def test_two_choices_need_servers_to_choose_from() -> None:
    with pytest.raises(InvalidInput, match="n_servers is 0"):
        run_two_choices([("one", 1.0)], 0)
    with pytest.raises(InvalidInput, match="n_servers is 1"):
        TwoChoices.drawn(1, 1, 3)
