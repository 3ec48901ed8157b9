"""Checks the promises of a plan: intervals, and expected values against node sums of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from solvers.verify.assignment import Assignment, columns_of, nodes_of_key_groups
from solvers.verify.plan_figures import Floats, load_with_costs, sum_by_node
from solvers.verify.tolerance import is_close, is_number
from solvers.verify.violation import Violation

if TYPE_CHECKING:
    from solvers.model.problem import Problem
    from solvers.model.traffic_costs import TrafficCosts

LOAD_DISTANCE, MOVES, NODE_CPU = "load_distance_pct", "moves", "cpu_load_cores"
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

    One value for each node that stays and each balanced resource that is used. Of two nodes that
    hold all load, the one with less capacity deviates more, and alone decides.
    """
    stays = np.flatnonzero(np.array(problem.node_state) == "alive")
    variances = sum_by_node(problem, plan, _variances(problem))
    is_few = 0 < len(stays) <= 2 and bool(np.isin(plan, stays).all())
    if is_few:
        # What one of two nodes has more the other has less; a single node never deviates.
        variances[stays] = variances[stays].mean(axis=0) * (len(stays) - 1)
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
        counts = slice(None) if not is_few else [int(np.argmax(scale))]
        away.append((np.abs(sums[stays, r] - room * mean) * scale)[counts])
        spread.append((np.sqrt(variances[stays, r]) * scale)[counts])
    return np.concatenate(away), np.concatenate(spread)


def _variances(problem: Problem) -> Floats:
    """[G, R]: variance of the loads that the next period measures, around the expected ones."""
    noise = problem.noise
    if noise is None:
        return np.zeros_like(problem.load)
    of_means, of_periods = np.square(noise.mean_error), np.square(noise.period_sd)
    return np.asarray((of_means + of_periods) * noise.node_variance_ratio[None, :])


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
