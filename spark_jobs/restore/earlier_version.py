"""An earlier version of a job's plan, and the state of the job that it is compared with. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ballast.contracts.identity import Split, content_hash
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import (
    AssignedKeyGroup,
    ConnectionWindow,
    Head,
    ScalingRow,
    Snapshot,
    SnapshotNode,
    WorkerWeight,
)
from ballast.contracts.regions import weighted
from ballast.contracts.scaling import OPERATOR, scaled
from spark_jobs.draft.content import Route


@dataclass(frozen=True)
class StoredVersion:
    """The stored content of one version."""

    plan_id: str
    content_hash: str
    assignments: Sequence[AssignedKeyGroup]
    routes: Sequence[Route] = ()
    scaling: Sequence[ScalingRow] = ()
    weights: Sequence[WorkerWeight] = ()
    splits: Sequence[Split] = ()

    @property
    def hash_without_nodes(self) -> str:
        """Hash of the content without actions on nodes.

        For a node that is in use, one plan may have ``add`` and a later one ``keep``. The content
        is the same, but the content hash differs.
        """
        placed = [(row.operator_id, row.key_group, row.node_id) for row in self.assignments]
        sizes = [row for row in scaled(self.scaling) if row[0] == OPERATOR]
        return content_hash(placed, self.routes, sizes, weighted(self.weights), self.splits)


@dataclass(frozen=True)
class EarlierVersion:
    """The version that comes back, and the scaling of the version in force."""

    stored: StoredVersion
    scaling_in_force: Sequence[ScalingRow]

    @property
    def scaling(self) -> Sequence[ScalingRow]:
        """What the earlier version did with nodes and operators."""
        return self.stored.scaling


@dataclass(frozen=True, kw_only=True)
class RollbackContext:
    """The job as it is today: head, newest snapshot, policy and measured nodes and workers."""

    head: Head
    in_force: StoredVersion
    source: Snapshot
    """The newest snapshot."""
    policy: JobPolicy
    """The policy of today."""
    applied_scaling: Sequence[ScalingRow] = ()
    """Rows of plans.scaling of the plan that the newest snapshot ran under."""
    nodes: Sequence[SnapshotNode] = ()
    connections: Sequence[ConnectionWindow] = ()
    weight_conflicts: Sequence[str] = ()
    """Why the weights of the earlier version do not fit the workers of today."""
