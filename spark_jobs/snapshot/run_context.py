"""What one run of ``condense`` works with: its request, pinned table versions and plan in force."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import SparkSession

from ballast.contracts import identity
from ballast.contracts.identity import Scaled
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Head, Snapshot
from ballast.contracts.scaling import ADD, node_actions, nodes_in_use
from ballast.contracts.settings import Settings
from spark_jobs.snapshot.statistics_period import StatisticsPeriod
from spark_jobs.snapshot.window_selection import TakeUp


@dataclass(frozen=True)
class SnapshotRequest:
    """Which job to condense, for which run, and which time is now."""

    policy: JobPolicy
    run_id: str
    as_of: datetime

    @property
    def job(self) -> str:
        """Name of the streaming job."""
        return self.policy.job


@dataclass(frozen=True)
class PinnedVersions:
    """Versions of the metrics tables that a run reads, whatever is appended meanwhile."""

    key_groups: int
    nodes: int
    traffic: int
    key_pairs: int | None = None
    """None if no keys are routed."""
    sources: int | None = None
    """None if the job is not scaled."""
    connections: int | None = None
    """None if the job has no ordered region."""


@dataclass(frozen=True)
class RunContext:
    """What is known before Spark starts."""

    pins: PinnedVersions
    period: StatisticsPeriod
    previous: Snapshot | None
    """The job's newest snapshot so far."""
    head: Head | None
    """The plan in force when the tables were pinned; a draft may replace it."""
    applied_plan_id: str | None = None
    """The plan that the newest window ran under."""
    scaling: tuple[Scaled, ...] = ()
    """The actions of that plan on nodes."""
    take_up: TakeUp = field(default_factory=lambda: TakeUp(0, None))
    """The version that the newest window ran under; 0 is the placement by hash."""
    remembered: tuple[str, ...] = ()
    """Earlier snapshots whose key statistics are used as well, oldest first."""

    def in_use(self, policy: JobPolicy) -> dict[str, str]:
        """Nodes in use with their states; no other node is expected to report."""
        return nodes_in_use(policy, self.scaling)

    @property
    def added(self) -> frozenset[str]:
        """Nodes that the plan in force added: they cannot have reported before."""
        return frozenset(n for n, action in node_actions(self.scaling).items() if action == ADD)

    def snapshot_id(self, request: SnapshotRequest) -> str:
        """Identity of the snapshot: a hash of everything that its rows are made from."""
        parts = [
            f"metrics.key_groups@{self.pins.key_groups}",
            f"metrics.nodes@{self.pins.nodes}",
            f"metrics.traffic@{self.pins.traffic}",
            f"{self.period.start.isoformat()}/{self.period.end.isoformat()}",
            f"after {self.previous.snapshot_id if self.previous else 'none'}",
            f"version {self.head.version if self.head else 0}",
            identity.digest(request.policy.to_json()),
        ]
        if self.pins.key_pairs is not None:
            parts.append(f"metrics.key_pairs@{self.pins.key_pairs}")
        if self.pins.sources is not None:
            parts.append(f"metrics.sources@{self.pins.sources}")
        if self.pins.connections is not None:
            parts.append(f"metrics.connections@{self.pins.connections}")
        if self.remembered:
            parts.append(f"remembering {' '.join(self.remembered)}")
        if self.applied_plan_id is not None:
            parts.append(f"under plan {self.applied_plan_id}")
        if self.take_up.batch_id is not None:
            parts.append(f"windows from batch {self.take_up.batch_id} on")
        return identity.snapshot_id(request.job, request.run_id, parts)


@dataclass(frozen=True)
class SnapshotRun:
    """A run with its Spark session: what the steps that read and write tables need."""

    spark: SparkSession
    settings: Settings
    request: SnapshotRequest
    context: RunContext

    @property
    def policy(self) -> JobPolicy:
        """The job's policy."""
        return self.request.policy

    @property
    def snapshot_id(self) -> str:
        """Identity of the snapshot that the run takes."""
        return self.context.snapshot_id(self.request)
