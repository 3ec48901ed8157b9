"""The power of two choices (PoTC of [ICDE17, 2.2]; PKG of [AUTODASP17]): two servers per key.

A source sends each record to the less loaded of its key's two servers, by its own count of what
it sent. Load is level without migration, but a key's state is split, so results must be merged:
a cost that never stops and that the method does not balance [ICDE17, 5.2.1]. Written
once, for the benchmarks of both papers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.key_routing.key_bytes import fingerprint, key_bytes
from solvers.model.problem import FloatArray, IntArray


def two_choices(key: bytes, n_servers: int) -> tuple[int, int]:
    """h1 and h2. They may agree, as independent hash functions do."""
    return fingerprint(key, 1) % n_servers, fingerprint(key, 2) % n_servers


class TwoChoices:
    """The two servers of each key, and where a source sends its records by them.

    ``choices`` [2, keys]: hashed from names, or drawn where keys are numbers.
    """

    def __init__(self, choices: IntArray, n_servers: int) -> None:
        if n_servers < 1:
            raise InvalidInput(f"n_servers is {n_servers}", allowed="a number >= 1")
        self.choices, self.n_servers = choices, n_servers

    @classmethod
    def hashed(cls, keys: Sequence[bytes], n_servers: int) -> TwoChoices:
        """By two hashes of each key, which may agree."""
        pairs = [two_choices(key, n_servers) for key in keys] if n_servers > 0 else []
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
        """The server of each record of one source: the less loaded of its key's two, by what the
        source sent itself, as in print. ``at_once``: records that are sent on one view of the
        loads, where senders learn of them with a delay."""
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


@dataclass(frozen=True, eq=False, slots=True)
class TwoChoicesOutcome:
    """``load`` per server; ``partials``: (key, server) states held; ``merges``: those that have
    to be sent to another server to be merged, every time a result is wanted."""

    load: FloatArray
    partials: int
    merges: int
    merge_load: FloatArray


def run_two_choices(
    records: Iterable[tuple[str | bytes, float]], n_servers: int, n_sources: int = 1
) -> TwoChoicesOutcome:
    """Records in order, dealt to the sources in turn. A key is merged at its first choice."""
    named = [(key_bytes(name), weight) for name, weight in records]
    keys = list(dict.fromkeys(key for key, _ in named))
    index = {key: i for i, key in enumerate(keys)}
    row = np.array([index[key] for key, _ in named], dtype=np.int64)
    weight = np.array([weight for _, weight in named], dtype=np.float64)
    two = TwoChoices.hashed(keys, n_servers)
    server = np.empty(len(row), dtype=np.int64)
    for source in range(n_sources):
        dealt = slice(source, None, n_sources)
        server[dealt] = two.send(row[dealt], weight[dealt])
    held = np.unique(row * n_servers + server)
    home = two.choices[0, held // n_servers]
    merged = home[held % n_servers != home]
    merge_load = np.bincount(merged, minlength=n_servers).astype(np.float64)
    load = np.asarray(np.bincount(server, weights=weight, minlength=n_servers), dtype=np.float64)
    return TwoChoicesOutcome(load, len(held), int(merge_load.sum()), merge_load)
