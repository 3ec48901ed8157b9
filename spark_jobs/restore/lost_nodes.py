"""Fit an earlier placement to the nodes of today. Pure.

Key groups on lost nodes are placed anew if the request allows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ballast.contracts.errors import RollbackRefused
from solvers.model.budget import Budget
from solvers.model.node_set import NodeSpec, with_nodes, with_states
from solvers.model.problem import BoolArray, IntArray, Problem
from solvers.model.stop import Stop
from solvers.rebalance.solve import solve
from spark_jobs.program.run import progress
from spark_jobs.restore.request import RollbackRequest

GONE = "(gone)"


def fit_placement(
    problem: Problem, placed: Mapping[str, str], request: RollbackRequest, seconds: float = 5.0
) -> IntArray:
    """The earlier placement as indices of today's nodes.

    Args:
        problem: the job as it is today.
        placed: the node of each key group in the earlier version.
        request: whether key groups on lost nodes may be placed anew.
        seconds: time for the solver to place them.

    Raises:
        RollbackRefused: the version has other key groups, or key groups on lost nodes.
    """
    _check_key_groups(problem, placed, request)
    index = {name: i for i, name in enumerate(problem.node_ids)}
    wanted = [placed[name] for name in problem.key_group_ids]
    lost = [not _may_hold(problem, index, k, node) for k, node in enumerate(wanted)]
    if any(lost) and not request.force_nodes:
        raise _does_not_fit(problem, index, request, wanted, lost)
    assignment = np.array([index.get(node, 0) for node in wanted], dtype=np.int64)
    if not any(lost):
        return assignment
    return _placed_anew(problem, assignment, np.array(lost), request, seconds)


def _may_hold(problem: Problem, index: Mapping[str, int], k: int, node: str) -> bool:
    """Whether a node may hold a key group: a draining node keeps its own and gets no other."""
    if node not in index:
        return False
    state = problem.node_state[index[node]]
    return state == "alive" or (state == "draining" and int(problem.current[k]) == index[node])


def _placed_anew(
    problem: Problem,
    assignment: IntArray,
    lost: BoolArray,
    request: RollbackRequest,
    seconds: float,
) -> IntArray:
    """Place the key groups of lost nodes with the rebalance solver; all others are pinned."""
    typical = tuple(np.median(problem.capacity, axis=0).tolist())
    wider = with_states(with_nodes(problem, [NodeSpec(GONE, typical)]), {GONE: "dead"})
    start = np.where(lost, problem.n_nodes, assignment)
    restricted = replace(wider, current=start, pinned=~lost)
    result = solve(restricted, Budget(), Stop(seconds=seconds), 0)
    if not result.is_solved:
        raise RollbackRefused(
            f"version {request.version} does not fit, and what it has on lost nodes finds no other "
            f"place: {result.reason}; to fix it: choose another version, or add nodes"
        )
    progress.info("placed %d key groups of lost nodes anew", int(lost.sum()))
    return np.asarray(result.assignment)


def _check_key_groups(
    problem: Problem, placed: Mapping[str, str], request: RollbackRequest
) -> None:
    today, then = set(problem.key_group_ids), set(placed)
    if today == then:
        return
    missing, unknown = sorted(today - then), sorted(then - today)
    reasons = [f"it has no place for {missing[0]} and {len(missing) - 1} more"] if missing else []
    reasons += (
        [f"it places {unknown[0]} and {len(unknown) - 1} more, unknown now"] if unknown else []
    )
    raise RollbackRefused(
        f"version {request.version} is of other key groups than the job has: {'; '.join(reasons)}; "
        "to fix it: choose a version made since the job's operators changed"
    )


def _does_not_fit(
    problem: Problem,
    index: Mapping[str, int],
    request: RollbackRequest,
    wanted: Sequence[str],
    lost: Sequence[bool],
) -> RollbackRefused:
    counts = Counter(node for node, is_lost in zip(wanted, lost, strict=True) if is_lost)
    states = {
        node: problem.node_state[index[node]] if node in index else "not a node any more"
        for node in counts
    }
    listed = ", ".join(
        f"{node} is {states[node]} ({count} key groups)" for node, count in sorted(counts.items())
    )
    return RollbackRefused(
        f"version {request.version} no longer fits: {listed}; the plan in force stays; to fix it: "
        "choose another version, or set force_nodes to place these key groups anew"
    )
