"""Figures of plans, independent of any method.

Definitions are those of docs/glossary.md. Load distance in points of load and the load index are
defined in [ICDE17, 4.3.1 and 5].
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem


def node_loads(problem: Problem, assignment: IntArray) -> FloatArray:
    """[N, R]: sum of the loads of a node's key groups / its capacity."""
    sums = np.empty((problem.n_nodes, problem.n_resources))
    for r in range(problem.n_resources):
        sums[:, r] = np.bincount(assignment, weights=problem.load[:, r], minlength=problem.n_nodes)
    loads: FloatArray = sums / problem.capacity
    return loads


def mean_load(problem: Problem) -> FloatArray:
    """[R]: m = total load / total capacity of the nodes that stay; NaN if none stays."""
    capacity = problem.capacity[problem.staying].sum(axis=0)
    total = problem.load.sum(axis=0)
    mean: FloatArray = np.full_like(total, np.nan)
    np.divide(total, capacity, out=mean, where=capacity > 0)
    return mean


def relative_deviation(problem: Problem, assignment: IntArray) -> FloatArray:
    """[N, R]: (load - m) / m for nodes that stay; 0 for other nodes and for unused resources."""
    mean = mean_load(problem)
    used = mean > 0
    deviation = np.zeros((problem.n_nodes, problem.n_resources))
    if used.any():
        loads = node_loads(problem, assignment)
        deviation[:, used] = loads[:, used] / mean[used] - 1.0
    deviation[~problem.staying] = 0.0
    return deviation


def weighted_deviation(problem: Problem, assignment: IntArray) -> FloatArray:
    """[N, R]: weight x (load - m) / m, of which load distance is the maximum; 0 for caps."""
    deviation = relative_deviation(problem, assignment)
    deviation *= np.where(problem.balanced_mask, problem.weights, 0.0)
    return deviation


def load_distance(problem: Problem, assignment: IntArray) -> float:
    """100 x max over staying nodes and balanced resources of weight x |load - m| / m.

    It is in percent of the mean if the weights are 1, as they are by default.
    """
    return 100.0 * float(np.abs(weighted_deviation(problem, assignment)).max(initial=0.0))


def load_distance_points(problem: Problem, assignment: IntArray) -> float:
    """100 x max over staying nodes and balanced resources of |load - m|, in points of load.

    This is the unit of [ICDE17]. Weights do not count.
    """
    staying = problem.staying
    if not staying.any():
        return 0.0
    distance = np.abs(node_loads(problem, assignment)[staying] - mean_load(problem))
    return 100.0 * float(distance[:, problem.balanced_mask].max(initial=0.0))


CAP_TOLERANCE = 1e-9
"""Relative tolerance of caps: sums of the same loads in another order differ by less."""


def load_index(before: FloatArray, after: FloatArray) -> float:
    """100 x total load after / total load before, for the resource whose load falls least."""
    was, now = before.sum(axis=0), after.sum(axis=0)
    index = np.divide(now, was, out=np.ones_like(was), where=was > 0)
    return 100.0 * float(index[was > 0].max(initial=0.0)) if (was > 0).any() else 100.0


def over_cap(problem: Problem, assignment: IntArray, load: FloatArray | None = None) -> BoolArray:
    """[N, R]: the load of a capped resource is above its cap and above the load before.

    Args:
        problem: The problem with the current assignment.
        assignment: The assignment to check.
        load: [G, R], the loads under the assignment, if they depend on it.
    """
    if problem.balanced_mask.all():
        return np.zeros((problem.n_nodes, problem.n_resources), dtype=bool)
    loaded = problem if load is None else replace(problem, load=load)
    sums = node_loads(loaded, assignment) * problem.capacity
    return np.asarray(sums > problem.cap_limit * (1 + CAP_TOLERANCE))


def moved_mask(problem: Problem, assignment: IntArray) -> BoolArray:
    """[G]: the key group is on another node than now."""
    return np.asarray(assignment != problem.current)


def forced_mask(problem: Problem) -> BoolArray:
    """[G]: the key group is on a dead node, so it must move (without a cost for the budget)."""
    return problem.dead[problem.current]


def voluntary_mask(problem: Problem, assignment: IntArray) -> BoolArray:
    """[G]: moved and not forced; the budget limits these moves."""
    return moved_mask(problem, assignment) & ~forced_mask(problem)


def draining_load(problem: Problem, assignment: IntArray) -> float:
    """Return the load on draining nodes in percent of the total load, for the worst resource."""
    on_draining = problem.draining[assignment]
    total = problem.load.sum(axis=0)
    left = problem.load[on_draining].sum(axis=0)
    shares = np.divide(left, total, out=np.zeros_like(total), where=total > 0)
    return 100.0 * float(shares.max(initial=0.0))


def collocation_factor(problem: Problem, assignment: IntArray) -> float | None:
    """100 x rate on edges whose ends share a node / rate on all edges; None without traffic."""
    return _traffic_within(problem, assignment)


def saved_traffic(
    problem: Problem, assignment: IntArray, within_rack: float, between_racks: float
) -> float | None:
    """Return the percentage of the traffic's cost that the assignment saves.

    100 percent is the cost if all records went between racks. If records within and between racks
    cost the same, this is the collocation factor.

    Args:
        problem: Traffic and racks.
        assignment: The node index of each key group.
        within_rack: Price of a record between nodes of one rack.
        between_racks: Price of a record between racks.

    Returns:
        The percentage, or None without traffic.
    """
    _, rack_of = np.unique(np.array(problem.rack), return_inverse=True)
    in_node = _traffic_within(problem, assignment)
    in_rack = _traffic_within(problem, rack_of[assignment])
    if in_node is None or in_rack is None or within_rack >= between_racks:
        return in_node
    return in_node + (1.0 - within_rack / between_racks) * (in_rack - in_node)


def _traffic_within(problem: Problem, place_of: IntArray) -> float | None:
    """Return the percentage of traffic within nodes (or racks); None without traffic."""
    if problem.traffic_from is None or problem.traffic_to is None or problem.traffic_rate is None:
        return None
    total = float(problem.traffic_rate.sum())
    if total <= 0:
        return None
    together = place_of[problem.traffic_from] == place_of[problem.traffic_to]
    return 100.0 * float(problem.traffic_rate[together].sum()) / total
