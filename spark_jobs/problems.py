"""From a snapshot's rows to a problem, and from a solver's result to a plan's rows and back.

Pure: Arrow tables and rows in, problems and rows out. The same ``violations_of`` judges a draft
before it is written and again before it is published, from the very rows that are stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from ballast.contracts import identity
from ballast.contracts.policy import JobPolicy
from ballast.contracts.schemas import arrow_schema
from ballast.contracts.tables import TABLES
from ballast.store.snapshots import key_group_names, problem_columns
from solvers import Budget, Problem, Result
from solvers.collocate.memory import TargetMemory
from solvers.objective import Objective
from solvers.verify import Violation, verify

Row = dict[str, Any]


# Column of plans.plans -> what solvers.verify calls the promise.
PROMISES: Mapping[str, str] = {
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
}


def build_problem(
    policy: JobPolicy, key_groups: pa.Table, nodes: pa.Table, traffic: pa.Table
) -> Problem:
    """The problem that a snapshot's rows state, in an order that does not depend on theirs."""
    return Problem(**problem_columns(policy, key_groups, nodes, traffic))


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


def content_hash_of(assignment: pa.Table) -> str:
    """The content hash of a plan, from the rows of plans.assignments."""
    columns = ("operator_id", "key_group", "node_id")
    return identity.content_hash(
        zip(*(assignment[column].to_pylist() for column in columns), strict=True)
    )


def content_hash_of_result(problem: Problem, result: Result) -> str:
    """The content hash of a plan, from what the solver handed back."""
    operators, numbers = _split(problem.key_group_ids)
    nodes = [problem.node_ids[node] for node in result.assignment.tolist()]
    return identity.content_hash(zip(operators, numbers, nodes, strict=True))


def plan_row(
    snapshot: Row,
    plan_id: str,
    content_hash: str,
    result: Result,
    objective: Objective,
    budget: Budget,
    seed: int,
    created_at: datetime,
    memory: TargetMemory | None = None,
) -> Row:
    """The row of plans.plans: what the plan promises and what it costs."""
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
        "max_load_distance_pct": objective.max_load_distance if objective.is_joint else None,
        "collocation_factor_before_pct": result.collocation_factor_before,
        "collocation_factor_pct": result.collocation_factor,
        "budget_moves": budget.moves,
        "budget_bytes": budget.bytes,
        "budget_pause_s": budget.pause_s,
        "solver_seconds": result.seconds,
        "seed": seed,
        "trace_json": json.dumps([list(step) for step in result.trace]),
        "target_json": None if memory is None else memory.to_json(),
        "created_at": created_at,
    }


def objective_of(policy: JobPolicy) -> Objective:
    """What plans of this job are for."""
    return Objective(policy.objective.kind, policy.objective.max_load_distance_pct)


def violations_of(
    problem: Problem, plan: Row, assignment: pa.Table, objective: Objective
) -> list[Violation]:
    """Every promise of a draft that its own rows do not keep; empty if it may be published.

    The objective is the policy's: a plan cannot excuse itself by claiming another.
    """
    content = content_hash_of(assignment)
    if content != plan["content_hash"]:
        return [Violation("content_hash", f"promised {plan['content_hash']}, is {content}")]
    identical = identity.plan_id(plan["job"], plan["snapshot_id"], content)
    if identical != plan["plan_id"]:
        return [Violation("plan_id", f"promised {plan['plan_id']}, is {identical}")]
    budget = Budget(plan["budget_moves"], plan["budget_bytes"], plan["budget_pause_s"])
    names = key_group_names(assignment["operator_id"], assignment["key_group"]).to_pylist()
    promises = {promise: plan[column] for column, promise in PROMISES.items()}
    placed = (names, assignment["node_id"].to_pylist())
    found = verify(problem, budget, placed, promises, objective)
    if plan["objective"] != objective.kind:
        said = f"promised {plan['objective']!r}, the policy says {objective.kind!r}"
        return [Violation("objective", said), *found]
    return found


def _split(names: tuple[str, ...]) -> tuple[list[str], list[int]]:
    pairs = [identity.split_key_group_name(name) for name in names]
    return [operator for operator, _ in pairs], [number for _, number in pairs]
