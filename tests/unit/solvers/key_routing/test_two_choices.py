"""The power of two choices levels the load and splits the state."""

from __future__ import annotations

import numpy as np
import pytest

from ballast.contracts.errors import InvalidInput
from solvers.key_routing.key_bytes import key_bytes
from solvers.key_routing.routing_table import hash_server
from solvers.key_routing.two_choices import TwoChoices, two_choices


def test_two_choices_level_the_load_and_split_the_state() -> None:
    keys = np.random.default_rng(1).zipf(1.6, 20_000) % 500
    names = [key_bytes(f"k{i}") for i in range(500)]
    sent = TwoChoices.hashed(names, 8).send(keys)
    hashed = np.bincount([hash_server(names[k], 8) for k in keys], minlength=8)
    assert np.bincount(sent, minlength=8).max() < hashed.max()
    n_states = len(np.unique(keys * 8 + sent))
    assert len(np.unique(keys)) < n_states <= 2 * len(np.unique(keys))


def test_a_key_only_ever_goes_to_its_two_servers() -> None:
    sent = TwoChoices.hashed([b"one"], 50).send(np.zeros(10, dtype=np.int64))
    first, second = two_choices(b"one", 50)
    assert np.bincount(sent, minlength=50)[[first, second]].tolist() == [5, 5]


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
    # By one view of the loads all records go to the first of their two servers.
    blind = two.send(keys, at_once=len(keys))
    assert np.array_equal(blind, two.choices[0, keys])


def test_two_choices_need_servers_to_choose_from() -> None:
    with pytest.raises(InvalidInput, match="n_servers is 0"):
        two_choices(b"one", 0)
    with pytest.raises(InvalidInput, match="n_servers is 1"):
        TwoChoices.drawn(1, 1, 3)
