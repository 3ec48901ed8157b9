"""Figures, node loads and moves of a plan, for the reports of what-if questions. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from solvers.model.metrics import node_loads
from solvers.model.problem import IntArray, Problem
from solvers.model.result import Result


def result_figures(problem: Problem, result: Result) -> dict[str, Any]:
    """A plan's figures by name; None if the plan does not have the figure."""
    return {
        "nodes": int(problem.staying.sum()),
        "load_distance_before_pct": result.load_distance_before,
        "load_distance_pct": result.load_distance if result.is_solved else None,
        "bound_pct": result.bound,
        "fullest_node_before_pct": fullest_node_pct(problem, problem.current),
        "fullest_node_pct": fullest_node_pct(problem, result.assignment)
        if result.is_solved
        else None,
        "moves": result.moves,
        "forced_moves": result.forced_moves,
        "bytes": result.bytes + result.forced_bytes,
        "pause_s": result.pause_s,
        "left_on_draining_pct": result.draining_load,
        "traffic_within_nodes_before_pct": result.collocation_factor_before,
        "traffic_within_nodes_pct": result.collocation_factor if result.is_solved else None,
        "status": result.status.value,
        "method": result.method,
    }


def fullest_node_pct(problem: Problem, assignment: IntArray) -> float:
    """Load of the fullest node that stays, in percent of its capacity."""
    loads = node_loads(problem, assignment)[problem.staying]
    return 100.0 * float(loads.max(initial=0.0))


def node_rows(problem: Problem, result: Result) -> list[dict[str, Any]]:
    """Load of each node without and with the plan, in percent of its capacity."""
    before = 100.0 * node_loads(problem, problem.current).max(axis=1)
    after = 100.0 * node_loads(problem, result.assignment).max(axis=1)
    return [
        {
            "node_id": name,
            "state": problem.node_state[i],
            "load_before_pct": float(before[i]),
            "load_pct": float(after[i]),
        }
        for i, name in enumerate(problem.node_ids)
    ]


def move_rows(problem: Problem, result: Result, most: int | None = None) -> list[dict[str, Any]]:
    """The moves of the plan, largest state first; at most ``most`` of them."""
    moved = np.flatnonzero(result.assignment != problem.current)
    order = moved[np.argsort(-problem.state_bytes[moved], kind="stable")]
    return [
        {
            "key_group_id": problem.key_group_ids[k],
            "from_node_id": problem.node_ids[problem.current[k]],
            "to_node_id": problem.node_ids[result.assignment[k]],
            "state_bytes": int(problem.state_bytes[k]),
        }
        for k in order[:most].tolist()
    ]
