"""Reads the content of a published plan: assignment, routes, scaling, weights and splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ballast.contracts.errors import PlanRefused
from ballast.contracts.identity import Scaled, Split, content_hash
from ballast.contracts.placement_check import Assigned
from ballast.contracts.records import Head
from ballast.contracts.regions import Weighted, weighted
from ballast.contracts.scaling import scaled
from ballast.contracts.settings import Settings
from ballast.store.plans import (
    read_assignment,
    read_routes,
    read_scaling,
    read_splits,
    read_weights,
)

Route = tuple[str, str, int]
"""Operator, key, key group."""


@dataclass(frozen=True)
class PublishedContent:
    """What a plan says; all of it is part of the plan's content hash."""

    assignment: Sequence[Assigned]
    routes: Sequence[Route] = ()
    scaling: Sequence[Scaled] = ()
    weights: Sequence[Weighted] = ()
    splits: Sequence[Split] = ()

    def check_hash(self, head: Head) -> None:
        """Refuses content that is not what was published.

        Raises:
            PlanRefused: the content's hash is not the one in the head.
        """
        found = content_hash(self.assignment, self.routes, self.scaling, self.weights, self.splits)
        if found != head.content_hash:
            raise PlanRefused(
                f"content hash of plan {head.plan_id} is {found[:16]} over "
                f"{len(self.assignment)} rows, {len(self.routes)} routes, {len(self.scaling)} rows "
                f"of scaling, {len(self.weights)} of weights and {len(self.splits)} of splits, the "
                f"head promises "
                f"{head.content_hash[:16]}; publish the plan again"
            )


def read_published_content(settings: Settings, job: str, plan_id: str) -> PublishedContent:
    """The content of a plan as the tables have it, unchecked."""
    return PublishedContent(
        [
            (row.operator_id, row.key_group, row.node_id)
            for row in read_assignment(settings, job, plan_id)
        ],
        read_routes(settings, job, plan_id),
        scaled(read_scaling(settings, job, plan_id)),
        weighted(read_weights(settings, job, plan_id)),
        read_splits(settings, job, plan_id),
    )
