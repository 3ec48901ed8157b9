"""Loads, traffic and state follow the keys to other key groups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ballast.contracts.identity import hashed_key_group
from solvers.key_routing.rerouting import PlacedEdge, reroute
from solvers.key_routing.routing_effect import (
    key_moves_between,
    problem_after,
    routing_after,
)
from solvers.model.amortisation import AmortisationGate
from solvers.model.noise import LoadNoise
from solvers.verify.routes import RoutedFacts
from tests.unit.solvers.key_routing.instances import (
    EDGE,
    FREE,
    GROUPS,
    all_moves,
    keys_of,
    world,
)


def test_loads_and_traffic_are_moved_and_never_made() -> None:
    problem, statistics = world()
    found = reroute(PlacedEdge(problem, problem.current, statistics, {}, EDGE), FREE, imbalance=1.3)
    routing = routing_after(problem, {}, all_moves(found))
    after = problem_after(problem, statistics, {}, routing)
    assert after.load.sum() == pytest.approx(problem.load.sum())
    assert (after.load >= 0).all()
    assert after.traffic_rate.sum() == pytest.approx(problem.traffic_rate.sum())
    assert problem_after(problem, statistics, routing, routing) is problem


def test_the_noise_of_loads_stays_and_that_of_edges_is_not_known_any_more() -> None:
    problem, statistics = world()
    edges = np.ones(len(problem.traffic_rate))
    noise = LoadNoise(
        0.1 * problem.load, 0.1 * problem.load, np.ones(problem.n_resources), 12,
        traffic_error=edges, traffic_period_sd=edges,
    )  # fmt: skip
    noisy = replace(problem, noise=noise)
    found = reroute(PlacedEdge(noisy, noisy.current, statistics, {}, EDGE), FREE, imbalance=1.3)
    routing = routing_after(noisy, {}, all_moves(found))
    after = problem_after(noisy, statistics, {}, routing)
    assert len(after.traffic_rate) != len(edges)
    assert after.noise.period_sd.tolist() == noise.period_sd.tolist()
    assert after.noise.traffic_error is None
    facts = RoutedFacts(noisy, statistics, {}, routing)
    assert facts.problem_after().noise.traffic_error is None


def test_a_key_that_is_back_where_its_hash_is_needs_no_route() -> None:
    problem, statistics = world()
    found = reroute(PlacedEdge(problem, problem.current, statistics, {}, EDGE), FREE, imbalance=1.3)
    routing = routing_after(problem, {}, all_moves(found))
    back = key_moves_between(problem, statistics, routing, {})
    assert len(back) == len(key_moves_between(problem, statistics, {}, routing)) > 0
    assert routing_after(problem, routing, back) == {}


def test_a_key_that_was_not_kept_weighs_what_its_pairs_do() -> None:
    problem, statistics = world()
    found = reroute(PlacedEdge(problem, problem.current, statistics, {}, EDGE), FREE, imbalance=1.3)
    routing = routing_after(problem, {}, all_moves(found))
    known = key_moves_between(problem, statistics, {}, routing)
    not_kept = replace(statistics, keys={})
    unknown = key_moves_between(problem, not_kept, {}, routing)
    assert known
    assert [move.bytes for move in unknown] == pytest.approx([move.bytes for move in known])
    dear = AmortisationGate(records_per_byte=1e6, lifetime=1.0)
    assert reroute(PlacedEdge(problem, problem.current, not_kept, {}, EDGE), dear).moves == ()


def test_what_may_have_been_missed_of_a_key_counts_as_bytes_and_not_as_load() -> None:
    problem, statistics = world()
    key = keys_of("b")[0]
    routing = {"count": {key: (hashed_key_group(key, GROUPS) + 1) % GROUPS}}
    doubtful = replace(statistics, errors={"count": {key: 10.0}})
    (sure,) = key_moves_between(problem, statistics, {}, routing)
    (most,) = key_moves_between(problem, doubtful, {}, routing)
    assert most.bytes == pytest.approx(2 * sure.bytes)
    loads = [problem_after(problem, given, {}, routing).load for given in (statistics, doubtful)]
    assert loads[0].tolist() == loads[1].tolist()
