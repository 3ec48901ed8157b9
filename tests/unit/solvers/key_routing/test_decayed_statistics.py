"""The back-test chooses how fast statistics decay."""

from __future__ import annotations

import numpy as np
import pytest

from ballast.contracts.errors import InvalidInput
from solvers.key_routing.decayed_statistics import DecayedStatistics, routed_by
from solvers.key_routing.key_graph import KeyGraph
from solvers.key_routing.pair_statistics import PairStatistics
from solvers.key_routing.routing_table import hash_server
from solvers.key_routing.sticky_search import (
    fresh_routes,
)
from solvers.model.problem import IntArray


def period(pairs: list[tuple[str, str, float]]) -> PairStatistics:
    statistics = PairStatistics.empty(100, 100)
    for a, b, n in pairs:
        statistics.observe(a, b, n)
    return statistics


def planner(graph: KeyGraph) -> IntArray:
    return fresh_routes(graph, 2, imbalance=2.0)


def test_the_back_test_keeps_lasting_pairs_and_drops_shifting_ones() -> None:
    rng = np.random.default_rng(0)
    shifting, lasting = (DecayedStatistics(planner, 2, (0.0, 0.9)) for _ in range(2))
    for week in range(6):
        # All pairs change every other week, against a noisy sample of lasting ones.
        phase = week // 2
        shifting.observe(
            period([(f"a{i}", f"b{(i + 3 * phase) % 8}", 10.0 + week) for i in range(8)])
        )
        lasting.observe(period([(f"a{i}", f"b{i}", 1.0) for i in range(8) if rng.random() < 0.5]))
    assert lasting.best_decay == 0.9
    assert shifting.best_decay == 0.0


def test_decays_outside_of_0_to_1_are_refused() -> None:
    with pytest.raises(InvalidInput):
        DecayedStatistics(planner, 2, (1.5,))
    with pytest.raises(InvalidInput):
        _ = DecayedStatistics(planner, 2).best


def test_a_plan_serves_the_keys_it_knows_and_hash_the_rest() -> None:
    planned = KeyGraph.from_counts([(b"a", b"x", 1.0)])
    came = KeyGraph.from_counts([(b"x", b"a", 1.0), (b"a", b"x", 1.0)])
    plan = np.array([2, 1])
    expected = [hash_server(b"x", 3), 2, hash_server(b"a", 3), 1]  # x, a on the left; a, x right
    assert routed_by(planned, plan, came, 3).tolist() == expected


def test_statistics_say_how_many_periods_they_weigh() -> None:
    statistics = DecayedStatistics(planner, 2, (0.0, 0.5))
    for _ in range(3):
        statistics.observe(period([("a", "x", 8.0), ("b", "y", 8.0)]))
    assert statistics.under(0.0).periods == 1.0
    assert statistics.under(0.5).periods == pytest.approx(1.75)
    assert statistics.under(0.5).graph.weight.tolist() == [14.0] * 4
