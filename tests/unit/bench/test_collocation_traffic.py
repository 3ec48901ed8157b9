"""Senders and receivers of the scenario: patterns, shares of the traffic, seeds and drift."""

from __future__ import annotations

import numpy as np
import pytest

from bench.simulator.traffic import (
    CHAINS,
    FULL,
    MERGE,
    ONE_TO_ONE,
    PAIRS,
    PARTIAL,
    PATTERNS,
    RECORDS,
    Scenario,
    TrafficSimulation,
    connected,
    receivers,
)
from solvers.model import metrics


@pytest.mark.parametrize(("nodes", "groups", "operators"), [(20, 400, 10), (60, 1200, 30)])
def test_sizes_are_those_of_the_paper(nodes: int, groups: int, operators: int) -> None:
    problem = TrafficSimulation(Scenario(nodes), 1).problem()
    assert (problem.n_nodes, problem.n_key_groups) == (nodes, groups)
    assert len(set(problem.operator_ids)) == operators
    assert set(np.bincount(problem.current).tolist()) == {20}


def test_patterns_of_figure_1() -> None:
    def reached(pattern: str) -> list[list[int]]:
        return [receivers(pattern, lane, 8) for lane in range(8)]

    assert reached(ONE_TO_ONE) == [[lane] for lane in range(8)]
    assert all(len(to) == 1 for to in reached(MERGE))
    assert len({to[0] for to in reached(MERGE)}) == 4
    assert all(1 < len(set(to)) < 8 for to in reached(PARTIAL))
    assert all(sorted(to) == list(range(8)) for to in reached(FULL))


def test_pairs_are_apart_and_a_chain_is_in_a_row() -> None:
    assert connected(PAIRS, 6) == [(0, 1), (2, 3), (4, 5)]
    assert connected(CHAINS, 4) == [(0, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_a_share_of_the_key_groups_sends_one_to_one(share: float) -> None:
    scenario = Scenario(20, PAIRS, collocatable=share)
    source, _, rate = TrafficSimulation(scenario, 4).traffic
    entries = np.bincount(source, minlength=scenario.key_groups)
    senders = entries > 0
    assert senders.sum() == scenario.key_groups / 2
    assert (entries[senders] == 1).sum() == pytest.approx(share * senders.sum())
    one_to_one = float(rate[entries[source] == 1].sum() / rate.sum())
    assert one_to_one == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("shape", [PAIRS, CHAINS])
def test_every_pattern_sends_the_same_in_all(pattern: str, shape: str) -> None:
    _, _, rate = TrafficSimulation(Scenario(20, shape, pattern), 4).traffic
    senders = 40 * len(connected(shape, 10))
    assert float(rate.sum()) == pytest.approx(RECORDS * senders, rel=0.01)


def test_a_seed_repeats_the_start_and_the_drift() -> None:
    one, two = (TrafficSimulation(Scenario(20, CHAINS, skew=0.5), 9) for _ in range(2))
    other = TrafficSimulation(Scenario(20, CHAINS, skew=0.5), 10)
    assert np.array_equal(one.problem().current, two.problem().current)
    assert not np.array_equal(one.problem().current, other.problem().current)
    for world in (one, two):
        world.follow(world.problem().current)
    assert np.array_equal(one.load, two.load)


def test_drift_changes_a_fifth_of_the_nodes_by_two_percent_at_most() -> None:
    world = TrafficSimulation(Scenario(20), 2)
    before = world.load.copy()
    plan = world.problem().current.copy()
    plan[0] = (plan[0] + 1) % 20
    assert world.follow(plan).moves == 1
    factor = world.load / before
    assert np.abs(factor - 1.0).max() <= 0.02
    assert len(set(plan[factor != 1.0].tolist())) == 4


def test_an_unskewed_start_is_level_and_a_skewed_one_is_not() -> None:
    plain, skewed = (TrafficSimulation(Scenario(20, skew=s), 3).problem() for s in (0.0, 0.5))
    assert metrics.load_distance(plain, plain.current) < 10
    assert metrics.load_distance(skewed, skewed.current) > 10
    assert plain.load.sum() == pytest.approx(10.0)


@pytest.mark.parametrize(
    "wrong",
    [{"shape": "rings"}, {"pattern": "some"}, {"nodes": 5}, {"collocatable": 1.5}, {"skew": -1.0}],
)
def test_what_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"no such|whole|between"):
        Scenario(**{"nodes": 20, **wrong})  # type: ignore[arg-type]
