"""What one call of ``condense`` is asked for, and the statistics period it found."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ballast.contracts import identity
from ballast.contracts.identity import Scaled
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Head
from ballast.contracts.scaling import ADD, node_actions, nodes_in_use

Row = Any  # TRANSITION: typed records take its place

# Delta rounds a file's largest time up to the next millisecond, so that a file of the window that
# ends exactly at a limit would be read for nothing. Windows are whole milliseconds long.
STATISTICS_STEP = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Request:
    """A snapshot wanted: of which job, for which run, at what time."""

    policy: JobPolicy
    run_id: str
    as_of: datetime

    @property
    def job(self) -> str:
        """Name of the streaming job."""
        return self.policy.job


@dataclass(frozen=True)
class Period:
    """The statistics period: so many windows, the last of which ends at ``end``."""

    end: datetime
    window: timedelta
    windows: int

    @property
    def start(self) -> datetime:
        """Start of the first window."""
        return self.back(self.windows)

    @property
    def ends(self) -> tuple[datetime, ...]:
        """The ends of the windows, oldest first."""
        return tuple(self.back(n) for n in reversed(range(self.windows)))

    def back(self, windows: int) -> datetime:
        """The time so many windows before the end."""
        return self.end - windows * self.window

    def windows_since(self, time: datetime) -> int:
        """Number of windows between a time and the end."""
        return round((self.end - time) / self.window)


@dataclass(frozen=True)
class Pins:
    """Versions of the tables of metrics that are read, whatever is appended meanwhile."""

    key_groups: int
    nodes: int
    traffic: int
    key_pairs: int | None = None
    """None where no keys are routed."""
    sources: int | None = None
    """None where the job is not scaled."""
    connections: int | None = None
    """None where the job has no ordered region."""


@dataclass(frozen=True)
class Found:
    """What was looked up before Spark starts."""

    pins: Pins
    period: Period
    previous: Row | None
    """The job's newest snapshot so far."""
    head: Head | None
    """The plan in force when the tables were pinned: what a draft may replace."""
    applied_plan_id: str | None = None
    """The plan that the newest window ran under."""
    scaling: tuple[Scaled, ...] = ()
    """What that plan makes of nodes."""
    version: int = 0
    """The version that the newest window ran under; 0 is the placement by hash."""
    applied_batch: int | None = None
    """The batch that took it up, by the job's word."""
    remembered: tuple[str, ...] = ()
    """Earlier snapshots whose statistics of keys count as well, oldest first."""

    def in_use(self, policy: JobPolicy) -> dict[str, str]:
        """Nodes in use with their states: of the others nothing is expected."""
        return nodes_in_use(policy, self.scaling)

    @property
    def added(self) -> frozenset[str]:
        """Nodes that the plan in force added: they cannot have reported before."""
        return frozenset(n for n, action in node_actions(self.scaling).items() if action == ADD)

    def snapshot_id(self, request: Request) -> str:
        """Identity of the snapshot: everything its rows are made from is part of it."""
        pins = [
            f"metrics.key_groups@{self.pins.key_groups}",
            f"metrics.nodes@{self.pins.nodes}",
            f"metrics.traffic@{self.pins.traffic}",
            f"{self.period.start.isoformat()}/{self.period.end.isoformat()}",
            f"after {self.previous['snapshot_id'] if self.previous else 'none'}",
            f"version {self.head.version if self.head else 0}",
            identity.digest(request.policy.to_json()),
        ]
        if self.pins.key_pairs is not None:
            pins.append(f"metrics.key_pairs@{self.pins.key_pairs}")
        if self.pins.sources is not None:
            pins.append(f"metrics.sources@{self.pins.sources}")
        if self.pins.connections is not None:
            pins.append(f"metrics.connections@{self.pins.connections}")
        if self.remembered:
            pins.append(f"remembering {' '.join(self.remembered)}")
        if self.applied_plan_id is not None:
            pins.append(f"under plan {self.applied_plan_id}")
        if self.applied_batch is not None:
            pins.append(f"windows from batch {self.applied_batch} on")
        return identity.snapshot_id(request.job, request.run_id, pins)


def period_of(policy: JobPolicy, newest: datetime) -> Period:
    """The policy's statistics period that ends with the newest window."""
    return Period(newest, timedelta(seconds=policy.window_s), policy.windows_per_period)
