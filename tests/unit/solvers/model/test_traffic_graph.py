"""The traffic graph, METIS with its fallbacks, the bookkeeping of moves, the bound on rounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ballast.contracts.errors import InvalidInput
from solvers.collocate.clusters import split_to_fit
from solvers.collocate.lower_bound import fewest_moves, fewest_rounds
from solvers.collocate.partition import cut_off, partition
from solvers.collocate.placement_state import PlacementState
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.predicted_load import predicted_load
from solvers.model.problem import Problem
from solvers.model.traffic_costs import TrafficCosts
from solvers.model.traffic_graph import TrafficGraph
from tests.unit.solvers.collocate.instances import (
    collocated_rate,
    pairs_apart,
    problems,
    with_traffic,
)

QUICK = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def graph_of(n: int, edges: list[tuple[int, int, float]]) -> TrafficGraph:
    a, b, w = zip(*edges, strict=True) if edges else ((), (), ())
    return TrafficGraph.from_edges(
        n, np.array(a, dtype=np.int64), np.array(b, dtype=np.int64), np.array(w, dtype=float)
    )


def test_edges_listed_twice_and_both_ways_are_added_up() -> None:
    graph = graph_of(3, [(0, 1, 2.0), (0, 1, 3.0), (1, 0, 1.0), (2, 2, 9.0)])
    assert graph.partner.tolist() == [1, 0]
    assert graph.rate_out.tolist() == [5.0, 1.0]
    assert graph.rate_in.tolist() == [1.0, 5.0]
    assert graph.self_rate == 9.0
    assert graph.total_rate == 15.0


@given(
    n=st.integers(1, 12),
    parts=st.integers(1, 6),
    weights=st.lists(st.sampled_from([0.0, 1.0, 5.0]), min_size=12, max_size=12),
    edges=st.lists(
        st.tuples(st.integers(0, 11), st.integers(0, 11), st.sampled_from([0.0, 1.0, 1e9])),
        max_size=20,
    ),
)
@QUICK
def test_a_partition_uses_every_part_it_can(
    n: int, parts: int, weights: list[float], edges: list[tuple[int, int, float]]
) -> None:
    graph = graph_of(n, [(a % n, b % n, w) for a, b, w in edges])
    found = partition(graph, np.array(weights[:n]), parts)
    assert len(found) == n
    assert len(np.unique(found)) == min(n, parts)


def test_metis_refusing_an_instance_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    import pymetis

    def refuse(*args: object, **options: object) -> None:
        raise RuntimeError("METIS_ERROR_INPUT")

    monkeypatch.setattr(pymetis, "part_graph", refuse)
    graph = graph_of(4, [(0, 1, 1.0), (2, 3, 1.0)])
    found = partition(graph, np.array([3.0, 1.0, 1.0, 1.0]), 2)
    assert sorted(np.bincount(found, weights=[3.0, 1.0, 1.0, 1.0]).tolist()) == [3.0, 3.0]


def test_two_cliques_are_cut_between() -> None:
    clique = [(a, b, 10.0) for a, b in itertools.combinations(range(4), 2)]
    other = [(a + 4, b + 4, w) for a, b, w in clique]
    found = partition(graph_of(8, [*clique, *other, (0, 4, 1.0)]), np.ones(8), 2)
    assert len(set(found[:4].tolist())) == len(set(found[4:].tolist())) == 1


def test_a_cluster_heavier_than_a_node_is_split_to_fit() -> None:
    chain = graph_of(10, [(i, i + 1, 1.0) for i in range(9)])
    parts = split_to_fit(chain, np.arange(10), np.full(10, 0.3), 1.0, seed=0)
    assert sorted(np.concatenate(parts).tolist()) == list(range(10))
    assert all(0.3 * len(p) <= 1.0 + 1e-9 for p in parts)


def test_one_and_a_half_nodes_of_load_become_a_whole_node_and_a_half() -> None:
    chain = graph_of(30, [(i, i + 1, 1.0) for i in range(29)])
    parts = split_to_fit(chain, np.arange(30), np.full(30, 0.05), 1.07, seed=0, piece=1.0)
    assert sorted(len(p) for p in parts) == [10, 20]
    assert all(np.ptp(p) == len(p) - 1 for p in parts)


@pytest.mark.parametrize("share", [0.01, 0.05, 0.3, 0.5, 0.9])
def test_a_piece_is_cut_off_along_few_edges(share: float) -> None:
    chain = graph_of(40, [(i, i + 1, 1.0) for i in range(39)])
    inside = cut_off(chain, np.ones(40), share, seed=3)
    assert abs(inside.sum() - 40 * share) <= 1.5
    assert np.count_nonzero(np.diff(inside.astype(int))) <= 2
    with pytest.raises(InvalidInput):
        cut_off(graph_of(1, []), np.ones(1), share)


def test_a_piece_is_cut_off_without_traffic_or_weight() -> None:
    for weight in (np.ones(4), np.zeros(4)):
        inside = cut_off(graph_of(4, []), weight, 0.5)
        assert 0 < inside.sum() < 4


@given(problem=problems(), data=st.data(), send=st.floats(0, 1), receive=st.floats(0, 1))
@QUICK
def test_figures_kept_move_by_move_are_those_from_scratch(
    problem: Problem, data: st.DataObject, send: float, receive: float
) -> None:
    """Load, distance, saved traffic and budget, after random moves and their reversal."""
    count = problem.n_resources
    costs = TrafficCosts(
        send=(send,) * count, receive=(receive,) * count, within_rack=0.5, between_racks=1.0
    )
    graph = TrafficGraph.of(problem)
    place = PlacementState(problem, graph, costs, Budget(), problem.current)
    for _ in range(data.draw(st.integers(0, 8))):
        k = data.draw(st.integers(0, problem.n_key_groups - 1))
        node = data.draw(st.integers(0, problem.n_nodes - 1))
        if problem.staying.any():
            expected = place.distance_after(k, node)
            place.move(k, node)
            assert place.distance() == pytest.approx(expected, abs=1e-9)
    plan = place.assignment()
    load = predicted_load(problem, graph, costs, plan)
    for r in range(count):
        np.testing.assert_allclose(place.load[r], load[:, r], atol=1e-9)
    np.testing.assert_allclose(np.array(place.sums).T, _sums(problem, load, plan), atol=1e-9)
    moved = metrics.voluntary_mask(problem, plan)
    assert place.used[0] == int(moved.sum())
    assert place.used[1] == int(problem.state_bytes[moved].sum())
    assert place.saved == pytest.approx(_saved(problem, plan, costs), abs=1e-9)


def _sums(problem: Problem, load: np.ndarray, plan: np.ndarray) -> np.ndarray:
    sums = np.zeros((problem.n_nodes, problem.n_resources))
    np.add.at(sums, plan, load)
    return sums


def _saved(problem: Problem, plan: np.ndarray, costs: TrafficCosts) -> float:
    saved = 0.0
    for a, b, rate in zip(
        problem.traffic_from, problem.traffic_to, problem.traffic_rate, strict=True
    ):
        if a == b:
            continue
        if plan[a] == plan[b]:
            saved += float(rate) * costs.saved_by_node
        elif problem.rack[plan[a]] == problem.rack[plan[b]]:
            saved += float(rate) * costs.saved_by_rack
    return saved


@given(problem=problems(max_nodes=3, max_groups=5), share=st.sampled_from([0.3, 0.7, 1.0]))
@QUICK
def test_no_plan_collocates_more_with_fewer_moves_than_the_bound(
    problem: Problem, share: float
) -> None:
    wanted = share * TrafficGraph.of(problem).total_rate
    fewest = fewest_moves(problem, wanted)
    groups = range(problem.n_key_groups)
    for plan in itertools.product(range(problem.n_nodes), repeat=problem.n_key_groups):
        moves = sum(plan[k] != problem.current[k] for k in groups)
        if moves < fewest:
            assert collocated_rate(problem, np.array(plan)) < wanted + 1e-9 * max(1.0, wanted)


def test_the_bound_is_exact_on_pairs_and_on_a_chain() -> None:
    pairs = pairs_apart(10, 5)
    assert fewest_moves(pairs, 90.0) == 9
    assert fewest_rounds(pairs, 90.0, 4) == 3
    chain = with_traffic([1.0] * 5, list(range(5)), [(i, i + 1, 1.0) for i in range(4)])
    assert fewest_moves(chain, 4.0) == 4


def test_racks_need_prices_in_order() -> None:
    for bad in ({"within_rack": 2.0}, {"within_node": 1.0}, {"send": (-1.0,)}):
        with pytest.raises(InvalidInput):
            TrafficCosts(**bad)  # type: ignore[arg-type]
