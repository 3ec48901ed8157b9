"""Checks the rows of an assignment: each key group once, and only nodes that exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from solvers.verify.violation import Violation, first_names

if TYPE_CHECKING:
    from solvers.model.problem import Problem

Ints = npt.NDArray[np.int64]
Assignment = Mapping[str, str] | tuple[Sequence[Any], Sequence[Any]]
"""Key group to node, or a column of key groups beside a column of nodes."""


def columns_of(assignment: Assignment) -> tuple[list[Any], list[Any]]:
    """The key groups and their nodes as two columns."""
    if isinstance(assignment, Mapping):
        return list(assignment.keys()), list(assignment.values())
    ids, nodes = assignment
    return list(ids), list(nodes)


def check_rows(problem: Problem, ids: list[Any], nodes: list[Any]) -> Iterator[Violation]:
    """Each key group of the problem is listed exactly once, and every node exists."""
    if len(ids) != len(nodes):
        yield Violation("assignment", f"{len(ids)} key groups, but {len(nodes)} nodes")
        return
    unknown_nodes = sorted({str(name) for name in set(nodes) - set(problem.node_ids)})
    if unknown_nodes:
        yield Violation("assignment.known_nodes", f"unknown {first_names(unknown_nodes)}")
    if ids == list(problem.key_group_ids):
        return  # A problem names no key group twice, so this has each of them once.
    known, listed = set(problem.key_group_ids), set(ids)
    unknown = sorted({str(name) for name in listed - known})
    if unknown:
        yield Violation("assignment.known_key_groups", f"unknown {first_names(unknown)}")
    if len(listed) != len(ids):
        seen: set[Any] = set()
        twice = [name for name in ids if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
        yield Violation("assignment.exactly_once", f"more than once: {first_names(twice)}")
    missing = known - listed
    if missing:
        yield Violation("assignment.exactly_once", f"missing: {first_names(sorted(missing))}")


def nodes_of_key_groups(problem: Problem, ids: list[Any], nodes: list[Any]) -> Ints:
    """[G]: the node index of each key group, in the order of the problem."""
    row_of = {name: i for i, name in enumerate(problem.key_group_ids)}
    index_of = {name: i for i, name in enumerate(problem.node_ids)}
    rows = np.fromiter(map(row_of.__getitem__, ids), dtype=np.int64, count=len(ids))
    plan = np.empty(len(ids), dtype=np.int64)
    plan[rows] = np.fromiter(map(index_of.__getitem__, nodes), dtype=np.int64, count=len(ids))
    return plan
