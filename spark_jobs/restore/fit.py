"""Whether an earlier placement fits the nodes of today, and what to do with what it has on lost
ones. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ballast.contracts.errors import RollbackRefused
from solvers.model.budget import Budget
from solvers.model.node_set import NodeSpec, with_nodes, with_states
from solvers.model.problem import BoolArray, IntArray, Problem
from solvers.model.stop import Stop
from solvers.rebalance.solve import solve
from spark_jobs.program.run import progress

GONE = "(gone)"


@dataclass(frozen=True)
class Wish:
    """What is asked for: which version, why, and whether lost nodes may be replaced."""

    version: int
    reason: str
    force_nodes: bool = False
    by: str = ""

    @property
    def in_words(self) -> str:
        """The reason that the plan carries."""
        return f"content of version {self.version} again: {self.reason}"


def fitted(
    problem: Problem, placed: Mapping[str, str], wish: Wish, seconds: float = 5.0
) -> IntArray:
    """The old placement as node indices of today, or why it does not fit."""
    _check_key_groups(problem, placed, wish)
    index = {name: i for i, name in enumerate(problem.node_ids)}
    wanted = [placed[name] for name in problem.key_group_ids]
    lost = [not _may_hold(problem, index, k, node) for k, node in enumerate(wanted)]
    if any(lost) and not wish.force_nodes:
        raise _does_not_fit(problem, index, wish, wanted, lost)
    assignment = np.array([index.get(node, 0) for node in wanted], dtype=np.int64)
    if not any(lost):
        return assignment
    return _placed_anew(problem, assignment, np.array(lost), wish, seconds)


def _may_hold(problem: Problem, index: Mapping[str, int], k: int, node: str) -> bool:
    """A living node takes anything; a draining one keeps what it has and gets nothing new."""
    if node not in index:
        return False
    state = problem.node_state[index[node]]
    return state == "alive" or (state == "draining" and int(problem.current[k]) == index[node])


def _placed_anew(
    problem: Problem, assignment: IntArray, lost: BoolArray, wish: Wish, seconds: float
) -> IntArray:
    """Only what was on lost nodes is placed, by the rebalance solver; all else is pinned."""
    typical = tuple(np.median(problem.capacity, axis=0).tolist())
    wider = with_states(with_nodes(problem, [NodeSpec(GONE, typical)]), {GONE: "dead"})
    start = np.where(lost, problem.n_nodes, assignment)
    restricted = replace(wider, current=start, pinned=~lost)
    result = solve(restricted, Budget(), Stop(seconds=seconds), 0)
    if not result.is_solved:
        raise RollbackRefused(
            f"version {wish.version} does not fit, and what it has on lost nodes finds no other "
            f"place: {result.reason}; to fix it: choose another version, or add nodes"
        )
    progress.info("placed %d key groups of lost nodes anew", int(lost.sum()))
    return np.asarray(result.assignment)


def _check_key_groups(problem: Problem, placed: Mapping[str, str], wish: Wish) -> None:
    today, then = set(problem.key_group_ids), set(placed)
    if today == then:
        return
    missing, unknown = sorted(today - then), sorted(then - today)
    said = [f"it has no place for {missing[0]} and {len(missing) - 1} more"] if missing else []
    said += [f"it places {unknown[0]} and {len(unknown) - 1} more, unknown now"] if unknown else []
    raise RollbackRefused(
        f"version {wish.version} is of other key groups than the job has: {'; '.join(said)}; to "
        "fix it: choose a version made since the job's operators changed"
    )


def _does_not_fit(
    problem: Problem,
    index: Mapping[str, int],
    wish: Wish,
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
        f"version {wish.version} no longer fits: {listed}; the plan in force stays; to fix it: "
        "choose another version, or set force_nodes to place these key groups anew"
    )
