"""Assemble a draft from a plan: content, content hash, plan id, and the row of plans.plans. Pure.

``solve`` and ``rollback`` both make their drafts here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from ballast.contracts import identity
from ballast.contracts.records import Draft, Promise, ScalingRow
from solvers.collocate.component_advice import advice_from_traffic
from solvers.model.amortisation import shortened
from solvers.model.budget import Budget
from solvers.planner.plan import Plan
from solvers.rules.rule_text import rule_report
from solvers.verify.violation import Violation
from spark_jobs.draft.content import (
    PlanContent,
    assignment_rows,
    content_hash_of,
    routes_of,
    rows_of_splits,
)
from spark_jobs.draft.figures import (
    levelling_figures,
    route_figures,
    trade_figures,
    weighted_figures,
    wire_figures,
)
from spark_jobs.draft.promises import promise_rows
from spark_jobs.draft.region_weights import RegionPlan, reason_of_regions, weight_rows
from spark_jobs.draft.round import Round
from spark_jobs.draft.verification import violations_of

UNKNOWN_ID = ""
"""Plan id of rows that the content hash, and with it the plan id, is computed from."""


@dataclass(frozen=True, kw_only=True)
class DraftRequest:
    """A plan and everything else that its draft records."""

    round: Round
    """The snapshot that the plan was made from; the draft is verified against it."""
    plan: Plan
    budget: Budget
    seed: int
    regions: Sequence[RegionPlan] = ()
    scaling: Sequence[ScalingRow] = ()
    """What the plan does with nodes, without a plan id; empty if the job is not scaled."""
    scaling_reason: str | None = None
    created_at: datetime


@dataclass(frozen=True)
class AssembledDraft:
    """A draft that is not written yet, and the promises that its rows do not keep."""

    draft: Draft
    content: PlanContent
    violations: Sequence[Violation]
    promises: Sequence[Promise] = ()
    """What ``measure`` will find; they are no part of the content."""


def assemble_draft(request: DraftRequest) -> AssembledDraft:
    """Assemble and verify a draft.

    Args:
        request: the plan, and what the draft records beside it.

    Returns:
        The rows of the draft with its plan id, and the violations that the verifier finds in
        them. The caller decides which violations it accepts.
    """
    job, plan = request.round.snapshot.job, request.plan
    content = PlanContent(
        assignment_rows(job, UNKNOWN_ID, plan.problem, plan.result.assignment),
        routes_of(plan.routing),
        request.scaling,
        weight_rows(request.regions, job, UNKNOWN_ID),
        rows_of_splits(plan.splits),
    )
    content_hash = content_hash_of(content)
    plan_id = identity.plan_id(job, request.round.snapshot.snapshot_id, content_hash)
    content = content.with_plan_id(plan_id)
    draft = draft_record(request, plan_id, content_hash)
    promises = promise_rows(request.round, plan, draft)
    violations = violations_of(request.round, draft, content, promises)
    return AssembledDraft(draft, content, violations, promises)


def draft_record(request: DraftRequest, plan_id: str, content_hash: str) -> Draft:
    """The row of plans.plans: what the plan promises and what it costs."""
    job_round, plan, budget = request.round, request.plan, request.budget
    snapshot, result, objective = job_round.snapshot, plan.result, job_round.objective
    is_joint = objective.is_joint
    rules = rule_report(plan.problem, plan.result.assignment)
    held_back = json.dumps([asdict(held) for held in shortened(plan.held_back)])
    rerouted = None if plan.rerouted is plan.problem else plan.rerouted
    return Draft(
        job=snapshot.job,
        plan_id=plan_id,
        run_id=snapshot.run_id,
        snapshot_id=snapshot.snapshot_id,
        parent_version=snapshot.head_version,
        parent_plan_id=snapshot.head_plan_id,
        content_hash=content_hash,
        objective=objective.kind,
        method=result.method,
        status=result.status.value,
        reason=result.reason,
        load_distance_before_pct=result.load_distance_before,
        load_distance_pct=result.load_distance,
        load_distance_before_points=result.load_distance_points_before,
        load_distance_points=result.load_distance_points_after,
        bound_pct=result.bound or 0.0,
        gap_pct=result.gap or 0.0,
        collocation_bound_pct=_collocation_bound(plan) if is_joint else None,
        precision=plan.precision,
        gain_chance_pct=None if plan.gain is None else 100.0 * plan.gain.chance,
        moves=result.moves,
        bytes=result.bytes,
        forced_moves=result.forced_moves,
        forced_bytes=result.forced_bytes,
        pause_s=result.pause_s,
        **route_figures(job_round, plan),
        split_keys=sum(map(len, plan.splits.values())),
        unsplit_bound_pct=plan.split_bound_pct,
        splits_reason="; ".join(plan.split_reasons) or None,
        **trade_figures(objective),
        **weighted_figures(objective, plan),
        collocation_factor_before_pct=result.collocation_factor_before,
        collocation_factor_pct=result.collocation_factor,
        load_index_pct=result.load_index,
        **wire_figures(job_round.wire, _node_of(plan), rerouted),
        serialise_us=job_round.calibration.serialise_us if is_joint else None,
        budget_moves=budget.moves,
        budget_bytes=budget.bytes,
        budget_pause_s=budget.pause_s,
        solver_seconds=result.seconds,
        seed=request.seed,
        trace_json=json.dumps([list(step) for step in result.trace]),
        target_json=None if plan.memory is None else plan.memory.to_json(),
        held_back_json=held_back if is_joint else None,
        due_moves=sum(len(row.due or ()) for row in request.scaling) if request.scaling else None,
        scaling_reason=request.scaling_reason,
        advice="\n".join(advice_from_traffic(job_round.policy, plan.problem)) or None,
        weights_reason=reason_of_regions(request.regions),
        **levelling_figures(objective, plan),
        skew_reason=None if plan.skew is None else plan.skew.reason or None,
        rules=rules.names,
        restored_rules=rules.restored,
        rules_text=rules.text,
        headroom_limit_pct=rules.headroom_limit_pct,
        headroom_before_pct=rules.headroom_before_pct,
        headroom_pct=rules.headroom_pct,
        created_at=request.created_at,
    )


def _collocation_bound(plan: Plan) -> float | None:
    """The proven bound of the traffic within nodes; all of it where a method proves none."""
    result = plan.result
    if result.collocation_factor is None:
        return None
    return 100.0 if result.collocation_bound is None else result.collocation_bound


def _node_of(plan: Plan) -> dict[str, str]:
    nodes = [plan.problem.node_ids[node] for node in plan.result.assignment.tolist()]
    return dict(zip(plan.problem.key_group_ids, nodes, strict=True))
