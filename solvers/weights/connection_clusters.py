"""Clusters of connections that behave alike: [MW16-REGIONS, 5.3].

Distance(F_j, F_k) = max(|log w_js / w_ks|, a |log F_j(w_js) / F_k(w_ks)|,
a |log F_j(w_jR) / F_k(w_kR)|) with a = log R / |log(R delta)|. Clustering is agglomerative with
complete linkage: the distance of two members of a cluster is at most the cut.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage  # type: ignore[import-untyped]
from scipy.spatial.distance import squareform  # type: ignore[import-untyped]

from solvers.model.problem import FloatArray, IntArray
from solvers.weights.blocking_function import first_blocking


def distances(functions: FloatArray, delta: float) -> FloatArray:
    """[N, N]: the paper's distance of all pairs of connections."""
    units = functions.shape[1] - 1
    alpha = math.log(units) / abs(math.log(units * delta))
    knees = np.array([first_blocking(f, delta) for f in functions], dtype=np.int64)
    rows = np.arange(len(functions))
    knee = np.log(knees)
    at_knee = alpha * np.log(functions[rows, knees])
    at_all = alpha * np.log(functions[:, units])
    return np.asarray(
        np.max([np.abs(x[:, None] - x[None, :]) for x in (knee, at_knee, at_all)], axis=0)
    )


def cluster(functions: FloatArray, delta: float, cut: float) -> IntArray:
    """[N]: the cluster of each connection, numbered from 0 by first appearance."""
    if len(functions) < 2:
        return np.zeros(len(functions), dtype=np.int64)
    tree = linkage(squareform(distances(functions, delta), checks=False), method="complete")
    labels = fcluster(tree, t=cut, criterion="distance")
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))
    return np.asarray(order[inverse], dtype=np.int64)
