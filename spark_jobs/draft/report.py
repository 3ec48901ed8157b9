"""A draft as text: what it promises and what it costs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ballast.contracts import plan_text
from ballast.contracts.figure_text import promised_text
from ballast.contracts.records import Draft, Promise
from solvers.model.objective import JOINT, WEIGHTED
from solvers.model.result import Status
from spark_jobs.warehouse.plan_log import Event


def drafted_event(draft: Draft) -> Event:
    """The event of a draft for plans.log."""
    unchanged = draft.status == Status.UNCHANGED.value
    summary = [draft.reason] if unchanged else report(draft)[:2]
    return Event(
        job=draft.job,
        event="unchanged" if unchanged else "drafted",
        run_id=draft.run_id,
        actor=actor(draft.run_id),
        reason=" ".join(
            [*summary, *_scaling(draft), *_weights(draft), *_splits(draft), *_skew(draft)]
        ),
        plan_id=draft.plan_id,
    )


def report(draft: Draft) -> list[str]:
    """What the draft promises and what it costs, one line for each fact."""
    head = f"plan {draft.plan_id} against version {draft.parent_version}"
    before = f"{draft.load_distance_before_pct:.2f} %"
    quality = plan_text.plan_quality_text(draft)
    solved = f"solved by {draft.method} in {draft.solver_seconds:.1f} s"
    if draft.status == Status.UNCHANGED.value:
        return [
            f"{head}: unchanged, {draft.reason}",
            f"load distance {before} of the mean, {quality}; {solved}",
            *_scaling(draft),
            *_weights(draft),
            *_splits(draft),
            *_skew(draft),
            *_rules(draft),
            *_held_back(draft),
            *_advice(draft),
        ]
    forced = f" and {draft.forced_moves} forced" if draft.forced_moves else ""
    n_bytes = draft.bytes + draft.forced_bytes
    moves = f"moves {draft.moves} key groups{forced}, {n_bytes} bytes{_rerouted(draft)}"
    after = f"{draft.load_distance_pct:.2f} % of the mean{_traffic(draft)}"
    return [
        f"{head}: load distance from {before} to {after}",
        f"{moves}, pause {draft.pause_s:.3f} s",
        f"{quality}; {solved}",
        *_how(draft),
        *_scaling(draft),
        *_weights(draft),
        *_splits(draft),
        *_skew(draft),
        *_rules(draft),
        *_path(draft),
        *_held_back(draft),
        *_advice(draft),
    ]


def promise_report(promises: Sequence[Promise]) -> list[str]:
    """What the next period will measure, one line for each figure; single nodes are left out."""
    return [
        f"expected {row.figure}: {promised_text(row.expected, row.low, row.high, row.unit)}"
        + (f", no interval: {row.reason}" if row.reason else "")
        for row in promises
        if "/" not in row.figure
    ]


def _how(draft: Draft) -> list[str]:
    """The solver's reason for its plan, if it has one."""
    return [f"how: {draft.reason}"] if draft.reason else []


def _scaling(draft: Draft) -> list[str]:
    """How many nodes and why: which metric was binding, and what would change the decision."""
    reason = draft.scaling_reason
    return [f"scaling: {reason}"] if reason else []


def _weights(draft: Draft) -> list[str]:
    """The weights of the workers of ordered regions, and why."""
    reason = draft.weights_reason
    return [f"weights: {reason}"] if reason else []


def _skew(draft: Draft) -> list[str]:
    """Operators and edges that are skewed although the whole job is level, and how the plan changes
    that."""
    reason = draft.skew_reason
    return [f"skew: {reason}"] if reason else []


def _splits(draft: Draft) -> list[str]:
    """Hot keys, and what a plan that splits keys saves."""
    lines = [f"hot keys: {draft.splits_reason}"] if draft.splits_reason else []
    if draft.unsplit_bound_pct is not None:
        lines.append(
            f"splits: {draft.split_keys} keys; load distance {draft.load_distance_pct:.2f} %, "
            f"without splits at least {draft.unsplit_bound_pct:.2f} %"
        )
    return lines


def _rules(draft: Draft) -> list[str]:
    """How the plan keeps each rule of the policy."""
    return [f"rule {line}" for line in (draft.rules_text or "").splitlines()]


def _traffic(draft: Draft) -> str:
    """The traffic before and after a joint plan; empty for other plans."""
    if draft.objective != JOINT or draft.collocation_factor_pct is None:
        return ""
    return (
        f" ({_trade(draft)}), traffic within nodes from "
        f"{draft.collocation_factor_before_pct:.1f} to {draft.collocation_factor_pct:.1f} %, "
        f"bytes between nodes from {draft.wire_bytes_before_per_s:,.0f} to "
        f"{draft.wire_bytes_per_s:,.0f} a second, load index {draft.load_index_pct:.1f} %"
    )


def _trade(draft: Draft) -> str:
    """How a joint plan trades load for traffic."""
    if draft.trade != WEIGHTED:
        return f"allowed {draft.max_load_distance_pct:g} %"
    return (
        f"weighed: {draft.load_weight:g} a percent of it, {draft.traffic_weight:g} a percent "
        "of traffic"
    )


def _rerouted(draft: Draft) -> str:
    if not draft.rerouted_keys:
        return ""
    return (
        f", and routes {draft.rerouted_keys} keys anew, about {draft.route_bytes} bytes "
        f"({draft.routes} keys do not go by hash)"
    )


def _held_back(draft: Draft) -> list[str]:
    """Moves that would save traffic and do not pay for their cost, one line for each kind."""
    found = plan_text.held_back_entries(draft.held_back_json)
    return [
        f"held back because it does not pay: {line}" for line in plan_text.held_back_summary(found)
    ]


def _advice(draft: Draft) -> list[str]:
    """Changes to the job that no plan can make, such as another partitioning of operators."""
    return [f"advice: {line}" for line in (draft.advice or "").splitlines()]


def _path(draft: Draft) -> list[str]:
    """How the load distance fell while the solver ran, if the solver traced it."""
    steps = plan_text.progress_text(draft.trace_json)
    return [f"best load distance: {steps}"] if steps else []


def actor(run_id: str) -> str:
    """The actor of events of ``solve`` in plans.log."""
    return f"solve of run {run_id}"
