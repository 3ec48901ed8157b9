"""Reads the loads that a plan was made from: they decide on the order of its steps (ADR 72)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ballast.contracts.problem_columns import RESOURCES
from ballast.contracts.settings import Settings
from ballast.store.tables import read_rows, table_exists

DEAD = "dead"


@dataclass(frozen=True)
class PlanLoads:
    """Loads of key groups in the snapshot of a plan, and nodes that were dead in it."""

    key_groups: Mapping[tuple[str, int], tuple[float, ...]]
    """The load of each key group, a figure for each resource that was asked for."""
    dead: frozenset[str]


def read_plan_loads(
    settings: Settings, job: str, plan_id: str, resources: Sequence[str]
) -> PlanLoads | None:
    """The loads of a plan's snapshot; None if the plan or its snapshot is gone."""
    if not table_exists(settings, "plans.plans"):
        return None
    plans = read_rows(
        settings, "plans.plans", job=job, where=[("plan_id", "=", plan_id)],
        columns=["snapshot_id"],
    ).to_pylist()  # fmt: skip
    if not plans or not table_exists(settings, "snapshots.key_groups"):
        return None
    where = [("snapshot_id", "=", plans[0]["snapshot_id"])]
    columns = [RESOURCES[name].load for name in resources]
    rows = read_rows(
        settings, "snapshots.key_groups", job=job, where=where,
        columns=["operator_id", "key_group", *columns],
    ).to_pylist()  # fmt: skip
    if not rows:
        return None
    nodes = read_rows(
        settings, "snapshots.nodes", job=job, where=where, columns=["node_id", "state"]
    ).to_pylist()
    return PlanLoads(
        {
            (row["operator_id"], row["key_group"]): tuple(row[name] or 0.0 for name in columns)
            for row in rows
        },
        frozenset(row["node_id"] for row in nodes if row["state"] == DEAD),
    )
