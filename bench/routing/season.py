"""A stream served period by period by all methods: each plan is made from the periods before."""

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
"""The first week that a plan serves; the five before it are learned from."""
ALL_PAIRS = 1_000_000
"""More than a stream of flights has."""


@dataclass(frozen=True)
class SeasonOutcome:
    """One method on one stream with so many pairs kept. ``price`` is of ours alone."""

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
        """Percent of the state, a week; the first plan of all is everybody's and counts nowhere."""
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
    """All methods side by side, ours once a price."""
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
