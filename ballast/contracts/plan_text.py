"""What a plan's figures mean, in words: the same in a run's report and on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ballast.contracts.tables import ROLLBACK

OPTIMAL_GAP_PCT = 1e-9
"""A gap that is not above this is 0: solvers write 0 where optimality is proven."""
MOST_STEPS = 5
HELD_BACK = {
    "cluster": "key groups of clusters",
    "key group": "single key groups",
    "key": "keys",
    "plan": "key groups of the whole plan",
}


def quality_text(bound_pct: float, gap_pct: float) -> str:
    """How good a plan is, as far as it is proven."""
    if gap_pct <= OPTIMAL_GAP_PCT:
        return "proven optimal: no plan within the budget has a smaller load distance"
    return (
        f"at most {_points(gap_pct)} points from the best possible: "
        f"no plan within the budget is below {bound_pct:.2f} %"
    )


def plan_reason(plan: Mapping[str, Any]) -> str:
    """Why a plan does what it does, in a sentence, from its row in plans.plans."""
    if plan["method"] == ROLLBACK or plan["status"] == "unchanged":
        return _sentence([plan["reason"]])
    reasons = []
    if plan["forced_moves"]:
        reasons.append(f"{plan['forced_moves']:,} key groups have to leave dead nodes")
    if plan.get("due_moves"):
        reasons.append(f"{plan['due_moves']:,} have to leave draining nodes in this round")
    before, after = plan["load_distance_before_pct"], plan["load_distance_pct"]
    if after < before:
        reasons.append(
            f"the load of the node farthest from the mean is off by {_points(before)} % of it, "
            f"and by {_points(after)} % with the plan"
        )
    inside = plan.get("collocation_factor_before_pct")
    will_be = plan.get("collocation_factor_pct") or 0.0
    if plan["objective"] == "joint" and inside is not None and will_be > inside:
        reasons.append(
            f"{inside:.1f} % of the traffic stays within nodes, and {will_be:.1f} % with the plan"
        )
    if reasons:
        return _sentence(reasons)
    # Nodes or weights are what it is for; its own reason says why nothing is moved.
    beside = [plan.get("scaling_reason"), plan.get("weights_reason")]
    return _sentence([*(said for said in beside if said), plan["reason"]])


def _sentence(parts: Sequence[str]) -> str:
    text = "; ".join(part for part in parts if part).rstrip(". ")
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def progress_text(trace: Sequence[Sequence[object]]) -> str:
    """How the best load distance fell over time, in a few steps; empty without a trace."""
    better = _improvements(trace)
    if not better:
        return ""
    shown = better if len(better) <= MOST_STEPS else [better[0], *better[-(MOST_STEPS - 1) :]]
    return ", ".join(f"{_points(pct)} % after {s:.2f} s ({step})" for s, step, pct in shown)


def held_back_summary(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """What did not pay for its move, a line for each kind: how many, what they would save, why.

    ``found`` is what plans.plans.held_back_json has. A key group and a key are looked at each by
    itself, so two that talk to each other both count what one of them would save.
    """
    lines = []
    for kind in dict.fromkeys(_kind(one) for one in found):
        of_kind = [one for one in found if _kind(one) == kind]
        count = sum(_count(one) for one in of_kind)
        saved = sum(one["saved_rate"] for one in of_kind)
        example = f"{', '.join(of_kind[0]['what'][:3])}: {of_kind[0]['reason']}"
        lines.append(
            f"{count:,} {HELD_BACK[kind]} that would save {saved:.6g} records a second, "
            f"such as {example}"
        )
    return lines


def held_back_lines(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """The same one by one, as far as they are kept."""
    return [
        f"{_kind(one)} {', '.join(one['what'])}{_more_names(one)}: {one['reason']}"
        if one["what"]
        else f"{_count(one):,} {HELD_BACK[_kind(one)]} of lesser gain, {one['saved_rate']:.6g} "
        "records a second together"
        for one in found
    ]


def _more_names(one: Mapping[str, Any]) -> str:
    more = _count(one) - len(one["what"])
    return f" and {more:,} more" if more > 0 else ""


def _kind(one: Mapping[str, Any]) -> str:
    """Rows of an earlier version name no kind: they held clusters, or a plan, back."""
    return str(one.get("kind", "cluster"))


def _count(one: Mapping[str, Any]) -> int:
    return int(one.get("count", len(one["what"])))


def _improvements(trace: Sequence[Sequence[object]]) -> list[tuple[float, str, float]]:
    """The steps of a trace at which the best load distance was lowered."""
    better: list[tuple[float, str, float]] = []
    for seconds, step, distance in trace:
        value = float(str(distance))
        if not better or value < better[-1][2]:
            better.append((float(str(seconds)), str(step), value))
    return better


def _points(percent: float) -> str:
    """Digits that mean something, however small the figure is."""
    return f"{percent:.2f}" if percent >= 0.1 or percent == 0 else f"{percent:.2g}"
