"""The power of two choices (PoTC in [ICDE17, 2.2], PKG in [AUTODASP17]): two servers per key.

A source sends each record to the less loaded of the two servers of its key, by its own count of
records sent. The load is level without migration, but a key's state is split, so results must be
merged all the time, and the method does not balance that cost [ICDE17, 5.2.1]. The benchmarks of
both papers use this module.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.key_routing.key_bytes import fingerprint
from solvers.model.problem import FloatArray, IntArray


def two_choices(key: bytes, n_servers: int) -> tuple[int, int]:
    """Return h1 and h2 of a key; like other independent hashes they can be equal.

    Raises:
        InvalidInput: there is no server.
    """
    if n_servers < 1:
        raise InvalidInput(f"n_servers is {n_servers}", allowed="a number >= 1")
    return fingerprint(key, 1) % n_servers, fingerprint(key, 2) % n_servers


class TwoChoices:
    """Routes records by two choices.

    ``choices`` [2, keys] are the two servers of each key: hashed from names, or drawn at random
    where keys are numbers.
    """

    def __init__(self, choices: IntArray, n_servers: int) -> None:
        if n_servers < 1:
            raise InvalidInput(f"n_servers is {n_servers}", allowed="a number >= 1")
        self.choices, self.n_servers = choices, n_servers

    @classmethod
    def hashed(cls, keys: Sequence[bytes], n_servers: int) -> TwoChoices:
        """By two hashes of each key, which may agree."""
        pairs = [two_choices(key, n_servers) for key in keys]
        return cls(np.array(pairs, dtype=np.int64).reshape(-1, 2).T, n_servers)

    @classmethod
    def drawn(cls, seed: int, n_servers: int, n_keys: int) -> TwoChoices:
        """Two different servers for each key, or there would be no choice."""
        if n_servers < 2:
            raise InvalidInput(f"n_servers is {n_servers}", allowed="a number >= 2")
        rng = np.random.default_rng(seed)
        first = rng.integers(0, n_servers, n_keys)
        second = (first + rng.integers(1, n_servers, n_keys)) % n_servers
        return cls(np.stack((first, second)), n_servers)

    def send(self, keys: IntArray, weight: FloatArray | None = None, at_once: int = 1) -> IntArray:
        """Return the server of each record of one source.

        It is the less loaded of the key's two servers, by what the source itself sent.

        Args:
            keys: Key of each record.
            weight: Weight of each record, 1 if None.
            at_once: Records that use one view of the loads, where senders see loads with a delay.
        """
        load = np.zeros(self.n_servers)
        weights = np.ones(len(keys)) if weight is None else weight
        sent = np.empty(len(keys), dtype=np.int64)
        for start in range(0, len(keys), at_once):
            part = slice(start, start + at_once)
            first, second = self.choices[:, keys[part]]
            chosen = np.where(load[first] <= load[second], first, second)
            sent[part] = chosen
            load += np.bincount(chosen, weights=weights[part], minlength=self.n_servers)
        return sent
