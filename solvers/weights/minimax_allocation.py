"""Minimax separable resource allocation by Fox's greedy: [MW16-REGIONS, 5.2].

Minimise the largest F_j(w_j); the weights add up to all units, and each is within its bounds. For
non-decreasing F_j the greedy is exact: it always gives the next unit to the connection that will
block least (Fox 1966). The tests compare it with brute force.
"""

from __future__ import annotations

import heapq

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.model.problem import FloatArray, IntArray


def minimax_allocation(
    functions: FloatArray, lowest: IntArray, highest: IntArray, units: int
) -> IntArray:
    """Share whole units among connections so that the largest function value is smallest.

    Args:
        functions: [N, units + 1], each row non-decreasing.
        lowest: [N], fewest units of each connection.
        highest: [N], most units of each connection.
        units: number of units to share.

    Returns:
        [N], units of each connection.

    Raises:
        InvalidInput: a function falls, or the bounds do not allow exactly ``units`` units.
    """
    _check(functions, lowest, highest, units)
    weights: IntArray = np.array(lowest, dtype=np.int64)
    # Ties go to the lighter connection, so that equal functions share evenly.
    heap = [
        (float(functions[j, weights[j] + 1]), int(weights[j]), j)
        for j in range(len(weights))
        if weights[j] < highest[j]
    ]
    heapq.heapify(heap)
    for _ in range(units - int(weights.sum())):
        _, _, j = heapq.heappop(heap)
        weights[j] += 1
        if weights[j] < highest[j]:
            heapq.heappush(heap, (float(functions[j, weights[j] + 1]), int(weights[j]), j))
    return weights


def _check(functions: FloatArray, lowest: IntArray, highest: IntArray, units: int) -> None:
    if functions.ndim != 2 or functions.shape[1] != units + 1:
        raise InvalidInput(
            f"functions have the shape {functions.shape}", allowed=f"[connections, {units + 1}]"
        )
    if bool((np.diff(functions, axis=1) < 0).any()):
        raise InvalidInput("a blocking-rate function falls", allowed="non-decreasing functions")
    if bool((lowest < 0).any() or (lowest > highest).any() or (highest > units).any()):
        raise InvalidInput(
            "the bounds of a weight cross", allowed=f"0 <= lowest <= highest <= {units}"
        )
    if int(lowest.sum()) > units or int(highest.sum()) < units:
        raise InvalidInput(
            f"the bounds allow {int(lowest.sum())} to {int(highest.sum())} units in all",
            allowed=f"bounds that {units} units fit into",
        )
