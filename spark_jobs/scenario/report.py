"""The comparison of a what-if question with today, as text for people and as values. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, astuple
from typing import Any

from solvers.planner.frontier import FrontierPoint
from solvers.planner.what_if_figures import planned_moves, planned_nodes, result_figures
from solvers.rules.rule_text import rule_report
from spark_jobs.program.markdown import escaped, table
from spark_jobs.scenario.what_if_comparison import ComparedPlan, PlanComparison

SHOWN_NODES = 60
SHOWN_MOVES = 40
NODES_IN_SUMMARY = 200


def summary(comparison: PlanComparison) -> dict[str, Any]:
    """Both plans as values for programs and for the review page, small enough for an XCom."""
    plans = {"today": comparison.today, "asked": comparison.asked}
    values: dict[str, Any] = {
        "snapshot_at": comparison.snapshot.period_end_at.isoformat(),
        **{
            name: _finite(asdict(result_figures(plan.problem, plan.result)))
            for name, plan in plans.items()
        },
        **{f"{name}_nodes": _nodes_of(plan) for name, plan in plans.items()},
        "asked_moves": _moves_of(comparison.asked),
        "frontier": [_finite(point.to_dict()) for point in comparison.frontier],
    }
    held = comparison.held
    if held is None:
        return values
    hold = {
        "nodes": held.nodes,
        "fullest_node_pct": 100.0 * held.fullest,
        "below_pct": comparison.hold_pct,
    }
    return {**values, "hold": hold}


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """The values with None for infinity, which JSON does not have."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


def _nodes_of(plan: ComparedPlan) -> list[dict[str, Any]]:
    nodes = planned_nodes(plan.problem, plan.result)
    return [asdict(node) for node in nodes[:NODES_IN_SUMMARY]]


def _moves_of(plan: ComparedPlan) -> list[dict[str, Any]]:
    return [asdict(move) for move in planned_moves(plan.problem, plan.result, SHOWN_MOVES)]


def report(comparison: PlanComparison) -> str:
    """Both plans side by side in Markdown: figures, nodes, moves, and the rest of the request."""
    snapshot, asked = comparison.snapshot, comparison.asked
    at = f"{snapshot.period_end_at:%Y-%m-%d %H:%M:%S} UTC"
    parts = [
        f"**What if** for job {escaped(snapshot.job)}, by its load up to {at}.",
        "### Today and the question\n\n" + _figures(comparison),
    ]
    if asked.result.is_solved:
        parts += [*_rules(asked), _nodes(asked), _moves(asked)]
    else:
        parts.append(f"**The question has no plan:** {escaped(asked.result.reason)}")
    parts += [*_hold(comparison), *_frontier(comparison.frontier)]
    parts.append("Nothing was changed: no table was written, and the plan in force is the same.")
    return "\n\n".join(parts)


def _figures(comparison: PlanComparison) -> str:
    now, then = (
        asdict(result_figures(plan.problem, plan.result))
        for plan in (comparison.today, comparison.asked)
    )
    rows = [[name.replace("_", " "), now[name], then[name]] for name in now]
    return table(("figure", "today", "asked"), rows)


def _rules(plan: ComparedPlan) -> list[str]:
    """How the plan keeps each rule of the policy."""
    text = rule_report(plan.problem, plan.result.assignment).text
    if text is None:
        return []
    listed = "\n".join(f"- {escaped(line)}" for line in text.splitlines())
    return [f"### Rules of the policy\n\n{listed}"]


def _nodes(plan: ComparedPlan) -> str:
    rows = [list(astuple(node)) for node in planned_nodes(plan.problem, plan.result)]
    headers = ("node", "state", "load now, %", "with the plan, %")
    return "### Nodes\n\n" + table(headers, rows[:SHOWN_NODES]) + _more(rows, SHOWN_NODES)


def _moves(plan: ComparedPlan) -> str:
    moves = planned_moves(plan.problem, plan.result)
    rows = [list(astuple(move)) for move in moves[:SHOWN_MOVES]]
    listed = table(("key group", "from", "to", "bytes"), rows) + _more(moves, SHOWN_MOVES)
    return f"### Moves ({len(moves):,})\n\n{listed}"


def _hold(comparison: PlanComparison) -> list[str]:
    held = comparison.held
    if held is None:
        return []
    text = (
        f"**{held.nodes} nodes** hold the load at or below {comparison.hold_pct:g} %: the fullest "
        f"node would be at {100.0 * held.fullest:.1f} %, if moves were free."
    )
    return [text]


def _frontier(points: Sequence[FrontierPoint]) -> list[str]:
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
    return ["### Plans for other limits on moves\n\n" + table(headers, rows)]


def _more(items: Sequence[object], shown: int) -> str:
    more = len(items) - shown
    return f"\n\nand {more:,} more" if more > 0 else ""
