"""The content of a plan: assignments, routes, scaling, weights and splits, and its content hash.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ballast.contracts import identity
from ballast.contracts.identity import Split
from ballast.contracts.records import ScalingRow, WorkerWeight
from ballast.contracts.regions import weighted
from ballast.contracts.scaling import scaled
from ballast.contracts.table_schemas import arrow_schema
from ballast.contracts.tables import TABLES
from solvers.model.key_statistics import KeySplits, Routing
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
    splits: Sequence[Split] = ()
    """Keys that are split, a row for each part."""

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
            self.splits,
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
    return _key_rows("plans.routes", job, plan_id, routes)


def split_rows(job: str, plan_id: str, splits: Sequence[Split]) -> pa.Table:
    """The rows of plans.splits."""
    return _key_rows("plans.splits", job, plan_id, splits)


def _key_rows(table: str, job: str, plan_id: str, rows: Sequence[Route]) -> pa.Table:
    operators, keys, groups = zip(*rows, strict=True) if rows else ((), (), ())
    columns = {
        "job": [job] * len(rows),
        "plan_id": [plan_id] * len(rows),
        "operator_id": operators,
        "key": keys,
        "key_group": groups,
    }
    return pa.table(columns, schema=arrow_schema(TABLES[table]))


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


def rows_of_splits(splits: KeySplits) -> list[Split]:
    """Splits as sorted rows, one for each part."""
    return sorted(
        (operator, key, group)
        for operator, keys in splits.items()
        for key, groups in keys.items()
        for group in groups
    )


def splits_of(rows: Sequence[Split]) -> KeySplits:
    """Splits by operator and key."""
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for operator, key, group in sorted(rows):
        keys = found.setdefault(operator, {})
        keys[key] = (*keys.get(key, ()), group)
    return found


def content_hash_of(content: PlanContent) -> str:
    """The content hash of a plan. It does not depend on the order of the rows."""
    columns = ("operator_id", "key_group", "node_id")
    placed = zip(*(content.assignments[column].to_pylist() for column in columns), strict=True)
    return identity.content_hash(
        placed, content.routes, scaled(content.scaling), weighted(content.weights), content.splits
    )
