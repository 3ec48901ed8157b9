"""METIS cuts the paper's example as the paper says, and renamed parts move less state."""

from __future__ import annotations

import pytest

from solvers.key_routing.key_graph import KeyGraph
from solvers.key_routing.metis_routes import Routes, match_labels, metis_routes
from solvers.key_routing.route_quality import quality

TWEETS = [
    (b"Asia", b"#java", 30.0),
    (b"Asia", b"#ruby", 20.0),
    (b"Asia", b"#python", 4.0),
    (b"Oceania", b"#python", 40.0),
    (b"Oceania", b"#java", 3.0),
]
"""[MW16-LOCALITY], Figures 4 and 5: their heavy edges; the figures have no numbers."""


def test_the_papers_example_is_cut_as_the_paper_says() -> None:
    graph = KeyGraph.from_counts(TWEETS)
    server = dict(zip(graph.keys, metis_routes(graph, 2, imbalance=1.2).tolist(), strict=True))
    assert server[b"Asia"] == server[b"#java"] == server[b"#ruby"]
    assert server[b"Oceania"] == server[b"#python"] != server[b"Asia"]


def test_a_pair_saves_its_frequency_times_n_minus_1_over_n() -> None:
    """[MW16-LOCALITY, 3.2], against hashing, over many keys."""
    n, pairs = 5, [(f"a{i}".encode(), f"b{i}".encode(), 1.0) for i in range(4000)]
    graph = KeyGraph.from_counts(pairs)
    hashed = quality(graph, Routes.hashed(n).servers_of(graph), n).locality
    assert hashed == pytest.approx(100.0 / n, abs=2.0)


def test_renaming_parts_keeps_state_where_it_is() -> None:
    graph = KeyGraph.from_counts(TWEETS)
    cut = metis_routes(graph, 2, imbalance=1.2)
    assert match_labels(graph, 1 - cut, cut, 2).tolist() == cut.tolist()
