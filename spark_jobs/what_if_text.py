"""The answer to a what-if question as people read it: today beside what is asked. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from solvers.frontier import Point
from solvers.problem import Problem
from solvers.result import Result
from solvers.what_if_answer import figures, nodes
from spark_jobs.markdown import escaped, table
from spark_jobs.problems import Row

SHOWN_NODES = 60
SHOWN_MOVES = 40


@dataclass(frozen=True, eq=False)
class Side:
    """A problem and the plan for it."""

    problem: Problem
    result: Result


@dataclass(frozen=True, eq=False)
class Answered:
    """Today and what is asked, from one snapshot."""

    snapshot: Row
    today: Side
    asked: Side
    held: tuple[int, float] | None = None
    hold_pct: float | None = None
    front: Sequence[Point] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """The figures of both sides, for programs."""
        said = {
            "today": figures(self.today.problem, self.today.result),
            "asked": figures(self.asked.problem, self.asked.result),
        }
        return said if self.held is None else {**said, "hold_nodes": self.held[0]}


def report(answered: Answered) -> str:
    """Side by side: figures, nodes, moves, and what else was asked."""
    at = f"{answered.snapshot['period_end_at']:%Y-%m-%d %H:%M:%S} UTC"
    parts = [
        f"**What if** of job {escaped(answered.snapshot['job'])}, by its load up to {at}.",
        "### Today beside what is asked\n\n" + _figures(answered),
    ]
    if answered.asked.result.is_solved:
        parts += [_nodes(answered.asked), _moves(answered.asked)]
    else:
        parts.append(f"**What is asked has no plan:** {escaped(answered.asked.result.reason)}")
    parts += [*_hold(answered), *_front(answered.front)]
    parts.append("Nothing was changed: no table was written and the plan in force is the same.")
    return "\n\n".join(parts)


def _figures(answered: Answered) -> str:
    now, then = (figures(side.problem, side.result) for side in (answered.today, answered.asked))
    rows = [[name.replace("_", " "), now[name], then[name]] for name in now]
    return table(("figure", "today", "asked"), rows)


def _nodes(side: Side) -> str:
    rows = [list(node.values()) for node in nodes(side.problem, side.result)]
    headers = ("node", "state", "load now, %", "with the plan, %")
    return "### Nodes\n\n" + table(headers, rows[:SHOWN_NODES]) + _more(rows, SHOWN_NODES)


def _moves(side: Side) -> str:
    problem, plan = side.problem, side.result.assignment
    moved = np.flatnonzero(plan != problem.current)
    order = moved[np.argsort(-problem.state_bytes[moved], kind="stable")].tolist()
    rows = [
        [
            problem.key_group_ids[k],
            problem.node_ids[problem.current[k]],
            problem.node_ids[plan[k]],
            int(problem.state_bytes[k]),
        ]
        for k in order[:SHOWN_MOVES]
    ]
    listed = table(("key group", "from", "to", "bytes"), rows) + _more(order, SHOWN_MOVES)
    return f"### Moves ({len(order):,})\n\n{listed}"


def _hold(answered: Answered) -> list[str]:
    if answered.held is None:
        return []
    count, reached = answered.held
    said = (
        f"**{count} nodes** hold the load at or below {answered.hold_pct:g} %: the fullest would "
        f"be at {100.0 * reached:.1f} %, if moves were free."
    )
    return [said]


def _front(points: Sequence[Point]) -> list[str]:
    if not points:
        return []
    rows = [
        [
            "no limit" if point.limit is None else f"{point.limit:,}",
            point.result.moves,
            point.result.load_distance if point.result.is_solved else None,
            "no" if point.is_dominated else "yes",
        ]
        for point in points
    ]
    headers = ("moves allowed", "moves", "load distance, %", "on the frontier")
    return ["### What each budget buys\n\n" + table(headers, rows)]


def _more(items: Sequence[object], shown: int) -> str:
    more = len(items) - shown
    return f"\n\nand {more:,} more" if more > 0 else ""
