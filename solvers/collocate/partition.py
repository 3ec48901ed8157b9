"""Balanced graph partitioning by METIS, with a fallback where METIS has no answer.

METIS needs whole positive weights and at most one part per vertex. Where all weights are zero, or
METIS leaves parts empty or fails, the fallback puts each vertex into the lightest part, heaviest
vertex first. A vertex that fills a part gets a part of its own.
"""

from __future__ import annotations

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.model.problem import BoolArray, FloatArray, IntArray
from solvers.model.traffic_graph import TrafficGraph

LARGEST_WEIGHT = 100_000
"""The largest weight after scaling, because METIS sums weights in 32 bits."""
LARGEST_SUM = 2**31 - 1
RECURSIVE_UP_TO = 8
"""METIS advises recursive bisection for few parts and k-way for many."""


def partition(
    graph: TrafficGraph,
    weight: FloatArray,
    n_parts: int,
    *,
    imbalance: float = 1.03,
    seed: int = 0,
) -> IntArray:
    """Partition the vertices into parts of about even weight along few edges.

    Args:
        graph: Traffic between the vertices.
        weight: [vertices] Weight of each vertex.
        n_parts: Number of parts.
        imbalance: Largest weight of a part over the mean; METIS may exceed it a little.
        seed: Seed of METIS.

    Returns:
        [vertices] The part of each vertex, 0 to n_parts - 1.

    Raises:
        InvalidInput: ``n_parts`` or ``imbalance`` is below 1.
    """
    if n_parts < 1 or imbalance < 1.0:
        raise InvalidInput("a partition needs n_parts >= 1 and imbalance >= 1")
    n = graph.n_vertices
    if n_parts == 1 or n == 0:
        return np.zeros(n, dtype=np.int64)
    if n_parts >= n:
        return np.arange(n, dtype=np.int64)
    if not weight.max(initial=0.0) > 0 or not len(graph.partner):
        return _fill_lightest(weight, n_parts)
    giants = _giants(weight, n_parts)
    if len(giants):
        rest = np.setdiff1d(np.arange(n), giants)
        parts: IntArray = np.empty(n, dtype=np.int64)
        parts[giants] = np.arange(len(giants))
        left = n_parts - len(giants)
        parts[rest] = len(giants) + partition(
            graph.subgraph(rest), weight[rest], left, imbalance=imbalance, seed=seed
        )
        return parts
    by_metis = _metis(graph, weight, n_parts, imbalance, seed)
    if by_metis is None or len(np.unique(by_metis)) < n_parts:
        return _fill_lightest(weight, n_parts)
    return by_metis


def cut_off(graph: TrafficGraph, weight: FloatArray, share: float, *, seed: int = 0) -> BoolArray:
    """Cut a piece with about this share of the weight off a graph, along few edges.

    Returns:
        [vertices] Whether a vertex is in the piece. Neither the piece nor the rest is empty.

    Raises:
        InvalidInput: there are fewer than two vertices, or the share is not between 0 and 1.
    """
    n = graph.n_vertices
    if n < 2 or not 0.0 < share < 1.0:
        raise InvalidInput("a piece is cut off two or more vertices, by a share between 0 and 1")
    total = float(weight.sum())
    if total > 0 and len(graph.partner):
        halves = _metis(graph, weight, 2, 1.03, seed, shares=[share, 1.0 - share])
        if halves is not None and 0 < np.count_nonzero(halves == 0) < n:
            return np.asarray(halves == 0)
    # The piece is too small for METIS: take the one vertex with the nearest weight.
    return np.asarray(np.arange(n) == int(np.argmin(np.abs(weight - share * total))))


def _giants(weight: FloatArray, n_parts: int) -> IntArray:
    """Return vertices that fill a part alone, heaviest first; one part is left for the others.

    METIS would leave parts empty for them and print a warning.
    """
    order = np.argsort(-weight, kind="stable")
    total = float(weight.sum())
    giants: list[int] = []
    for vertex in order[: n_parts - 1].tolist():
        if weight[vertex] * (n_parts - len(giants)) < total:
            break
        giants.append(vertex)
        total -= float(weight[vertex])
    return np.array(giants, dtype=np.int64)


def _metis(
    graph: TrafficGraph,
    weight: FloatArray,
    n_parts: int,
    imbalance: float,
    seed: int,
    shares: list[float] | None = None,
) -> IntArray | None:
    """Run METIS; ``shares`` are the parts' shares of the weight, even if None.

    Returns:
        [vertices] The part of each vertex; None if METIS fails.
    """
    import pymetis

    options = pymetis.Options()
    options.seed = seed % 2**31
    options.ufactor = max(1, round((imbalance - 1.0) * 1000))
    try:
        answer = pymetis.part_graph(
            n_parts,
            adjacency=pymetis.CSRAdjacency(graph.indptr, graph.partner),
            vweights=_whole(weight, lowest=0),
            eweights=_whole(graph.rate, lowest=1),
            tpwgts=shares,
            recursive=n_parts <= RECURSIVE_UP_TO,
            options=options,
        )
    except RuntimeError:
        return None  # METIS refused the instance.
    return np.array(answer[1], dtype=np.int64)


def _whole(weights: FloatArray, lowest: int) -> IntArray:
    largest = min(LARGEST_WEIGHT, LARGEST_SUM // max(1, 2 * len(weights)))
    scaled = np.rint(weights * (max(1, largest) / weights.max(initial=0.0)))
    whole: IntArray = np.maximum(scaled, lowest).astype(np.int64)
    return whole


def _fill_lightest(weight: FloatArray, n_parts: int) -> IntArray:
    parts = np.zeros(len(weight), dtype=np.int64)
    filled, count = np.zeros(n_parts), np.zeros(n_parts)
    for vertex in np.argsort(-weight, kind="stable"):
        # The count breaks ties, so that vertices without weight spread as well.
        lightest = int(np.lexsort((count, filled))[0])
        parts[vertex] = lightest
        filled[lightest] += weight[vertex]
        count[lightest] += 1
    return parts
