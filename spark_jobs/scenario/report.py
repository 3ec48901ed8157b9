"""The answer to a what-if question as people read it: today beside what is asked. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from solvers.model.problem import Problem
from solvers.model.result import Result
from solvers.planner.frontier import FrontierPoint
from solvers.planner.what_if_figures import figures, moves, nodes
from spark_jobs.draft.problem import Row
from spark_jobs.program.markdown import escaped, table

SHOWN_NODES = 60
SHOWN_MOVES = 40
HANDED_NODES = 200


@dataclass(frozen=True, eq=False)
class ComparedPlan:
    """A problem and the plan for it."""

    problem: Problem
    result: Result


@dataclass(frozen=True, eq=False)
class PlanComparison:
    """Today and what is asked, from one snapshot."""

    snapshot: Row
    today: ComparedPlan
    asked: ComparedPlan
    held: tuple[int, float] | None = None
    hold_pct: float | None = None
    front: Sequence[FrontierPoint] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """Both sides for programs and for the review page, small enough for an XCom."""
        sides = {"today": self.today, "asked": self.asked}
        said: dict[str, Any] = {
            "snapshot_at": self.snapshot["period_end_at"].isoformat(),
            **{name: _finite(figures(side.problem, side.result)) for name, side in sides.items()},
            **{f"{name}_nodes": _nodes_of(side) for name, side in sides.items()},
            "asked_moves": _moves_of(self.asked),
            "frontier": [_finite(point.to_dict()) for point in self.front],
        }
        if self.held is None:
            return said
        hold = {"nodes": self.held[0], "fullest_node_pct": 100.0 * self.held[1],
                "below_pct": self.hold_pct}  # fmt: skip
        return {**said, "hold": hold}


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


def _nodes_of(side: ComparedPlan) -> list[dict[str, Any]]:
    return nodes(side.problem, side.result)[:HANDED_NODES] if side.result.is_solved else []


def _moves_of(side: ComparedPlan) -> list[dict[str, Any]]:
    return moves(side.problem, side.result, SHOWN_MOVES) if side.result.is_solved else []


def report(answered: PlanComparison) -> str:
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


def _figures(answered: PlanComparison) -> str:
    now, then = (figures(side.problem, side.result) for side in (answered.today, answered.asked))
    rows = [[name.replace("_", " "), now[name], then[name]] for name in now]
    return table(("figure", "today", "asked"), rows)


def _nodes(side: ComparedPlan) -> str:
    rows = [list(node.values()) for node in nodes(side.problem, side.result)]
    headers = ("node", "state", "load now, %", "with the plan, %")
    return "### Nodes\n\n" + table(headers, rows[:SHOWN_NODES]) + _more(rows, SHOWN_NODES)


def _moves(side: ComparedPlan) -> str:
    found = moves(side.problem, side.result)
    rows = [list(move.values()) for move in found[:SHOWN_MOVES]]
    listed = table(("key group", "from", "to", "bytes"), rows) + _more(found, SHOWN_MOVES)
    return f"### Moves ({len(found):,})\n\n{listed}"


def _hold(answered: PlanComparison) -> list[str]:
    if answered.held is None:
        return []
    count, reached = answered.held
    said = (
        f"**{count} nodes** hold the load at or below {answered.hold_pct:g} %: the fullest would "
        f"be at {100.0 * reached:.1f} %, if moves were free."
    )
    return [said]


def _front(points: Sequence[FrontierPoint]) -> list[str]:
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
