"""Verify the stored rows of a draft: each promise is computed again from the rows. Pure.

``solve`` and ``rollback`` verify a draft before they write it, and ``publish`` verifies it again
before it comes into force.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy.typing as npt
from numpy import float64

from ballast.contracts import identity
from ballast.contracts.records import Draft, ScalingRow
from ballast.contracts.scaling import IN_USE, NODE, node_actions, scaled
from ballast.store.snapshots import key_group_names
from solvers.model.budget import Budget
from solvers.model.objective import LEXICOGRAPHIC, Objective
from solvers.verify.assignment import node_sums, verify
from solvers.verify.routes import RoutedFacts, budget_violations, row_violations
from solvers.verify.scaling import scaled_problem, scaling_violations
from solvers.verify.violation import Violation
from solvers.verify.weights import weight_violations
from spark_jobs.draft.content import PlanContent, content_hash_of, routing_of
from spark_jobs.draft.figures import trade_figures, wire_figures
from spark_jobs.draft.round import Round

# Column of plans.plans -> what solvers.verify.assignment calls the promise.
PROMISES: dict[str, str] = {
    "status": "status",
    "load_distance_before_pct": "load_distance_before",
    "load_distance_pct": "load_distance",
    "load_distance_before_points": "load_distance_points_before",
    "load_distance_points": "load_distance_points_after",
    "bound_pct": "bound",
    "gap_pct": "gap",
    "moves": "moves",
    "bytes": "bytes",
    "forced_moves": "forced_moves",
    "forced_bytes": "forced_bytes",
    "pause_s": "pause_s",
    "collocation_factor_before_pct": "collocation_factor_before",
    "collocation_factor_pct": "collocation_factor",
    "load_index_pct": "load_index",
}
WEIGHTED_PROMISES: dict[str, str] = {
    "traffic_saved_before_pct": "traffic_saved_before",
    "traffic_saved_pct": "traffic_saved",
    "drained_moves": "drained_moves",
}
"""Promises that only a plan with weights of load and traffic makes."""
CPU = "cpu"
BYTES_TOLERANCE = 1e-6
"""Relative: bytes between nodes are a sum of many rates, and the order of the rows may differ."""
ABSOLUTE_TOLERANCE = 1e-6
"""For figures close to 0."""
ROUNDING = {"route_bytes": 1.0}
"""Absolute: whole bytes, rounded up from a sum."""


def violations_of(job_round: Round, draft: Draft, content: PlanContent) -> list[Violation]:
    """Every promise of a draft that its own rows do not keep.

    The objective is that of the policy: a draft cannot choose another one.

    Args:
        job_round: the snapshot that the draft was made from.
        draft: the row of plans.plans.
        content: the rows of the plan's content.

    Returns:
        The violations; an empty list if the draft may be published.
    """
    violations = _identity_violations(draft, content) or [
        *row_violations(job_round.route_rules, job_round.routing, content.routes),
        *_node_violations(job_round, draft, content.scaling),
        *weight_violations(
            [region.rules for region in job_round.regions],
            [row.to_row() for row in content.weights],
            is_unchanged=draft.status == "unchanged",
        ),
    ]
    if violations:
        return violations
    if content.scaling:
        rows = [row.to_row() for row in content.scaling]
        problem = scaled_problem(job_round.problem, job_round.scaling_rules, rows)
        job_round = replace(job_round, problem=problem)
    return [
        *_objective_violations(job_round.objective, draft),
        *_figure_violations(job_round, draft, content),
    ]


def _identity_violations(draft: Draft, content: PlanContent) -> list[Violation]:
    """The content hash and the plan id are those of the rows."""
    found = content_hash_of(content)
    if found != draft.content_hash:
        return [Violation("content_hash", f"promised {draft.content_hash}, is {found}")]
    plan_id = identity.plan_id(draft.job, draft.snapshot_id, found)
    if plan_id != draft.plan_id:
        return [Violation("plan_id", f"promised {draft.plan_id}, is {plan_id}")]
    return []


def _figure_violations(job_round: Round, draft: Draft, content: PlanContent) -> list[Violation]:
    """The figures, the budget and the rules, computed from the assignment and the routes."""
    problem, assignment = job_round.problem, content.assignments
    budget = Budget(draft.budget_moves, draft.budget_bytes, draft.budget_pause_s)
    names = key_group_names(assignment["operator_id"], assignment["key_group"]).to_pylist()
    nodes = assignment["node_id"].to_pylist()
    columns = PROMISES | (WEIGHTED_PROMISES if job_round.objective.is_weighted else {})
    promises = {promise: getattr(draft, column) for column, promise in columns.items()}
    routing = routing_of(content.routes)
    facts = RoutedFacts(problem, job_round.statistics, job_round.routing, routing)
    rerouted = facts.problem_after() if routing != job_round.routing else None
    found = verify(problem, budget, (names, nodes), promises, job_round.objective, rerouted)
    if found:
        return found
    node_of = dict(zip(names, nodes, strict=True))
    wire = wire_figures(job_round.wire, node_of, rerouted)
    sums = node_sums(problem, (names, nodes), job_round.objective, rerouted)
    return [
        *_inexact_figures(draft, facts.figures),
        *_inexact_figures(draft, wire),
        *budget_violations(problem, draft.to_row(), budget),
        *facts.violations([node_of[name] for name in problem.key_group_ids], job_round.route_rules),
        *_cpu_violations(job_round, sums, content.scaling),
    ]


def _objective_violations(objective: Objective, draft: Draft) -> Iterator[Violation]:
    """The draft has the objective of the policy, so that the checks of the table apply to it.

    A draft of an earlier version does not name its trade; it is lexicographic.
    """
    wanted = {"objective": objective.kind, **trade_figures(objective)}
    found = {name: getattr(draft, name) for name in wanted}
    if found["trade"] is None and objective.trade == LEXICOGRAPHIC:
        found["trade"] = LEXICOGRAPHIC
    for name, value in wanted.items():
        if found[name] != value:
            yield Violation(name, f"promised {found[name]!r}, the policy says {value!r}")


def _node_violations(
    job_round: Round, draft: Draft, scaling: Sequence[ScalingRow]
) -> list[Violation]:
    """Nodes change by the rules, and a plan of a scaled job has a row for each node."""
    if job_round.is_scaled != bool(scaling):
        has = "no rows" if job_round.is_scaled else "rows"
        return [Violation("scaling", f"the plan has {has} of plans.scaling")]
    rows = [row.to_row() for row in scaling]
    found = scaling_violations(job_round.problem, job_round.scaling_rules, rows) if rows else []
    due = sum(len(row.due or ()) for row in scaling)
    if due != (draft.due_moves or 0):
        found.append(Violation("due_moves", f"promised {draft.due_moves}, is {due}"))
    changes = node_actions(scaled(scaling)).items() - job_round.unchanged_node_actions.items()
    if draft.status == "unchanged" and changes:
        found.append(Violation("status", f"says unchanged, but nodes change: {sorted(changes)}"))
    return found


def _cpu_violations(
    job_round: Round, sums: Mapping[str, npt.NDArray[float64]], scaling: Sequence[ScalingRow]
) -> Iterator[Violation]:
    """The CPU that is promised for each node in use is the sum over its key groups."""
    if CPU not in job_round.problem.resources:
        return
    cpu = job_round.problem.resources.index(CPU)
    for row in scaling:
        if row.subject != NODE or row.action not in IN_USE:
            continue
        promised, actual = row.cpu_load_cores, float(sums[row.subject_id][cpu])
        if promised is None or not math.isclose(promised, actual, rel_tol=1e-6, abs_tol=1e-9):
            text = f"node {row.subject_id}: promised {promised!r}, is {actual!r}"
            yield Violation("cpu_load_cores", text)


def _inexact_figures(draft: Draft, figures: Mapping[str, object]) -> Iterator[Violation]:
    """Figures that differ from the promised ones by more than rounding."""
    for figure, actual in figures.items():
        promised = getattr(draft, figure)
        if promised is None or not isinstance(actual, int | float):
            is_kept = promised is None and actual is None
        else:
            absolute = ROUNDING.get(figure, ABSOLUTE_TOLERANCE)
            is_kept = math.isclose(promised, actual, rel_tol=BYTES_TOLERANCE, abs_tol=absolute)
        if not is_kept:
            yield Violation(figure, f"promised {promised!r}, is {actual!r}")
