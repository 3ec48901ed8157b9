"""What a question about a cluster that is not there is answered with: figures, nodes, and words.

Shared by the command line and the pipeline; pure, and nothing is written anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.model.metrics import node_loads
from solvers.model.problem import IntArray, Problem
from solvers.model.result import Result

NO_LIMIT = "none"


def figures(problem: Problem, result: Result) -> dict[str, Any]:
    """A plan's figures by name; None where there is none."""
    return {
        "nodes": int(problem.staying.sum()),
        "load_distance_before_pct": result.load_distance_before,
        "load_distance_pct": result.load_distance if result.is_solved else None,
        "bound_pct": result.bound,
        "fullest_node_before_pct": fullest(problem, problem.current),
        "fullest_node_pct": fullest(problem, result.assignment) if result.is_solved else None,
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


def fullest(problem: Problem, assignment: IntArray) -> float:
    """Load of the fullest node that stays, in percent of its capacity."""
    loads = node_loads(problem, assignment)[problem.staying]
    return 100.0 * float(loads.max(initial=0.0))


def nodes(problem: Problem, result: Result) -> list[dict[str, Any]]:
    """Each node with its load without and with the plan, in percent of its capacity."""
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


def moves(problem: Problem, result: Result, most: int | None = None) -> list[dict[str, Any]]:
    """What the plan moves, the largest state first."""
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


def names(text: str) -> tuple[str, ...]:
    """Names between commas, each once."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def factors(option: str, words: Sequence[str]) -> dict[str, float]:
    """NAME=FACTOR words by name."""
    found: dict[str, float] = {}
    for name, number in pairs(option, words, "NAME=FACTOR, such as node-1=2").items():
        try:
            found[name] = float(number)
        except ValueError as error:
            raise InvalidInput(
                f"{option} {f'{name}={number}'!r}", allowed="NAME=FACTOR, such as node-1=2"
            ) from error
    return found


def pairs(option: str, words: Sequence[str], allowed: str) -> dict[str, str]:
    """NAME=VALUE words by name."""
    found: dict[str, str] = {}
    for word in words:
        name, is_pair, value = word.rpartition("=")
        if not is_pair or not name or not value:
            raise InvalidInput(f"{option} {word!r}", allowed=allowed)
        found[name] = value
    return found


def limit(option: str, word: str | None, had: Any, kind: type[int] | type[float]) -> Any:
    """A limit as it is said: a number, none at all, or as it was."""
    if word is None:
        return had
    if word == NO_LIMIT:
        return None
    try:
        return kind(word)
    except ValueError as error:
        raise InvalidInput(f"{option} {word!r}", allowed=f"a number or {NO_LIMIT}") from error
