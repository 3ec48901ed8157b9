"""The text of a draft's review: Markdown for the person who approves or rejects it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

import pyarrow as pa
import pyarrow.compute as pc

from ballast.contracts import plan_text
from ballast.contracts.figure_text import EARLIER_VERSION, PROMISED_SHARE_PCT, promised_text
from ballast.contracts.records import AssignedKeyGroup, Draft, Promise, ScalingRow
from ballast.contracts.review import benefit_pct
from ballast.contracts.scaling import ADD, DRAIN, REMOVE, node_actions, scaled
from solvers.model.metrics import node_loads
from solvers.model.problem import Problem
from spark_jobs.program.markdown import escaped, table

SHOWN_MOVES = 40
SHOWN_NODES = 60
SHOWN_HELD_BACK = 10


@dataclass(frozen=True)
class NodeLoad:
    """Load of a node without and with the plan: worst resource, in percent of its capacity."""

    node_id: str
    state: str
    before_pct: float
    after_pct: float


@dataclass(frozen=True)
class DraftDetails:
    """What the review shows beside the figures of a draft."""

    nodes: Sequence[NodeLoad] = ()
    moves: Sequence[AssignedKeyGroup] = ()
    scaling: Sequence[ScalingRow] = ()
    promises: Sequence[Promise] = ()
    """What the next period will measure; empty for a draft of an earlier version."""


def loads_of_nodes(problem: Problem, assignment: pa.Table) -> list[NodeLoad]:
    """Load of each node before and after the plan, by the loads of the draft's snapshot."""
    index = {name: i for i, name in enumerate(problem.node_ids)}
    columns = (assignment[name].to_pylist() for name in ("operator_id", "key_group", "node_id"))
    placed = {f"{op}/{group}": index[node] for op, group, node in zip(*columns, strict=True)}
    plan = problem.current.copy()
    plan[:] = [placed[name] for name in problem.key_group_ids]
    before = 100.0 * node_loads(problem, problem.current).max(axis=1)
    after = 100.0 * node_loads(problem, plan).max(axis=1)
    return [
        NodeLoad(name, problem.node_state[i], float(before[i]), float(after[i]))
        for i, name in enumerate(problem.node_ids)
    ]


def moves_of(assignment: pa.Table) -> list[AssignedKeyGroup]:
    """The rows of plans.assignments whose node changes, most bytes first."""
    moved = assignment.filter(pc.not_equal(assignment["node_id"], assignment["previous_node_id"]))
    rows = [AssignedKeyGroup.from_row(row) for row in moved.to_pylist()]
    return sorted(rows, key=lambda row: (-row.state_bytes, row.operator_id, row.key_group))


def subject(plan: Draft) -> str:
    """The question in one line."""
    return (
        f"{plan.job}: publish plan {plan.plan_id}? Load distance from "
        f"{plan.load_distance_before_pct:.1f} to {plan.load_distance_pct:.1f} %, "
        f"{plan.moves + plan.forced_moves} moves"
    )


def review_body(plan: Draft, details: DraftDetails, reasons: Sequence[str], page: str) -> str:
    """Everything that a person needs to approve or reject a draft.

    Args:
        plan: the draft.
        details: loads of nodes, moves and scaling of the draft.
        reasons: why a person is asked.
        page: path of the review page, for a link.
    """
    link = f"{page}?{urlencode({'dag': 'reoptimize__' + plan.job, 'run': plan.run_id})}"
    return "\n\n".join(
        part
        for part in (
            _summary(plan, details.promises),
            _reasons(reasons),
            "### Figures of the plan\n\n" + _figures(plan),
            "### Promised for the next period\n\n" + _promises(details.promises),
            _scaling(plan, details.scaling),
            _weights(plan),
            _rules(plan),
            "### Load of nodes, in percent of capacity\n\n" + _nodes(details.nodes),
            f"### Moves ({len(details.moves):,})\n\n" + _moves(details.moves),
            _held_back(plan),
            _advice(plan),
            f"[Look closer on the review page]({link})",
            _what_approval_does(plan),
        )
        if part
    )


def _weights(plan: Draft) -> str:
    """The new weights of ordered regions, and why they change."""
    reason = plan.weights_reason
    return f"### Weights of ordered regions\n\n{escaped(reason)}" if reason else ""


def _rules(plan: Draft) -> str:
    """How the plan keeps each rule of the policy."""
    found = (plan.rules_text or "").splitlines()
    if not found:
        return ""
    return "### Rules of the policy\n\n" + "\n".join(f"- {escaped(line)}" for line in found)


def _what_approval_does(plan: Draft) -> str:
    return (
        f"Approve publishes exactly content `{plan.content_hash}`. If the job changes too much "
        "before you answer, or a newer plan comes, nothing is published."
    )


def _summary(plan: Draft, promises: Sequence[Promise]) -> str:
    load_distance = next((row for row in promises if row.figure == "load_distance_pct"), None)
    forced = f" and {plan.forced_moves:,} off dead nodes" if plan.forced_moves else ""
    n_bytes = plan.bytes + plan.forced_bytes + (plan.route_bytes or 0)
    gain, why = benefit_pct(plan), escaped(plan_text.plan_reason(plan, load_distance))
    return (
        f"**Plan {plan.plan_id}** moves {plan.moves:,} key groups{forced} with {n_bytes:,} "
        f"bytes, which pauses the job for an estimated {plan.pause_s:.2f} s. It brings the load "
        f"distance from {plan.load_distance_before_pct:.2f} % to "
        f"{plan.load_distance_pct:.2f} % of the mean, a gain of {gain:.2f}. It would replace "
        f"version {plan.parent_version}.\n\nWhy: {why}"
    )


def _reasons(reasons: Sequence[str]) -> str:
    if not reasons:
        return ""
    return "You are asked because:\n\n" + "\n".join(f"- {escaped(reason)}" for reason in reasons)


def _figures(plan: Draft) -> str:
    before_after = [
        ("load distance, % of the mean", "load_distance_before_pct", "load_distance_pct"),
        ("traffic within nodes, %", "collocation_factor_before_pct", "collocation_factor_pct"),
        ("bytes between nodes a second", "wire_bytes_before_per_s", "wire_bytes_per_s"),
    ]
    rows = [
        [name, getattr(plan, before), getattr(plan, after)] for name, before, after in before_after
    ]
    costs: list[list[object]] = [
        ["key groups that move", plan.moves, plan.budget_moves],
        ["bytes", plan.bytes + (plan.route_bytes or 0), plan.budget_bytes],
        ["pause, s", plan.pause_s, plan.budget_pause_s],
        ["keys with a new route", plan.rerouted_keys, None],
    ]
    quality = plan_text.plan_quality_text(plan)
    proof = (
        f"Bound {plan.bound_pct:.2f} %, gap {plan.gap_pct:.2f}: {quality}. Solved by "
        f"{escaped(plan.method)} in {plan.solver_seconds:.1f} s."
    )
    return "\n\n".join(
        (
            table(("figure", "now", "with the plan"), [row for row in rows if row[2] is not None]),
            table(("cost", "of the plan", "budget"), costs),
            proof,
        )
    )


def _promises(promises: Sequence[Promise]) -> str:
    """Expected values with their 90 % intervals; nodes are left out, their loads follow below."""
    if not promises:
        return f"No interval is known: {EARLIER_VERSION}."
    rows = [
        [row.figure, promised_text(row.expected, row.low, row.high, row.unit), escaped(row.reason)]
        for row in promises
        if "/" not in row.figure
    ]
    explained = (
        f"In brackets: the interval that will contain the measured value in "
        f"{PROMISED_SHARE_PCT:.0f} of 100 cases."
    )
    return "\n\n".join((explained, table(("figure", "promised", "why no interval"), rows)))


def _scaling(plan: Draft, rows: Sequence[ScalingRow]) -> str:
    if not rows:
        return ""
    actions = node_actions(scaled(rows))
    named = {
        verb: sorted(node for node, action in actions.items() if action == wanted)
        for verb, wanted in (("adds", ADD), ("drains", DRAIN), ("removes", REMOVE))
    }
    listed = "\n".join(
        f"- {verb} {len(found):,}: {escaped(', '.join(found[:SHOWN_NODES]))}"
        f"{', ...' if len(found) > SHOWN_NODES else ''}"
        for verb, found in named.items()
        if found
    )
    what = listed or "No node is added, drained or removed."
    return "\n\n".join(("### Nodes", what, f"Why: {escaped(plan.scaling_reason)}"))


def _nodes(nodes: Sequence[NodeLoad]) -> str:
    shown = [[n.node_id, n.state, n.before_pct, n.after_pct] for n in nodes[:SHOWN_NODES]]
    return table(("node", "state", "now", "with the plan"), shown) + _more(nodes, SHOWN_NODES)


def _moves(moves: Sequence[AssignedKeyGroup]) -> str:
    columns = ("operator_id", "key_group", "previous_node_id", "node_id", "state_bytes")
    shown = [[getattr(row, column) for column in columns] for row in moves[:SHOWN_MOVES]]
    headers = ("operator", "key group", "from", "to", "bytes")
    return table(headers, shown) + _more(moves, SHOWN_MOVES)


def _held_back(plan: Draft) -> str:
    found = plan_text.held_back_entries(plan.held_back_json)
    if not found:
        return ""
    summed = "\n".join(f"- {escaped(line)}" for line in plan_text.held_back_summary(found))
    each = plan_text.held_back_lines(found)
    listed = "\n".join(f"- {escaped(line)}" for line in each[:SHOWN_HELD_BACK])
    more = _more(each, SHOWN_HELD_BACK)
    title = "### Held back, because it costs more than it saves"
    return f"{title}\n\n{summed}\n\nOne by one:\n\n{listed}{more}"


def _advice(plan: Draft) -> str:
    """Changes that only the author of the job can make; the answer does not affect them."""
    found = (plan.advice or "").splitlines()
    if not found:
        return ""
    listed = "\n".join(f"- {escaped(line)}" for line in found)
    return f"### Advice, not part of the plan\n\n{listed}"


def _more(items: Sequence[object], shown: int) -> str:
    more = len(items) - shown
    return f"\n\nand {more:,} more on the review page" if more > 0 else ""
