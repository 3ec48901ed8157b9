"""Checks the promises of a plan: intervals, and expected values against node sums of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from solvers.verify.assignment_rows import Assignment, columns_of, nodes_of_key_groups
from solvers.verify.plan_figures import Floats, load_with_costs, sum_by_node
from solvers.verify.promised_figures import is_close, is_number
from solvers.verify.violation import Violation

if TYPE_CHECKING:
    from solvers.model.problem import Problem
    from solvers.model.traffic_costs import TrafficCosts

LOAD_DISTANCE, MOVES, NODE_CPU = "load_distance_pct", "moves", "cpu_load_cores"
PRIOR_NODES, PRIOR_SPREAD = 8.0, 3.0
"""Values of solvers.model.noise, written again: the verifier shares no code with the solvers, and a
value that is changed in one place alone shows as a broken promise."""
MEDIAN_BAND = (0.25, 0.75)
"""The expected load distance is not exceeded with a probability within these."""


class PromisedInterval(NamedTuple):
    """An expected value, its 90 % interval (low, high) and its 99.9 % interval."""

    expected: float
    low: float | None = None
    high: float | None = None
    lowest: float | None = None
    highest: float | None = None


def check_promises(
    problem: Problem,
    assignment_names: Assignment,
    promises: Mapping[str, PromisedInterval],
    costs: TrafficCosts,
    after: Problem | None = None,
) -> list[Violation]:
    """Check what a plan promises that will be measured.

    Args:
        problem: the problem as it was measured, with the nodes that the plan makes.
        assignment_names: key group to node, or a pair of columns; :func:`verify` accepts it.
        promises: the promises by figure.
        costs: cost of a record between nodes.
        after: the problem with loads and traffic as the plan's routes change them.

    Returns:
        The promises that cannot hold; an empty list if all can.
    """
    plan = nodes_of_key_groups(problem, *columns_of(assignment_names))
    found = [
        violation
        for name, promise in promises.items()
        for violation in _interval_violations(name, promise)
    ]
    if found:
        return found
    if LOAD_DISTANCE not in promises:
        return [Violation(LOAD_DISTANCE, "the plan promises no load distance")]
    shift = 0.0 if after is None else after.load - problem.load
    load = np.maximum(0.0, load_with_costs(problem, plan, costs) + shift)
    sums = sum_by_node(problem, plan, load)
    moved = int(np.count_nonzero(plan != problem.current))
    return [
        *_load_distance_violations(problem, plan, load, sums, promises[LOAD_DISTANCE].expected),
        *_node_violations(problem, sums, promises),
        *_moves_violations(promises.get(MOVES), moved),
    ]


def _interval_violations(name: str, promise: PromisedInterval) -> Iterator[Violation]:
    """All values are numbers and not negative, and the ends are in order."""
    ends = (promise.lowest, promise.low, promise.high, promise.highest)
    known = [value for value in (*ends, promise.expected) if value is not None]
    if not all(is_number(value) for value in known):
        yield Violation(name, f"promises {known}, which are not all numbers")
    elif None in ends and set(ends) != {None}:
        yield Violation(name, f"promises some ends of its intervals, and not others: {ends}")
    elif min(known) < 0:
        yield Violation(name, f"promises {min(known):.9g}; the figure is never negative")
    elif len(known) > 1:
        order = [promise.lowest, promise.low, promise.expected, promise.high, promise.highest]
        if order != sorted(value for value in order if value is not None):
            yield Violation(name, f"promises {order}, which are not in order")


def _load_distance_violations(
    problem: Problem, plan: np.ndarray, load: Floats, sums: Floats, expected: float
) -> Iterator[Violation]:
    """The expected load distance is in the middle of what noisy node loads give."""
    away, spread = _node_deviations(problem, plan, load, sums)
    slack = max(1e-6, 1e-6 * expected)
    at_most = _probability(away, spread, expected + slack)
    less = _probability(away, spread, expected - slack)
    lower, upper = MEDIAN_BAND
    if at_most < lower or less > upper:
        yield Violation(
            LOAD_DISTANCE,
            f"expected {expected:.9g}; by the sums of nodes and their noise it is at most that "
            f"with probability {at_most:.3g}, and less with {less:.3g}",
        )


def _node_deviations(
    problem: Problem, plan: np.ndarray, load: Floats, sums: Floats
) -> tuple[Floats, Floats]:
    """Deviations from the mean and their standard deviations, both in percent of the mean.

    One value for each node that stays and each balanced resource that is used.
    """
    stays = np.flatnonzero(np.array(problem.node_state) == "alive")
    drawn, variances = _drawn_to_the_mean(problem, plan, stays)
    sums = np.maximum(sums - drawn, 0.0)
    away, spread = [np.zeros(0)], [np.zeros(0)]
    for r in range(len(problem.resources)):
        room = problem.capacity[stays, r]
        total = float(np.sum(load[:, r]))
        is_balanced = problem.balanced is None or bool(problem.balanced[r])
        if not len(stays) or not is_balanced or total <= 0:
            continue
        mean = total / float(np.sum(room))
        weight = 1.0 if problem.weight is None else float(problem.weight[r])
        scale = 100.0 * weight / (room * mean)
        away.append(np.abs(sums[stays, r] - room * mean) * scale)
        spread.append(np.sqrt(variances[stays, r]) * scale)
    return np.concatenate(away), np.concatenate(spread)


def _drawn_to_the_mean(
    problem: Problem, plan: np.ndarray, stays: np.ndarray
) -> tuple[Floats, Floats]:
    """([N, R], [N, R]): load that noise alone put on nodes, and the variance of what is left.

    The deviations of the placement in force are noise as far as they are no larger than noise
    makes them. That part leaves each node with its key groups, by their variances.
    """
    drawn = np.zeros((len(problem.node_ids), len(problem.resources)))
    variance = np.zeros_like(drawn)
    noise = problem.noise
    if noise is None:
        return drawn, variance
    for r in range(drawn.shape[1]):
        ratio = float(noise.node_variance_ratio[r])
        error = np.square(noise.mean_error[:, r]) * ratio
        period = np.square(noise.period_sd[:, r]) * ratio
        share, excess = _share_of_noise(problem, error, stays, r)
        was = problem.current
        total = np.bincount(was, error, drawn.shape[0])
        part = np.divide(error, total[was], out=np.zeros_like(error), where=total[was] > 0)
        drawn[:, r] = np.bincount(plan, share * part * excess[was], drawn.shape[0])
        # Key groups that stay together err against each other by what is known of their sum.
        order = np.lexsort((plan, was))
        starts = np.flatnonzero(np.diff(was[order], prepend=-1) | np.diff(plan[order], prepend=-1))
        together = np.add.reduceat(error[order], starts) if len(order) else error
        known = np.square(together) / np.maximum(total[was[order][starts]], np.finfo(float).tiny)
        left = np.bincount(plan, error + period, drawn.shape[0])
        variance[:, r] = left - share * np.bincount(plan[order][starts], known, drawn.shape[0])
    return drawn, np.maximum(variance, 0.0)


def _share_of_noise(
    problem: Problem, error: Floats, stays: np.ndarray, r: int
) -> tuple[float, Floats]:
    """(how much of the deviations is noise, [N]: deviations of the placement in force)."""
    nodes = len(problem.node_ids)
    sums = np.bincount(problem.current, problem.load[:, r], nodes)
    errors = np.bincount(problem.current, error, nodes)
    room = problem.capacity[:, r]
    excess = np.zeros(nodes)
    excess[stays] = sums[stays] - room[stays] * sums.sum() / max(room[stays].sum(), 1e-300)
    noisy = [int(node) for node in stays if errors[node] > 0]
    if len(noisy) < 2:
        return 0.0, excess
    squared = sum(float(excess[node]) ** 2 / float(errors[node]) for node in noisy)
    spread = (PRIOR_NODES * PRIOR_SPREAD + squared) / (PRIOR_NODES + len(noisy) - 1)
    return 1.0 / max(1.0, spread), excess


def _probability(away: Floats, spread: Floats, distance: float) -> float:
    """Probability that no node is further from the mean than a distance."""
    total = 1.0
    for deviation, sd in zip(away.tolist(), spread.tolist(), strict=True):
        if sd > 0:
            width = sd * math.sqrt(2.0)
            above = math.erf((distance - deviation) / width)
            below = math.erf((-distance - deviation) / width)
            total *= max(0.0, above - below) / 2.0
        elif deviation > distance:
            return 0.0
    return total if distance >= 0 else 0.0


def _node_violations(
    problem: Problem, sums: Floats, promises: Mapping[str, PromisedInterval]
) -> Iterator[Violation]:
    """The CPU that is promised for a node is the sum over its key groups."""
    for name, promise in promises.items():
        figure, _, node = name.partition("/")
        if figure != NODE_CPU:
            continue
        if node not in problem.node_ids or "cpu" not in problem.resources:
            yield Violation(name, f"{node!r} is no node with a load on CPU")
            continue
        actual = float(sums[problem.node_ids.index(node), problem.resources.index("cpu")])
        if not is_close(promise.expected, actual):
            yield Violation(name, f"expected {promise.expected:.9g}, is {actual:.9g}")


def _moves_violations(promise: PromisedInterval | None, moved: int) -> Iterator[Violation]:
    if promise is not None and not is_close(promise.expected, moved):
        yield Violation(MOVES, f"expected {promise.expected:.9g}, is {moved}")
