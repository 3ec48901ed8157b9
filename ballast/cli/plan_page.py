"""The text of ``ballast plans show``: a sentence, the figures and the loads; details on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from ballast.cli.node_bars import legend, load_table
from ballast.cli.render import (
    HEAD,
    ROWS_SHOWN,
    cell_text,
    measured_cell,
    pairs_table,
    record_table,
    section,
    styled,
    text_table,
    title_of,
)
from ballast.cli.terminal import Terminal
from ballast.contracts import figure_text
from ballast.contracts.log_events import DRAFTED
from ballast.contracts.records import AssignedKeyGroup, Draft, WorkerWeight
from ballast.readmodel.changes import NodePlan
from ballast.readmodel.placement import NodeLoads
from ballast.readmodel.plans import PlanDetail
from ballast.readmodel.promises import PromisedFigure

if TYPE_CHECKING:
    from rich.console import RenderableType

NODES_SHOWN = 24
"""Nodes with a bar; all of them with --details."""
NO_FIGURES = frozenset({
    "job", "plan_id", "reason", "skew_reason", "splits_reason", "rules_text", "advice",
    "trace_json", "target_json", "held_back_json", "seed",
})  # fmt: skip
"""Fields of a plan that are said elsewhere, or are for programs."""


@dataclass(frozen=True)
class PlanPage:
    """A plan with everything that is printed about it."""

    detail: PlanDetail
    nodes: NodePlan | None
    """None for a plan that does not decide on nodes."""
    assignment: Sequence[AssignedKeyGroup]
    weights: Sequence[WorkerWeight]
    loads: NodeLoads | None = None
    no_loads_reason: str = ""
    """Why there are no loads; empty if there are."""

    @property
    def moves(self) -> list[AssignedKeyGroup]:
        """Key groups that the plan moves."""
        return [row for row in self.assignment if row.node_id != row.previous_node_id]


def summary_parts(page: PlanPage, terminal: Terminal) -> list[RenderableType]:
    """What the plan does, the figures before it, promised and measured, and loads as bars."""
    detail = page.detail
    return [
        styled(heading(detail), HEAD),
        "\n".join([detail.reason, moves_sentence(page), take_up_sentence(detail)]),
        figure_table(detail),
        *_load_parts(page, terminal, NODES_SHOWN),
        "\n".join([*_more_lines(page), "Details: --details. For programs: --json."]),
    ]


def detail_parts(page: PlanPage, terminal: Terminal) -> list[RenderableType]:
    """Everything about the plan that a person may want to read."""
    detail = page.detail
    return [
        styled(heading(detail), HEAD),
        "\n".join([detail.reason, moves_sentence(page), take_up_sentence(detail)]),
        section("Promised and measured", _all_figures(detail.figures)),
        *_without_interval(detail.figures),
        *_load_parts(page, terminal, ROWS_SHOWN),
        section("Plan", pairs_table(plan_fields(detail.plan))),
        "\n".join(_sentences(detail)),
        *_node_parts(page.nodes),
        key_group_part("Moves", page.moves),
        *_weight_parts(page.weights),
        *_event_parts(detail),
    ]


def heading(detail: PlanDetail) -> str:
    """The job, the version or draft, and whether it is in force."""
    plan = detail.plan
    if detail.version is None:
        event = detail.log[-1].event if detail.log else DRAFTED
        return f"Job {detail.job}, draft {plan.plan_id}: not in force ({event.replace('_', ' ')})"
    newest = detail.versions[-1] if detail.versions else detail.version
    state = "in force" if detail.in_force else f"replaced, version {newest} is in force"
    approved = f", approved by {detail.approved_by}" if detail.approved_by else ""
    return f"Job {detail.job}, version {detail.version} ({state}{approved}), plan {plan.plan_id}"


def moves_sentence(page: PlanPage) -> str:
    """How much the plan moves, and what that costs."""
    plan = page.detail.plan
    if not plan.moves:
        return f"No key group moves. {_solved(plan)}."
    size = figure_text.value_text(plan.bytes, figure_text.BYTES)
    forced = f", {plan.forced_moves:,} of them off dead nodes" if plan.forced_moves else ""
    move = "moves" if plan.moves == 1 else "move"
    return (
        f"{plan.moves:,} of {len(page.assignment):,} key groups {move}{forced}: {size} of state, "
        f"a predicted pause of {plan.pause_s:.3g} s. {_solved(plan)}."
    )


def take_up_sentence(detail: PlanDetail) -> str:
    """What the streaming job did with the version."""
    if detail.version is None:
        return "The job never saw this plan."
    if not detail.acks:
        return "The job has not answered yet."
    ack = detail.acks[-1]
    when = f"at {cell_text(ack.acked_at)} UTC, batch {ack.batch_id}"
    if ack.status == "refused":
        return f"The job refused it {when}: {ack.reason}."
    if ack.status == "superseded":
        return f"The job left it for a newer version {when}: {ack.reason}."
    if ack.status == "applied":
        return f"The job took it up {when}."
    made = f", {ack.progress_text} made" if ack.progress_text else ""
    return f"The job accepted it and is moving state{made} ({when})."


def figure_table(detail: PlanDetail) -> RenderableType:
    """The figures before the plan, promised and measured; those of nodes have bars."""
    from rich.console import Group

    figures = [figure for figure in detail.figures if "/" not in figure.figure]
    rows = [
        [
            _name(figure),
            figure.before_text,
            figure.promised_text,
            measured_cell(figure.measured_text),
        ]
        for figure in figures
    ]
    table = text_table(("", "before", "promised, 90 % interval", "measured"), rows)
    reason = figures[0].reason if figures else ""
    lines = [f"No interval: {reason}."] if reason else []
    return Group(table, *lines, f"The plan is {detail.quality}.")


def plan_fields(plan: Draft) -> list[tuple[str, Any]]:
    """The fields of a plan that have a value, and are not said elsewhere."""
    found = [
        (field.name, getattr(plan, field.name))
        for field in fields(plan)
        if field.name not in NO_FIGURES
    ]
    return [(name, value) for name, value in found if value is not None and value != ""]


def key_group_part(title: str, rows: Sequence[AssignedKeyGroup]) -> RenderableType:
    """A table of key groups with their nodes."""
    columns = ("operator_id", "key_group", "previous_node_id", "node_id", "state_bytes")
    table = record_table(rows, columns) if rows else None
    return section(f"{title} ({len(rows):,})", table)


def _solved(plan: Draft) -> str:
    return f"Solved by {plan.method} in {plan.solver_seconds:.1f} s"


def _name(figure: PromisedFigure) -> str:
    # The value has its unit.
    return title_of(figure.figure.removesuffix("_pct").removesuffix("_s"))


def _load_parts(page: PlanPage, terminal: Terminal, most: int) -> list[RenderableType]:
    if page.loads is None:
        return [f"Load per node is not known: {page.no_loads_reason}."]
    is_measured = page.loads.measured_at is not None
    return [
        section(
            legend(loads.resource, is_measured=is_measured, terminal=terminal),
            load_table(loads, terminal, most),
        )
        for loads in page.loads.resources
    ]


def _more_lines(page: PlanPage) -> list[str]:
    """A line about each part of the plan that only some plans have."""
    detail, nodes = page.detail, page.nodes
    lines = []
    if nodes is not None:
        lines.append(_node_counts(nodes))
    if page.weights:
        lines.append(f"Weights of {len(page.weights)} workers of ordered regions are in --details.")
    refused = [ack for ack in detail.region_acks if ack.status == "refused"]
    lines += [f"Region {ack.region_id} refused it: {ack.reason}." for ack in refused]
    lines += [f"Rule {line}." for line in (detail.plan.rules_text or "").splitlines()]
    counts = {
        "kinds of moves are held back": len(detail.held_back),
        "lines of advice on operators": len((detail.plan.advice or "").splitlines()),
    }
    lines += [f"{count} {what} (--details)." for what, count in counts.items() if count]
    return lines


def _sentences(detail: PlanDetail) -> list[str]:
    """Sentences about the quality of the plan and about the run of the solver."""
    plan, steps = detail.plan, detail.progress
    return [
        f"This plan is {detail.quality}. {_solved(plan)}.",
        *([f"Best load distance while it ran: {steps}."] if steps else []),
        *(f"Held back: {line}." for line in detail.held_back),
        *(f"Rule {line}." for line in (plan.rules_text or "").splitlines()),
        # Advice on the partitioning of operators: only a change of the job can follow it.
        *(f"Advice: {line}." for line in (plan.advice or "").splitlines()),
    ]


def _node_counts(nodes: NodePlan) -> str:
    counts = f"{cell_text(nodes.before)} before, {cell_text(nodes.wanted)} with the plan"
    return f"Nodes: {counts}; {nodes.reason}"


def _node_parts(nodes: NodePlan | None) -> list[RenderableType]:
    """The parts about nodes; none for a plan that does not decide on nodes."""
    from rich.console import Group

    if nodes is None:
        return []
    parts: list[RenderableType] = [
        _node_counts(nodes),
        f"Bound by {nodes.binding}; what would have changed it: {nodes.would_change}",
    ]
    if nodes.changes:
        parts.append(record_table(nodes.changes))
    if nodes.spare_count:
        more = nodes.spare_count - len(nodes.spares)
        parts.append(f"Kept spare: {', '.join(nodes.spares)}{f' and {more} more' if more else ''}")
    return [Group(*parts)]


def _weight_parts(weights: Sequence[WorkerWeight]) -> list[RenderableType]:
    columns = ("region_id", "worker_id", "previous_weight", "weight", "state", "records_per_s",
               "reason")  # fmt: skip
    title = "Weights of workers, in units of 0.1 %"
    return [section(title, record_table(weights, columns))] if weights else []


def _event_parts(detail: PlanDetail) -> list[RenderableType]:
    acks = ("status", "batch_id", "step", "steps", "moved_key_groups", "bytes_moved", "pause_ms",
            "longest_pause_ms", "acked_at", "reason")  # fmt: skip
    parts = [section("Take-up", record_table(detail.acks, acks) if detail.acks else None)]
    if detail.region_acks:
        columns = ("region_id", "status", "acked_at", "reason")
        parts.append(
            section("Take-up by ordered regions", record_table(detail.region_acks, columns))
        )
    log = ("at", "event", "actor", "reason")
    parts.append(section("Log", record_table(detail.log, log) if detail.log else None))
    return parts


def _all_figures(figures: Sequence[PromisedFigure]) -> RenderableType:
    headers = ("figure", "before", "promised, 90 % interval", "measured", "windows", "measured at",
               "measured last")  # fmt: skip
    rows = [
        [figure.figure, figure.before_text, figure.promised_text,
         measured_cell(figure.measured_text), figure.windows, figure.measured_at,
         measured_cell(figure.last_measured_text)]
        for figure in figures
    ]  # fmt: skip
    return text_table(headers, rows)


def _without_interval(figures: Sequence[PromisedFigure]) -> list[str]:
    reasons = dict.fromkeys(figure.reason for figure in figures if figure.reason)
    return [
        f"No interval for {', '.join(f.figure for f in figures if f.reason == reason)}: {reason}."
        for reason in reasons
    ]
