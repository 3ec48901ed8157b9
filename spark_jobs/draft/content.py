"""The content of a plan: assignments, routes, scaling and weights, and its content hash. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ballast.contracts import identity
from ballast.contracts.records import ScalingRow, WorkerWeight
from ballast.contracts.regions import weighted
from ballast.contracts.scaling import scaled
from ballast.contracts.table_schemas import arrow_schema
from ballast.contracts.tables import TABLES
from solvers.model.key_statistics import Routing
from solvers.model.problem import IntArray, Problem

Route = tuple[str, str, int]
"""Operator, key, key group."""


class PlanContent(NamedTuple):
    """What a plan puts in force. Two plans with the same content have the same content hash."""

    assignments: pa.Table
    """Rows of plans.assignments: every key group, moved or not."""
    routes: Sequence[Route] = ()
    """Keys that do not go by hash."""
    scaling: Sequence[ScalingRow] = ()
    """What the plan does with nodes, clusters and operators; empty if the job is not scaled."""
    weights: Sequence[WorkerWeight] = ()
    """Weights of the workers of ordered regions."""

    def with_plan_id(self, plan_id: str) -> PlanContent:
        """The same content with this plan id in every row."""
        index = self.assignments.schema.get_field_index("plan_id")
        column = pa.array([plan_id] * self.assignments.num_rows, pa.string())
        field = self.assignments.schema.field(index)
        return PlanContent(
            self.assignments.set_column(index, field, column),
            self.routes,
            [replace(row, plan_id=plan_id) for row in self.scaling],
            [replace(row, plan_id=plan_id) for row in self.weights],
        )


def assignment_rows(job: str, plan_id: str, problem: Problem, assignment: IntArray) -> pa.Table:
    """The rows of plans.assignments: every key group with its node and the node before."""
    pairs = [identity.split_key_group_name(name) for name in problem.key_group_ids]
    nodes = np.array(problem.node_ids, dtype=object)
    columns = {
        "job": [job] * problem.n_key_groups,
        "plan_id": [plan_id] * problem.n_key_groups,
        "operator_id": [operator for operator, _ in pairs],
        "key_group": [number for _, number in pairs],
        "node_id": nodes[assignment],
        "previous_node_id": nodes[problem.current],
        "state_bytes": problem.state_bytes,
    }
    return pa.table(columns, schema=arrow_schema(TABLES["plans.assignments"]))


def route_rows(job: str, plan_id: str, routes: Sequence[Route]) -> pa.Table:
    """The rows of plans.routes."""
    operators, keys, groups = zip(*routes, strict=True) if routes else ((), (), ())
    columns = {
        "job": [job] * len(routes),
        "plan_id": [plan_id] * len(routes),
        "operator_id": operators,
        "key": keys,
        "key_group": groups,
    }
    return pa.table(columns, schema=arrow_schema(TABLES["plans.routes"]))


def routes_of(routing: Routing) -> list[Route]:
    """A routing as sorted routes."""
    return sorted(
        (operator, key, group)
        for operator, routes in routing.items()
        for key, group in routes.items()
    )


def routing_of(routes: Sequence[Route]) -> Routing:
    """Routes by operator and key."""
    routing: dict[str, dict[str, int]] = {}
    for operator, key, group in routes:
        routing.setdefault(operator, {})[key] = group
    return routing


def content_hash_of(content: PlanContent) -> str:
    """The content hash of a plan. It does not depend on the order of the rows."""
    columns = ("operator_id", "key_group", "node_id")
    placed = zip(*(content.assignments[column].to_pylist() for column in columns), strict=True)
    return identity.content_hash(
        placed, content.routes, scaled(content.scaling), weighted(content.weights)
    )
