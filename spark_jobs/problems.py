"""From a snapshot's rows to a problem, and from a solver's result to a plan's rows and back.

Pure: Arrow tables and rows in, problems and rows out. The same ``violations_of`` judges a draft
before it is written and again before it is published, from the very rows that are stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ballast.contracts import identity
from ballast.contracts.errors import InvalidInput
from ballast.contracts.policy import JobPolicy
from ballast.contracts.schemas import arrow_schema
from ballast.contracts.tables import TABLES
from solvers import Budget, Problem, Result
from solvers.verify import Violation, verify

Row = dict[str, Any]


@dataclass(frozen=True)
class ResourceColumns:
    """Where a snapshot keeps the load on a resource, and a node's capacity of it."""

    load: str
    capacity: str


RESOURCES: Mapping[str, ResourceColumns] = {
    "cpu": ResourceColumns("cpu_load_cores", "cpu_capacity_cores"),
    "memory": ResourceColumns("memory_load_bytes", "memory_capacity_bytes"),
    "network": ResourceColumns("network_load_bytes_per_s", "network_capacity_bytes_per_s"),
}

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
    "collocation_factor_pct": "collocation_factor",
}


def build_problem(
    policy: JobPolicy, key_groups: pa.Table, nodes: pa.Table, traffic: pa.Table
) -> Problem:
    """The problem that a snapshot's rows state, in an order that does not depend on theirs."""
    key_groups = key_groups.sort_by([("operator_id", "ascending"), ("key_group", "ascending")])
    nodes = nodes.sort_by("node_id")
    operator_ids = key_groups["operator_id"].to_pylist()
    names = _names(operator_ids, key_groups["key_group"])
    resources = policy.objective.resources
    return Problem(
        node_ids=tuple(nodes["node_id"].to_pylist()),
        resources=resources,
        capacity=_matrix(nodes, [RESOURCES[name].capacity for name in resources]),
        node_state=tuple(nodes["state"].to_pylist()),
        key_group_ids=tuple(names),
        operator_ids=tuple(operator_ids),
        load=_matrix(key_groups, [RESOURCES[name].load for name in resources]),
        state_bytes=key_groups["state_bytes"].to_numpy(),
        current=_node_indices(names, key_groups["node_id"], nodes["node_id"]),
        rack=tuple(nodes["rack"].to_pylist()),
        pause_c0_s=policy.pause.c0_s,
        pause_s_per_byte=policy.pause.s_per_byte,
        **_traffic(names, traffic),
    )


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
    budget: Budget,
    seed: int,
    created_at: datetime,
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
        "collocation_factor_pct": result.collocation_factor,
        "budget_moves": budget.moves,
        "budget_bytes": budget.bytes,
        "budget_pause_s": budget.pause_s,
        "solver_seconds": result.seconds,
        "seed": seed,
        "trace_json": json.dumps([list(step) for step in result.trace]),
        "created_at": created_at,
    }


def violations_of(problem: Problem, plan: Row, assignment: pa.Table) -> list[Violation]:
    """Every promise of a draft that its own rows do not keep; empty if it may be published."""
    content = content_hash_of(assignment)
    if content != plan["content_hash"]:
        return [Violation("content_hash", f"promised {plan['content_hash']}, is {content}")]
    identical = identity.plan_id(plan["job"], plan["snapshot_id"], content)
    if identical != plan["plan_id"]:
        return [Violation("plan_id", f"promised {plan['plan_id']}, is {identical}")]
    budget = Budget(plan["budget_moves"], plan["budget_bytes"], plan["budget_pause_s"])
    names = _names(assignment["operator_id"].to_pylist(), assignment["key_group"])
    promises = {promise: plan[column] for column, promise in PROMISES.items()}
    return verify(problem, budget, (names, assignment["node_id"].to_pylist()), promises)


def _names(operator_ids: list[str], numbers: pa.ChunkedArray) -> list[str]:
    return [
        identity.key_group_name(operator, number)
        for operator, number in zip(operator_ids, numbers.to_pylist(), strict=True)
    ]


def _split(names: tuple[str, ...]) -> tuple[list[str], list[int]]:
    pairs = [identity.split_key_group_name(name) for name in names]
    return [operator for operator, _ in pairs], [number for _, number in pairs]


def _matrix(table: pa.Table, columns: list[str]) -> np.ndarray[Any, Any]:
    for column in columns:
        if table[column].null_count:
            raise InvalidInput(
                f"the snapshot has no {column} for {table[column].null_count} of its rows",
                remedy="give every node this capacity in the job's policy, or leave the "
                "resource out of objective.resources; then start a new run",
            )
    return np.column_stack([table[column].to_numpy() for column in columns])


def _node_indices(
    names: list[str], held_by: pa.ChunkedArray, node_ids: pa.ChunkedArray
) -> np.ndarray[Any, Any]:
    index = pc.index_in(held_by, value_set=node_ids.combine_chunks())
    if index.null_count:
        at = pc.is_null(index).to_pylist().index(True)
        raise InvalidInput(
            f"the snapshot has key group {names[at]} on node {held_by[at].as_py()!r}, which is "
            f"none of its nodes",
            value=held_by[at].as_py(),
            allowed=", ".join(node_ids.to_pylist()),
            remedy="add the node to the job's policy, then start a new run",
        )
    return index.to_numpy().astype(np.int64)


def _traffic(names: list[str], traffic: pa.Table) -> dict[str, Any]:
    if traffic.num_rows == 0:
        return {}
    index_of = {name: i for i, name in enumerate(names)}
    ends = {
        field: _names(traffic[f"{end}_operator_id"].to_pylist(), traffic[f"{end}_key_group"])
        for field, end in (("traffic_from", "from"), ("traffic_to", "to"))
    }
    unknown = next((name for end in ends.values() for name in end if name not in index_of), None)
    if unknown is not None:
        raise InvalidInput(
            f"the snapshot has traffic of key group {unknown}, which is none of its key groups",
            value=unknown,
            remedy="start a new run",
        )
    indices = {
        field: np.array([index_of[name] for name in end], dtype=np.int64)
        for field, end in ends.items()
    }
    return {**indices, "traffic_rate": traffic["records_per_s"].to_numpy()}
