"""Draft a plan from a run's snapshot: ``spark-submit spark_jobs/solve.py --job J --run-id R``.

A snapshot is solved on one machine, and a draft is small: both go through delta-rs, and no Spark
session is built (docs/adr/0009).

Content first, then one row of plans.plans that makes it a draft: a run and a snapshot have one
draft, however often the task is retried and wherever it was killed.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from ballast.contracts import identity, plan_text
from ballast.contracts.errors import Infeasible, VerificationFailed
from ballast.contracts.process_exit import exit_now
from ballast.contracts.settings import Settings
from ballast.store.tables import append_once, ensure_tables
from solvers.model.budget import Budget
from solvers.model.objective import JOINT, WEIGHTED
from solvers.model.result import Status
from solvers.planner.allocation import Allocation
from solvers.planner.plan import KeyRouting, PlanRequest
from solvers.planner.plan import plan as make_plan
from solvers.planner.round import RoundPlan, ScalingRequest
from spark_jobs.draft.lookup import (
    find_draft,
    find_snapshot,
    read_looked,
    read_round,
    required_draft,
    target_in_force,
)
from spark_jobs.draft.plan_rows import (
    Content,
    content_hash_of_plan,
    content_rows,
    plan_row,
    planned_routes,
    promised_cpu,
    violations_of,
)
from spark_jobs.draft.problem import Row
from spark_jobs.draft.region_weights import Weighed, weigh, weight_rows
from spark_jobs.draft.region_weights import in_words as weights_in_words
from spark_jobs.draft.round import Round
from spark_jobs.draft.scaling_inputs import Clusters, drains_of, rules_of, scaling_of, spares_of
from spark_jobs.draft.scaling_rows import due_of, in_words, scaling_rows
from spark_jobs.draft.solve_arguments import Choice, add_arguments
from spark_jobs.program.fault_points import fault_point
from spark_jobs.program.run import progress, run_program
from spark_jobs.warehouse.plan_log import Event, append_event


def draft_plan(settings: Settings, job: str, run_id: str, choice: Choice) -> Row:
    """The run's draft: the one it has, or a new one; tells in words what it promises."""
    snapshot = find_snapshot(settings, job, run_id)
    draft = find_draft(settings, snapshot)
    if draft is None:
        plan, content = make_draft(settings, snapshot, choice)
        write_draft(settings, plan, content)
        draft = required_draft(settings, snapshot)
    else:
        progress.info("the run has a draft, plan %s; nothing is solved again", draft["plan_id"])
    append_event(settings, drafted_event(draft), at=draft["created_at"])
    for line in report(draft):
        progress.info("%s", line)
    return draft


def make_draft(settings: Settings, snapshot: Row, choice: Choice) -> tuple[Row, Content]:
    """Solve the snapshot and verify what came out; a plan that fails is refused and not written."""
    given = read_round(settings, snapshot)
    policy, problem = given.policy, given.problem
    progress.info(
        "read snapshot %s: %d key groups on %d nodes",
        snapshot["snapshot_id"], problem.n_key_groups, problem.n_nodes,
    )  # fmt: skip
    budget = choice.budget(policy, snapshot["head_version"])
    seed = policy.solver.seed if choice.seed is None else choice.seed
    regions = [weigh(region) for region in given.regions]
    plan = make_plan(
        PlanRequest(
            problem=problem,
            objective=given.objective,
            policy=policy,
            budget=budget,
            stop=choice.stop(policy),
            seed=seed,
            method=choice.method or policy.solver.method,
            memory=target_in_force(settings, snapshot),
            is_first=given.is_first,
            keys=KeyRouting(given.statistics, given.routing, given.routing_options),
            scaling=_scaling_request(settings, given) if given.is_scaled else None,
            has_other_change=any(region.is_change for region in regions),
        )
    )
    nodes, result = plan.nodes, plan.result
    # Everything from here on is about the nodes there will be.
    given = replace(given, problem=plan.problem)
    if nodes is not None:
        progress.info("scaling: %s", in_words(policy, nodes))
    progress.info("solved in %.1f s: %s by %s", result.seconds, result.status, result.method)
    if not result.is_solved:
        _refuse(settings, snapshot, None, f"infeasible: {result.reason}")
        raise Infeasible(
            f"no plan for job {snapshot['job']} keeps every rule: {result.reason}; "
            "to fix it: raise the budget, or add nodes to the policy"
        )
    planned = Allocation(result, plan.memory, plan.held_back, plan.routing)
    return _verified(settings, given, planned, budget, seed, nodes, regions)


def _scaling_request(settings: Settings, given: Round) -> ScalingRequest:
    """How the job's policy scales, with what earlier rounds did."""
    policy, problem, looked = given.policy, given.problem, read_looked(settings, given.snapshot)
    return ScalingRequest(
        scaling_of(policy, problem, looked, given.snapshot["period_end_at"]),
        drains=drains_of(problem, looked),
        spares=spares_of(policy, problem),
        clusters=Clusters.of(policy).by_node(),
        rules=rules_of(policy),
    )


def write_draft(settings: Settings, plan: Row, content: Content) -> None:
    """Write the content, then the row that makes it a draft; what has been written is left."""
    names = ("assignments", "routes", "scaling", "weights", "plans")
    ensure_tables(settings, [f"plans.{name}" for name in names])
    # One write a plan id: two attempts that find the same plan share its rows, two that find
    # different ones leave rows that no draft names.
    tables = {
        "plans.assignments": content.assignments,
        "plans.routes": content.routes,
        "plans.scaling": content.scaling,
        "plans.weights": content.weights,
    }
    for table, rows in tables.items():
        if len(rows):
            app_id = f"{table}:{plan['job']}:{plan['plan_id']}"
            append_once(settings, table, rows, app_id=app_id, app_version=1)
            progress.info("wrote %d rows of %s", len(rows), table)
        fault_point(f"solve.after_{table.removeprefix('plans.')}")
    app_id = f"plans.plans:{plan['job']}:{plan['run_id']}:{plan['snapshot_id']}"
    append_once(settings, "plans.plans", [plan], app_id=app_id, app_version=1)
    progress.info("wrote the draft")
    fault_point("solve.after_plan")


def drafted_event(draft: Row) -> Event:
    """What plans.log says of a draft."""
    unchanged = draft["status"] == Status.UNCHANGED.value
    said = [draft["reason"]] if unchanged else report(draft)[:2]
    return Event(
        job=draft["job"],
        event="unchanged" if unchanged else "drafted",
        run_id=draft["run_id"],
        actor=actor(draft["run_id"]),
        reason=" ".join([*said, *_scaling(draft), *_weights(draft)]),
        plan_id=draft["plan_id"],
    )


def report(draft: Row) -> list[str]:
    """What the draft promises and costs, in plan_text."""
    head = f"plan {draft['plan_id']} against version {draft['parent_version']}"
    before = f"{draft['load_distance_before_pct']:.2f} %"
    quality = plan_text.quality_text(draft["bound_pct"], draft["gap_pct"])
    solved = f"solved by {draft['method']} in {draft['solver_seconds']:.1f} s"
    if draft["status"] == Status.UNCHANGED.value:
        return [
            f"{head}: unchanged, {draft['reason']}",
            f"load distance {before} of the mean, {quality}; {solved}",
            *_scaling(draft),
            *_weights(draft),
            *_held_back(draft),
            *_advice(draft),
        ]
    forced = f" and {draft['forced_moves']} forced" if draft["forced_moves"] else ""
    n_bytes = draft["bytes"] + draft["forced_bytes"]
    moves = f"moves {draft['moves']} key groups{forced}, {n_bytes} bytes{_rerouted(draft)}"
    after = f"{draft['load_distance_pct']:.2f} % of the mean{_traffic(draft)}"
    return [
        f"{head}: load distance from {before} to {after}",
        f"{moves}, pause {draft['pause_s']:.3f} s",
        f"{quality}; {solved}",
        *_how(draft),
        *_scaling(draft),
        *_weights(draft),
        *_path(draft),
        *_held_back(draft),
        *_advice(draft),
    ]


def _how(draft: Row) -> list[str]:
    """Which of the candidates won, where the solver says so."""
    return [f"how: {draft['reason']}"] if draft["reason"] else []


def _scaling(draft: Row) -> list[str]:
    """How many nodes, why, what bound and what would have changed it."""
    reason = draft.get("scaling_reason")
    return [f"scaling: {reason}"] if reason else []


def _weights(draft: Row) -> list[str]:
    """Which worker of an ordered region gets what, and why."""
    reason = draft.get("weights_reason")
    return [f"weights: {reason}"] if reason else []


def _traffic(draft: Row) -> str:
    """What becomes of the traffic, where that is what the plan is for."""
    if draft["objective"] != JOINT or draft["collocation_factor_pct"] is None:
        return ""
    return (
        f" ({_trade(draft)}), traffic within nodes from "
        f"{draft['collocation_factor_before_pct']:.1f} to {draft['collocation_factor_pct']:.1f} %, "
        f"bytes between nodes from {draft['wire_bytes_before_per_s']:,.0f} to "
        f"{draft['wire_bytes_per_s']:,.0f} a second, load index {draft['load_index_pct']:.1f} %"
    )


def _trade(draft: Row) -> str:
    """What a joint plan's load was allowed to cost."""
    if draft.get("trade") != WEIGHTED:
        return f"allowed {draft['max_load_distance_pct']:g} %"
    return (
        f"weighed: {draft['load_weight']:g} a percent of it, {draft['traffic_weight']:g} a percent "
        "of traffic"
    )


def _rerouted(draft: Row) -> str:
    if not draft["rerouted_keys"]:
        return ""
    return (
        f", and routes {draft['rerouted_keys']} keys anew, about {draft['route_bytes']} bytes "
        f"({draft['routes']} keys do not go by hash)"
    )


def _held_back(draft: Row) -> list[str]:
    """What would have saved traffic and did not pay for its move, a line for each kind."""
    found = plan_text.held_back_entries(draft["held_back_json"])
    return [
        f"held back because it does not pay: {line}" for line in plan_text.held_back_summary(found)
    ]


def _advice(draft: Row) -> list[str]:
    """What no plan can do, and the job's author can: another partitioning of operators."""
    return [f"advice: {line}" for line in (draft.get("advice") or "").splitlines()]


def _path(draft: Row) -> list[str]:
    """How the load distance fell while the solver ran, where it says so."""
    steps = plan_text.progress_text(draft["trace_json"])
    return [f"best load distance: {steps}"] if steps else []


def actor(run_id: str) -> str:
    """Who writes the log's rows."""
    return f"solve of run {run_id}"


def _verified(
    settings: Settings,
    given: Round,
    planned: Allocation,
    budget: Budget,
    seed: int,
    nodes: RoundPlan | None = None,
    weighed: Sequence[Weighed] = (),
) -> tuple[Row, Content]:
    """``given`` has the nodes that the plan makes; it is verified from those that were measured."""
    snapshot, problem, now = given.snapshot, given.problem, datetime.now(UTC)
    scaling = _scaling_rows(given, planned, nodes, now) if nodes else []
    weights = weight_rows(weighed, snapshot["job"], "")
    content_hash = content_hash_of_plan(problem, planned, scaling, weights)
    plan_id = identity.plan_id(snapshot["job"], snapshot["snapshot_id"], content_hash)
    scaling = [{**row, "plan_id": plan_id} for row in scaling]
    content = content_rows(snapshot["job"], plan_id, problem, planned)
    weights = [{**row, "plan_id": plan_id} for row in weights]
    content = replace(content, scaling=scaling, weights=weights)
    plan = plan_row(given, plan_id, content_hash, planned, budget, seed, now)
    plan["weights_reason"] = weights_in_words(weighed)
    if nodes is not None:
        due = sum(map(len, due_of(nodes.problem).values()))
        plan |= {"due_moves": due, "scaling_reason": in_words(given.policy, nodes)}
    measured = given if nodes is None else read_round(settings, snapshot)
    violations = violations_of(
        measured, plan, content.assignments, planned_routes(planned), scaling, weights
    )
    if violations:
        broken = "; ".join(map(str, violations))
        _refuse(settings, snapshot, plan_id, f"verification failed: {broken}")
        raise VerificationFailed(
            f"plan {plan_id} of job {snapshot['job']} breaks its promises: {broken}; nothing was "
            "written; to fix it: report this as a bug of the solver, and solve with another method"
        )
    progress.info("verified: every promise holds")
    return plan, content


def _scaling_rows(given: Round, planned: Allocation, nodes: RoundPlan, now: datetime) -> list[Row]:
    common = {
        "job": given.snapshot["job"],
        "plan_id": "",
        "period_end_at": given.snapshot["period_end_at"],
        "decided_at": now,
    }
    return scaling_rows(given.policy, nodes, promised_cpu(given, planned), common)


def _refuse(settings: Settings, snapshot: Row, plan_id: str | None, reason: str) -> None:
    run_id = snapshot["run_id"]
    event = Event(snapshot["job"], "refused", run_id, actor(run_id), reason, plan_id=plan_id)
    append_event(settings, event)


def body(arguments: Namespace, settings: Settings) -> None:
    """Run ``solve`` as the command line asks for it."""
    draft_plan(settings, arguments.job, arguments.run_id, Choice.of(arguments))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_program("solve", "Draft a plan from a run's snapshot.", add_arguments, body, argv)


if __name__ == "__main__":
    exit_now(main())
