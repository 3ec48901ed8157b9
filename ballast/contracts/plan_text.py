"""Sentences about a plan's figures: the same in a run's report, on the page and in the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ballast.contracts.figure_text import promised_text
from ballast.contracts.records import DraftSummary, Promise
from ballast.contracts.tables import ROLLBACK

OPTIMAL_GAP_PCT = 1e-9
"""A gap up to this counts as 0: solvers write 0 where optimality is proven."""
MAX_STEPS = 5
HELD_BACK_NOUNS = {
    "cluster": "key groups of clusters",
    "key group": "single key groups",
    "key": "keys",
    "plan": "key groups of the whole plan",
}


@dataclass(frozen=True)
class HeldBackEntry:
    """Moves that save less than they cost, from plans.plans.held_back_json."""

    kind: str
    """Key of ``HELD_BACK_NOUNS``."""
    names: tuple[str, ...]
    """Names of some of them; none for an entry that sums up the smallest."""
    count: int
    saved_rate: float
    """Records a second that they would save."""
    reason: str


def quality_text(bound_pct: float, gap_pct: float) -> str:
    """How close a plan is to the best possible, as far as that is proven."""
    if gap_pct <= OPTIMAL_GAP_PCT:
        return "proven optimal: no plan within the budget has a smaller load distance"
    return (
        f"at most {_points(gap_pct)} points from the best possible: "
        f"no plan within the budget is below {bound_pct:.2f} %"
    )


def plan_quality_text(plan: DraftSummary) -> str:
    """How close a plan is to the best possible: its load, and of a joint plan its traffic."""
    load = quality_text(plan.bound_pct, plan.gap_pct)
    if plan.collocation_bound_pct is None:
        return load
    return (
        f"{load}; no plan within the budget has more than {plan.collocation_bound_pct:.1f} % of "
        "the traffic within nodes (each bound is of its figure alone)"
    )


def plan_reason(plan: DraftSummary, load_distance: Promise | None = None) -> str:
    """Why a plan does what it does, in one sentence.

    Args:
        plan: the plan.
        load_distance: its promise of the load distance; None for a plan of an earlier version.
    """
    if plan.method == ROLLBACK or plan.status == "unchanged":
        return _sentence([plan.reason, plan.splits_reason or "", plan.skew_reason or ""])
    reasons = []
    if plan.forced_moves:
        reasons.append(f"{plan.forced_moves:,} key groups have to leave dead nodes")
    if plan.due_moves:
        reasons.append(f"{plan.due_moves:,} have to leave draining nodes in this round")
    if plan.restored_rules:
        reasons.append(f"rules that are broken now are kept: {plan.restored_rules}")
    before, after = plan.load_distance_before_pct, plan.load_distance_pct
    if after < before:
        promise = load_distance
        promised = (
            f"{_points(after)} %"
            if promise is None
            else promised_text(promise.expected, promise.low, promise.high, "%")
        )
        reasons.append(
            f"the load of the node farthest from the mean is off by {_points(before)} % of it, "
            f"and by {promised} with the plan"
        )
    reasons += _traffic_reason(plan)
    notes = [plan.splits_reason or "", plan.skew_reason or ""]
    if reasons:
        return _sentence([*reasons, *notes])
    # Such a plan changes nodes or weights; its own reason says why no key group moves.
    others = [plan.scaling_reason, plan.weights_reason]
    return _sentence([*(text for text in others if text), plan.reason, *notes])


def _traffic_reason(plan: DraftSummary) -> list[str]:
    before, after = plan.collocation_factor_before_pct, plan.collocation_factor_pct or 0.0
    if plan.objective != "joint" or before is None or after <= before:
        return []
    return [f"{before:.1f} % of the traffic stays within nodes, and {after:.1f} % with the plan"]


def _sentence(parts: Sequence[str]) -> str:
    text = "; ".join(part for part in parts if part).rstrip(". ")
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def progress_text(trace_json: str | None) -> str:
    """How the best load distance fell over time, in at most ``MAX_STEPS`` steps.

    Args:
        trace_json: plans.plans.trace_json: a list of (seconds, step, load distance).

    Returns:
        The steps that improved the load distance; empty without a trace.
    """
    better = _improvements(json.loads(trace_json or "[]"))
    if not better:
        return ""
    shown = better if len(better) <= MAX_STEPS else [better[0], *better[-(MAX_STEPS - 1) :]]
    return ", ".join(f"{_points(pct)} % after {s:.2f} s ({step})" for s, step, pct in shown)


def _improvements(trace: Sequence[Sequence[object]]) -> list[tuple[float, str, float]]:
    """The steps of a trace that lowered the best load distance."""
    better: list[tuple[float, str, float]] = []
    for seconds, step, distance in trace:
        value = float(str(distance))
        if not better or value < better[-1][2]:
            better.append((float(str(seconds)), str(step), value))
    return better


def held_back_entries(held_back_json: str | None) -> list[HeldBackEntry]:
    """The entries of plans.plans.held_back_json; none where it is NULL."""
    return [_entry(found) for found in json.loads(held_back_json or "[]")]


def _entry(found: Mapping[str, Any]) -> HeldBackEntry:
    names = tuple(found["what"])
    return HeldBackEntry(
        # Rows of an earlier version have no kind and no count: they held clusters back.
        kind=str(found.get("kind", "cluster")),
        names=names,
        count=int(found.get("count", len(names))),
        saved_rate=float(found["saved_rate"]),
        reason=str(found["reason"]),
    )


def held_back_summary(entries: Sequence[HeldBackEntry]) -> list[str]:
    """One line for each kind of move that was held back: how many, what they would save, why.

    Each key group and each key is checked alone, so two that exchange traffic both count what
    moving one of them would save.
    """
    lines = []
    for kind in dict.fromkeys(entry.kind for entry in entries):
        of_kind = [entry for entry in entries if entry.kind == kind]
        count = sum(entry.count for entry in of_kind)
        saved = sum(entry.saved_rate for entry in of_kind)
        example = f"{', '.join(of_kind[0].names[:3])}: {of_kind[0].reason}"
        lines.append(
            f"{count:,} {HELD_BACK_NOUNS[kind]} that would save {saved:.6g} records a second, "
            f"such as {example}"
        )
    return lines


def held_back_lines(entries: Sequence[HeldBackEntry]) -> list[str]:
    """One line for each entry."""
    return [
        f"{entry.kind} {', '.join(entry.names)}{_more_names(entry)}: {entry.reason}"
        if entry.names
        else f"{entry.count:,} {HELD_BACK_NOUNS[entry.kind]} of lesser gain, "
        f"{entry.saved_rate:.6g} records a second together"
        for entry in entries
    ]


def _more_names(entry: HeldBackEntry) -> str:
    more = entry.count - len(entry.names)
    return f" and {more:,} more" if more > 0 else ""


def _points(percent: float) -> str:
    """The figure with two significant digits where it is small."""
    return f"{percent:.2f}" if percent >= 0.1 or percent == 0 else f"{percent:.2g}"
