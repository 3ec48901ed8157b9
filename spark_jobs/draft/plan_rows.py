"""From a solver's result to a plan's rows, and from the rows back to whether they may be believed.

Pure. The same ``violations_of`` judges a draft before it is written and again before it is
published, from the very rows that are stored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from ballast.contracts import identity
from ballast.contracts.regions import weighted
from ballast.contracts.scaling import (
    DRAIN,
    DRAINING,
    IN_USE,
    KEEP,
    NODE,
    SPARE,
    node_actions,
    scaled,
)
from ballast.contracts.schemas import arrow_schema
from ballast.contracts.tables import TABLES
from ballast.store.snapshots import key_group_names
from solvers.collocate.component_advice import advice_from_traffic
from solvers.key_routing.routing_effect import (
    moves_between,
    problem_after,
    problem_under_plan,
    route_cost,
)
from solvers.model.amortisation import shortened
from solvers.model.budget import Budget
from solvers.model.key_statistics import Routing
from solvers.model.metrics import saved_traffic
from solvers.model.objective import LEXICOGRAPHIC, Objective
from solvers.model.problem import Problem
from solvers.model.result import Result
from solvers.planner.allocation import Allocation
from solvers.verify.assignment import node_sums, verify
from solvers.verify.routes import RoutedFacts, budget_violations, row_violations
from solvers.verify.scaling import scaled_problem, scaling_violations
from solvers.verify.violation import Violation
from solvers.verify.weights import weight_violations
from spark_jobs.draft.problem import Row
from spark_jobs.draft.round import Round, Route, routing_of

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
"""Those that a plan makes where load and traffic are weighed."""
CPU = "cpu"
BYTES_TOLERANCE = 1e-6
"""Relative: bytes between nodes are a sum of many rates, in whatever order rows come."""
ABSOLUTE_TOLERANCE = 1e-6
"""For figures next to nothing."""
ROUNDING = {"route_bytes": 1.0}
"""Absolute: whole bytes, rounded up from a sum."""


@dataclass(frozen=True)
class Content:
    """The rows of a plan's content, by table."""

    assignments: pa.Table
    routes: pa.Table
    scaling: Sequence[Row] = ()
    weights: Sequence[Row] = ()


def assignment_rows(job: str, plan_id: str, problem: Problem, result: Result) -> pa.Table:
    """The rows of plans.assignments: every key group, moved or not."""
    operators, numbers = _split(problem.key_group_ids)
    nodes = np.array(problem.node_ids, dtype=object)
    columns = {
        "job": [job] * problem.n_key_groups,
        "plan_id": [plan_id] * problem.n_key_groups,
        "operator_id": operators,
        "key_group": numbers,
        "node_id": nodes[result.assignment],
        "previous_node_id": nodes[problem.current],
        "state_bytes": problem.state_bytes,
    }
    return pa.table(columns, schema=arrow_schema(TABLES["plans.assignments"]))


def content_rows(job: str, plan_id: str, problem: Problem, planned: Allocation) -> Content:
    """All rows of a plan's content."""
    routes = sorted(planned_routes(planned))
    operators, keys, groups = zip(*routes, strict=True) if routes else ((), (), ())
    columns = {
        "job": [job] * len(routes),
        "plan_id": [plan_id] * len(routes),
        "operator_id": operators,
        "key": keys,
        "key_group": groups,
    }
    return Content(
        assignment_rows(job, plan_id, problem, planned.result),
        pa.table(columns, schema=arrow_schema(TABLES["plans.routes"])),
    )


def planned_routes(planned: Allocation) -> list[Route]:
    """The routes of a plan as rows."""
    return [
        (operator, key, group)
        for operator, routes in planned.routing.items()
        for key, group in routes.items()
    ]


def content_hash_of(
    assignment: pa.Table,
    routes: Sequence[Route] = (),
    scaling: Sequence[Row] = (),
    weights: Sequence[Row] = (),
) -> str:
    """The content hash of a plan, from its rows of assignments, routes, scaling and weights."""
    columns = ("operator_id", "key_group", "node_id")
    rows = zip(*(assignment[column].to_pylist() for column in columns), strict=True)
    return identity.content_hash(rows, routes, scaled(scaling), weighted(weights))


def content_hash_of_plan(
    problem: Problem, planned: Allocation, scaling: Sequence[Row] = (), weights: Sequence[Row] = ()
) -> str:
    """The content hash of a plan, from what the solver handed back."""
    operators, numbers = _split(problem.key_group_ids)
    nodes = [problem.node_ids[node] for node in planned.result.assignment.tolist()]
    rows = zip(operators, numbers, nodes, strict=True)
    return identity.content_hash(rows, planned_routes(planned), scaled(scaling), weighted(weights))


def promised_cpu(given: Round, planned: Allocation) -> dict[str, float]:
    """CPU that each node carries under the plan; empty where CPU is not looked at."""
    problem = given.problem
    if CPU not in problem.resources:
        return {}
    after, assignment = problem, planned.result.assignment
    if given.objective.is_joint and problem.traffic_rate is not None:
        rerouted = problem_after(problem, given.statistics, given.routing, planned.routing)
        after = problem_under_plan(given.objective, problem, assignment, rerouted)
    load = after.load[:, problem.resources.index(CPU)]
    sums = np.bincount(assignment, weights=load, minlength=problem.n_nodes)
    return dict(zip(problem.node_ids, sums.tolist(), strict=True))


def plan_row(
    given: Round,
    plan_id: str,
    content_hash: str,
    planned: Allocation,
    budget: Budget,
    seed: int,
    created_at: datetime,
) -> Row:
    """The row of plans.plans: what the plan promises and what it costs."""
    snapshot, result, objective = given.snapshot, planned.result, given.objective
    memory, is_joint = planned.memory, objective.is_joint
    return {
        "job": snapshot["job"],
        "plan_id": plan_id,
        "run_id": snapshot["run_id"],
        "snapshot_id": snapshot["snapshot_id"],
        "parent_version": snapshot["head_version"],
        "parent_plan_id": snapshot["head_plan_id"],
        "content_hash": content_hash,
        "objective": objective.kind,
        "method": result.method,
        "status": result.status.value,
        "reason": result.reason,
        "load_distance_before_pct": result.load_distance_before,
        "load_distance_pct": result.load_distance,
        "load_distance_before_points": result.load_distance_points_before,
        "load_distance_points": result.load_distance_points_after,
        "bound_pct": result.bound,
        "gap_pct": result.gap,
        "moves": result.moves,
        "bytes": result.bytes,
        "forced_moves": result.forced_moves,
        "forced_bytes": result.forced_bytes,
        "pause_s": result.pause_s,
        **_route_figures(given, planned.routing),
        **_trade(objective),
        **_weighed(given, planned),
        "collocation_factor_before_pct": result.collocation_factor_before,
        "collocation_factor_pct": result.collocation_factor,
        "load_index_pct": result.load_index,
        **_wire_figures(
            given,
            _node_of(given.problem, result),
            problem_after(given.problem, given.statistics, given.routing, planned.routing),
        ),
        "serialise_us": given.learned.serialise_us if is_joint else None,
        "budget_moves": budget.moves,
        "budget_bytes": budget.bytes,
        "budget_pause_s": budget.pause_s,
        "solver_seconds": result.seconds,
        "seed": seed,
        "trace_json": json.dumps([list(step) for step in result.trace]),
        "target_json": None if memory is None else memory.to_json(),
        "held_back_json": json.dumps([asdict(held) for held in shortened(planned.held_back)])
        if is_joint
        else None,
        "advice": "\n".join(advice_from_traffic(given.policy, given.problem)) or None,
        "due_moves": None,
        "scaling_reason": None,
        "weights_reason": None,
        "created_at": created_at,
    }


def _trade(objective: Objective) -> dict[str, float | str | None]:
    """How the plan trades load for traffic: what a policy says, and a plan row repeats."""
    weights = objective.weights if objective.is_joint else None
    is_bounded = objective.is_joint and weights is None
    return {
        "trade": objective.trade,
        "max_load_distance_pct": objective.max_load_distance if is_bounded else None,
        "traffic_weight": None if weights is None else weights.traffic,
        "load_weight": None if weights is None else weights.load,
    }


def _weighed(given: Round, planned: Allocation) -> dict[str, float | int | None]:
    """What weights weigh beside the load distance; NULL where nothing is weighed."""
    if not given.objective.is_weighted:
        return dict.fromkeys(WEIGHTED_PROMISES)
    problem, assignment = given.problem, planned.result.assignment
    costs = given.objective.costs
    after = problem_after(problem, given.statistics, given.routing, planned.routing)
    saved_before, saved = (
        saved_traffic(of, placed, costs.within_rack, costs.between_racks)
        for of, placed in ((problem, problem.current), (after, assignment))
    )
    left = problem.draining[problem.current] & (assignment != problem.current)
    return {
        "traffic_saved_before_pct": saved_before,
        "traffic_saved_pct": saved,
        "drained_moves": int(np.count_nonzero(left)),
    }


def _wire_figures(
    given: Round, node_of: Mapping[str, str], after: Problem
) -> dict[str, float | None]:
    """Bytes between nodes without the plan and with it; None where no traffic was measured.

    ``after`` has the traffic as the plan's routes change it.
    """
    wire = given.wire
    if not wire.flows:
        return {"wire_bytes_before_per_s": None, "wire_bytes_per_s": None}
    will_be = wire if after is given.problem else wire.rerouted(_rates(after))
    return {
        "wire_bytes_before_per_s": wire.bytes_per_s,
        "wire_bytes_per_s": will_be.bytes_under(node_of),
    }


def _rates(problem: Problem) -> dict[tuple[str, str], float]:
    """Records a second by the names of the two key groups."""
    if problem.traffic_from is None or problem.traffic_to is None or problem.traffic_rate is None:
        return {}
    names, rates = problem.key_group_ids, problem.traffic_rate.tolist()
    ends = zip(problem.traffic_from.tolist(), problem.traffic_to.tolist(), strict=True)
    found: dict[tuple[str, str], float] = {}
    for (source, target), rate in zip(ends, rates, strict=True):
        flow = names[source], names[target]
        found[flow] = found.get(flow, 0.0) + rate
    return found


def _route_figures(given: Round, routing: Routing) -> dict[str, float | int]:
    """What the routes of a plan are and cost, from the routings alone."""
    moves = moves_between(given.problem, given.statistics, given.routing, routing)
    n_bytes, pause_s = route_cost(given.problem, moves)
    return {
        "routes": sum(map(len, routing.values())),
        "rerouted_keys": len(moves),
        "route_bytes": n_bytes,
        "route_pause_s": pause_s,
    }


def _node_of(problem: Problem, result: Result) -> dict[str, str]:
    nodes = [problem.node_ids[node] for node in result.assignment.tolist()]
    return dict(zip(problem.key_group_ids, nodes, strict=True))


def violations_of(
    given: Round,
    plan: Row,
    assignment: pa.Table,
    routes: Sequence[Route],
    scaling: Sequence[Row] = (),
    weights: Sequence[Row] = (),
) -> list[Violation]:
    """Every promise of a draft that its own rows do not keep; empty if it may be published.

    The objective is the policy's: a plan cannot excuse itself by claiming another.
    """
    content = content_hash_of(assignment, routes, scaling, weights)
    if content != plan["content_hash"]:
        return [Violation("content_hash", f"promised {plan['content_hash']}, is {content}")]
    identical = identity.plan_id(plan["job"], plan["snapshot_id"], content)
    if identical != plan["plan_id"]:
        return [Violation("plan_id", f"promised {plan['plan_id']}, is {identical}")]
    strange = [
        *row_violations(given.route_rules, given.routing, routes),
        *_node_violations(given, plan, scaling),
        *weight_violations(
            [region.rules for region in given.regions],
            weights,
            is_unchanged=plan["status"] == "unchanged",
        ),
    ]
    if strange:
        return strange
    if scaling:
        rules = given.scaling_rules
        given = replace(given, problem=scaled_problem(given.problem, rules, scaling))
    budget = Budget(plan["budget_moves"], plan["budget_bytes"], plan["budget_pause_s"])
    names = key_group_names(assignment["operator_id"], assignment["key_group"]).to_pylist()
    made = PROMISES | (WEIGHTED_PROMISES if given.objective.is_weighted else {})
    promises = {promise: plan.get(column) for column, promise in made.items()}
    nodes = assignment["node_id"].to_pylist()
    routing = routing_of(routes)
    facts = RoutedFacts(given.problem, given.statistics, given.routing, routing)
    after = facts.problem_after() if routing != given.routing else None
    found = verify(given.problem, budget, (names, nodes), promises, given.objective, after)
    if not found:
        node_of = dict(zip(names, nodes, strict=True))
        wire = _wire_figures(given, node_of, after or given.problem)
        found += _figure_violations(plan, {**facts.figures, **wire})
        found += budget_violations(given.problem, plan, budget)
        placed = [node_of[name] for name in given.problem.key_group_ids]
        found += facts.violations(placed, given.route_rules)
        sums = node_sums(given.problem, (names, nodes), given.objective, after)
        found += _promise_violations(given, sums, scaling)
    return [*_objective_violations(given.objective, plan), *found]


def _objective_violations(objective: Objective, plan: Row) -> Iterator[Violation]:
    """A plan says what the policy says of what it is for; so the table's checks mean something.

    A plan of an earlier version does not name its trade, and had but one.
    """
    wanted = {"objective": objective.kind, **_trade(objective)}
    found = {name: plan.get(name) for name in wanted}
    if found["trade"] is None and objective.trade == LEXICOGRAPHIC:
        found["trade"] = LEXICOGRAPHIC
    for name, value in wanted.items():
        if found[name] != value:
            yield Violation(name, f"promised {found[name]!r}, the policy says {value!r}")


def _node_violations(given: Round, plan: Row, scaling: Sequence[Row]) -> list[Violation]:
    """Nodes change by the rules, and a plan of a job that is scaled says what becomes of them."""
    if given.is_scaled != bool(scaling):
        has = "no rows" if given.is_scaled else "rows"
        return [Violation("scaling", f"the plan has {has} of what becomes of nodes")]
    found = scaling_violations(given.problem, given.scaling_rules, scaling) if scaling else []
    due = sum(len(row["due"] or ()) for row in scaling)
    if due != (plan.get("due_moves") or 0):
        found.append(Violation("due_moves", f"promised {plan.get('due_moves')}, is {due}"))
    is_change = node_actions(scaled(scaling)).items() - as_it_is(given).items()
    if plan["status"] == "unchanged" and is_change:
        found.append(Violation("status", f"says unchanged, but nodes change: {sorted(is_change)}"))
    return found


def as_it_is(given: Round) -> dict[str, str]:
    """What becomes of nodes if nothing does."""
    states = dict(zip(given.problem.node_ids, given.problem.node_state, strict=True))
    return {
        node.id: SPARE if node.id not in states else DRAIN if states[node.id] == DRAINING else KEEP
        for node in given.policy.nodes
    }


def _promise_violations(
    given: Round, sums: Mapping[str, Any], scaling: Sequence[Row]
) -> Iterator[Violation]:
    """The CPU promised of each node in use is that of its key groups."""
    if CPU not in given.problem.resources:
        return
    cpu = given.problem.resources.index(CPU)
    for row in scaling:
        if row["subject"] != NODE or row["action"] not in IN_USE:
            continue
        promised, actual = row["cpu_load_cores"], float(sums[row["subject_id"]][cpu])
        if promised is None or not math.isclose(promised, actual, rel_tol=1e-6, abs_tol=1e-9):
            said = f"node {row['subject_id']}: promised {promised!r}, is {actual!r}"
            yield Violation("cpu_load_cores", said)


def _figure_violations(plan: Row, figures: Mapping[str, float | None]) -> Iterator[Violation]:
    for figure, actual in figures.items():
        promised = plan[figure]
        if promised is None or actual is None:
            is_kept = promised is None and actual is None
        else:
            absolute = ROUNDING.get(figure, ABSOLUTE_TOLERANCE)
            is_kept = math.isclose(promised, actual, rel_tol=BYTES_TOLERANCE, abs_tol=absolute)
        if not is_kept:
            yield Violation(figure, f"promised {promised!r}, is {actual!r}")


def _split(names: tuple[str, ...]) -> tuple[list[str], list[int]]:
    pairs = [identity.split_key_group_name(name) for name in names]
    return [operator for operator, _ in pairs], [number for _, number in pairs]
