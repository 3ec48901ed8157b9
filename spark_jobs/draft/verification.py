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
from ballast.contracts.problem_columns import key_group_names
from ballast.contracts.records import Draft, Promise, ScalingRow
from ballast.contracts.scaling import IN_USE, NODE, node_actions, operator_sizes, scaled
from solvers.model.budget import Budget
from solvers.model.objective import LEXICOGRAPHIC, Objective
from solvers.model.problem import Problem
from solvers.verify.assignment import Assignment, node_sums, verify
from solvers.verify.promises import PromisedInterval, check_promises
from solvers.verify.routes import PromisedCosts, RoutedFacts, budget_violations, row_violations
from solvers.verify.scaling import scaled_problem, scaling_violations
from solvers.verify.splits import SplitFacts, parts_by_key, split_violations
from solvers.verify.violation import Violation
from solvers.verify.weights import weight_violations
from spark_jobs.draft.content import PlanContent, content_hash_of, routing_of
from spark_jobs.draft.figures import levelling_limit, trade_figures, wire_figures
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
    "collocation_bound_pct": "collocation_bound",
    "moves": "moves",
    "bytes": "bytes",
    "forced_moves": "forced_moves",
    "forced_bytes": "forced_bytes",
    "pause_s": "pause_s",
    "collocation_factor_before_pct": "collocation_factor_before",
    "collocation_factor_pct": "collocation_factor",
    "load_index_pct": "load_index",
    "levelled_operator_id": "levelled_operator",
    "operator_skew_before_pct": "operator_skew_before",
    "operator_skew_pct": "operator_skew",
    "rules": "rules",
    "restored_rules": "restored_rules",
    "headroom_limit_pct": "headroom_limit",
    "headroom_before_pct": "headroom_before",
    "headroom_pct": "headroom",
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


def violations_of(
    job_round: Round, draft: Draft, content: PlanContent, promises: Sequence[Promise] = ()
) -> list[Violation]:
    """Every promise of a draft that its own rows do not keep.

    The objective is that of the policy: a draft cannot choose another one.

    Args:
        job_round: the snapshot that the draft was made from.
        draft: the row of plans.plans.
        content: the rows of the plan's content.
        promises: rows of plans.promises of the plan; a plan of an earlier version has none.

    Returns:
        The violations; an empty list if the draft may be published.
    """
    violations = _identity_violations(draft, content) or [
        *row_violations(job_round.route_rules, job_round.routing, content.routes),
        *split_violations(
            job_round.split_rules,
            routing_of(content.routes),
            parts_by_key(job_round.splits),
            content.splits,
        ),
        *_node_violations(job_round, draft, content.scaling),
        *weight_violations(
            [region.rules for region in job_round.regions],
            content.weights,
            is_unchanged=draft.status == "unchanged",
        ),
    ]
    if violations:
        return violations
    if content.scaling:
        problem = scaled_problem(job_round.problem, job_round.scaling_rules, content.scaling)
        job_round = replace(job_round, problem=problem)
    return [
        *_objective_violations(job_round.objective, draft),
        *_figure_violations(job_round, draft, content, promises),
    ]


def missing_promises(draft: Draft, promises: Sequence[Promise]) -> list[Violation]:
    """A stored draft has rows of plans.promises, unless it is of an earlier version.

    Such a draft does not name its precision.
    """
    if promises or draft.precision is None:
        return []
    return [Violation("promises", "the plan has no rows of plans.promises")]


def _identity_violations(draft: Draft, content: PlanContent) -> list[Violation]:
    """The content hash and the plan id are those of the rows."""
    found = content_hash_of(content)
    if found != draft.content_hash:
        return [Violation("content_hash", f"promised {draft.content_hash}, is {found}")]
    plan_id = identity.plan_id(draft.job, draft.snapshot_id, found)
    if plan_id != draft.plan_id:
        return [Violation("plan_id", f"promised {draft.plan_id}, is {plan_id}")]
    return []


def _figure_violations(
    job_round: Round, draft: Draft, content: PlanContent, promised: Sequence[Promise]
) -> list[Violation]:
    """The figures, the budget and the rules, computed from the assignment and the routes."""
    problem, assignment = job_round.problem, content.assignments
    budget = Budget(draft.budget_moves, draft.budget_bytes, draft.budget_pause_s)
    names = key_group_names(assignment["operator_id"], assignment["key_group"]).to_pylist()
    nodes = assignment["node_id"].to_pylist()
    columns = PROMISES | (WEIGHTED_PROMISES if job_round.objective.is_weighted else {})
    promises = {promise: getattr(draft, column) for column, promise in columns.items()}
    routing = routing_of(content.routes)
    split = SplitFacts(
        problem,
        job_round.statistics,
        job_round.routing,
        (parts_by_key(job_round.splits), parts_by_key(content.splits)),
    )
    facts = RoutedFacts(split.problem_after(), job_round.statistics, job_round.routing, routing)
    is_rerouted = split.is_change or routing != job_round.routing
    rerouted = facts.problem_after() if is_rerouted else None
    found = verify(problem, budget, (names, nodes), promises, job_round.objective, rerouted)
    if found:
        return found
    node_of = dict(zip(names, nodes, strict=True))
    wire = wire_figures(job_round.wire, node_of, rerouted)
    sums = node_sums(problem, (names, nodes), job_round.objective, rerouted)
    return [
        *_inexact_figures(draft, facts.figures),
        *(_inexact_figures(draft, split.figures) if draft.split_keys is not None else ()),
        *split.violations([node_of[name] for name in problem.key_group_ids]),
        *_inexact_figures(draft, wire),
        *budget_violations(problem, _promised_costs(draft), budget),
        *facts.violations([node_of[name] for name in problem.key_group_ids], job_round.route_rules),
        *_cpu_violations(job_round, sums, content.scaling),
        *_promise_violations(job_round, draft, promised, (names, nodes), rerouted),
    ]


def _promised_costs(draft: Draft) -> PromisedCosts:
    """The costs that a draft promises; a draft of an earlier version names none of routes."""
    return PromisedCosts(
        bytes=draft.bytes,
        pause_s=draft.pause_s,
        forced_moves=draft.forced_moves,
        forced_bytes=draft.forced_bytes,
        rerouted_keys=draft.rerouted_keys or 0,
        route_bytes=draft.route_bytes or 0,
        route_pause_s=draft.route_pause_s or 0.0,
    )


def _promise_violations(
    job_round: Round,
    draft: Draft,
    promised: Sequence[Promise],
    assignment: Assignment,
    rerouted: Problem | None,
) -> list[Violation]:
    """What the plan promises for the next period; nothing if it is of an earlier version."""
    if not promised:
        return []
    if any(row.plan_id != draft.plan_id for row in promised):
        return [Violation("promises", "rows of another plan")]
    by_figure = {
        row.figure: PromisedInterval(row.expected, row.low, row.high, row.lowest, row.highest)
        for row in promised
    }
    if len(by_figure) < len(promised):
        return [Violation("promises", "a figure is promised twice")]
    costs = job_round.objective.costs
    return check_promises(job_round.problem, assignment, by_figure, costs, rerouted)


def _objective_violations(objective: Objective, draft: Draft) -> Iterator[Violation]:
    """The draft has the objective and limits of the policy, which the table's checks apply.

    A draft of an earlier version does not name its trade; it is lexicographic.
    """
    wanted = {
        "objective": objective.kind,
        **trade_figures(objective),
        "levelling_limit_pct": levelling_limit(objective, draft.levelled_operator_id),
    }
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
    rules = job_round.scaling_rules
    found = scaling_violations(job_round.problem, rules, scaling) if scaling else []
    due = sum(len(row.due or ()) for row in scaling)
    if due != (draft.due_moves or 0):
        found.append(Violation("due_moves", f"promised {draft.due_moves}, is {due}"))
    changes = node_actions(scaled(scaling)).items() - job_round.unchanged_node_actions.items()
    if draft.status == "unchanged" and changes:
        found.append(Violation("status", f"says unchanged, but nodes change: {sorted(changes)}"))
    if rules.sizes is not None and draft.status == "unchanged":
        resized = operator_sizes(scaled(scaling)).items() - rules.sizes.items()
        if resized:
            text = f"says unchanged, but operators change: {sorted(resized)}"
            found.append(Violation("status", text))
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
