"""Keys follow their partners to key groups on their nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solvers.key_routing.key_map import KeyMap
from solvers.key_routing.rerouting import PlacedEdge, reroute
from solvers.key_routing.routing_effect import (
    problem_after,
    routing_after,
)
from solvers.model import metrics
from solvers.model.amortisation import AmortisationGate
from solvers.model.key_statistics import KeyStatistics
from tests.unit.solvers.key_routing.instances import (
    EDGE,
    FREE,
    GROUPS,
    all_moves,
    keys_of,
    world,
)


def test_every_pair_comes_together_and_followers_follow() -> None:
    problem, statistics = world()
    found = reroute(PlacedEdge(problem, problem.current, statistics, {}, EDGE), FREE, imbalance=1.3)
    moves = all_moves(found)
    routing = routing_after(problem, {}, moves)
    after = problem_after(problem, statistics, {}, routing)
    assert metrics.collocation_factor(problem, problem.current) < 80.0
    assert metrics.collocation_factor(after, problem.current) == pytest.approx(100.0)
    placed = KeyMap(problem, routing)
    for key in keys_of("a"):
        nodes = {int(problem.current[placed.row(name, key)]) for name in ("parse", "clean")}
        assert len(nodes) == 1


def test_the_papers_partition_brings_pairs_together_at_any_price() -> None:
    problem, statistics = world()
    placed = PlacedEdge(problem, problem.current, statistics, {}, EDGE)
    dear = AmortisationGate(records_per_byte=1e6, lifetime=1.0)
    routing = routing_after(problem, {}, all_moves(reroute(placed, dear, method="metis")))
    after = problem_after(problem, statistics, {}, routing)
    before = metrics.collocation_factor(problem, problem.current)
    assert metrics.collocation_factor(after, problem.current) > before


def test_a_price_that_no_key_earns_leaves_all_where_they_are() -> None:
    problem, statistics = world()
    dear = AmortisationGate(records_per_byte=1e6, lifetime=1.0)
    assert reroute(PlacedEdge(problem, problem.current, statistics, {}, EDGE), dear).moves == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"node_state": ("alive", "draining")}, "while nodes drain"),
        ({"capacity": np.array([[1.0], [2.0]])}, "the same capacity"),
        ({"current": np.zeros(3 * GROUPS, dtype=np.int64)}, "not every node holds key groups"),
    ],
)
def test_what_cannot_be_routed_is_said(change, said) -> None:
    problem, statistics = world()
    changed = replace(problem, **change)
    found = reroute(PlacedEdge(changed, changed.current, statistics, {}, EDGE), FREE)
    assert found.moves == ()
    assert said in found.reason
    assert (
        "no pairs of keys"
        in reroute(PlacedEdge(problem, problem.current, KeyStatistics(), {}, EDGE), FREE).reason
    )


def test_a_long_key_is_cut_where_it_is_shown() -> None:
    problem, statistics = world()
    long = "x" * 1000
    pairs = {("parse", "count"): {(long, "b0"): 5.0, (long, "b1"): 4.0, (long, "b2"): 3.0}}
    found = reroute(
        PlacedEdge(problem, problem.current, replace(statistics, pairs=pairs), {}, EDGE),
        AmortisationGate(1e9),
    )
    assert all(len(held.what[0]) < 60 for held in found.held)
