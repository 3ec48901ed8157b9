"""A plan in force that the streaming job has applied, and what its promise refers to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow as pa

from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import (
    Ack,
    ConnectionWindow,
    Draft,
    Promise,
    ScalingRow,
    WorkerWeight,
)
from spark_jobs.snapshot.window_selection import (
    TakeUp,
    WindowSummary,
    select_windows,
    windows_needed,
)

# Statistics periods that are read to find complete windows, however long the history is.
PERIODS_READ = 2
# Share of a statistics period that has to be there before a plan is measured.
MEASURED_SHARE = 0.5


@dataclass(frozen=True)
class MeasuredSpan:
    """The windows that are read: those of one job between two times, of all versions."""

    policy: JobPolicy
    begin: datetime
    end: datetime


@dataclass(frozen=True)
class AppliedPlan:
    """A plan in force that the streaming job has applied."""

    plan: Draft
    ack: Ack
    policy: JobPolicy
    key_groups: pa.Table
    """Key groups of the plan's snapshot: their loads before the plan."""
    nodes: pa.Table
    """Nodes under the plan: the promise holds for these capacities and states."""
    scaling: Sequence[ScalingRow] = ()
    """The load that the plan promises for each node."""
    weights: Sequence[WorkerWeight] = ()
    """Weights of workers of ordered regions under the plan."""
    connections: Sequence[ConnectionWindow] = ()
    """Connections of the plan's snapshot: their figures before the plan."""
    promises: Mapping[str, Promise] = field(default_factory=dict)
    """What the plan promises by figure; empty for a plan of an earlier version."""

    @property
    def staying(self) -> list[str]:
        """Nodes that the promised load distance is computed over."""
        pairs = zip(self.nodes["node_id"].to_pylist(), self.nodes["state"].to_pylist(), strict=True)
        return [node for node, state in pairs if state == "alive"]

    @property
    def take_up(self) -> TakeUp:
        """The version, and the batch that took it up."""
        return TakeUp(self.ack.version, self.ack.batch_id)

    def span(self, as_of: datetime) -> MeasuredSpan:
        """The last periods, beginning one window before the one in which the plan was applied.

        That window shows where the version begins if batch numbers cannot.
        """
        reach = timedelta(seconds=self.policy.statistics_period_s * PERIODS_READ)
        window = timedelta(seconds=self.policy.window_s)
        begin = max(as_of - reach, self.ack.acked_at - 2 * window)
        return MeasuredSpan(self.policy, begin, as_of)


def not_applied_reason(version: int, last: Ack | None) -> str:
    """Why a version cannot be measured; ``last`` is the job's last acknowledgement of it.

    A job that lost its folder acknowledges again, so the last acknowledgement counts.
    """
    if last is None:
        return f"the streaming job has not answered to version {version} yet"
    if last.status == "refused":
        return f"the streaming job refused version {version}: {last.reason}"
    return f"the streaming job accepted version {version} and has not applied it yet"


def usable_windows(
    policy: JobPolicy, windows: Sequence[WindowSummary], take_up: TakeUp
) -> tuple[WindowSummary, ...]:
    """The latest windows that count, oldest first, at most one statistics period."""
    expected = sum(operator.key_groups for operator in policy.operators)
    return select_windows(windows, expected, take_up).usable[-policy.windows_per_period :]


def windows_to_measure(policy: JobPolicy) -> int:
    """The fewest windows that a measurement may use: half a statistics period."""
    return windows_needed(policy, MEASURED_SHARE)


def measurable_at(
    policy: JobPolicy, usable: Sequence[WindowSummary], applied_at: datetime, now: datetime
) -> datetime:
    """When enough windows will be there if every window from now on is complete."""
    missing = windows_to_measure(policy) - len(usable)
    last = usable[-1].end_at if usable else applied_at
    return max(last, now) + timedelta(seconds=policy.window_s * missing)
