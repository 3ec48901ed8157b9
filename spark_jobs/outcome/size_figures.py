"""Figures of a plan that says how many instances each operator has. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from ballast.contracts.records import ScalingRow
from ballast.contracts.scaling import OPERATOR, operator_sizes, scaled
from spark_jobs.draft.operator_sizes import CAPACITY, CAPACITY_BEFORE, operator_loads
from spark_jobs.outcome.figures import PlanFigure

PLACED = ("moves", "bytes")


def size_figures(scaling: Sequence[ScalingRow], key_groups: pa.Table) -> list[PlanFigure]:
    """The capacity of each operator: records per second at which its busiest instance is full.

    Args:
        scaling: rows of plans.scaling of the plan.
        key_groups: loads measured since the plan was applied.
    """
    sizes = operator_sizes(scaled(scaling))
    loads = operator_loads(key_groups, sizes)
    return [
        PlanFigure(
            f"{CAPACITY}/{row.subject_id}",
            "records/s",
            promised.get(CAPACITY_BEFORE),
            promised.get(CAPACITY),
            loads[row.subject_id].capacity(sizes[row.subject_id]),
        )
        for row in scaling
        if row.subject == OPERATOR and row.subject_id in loads
        for promised in [json.loads(row.loads_json or "{}")]
    ]


def without_moves(figures: Sequence[PlanFigure]) -> list[PlanFigure]:
    """The figures of a plan that places nothing: without moves, and with a pause that is measured.

    The predicted pause is that of moves, so it is no promise here.
    """
    return [
        replace(each, promised=None) if each.name == "pause_s" else each
        for each in figures
        if each.name not in PLACED
    ]
