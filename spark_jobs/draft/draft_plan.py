"""Draft a plan from a run's snapshot: read, plan, assemble, verify, write, report."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from ballast.contracts.errors import Infeasible, VerificationFailed
from ballast.contracts.freeze import active_freeze, freeze_text
from ballast.contracts.log_events import PLANNING_STOPPED
from ballast.contracts.policy import policy_from_json
from ballast.contracts.records import Draft, Snapshot
from ballast.contracts.settings import Settings
from ballast.contracts.task_result import write_task_result
from ballast.store.planning import read_planning_state
from ballast.store.plans import read_promises
from ballast.store.policies import current_policy
from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.planner.plan import Plan, PlanRequest, plan
from solvers.planner.round import ScalingRequest
from solvers.rules.narrowing import narrowed
from solvers.rules.rule_text import must_move_by_rules
from spark_jobs.draft.assemble import AssembledDraft, DraftRequest, assemble_draft
from spark_jobs.draft.draft_tables import (
    find_draft,
    find_snapshot,
    has_forced_moves,
    read_round,
    required_draft,
    target_in_force,
    write_draft,
)
from spark_jobs.draft.method_inputs import read_method_inputs
from spark_jobs.draft.operator_sizes import (
    SizesPlan,
    has_sizes,
    kept_sizes,
    plan_sizes,
    sizes_in_force,
)
from spark_jobs.draft.region_weights import plan_region
from spark_jobs.draft.report import actor, drafted_event, promise_report, report
from spark_jobs.draft.round import Round
from spark_jobs.draft.scaling_inputs import keeping_nodes, scaling_request
from spark_jobs.draft.scaling_lookup import read_scaling_inputs
from spark_jobs.draft.scaling_rows import rows_of_decision, scaling_reason
from spark_jobs.draft.solve_arguments import SolveOptions
from spark_jobs.program.run import progress
from spark_jobs.warehouse.plan_log import Event, append_event


def draft_unless_stopped(
    settings: Settings,
    job: str,
    run_id: str,
    options: SolveOptions,
    now: datetime | None = None,
) -> Draft | None:
    """Make the draft of a run; none if the job has stopped planning by itself (ADR 60).

    If key groups have to leave dead nodes, a stopped job gets a draft that moves these alone. A job
    in a freeze of its policy gets the same draft, because it is published in a freeze (ADR 67).

    Args:
        settings: where the tables are.
        job: the job.
        run_id: the run, whose snapshot is solved.
        options: what the command line sets instead of the policy.
        now: the time that freezes are compared with; the current time if None.

    Returns:
        The draft as it is stored; None if the run ends without one.

    Raises:
        NotFound, Infeasible, VerificationFailed: as for :func:`draft_plan`.
    """
    snapshot = find_snapshot(settings, job, run_id)
    state = read_planning_state(settings, job)
    if find_draft(settings, snapshot) is not None:
        return draft_plan(settings, job, run_id, options)
    if not state.is_stopped:
        frozen = _is_evacuated_in_freeze(settings, snapshot, now or datetime.now(UTC))
        return draft_plan(settings, job, run_id, options, only_forced=frozen)
    if has_forced_moves(settings, snapshot):
        progress.info("planning is stopped: only key groups of dead nodes move")
        return draft_plan(settings, job, run_id, options, only_forced=True)
    text = f"planning is stopped since {state.since:%Y-%m-%d %H:%M} UTC: {state.reason}"
    progress.info("no plan is made, %s", text)
    write_task_result(outcome=PLANNING_STOPPED, text=text)
    return None


def _is_evacuated_in_freeze(settings: Settings, snapshot: Snapshot, now: datetime) -> bool:
    """Whether the policy has a freeze now, and key groups have to leave dead nodes."""
    policy = current_policy(settings, policy_from_json(snapshot.policy_json))
    freeze = active_freeze(policy.freezes, now)
    if freeze is None or not has_forced_moves(settings, snapshot):
        return False
    progress.info("%s: only key groups of dead nodes move", freeze_text(freeze))
    return True


def draft_plan(
    settings: Settings, job: str, run_id: str, options: SolveOptions, *, only_forced: bool = False
) -> Draft:
    """Make the draft of a run, unless the run has one, and report what it promises.

    Args:
        settings: where the tables are.
        job: the job.
        run_id: the run, whose snapshot is solved.
        options: what the command line sets instead of the policy.
        only_forced: whether nothing moves but key groups of dead nodes, and the nodes stay.

    Returns:
        The draft as it is stored.

    Raises:
        NotFound: the run has no snapshot.
        Infeasible: no assignment keeps every rule.
        VerificationFailed: the plan breaks a promise; nothing is written.
    """
    snapshot = find_snapshot(settings, job, run_id)
    draft = find_draft(settings, snapshot)
    if draft is None:
        made = make_draft(settings, snapshot, options, only_forced=only_forced)
        write_draft(settings, made)
        draft = required_draft(settings, snapshot)
    else:
        progress.info("the run has a draft, plan %s; nothing is solved again", draft.plan_id)
    append_event(settings, drafted_event(draft), at=draft.created_at)
    promises = read_promises(settings, job, draft.plan_id)
    for line in (*report(draft), *promise_report(promises)):
        progress.info("%s", line)
    return draft


def make_draft(
    settings: Settings, snapshot: Snapshot, options: SolveOptions, *, only_forced: bool = False
) -> AssembledDraft:
    """Solve a snapshot and verify the plan. Nothing is written but the event of a refusal.

    Raises:
        Infeasible: no assignment keeps every rule.
        VerificationFailed: the plan breaks a promise.
    """
    job_round = read_round(settings, snapshot)
    progress.info(
        "read snapshot %s: %d key groups on %d nodes",
        snapshot.snapshot_id, job_round.problem.n_key_groups, job_round.problem.n_nodes,
    )  # fmt: skip
    regions = [plan_region(region) for region in job_round.regions]
    sizes = _sizes(settings, job_round, only_forced=only_forced)
    request = PlanRequest(
        problem=job_round.problem,
        objective=job_round.objective,
        policy=job_round.policy,
        budget=_least_budget(job_round.problem)
        if only_forced
        else options.budget(job_round.policy, snapshot.head_version),
        stop=options.stop(job_round.policy),
        seed=job_round.policy.solver.seed if options.seed is None else options.seed,
        method=options.method or job_round.policy.solver.method,
        params=options.params(job_round.policy),
        first_placement=job_round.first_placement if options.method is None else None,
        inputs=read_method_inputs(settings, job_round),
        precision=job_round.policy.solver.precision,
        memory=target_in_force(settings, snapshot),
        is_first=job_round.is_first,
        keys=replace(job_round.keys, split_options=None) if only_forced else job_round.keys,
        scaling=_scaling_request(settings, job_round, only_forced=only_forced)
        if sizes is None
        else sizes.request,
        has_other_change=any(region.is_change for region in regions)
        or (sizes is not None and sizes.decision.is_change),
        unmeasured=job_round.unmeasured_operators,
    )
    found = plan(request)
    _require_solved(settings, job_round, found)
    now = datetime.now(UTC)
    made = assemble_draft(
        DraftRequest(
            round=job_round,
            plan=found,
            budget=request.budget,
            seed=request.seed,
            regions=regions,
            scaling=rows_of_decision(job_round, found, now, sizes),
            scaling_reason=_scaling_reason(job_round, found),
            created_at=now,
        )
    )
    _require_verified(settings, snapshot, made)
    return made


def _least_budget(problem: Problem) -> Budget:
    """The budget of a plan that moves only what must leave dead nodes, or nodes by the rules.

    A plan without the latter would break the rules.
    """
    forbidden = must_move_by_rules(narrowed(problem, problem.current).problem)
    return Budget(moves=int(forbidden.sum()), bytes=int(problem.state_bytes[forbidden].sum()))


def _scaling_request(
    settings: Settings, job_round: Round, *, only_forced: bool
) -> ScalingRequest | None:
    """How the job's policy scales, after what earlier rounds did; None if it does not scale."""
    if not job_round.is_scaled:
        return None
    inputs = read_scaling_inputs(settings, job_round.snapshot)
    request = scaling_request(
        job_round.policy, job_round.problem, inputs, job_round.snapshot.period_end_at
    )
    return keeping_nodes(request) if only_forced else request


def _sizes(settings: Settings, job_round: Round, *, only_forced: bool) -> SizesPlan | None:
    """The sizes of operators; None for an engine whose plans do not say them."""
    policy, snapshot = job_round.policy, job_round.snapshot
    if not has_sizes(policy):
        return None
    before = sizes_in_force(policy, job_round.scaling_in_force)
    if only_forced:
        return kept_sizes(before)
    inputs = read_scaling_inputs(settings, snapshot)
    return plan_sizes(policy, job_round.problem, inputs, before, snapshot.period_end_at)


def _scaling_reason(job_round: Round, found: Plan) -> str | None:
    return None if found.nodes is None else scaling_reason(job_round.policy, found.nodes)


def _require_solved(settings: Settings, job_round: Round, found: Plan) -> None:
    """Log and raise if no assignment keeps every rule."""
    result = found.result
    if found.nodes is not None:
        progress.info("scaling: %s", _scaling_reason(job_round, found))
    progress.info("solved in %.1f s: %s by %s", result.seconds, result.status, result.method)
    for line in () if found.skew is None else found.skew.progress:
        progress.info("skew: %s", line)
    if result.is_solved:
        return
    _log_refusal(settings, job_round.snapshot, None, f"infeasible: {result.reason}")
    raise Infeasible(
        f"no plan for job {job_round.snapshot.job} keeps every rule: {result.reason}; "
        "to fix it: raise the budget, or add nodes to the policy"
    )


def _require_verified(settings: Settings, snapshot: Snapshot, made: AssembledDraft) -> None:
    """Log and raise if the draft breaks a promise."""
    if not made.violations:
        progress.info("verified: its rows keep what was computed again")
        return
    plan_id, broken = made.draft.plan_id, "; ".join(map(str, made.violations))
    _log_refusal(settings, snapshot, plan_id, f"verification failed: {broken}")
    raise VerificationFailed(
        f"plan {plan_id} of job {snapshot.job} breaks its promises: {broken}; nothing was "
        "written; to fix it: report this as a bug of the solver, and solve with another method"
    )


def _log_refusal(settings: Settings, snapshot: Snapshot, plan_id: str | None, reason: str) -> None:
    run_id = snapshot.run_id
    event = Event(snapshot.job, "refused", run_id, actor(run_id), reason, plan_id=plan_id)
    append_event(settings, event)
