"""Figures, node loads and moves of a plan, for the reports of what-if questions. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.model.metrics import node_loads
from solvers.model.problem import IntArray, Problem
from solvers.model.result import Result


@dataclass(frozen=True, slots=True)
class WhatIfFigures:
    """The figures of a plan; None where the plan does not have the figure."""

    nodes: int
    """Number of nodes that stay."""
    load_distance_before_pct: float
    load_distance_pct: float | None
    bound_pct: float | None
    fullest_node_before_pct: float
    """Load of the fullest node that stays, in percent of its capacity."""
    fullest_node_pct: float | None
    moves: int
    forced_moves: int
    bytes: int
    """State that moves, forced moves included."""
    pause_s: float
    left_on_draining_pct: float
    traffic_within_nodes_before_pct: float | None
    traffic_within_nodes_pct: float | None
    status: str
    method: str


@dataclass(frozen=True, slots=True)
class WhatIfNode:
    """The load of a node without and with a plan, in percent of its capacity."""

    node_id: str
    state: str
    load_before_pct: float
    load_pct: float


@dataclass(frozen=True, slots=True)
class WhatIfMove:
    """A key group that a plan moves."""

    key_group_id: str
    from_node_id: str
    to_node_id: str
    state_bytes: int


def result_figures(problem: Problem, result: Result) -> WhatIfFigures:
    """The figures of a plan for this problem."""
    is_solved = result.is_solved
    return WhatIfFigures(
        nodes=int(problem.staying.sum()),
        load_distance_before_pct=result.load_distance_before,
        load_distance_pct=result.load_distance if is_solved else None,
        bound_pct=result.bound,
        fullest_node_before_pct=fullest_node_pct(problem, problem.current),
        fullest_node_pct=fullest_node_pct(problem, result.assignment) if is_solved else None,
        moves=result.moves,
        forced_moves=result.forced_moves,
        bytes=result.bytes + result.forced_bytes,
        pause_s=result.pause_s,
        left_on_draining_pct=result.draining_load,
        traffic_within_nodes_before_pct=result.collocation_factor_before,
        traffic_within_nodes_pct=result.collocation_factor if is_solved else None,
        status=result.status.value,
        method=result.method,
    )


def fullest_node_pct(problem: Problem, assignment: IntArray) -> float:
    """Load of the fullest node that stays, in percent of its capacity."""
    loads = node_loads(problem, assignment)[problem.staying]
    return 100.0 * float(loads.max(initial=0.0))


def planned_nodes(problem: Problem, result: Result) -> list[WhatIfNode]:
    """The load of each node under a plan; none if there is no plan."""
    if not result.is_solved:
        return []
    before = 100.0 * node_loads(problem, problem.current).max(axis=1)
    after = 100.0 * node_loads(problem, result.assignment).max(axis=1)
    columns = problem.node_ids, problem.node_state, before.tolist(), after.tolist()
    return [WhatIfNode(*row) for row in zip(*columns, strict=True)]


def planned_moves(problem: Problem, result: Result, most: int | None = None) -> list[WhatIfMove]:
    """The moves of a plan, the largest state first; at most ``most``, none if there is no plan."""
    if not result.is_solved:
        return []
    moved = np.flatnonzero(result.assignment != problem.current)
    order = moved[np.argsort(-problem.state_bytes[moved], kind="stable")]
    return [
        WhatIfMove(
            key_group_id=problem.key_group_ids[k],
            from_node_id=problem.node_ids[problem.current[k]],
            to_node_id=problem.node_ids[result.assignment[k]],
            state_bytes=int(problem.state_bytes[k]),
        )
        for k in order[:most].tolist()
    ]
