"""The sticky search weighs locality against moved state and keeps the balance bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.key_routing.key_graph import KeyGraph
from solvers.key_routing.route_quality import quality
from solvers.key_routing.sticky_search import (
    CurrentServers,
    StickyParams,
    fresh_routes,
    sticky_routes,
)
from solvers.model.amortisation import (
    AmortisationGate,
)
from tests.unit.solvers.key_routing.instances import QUICK, key_graphs


@given(graph=key_graphs(), servers=st.integers(1, 4), data=st.data())
@QUICK
def test_a_start_within_the_balance_bound_stays_within_it_and_loses_no_locality(
    graph: KeyGraph, servers: int, data: st.DataObject
) -> None:
    n = graph.n_vertices
    before = np.array([data.draw(st.integers(0, servers - 1)) for _ in range(n)])
    was = quality(graph, before, servers)
    params = StickyParams(imbalance=max(1.05, was.imbalance), try_fresh=data.draw(st.booleans()))
    plan = sticky_routes(graph, CurrentServers(before, np.ones(n, dtype=bool), servers), params)
    now = quality(graph, plan.server, servers)
    assert now.locality >= was.locality - 1e-9
    heaviest = max(
        float(graph.weight[graph.stage(side)].max() / graph.weight[graph.stage(side)].sum())
        for side in (0, 1)
    )
    assert now.imbalance <= max(params.imbalance, heaviest * servers) + 1e-9


def test_the_gate_decides_key_by_key_what_moves() -> None:
    """One key saves 10 records a period with a state of 4, the other 3 with a state of 4."""
    pairs = [(b"a", b"x", 10.0), (b"b", b"x", 3.0), (b"c", b"y", 13.0)]
    graph = KeyGraph.from_counts(pairs, state={(0, b"a"): 4.0, (0, b"b"): 4.0})
    names = list(graph.keys)
    before = np.array([{b"a": 1, b"b": 1, b"c": 1, b"x": 0, b"y": 1}[key] for key in names])
    for price, moved in ((0.5, {b"a", b"b"}), (1.0, {b"a"}), (4.0, set())):
        gate = AmortisationGate(records_per_byte=price)
        params = StickyParams(imbalance=2.0, gate=gate, try_fresh=False)
        heavy = graph.state.copy()
        heavy[[names.index(b"x"), names.index(b"y")]] = 1000.0
        held = KeyGraph(
            graph.keys, graph.n_left, graph.weight, heavy,
            graph.edge_left, graph.edge_right, graph.edge_weight,
        )  # fmt: skip
        plan = sticky_routes(
            held, CurrentServers(before, np.ones(len(names), dtype=bool), 2), params
        )
        changed = {
            key for key, old, new in zip(names, before, plan.server, strict=True) if old != new
        }
        assert changed == moved


def test_a_new_key_goes_where_its_partner_is() -> None:
    pairs = [(b"old", b"x", 5.0), (b"new", b"x", 5.0), (b"other", b"y", 10.0)]
    graph = KeyGraph.from_counts(pairs)
    names = list(graph.keys)
    before = np.array([{b"old": 2, b"x": 2, b"other": 0, b"y": 0}.get(k, 1) for k in names])
    known = np.array([k != b"new" for k in names])
    params = StickyParams(
        imbalance=3.0, gate=AmortisationGate(records_per_byte=1e9), try_fresh=False
    )
    plan = sticky_routes(graph, CurrentServers(before, known, 3), params)
    assert plan.server[names.index(b"new")] == 2
    assert plan.moved_state == 0.0


def test_a_server_over_its_bound_sheds_keys() -> None:
    pairs = [(f"a{i}".encode(), f"b{i}".encode(), 1.0) for i in range(12)]
    graph = KeyGraph.from_counts(pairs)
    before = np.zeros(graph.n_vertices, dtype=np.int64)
    plan = sticky_routes(
        graph,
        CurrentServers(before, np.ones(graph.n_vertices, dtype=bool), 3),
        StickyParams(imbalance=1.0),
    )
    assert quality(graph, plan.server, 3).imbalance == pytest.approx(1.0)
    assert quality(graph, plan.server, 3).locality == pytest.approx(100.0)


@given(graph=key_graphs(), servers=st.integers(1, 4))
@QUICK
def test_a_plan_from_nothing_is_the_start_that_the_search_would_make(
    graph: KeyGraph, servers: int
) -> None:
    fresh = fresh_routes(graph, servers, 1.5)
    assert set(fresh.tolist()) <= set(range(servers))
    before = np.zeros(graph.n_vertices, dtype=np.int64)
    known = np.ones(graph.n_vertices, dtype=bool)
    params = StickyParams(imbalance=float(servers))
    given_it = sticky_routes(graph, CurrentServers(before, known, servers), params, fresh=fresh)
    assert given_it.local_weight >= graph.local_weight(fresh) - 1e-9
