"""Runs all methods on a stream period by period; each plan uses the periods before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from bench.routing.methods import (
    PAPERS_DECAY,
    Knowledge,
    Once,
    Ours,
    Paper,
    RoutingMethod,
    SeasonCourse,
    offline_place,
)
from bench.routing.streams import Stream
from solvers.key_routing.decayed_statistics import CANDIDATES, DecayedStatistics
from solvers.key_routing.pair_statistics import PairStatistics, merge_statistics
from solvers.key_routing.sticky_search import fresh_routes
from solvers.model.amortisation import RECORDS_PER_BYTE

SERVERS = 6
FIRST_WEEK = 5
"""The first week with a plan; statistics are collected in the five weeks before it."""
ALL_PAIRS = 1_000_000
"""More pairs than a stream of flights has."""


@dataclass(frozen=True)
class SeasonOutcome:
    """One method on one stream with this number of counted pairs; only Ballast's has a
    ``price``."""

    stream: str
    n_pairs: int
    method: str
    price: float
    course: SeasonCourse

    @property
    def locality(self) -> float:
        return float(np.mean(self.course.locality))

    @property
    def moved(self) -> float:
        """Return the moved state in percent a week, without the first plan, which all share."""
        return float(np.mean(self.course.moved)) if self.course.moved else 0.0

    @property
    def imbalance(self) -> float:
        return float(np.mean(self.course.imbalance))

    @property
    def worst_imbalance(self) -> float:
        return max(self.course.imbalance)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


Say = Callable[[str], None]


def season(
    stream: Stream,
    n_pairs: int,
    prices: Sequence[float],
    seed: int,
    say: Say,
    last_week: int | None = None,
) -> list[SeasonOutcome]:
    """Run all methods, ours once for each price."""
    statistics = DecayedStatistics(
        partial(fresh_routes, n_servers=SERVERS, seed=seed), SERVERS, CANDIDATES
    )
    known = Knowledge(stream, statistics, SERVERS, seed)
    ours = [Ours(stream, SERVERS, price) for price in prices]
    methods: list[RoutingMethod] = [
        RoutingMethod(stream, SERVERS),
        Once(stream, SERVERS),
        Paper(stream, SERVERS),
        Paper(stream, SERVERS, PAPERS_DECAY),
        *ours,
    ]
    first: list[PairStatistics] = []
    periods = stream.periods[:last_week]
    for number, period in enumerate(periods):
        for method in methods:
            method.serve(period, counts=number >= FIRST_WEEK)
        if number + 1 == len(periods):
            break
        counted = period.statistics(n_pairs)
        statistics.observe(counted)
        if number + 1 < FIRST_WEEK:
            first.append(counted)
        elif number + 1 == FIRST_WEEK:
            together = merge_statistics([*first, counted], n_pairs, counted.left.capacity)
            start = offline_place(known, methods[0].world, together)
            for method in methods:
                method.begin(start)
        else:
            for method in methods:
                method.plan(known)
        if (number + 1) % 10 == 0:
            say(f"{stream.name}, {pairs_text(n_pairs)}: week {number + 1} of {len(periods)}")
    return [
        SeasonOutcome(stream.name, n_pairs, m.name, getattr(m, "price", 0.0), m.course)
        for m in methods
    ]


def pairs_text(n_pairs: int) -> str:
    return "all pairs" if n_pairs >= ALL_PAIRS else f"{n_pairs:,} pairs"


def default_prices() -> tuple[float, ...]:
    return (0.0, RECORDS_PER_BYTE)
