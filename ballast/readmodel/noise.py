"""How much the loads of a job vary: the noise of its newest snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa

from ballast.contracts.figure_text import value_text
from ballast.contracts.problem_columns import RESOURCES
from ballast.contracts.records import Snapshot, SnapshotNoise
from ballast.contracts.tables import TOO_FEW
from ballast.readmodel.job_history import JobHistory

NOT_ESTIMATED = "an earlier version of Ballast wrote the newest snapshot and estimated no noise"


@dataclass(frozen=True)
class NodeVariation:
    """How much the mean load of a node varies from period to period, in percent of it."""

    typical_pct: float
    """Median over the nodes."""
    largest_pct: float
    largest_node_id: str


@dataclass(frozen=True)
class NoiseSummary:
    """The noise of one resource."""

    noise: SnapshotNoise
    nodes: NodeVariation | None
    """None while it is not known."""

    @property
    def text(self) -> str:
        """The noise in a sentence."""
        noise = self.noise
        if noise.status == TOO_FEW:
            return noise.reason
        common = value_text(noise.common_sd_pct, "%")
        parts = [
            f"{noise.status} over {noise.windows:,} windows",
            f"all key groups together vary by {common} from window to window",
        ]
        if self.nodes is not None:
            parts.append(
                f"a node's load varies by {value_text(self.nodes.typical_pct, '%')} from period "
                f"to period ({self.nodes.largest_node_id}, the most, by "
                f"{value_text(self.nodes.largest_pct, '%')})"
            )
        return "; ".join([*parts, noise.reason])


@dataclass(frozen=True)
class JobNoise:
    """The noise of a job's newest snapshot."""

    snapshot_at: datetime | None
    """The end of its period; None without a snapshot."""
    resources: list[NoiseSummary]
    reason: str
    """Why nothing is known; empty if something is."""

    @property
    def text(self) -> str:
        """The noise of every resource, or why nothing is known."""
        return (
            ". ".join(f"{row.noise.resource}: {row.text}" for row in self.resources) or self.reason
        )


def job_noise(history: JobHistory) -> JobNoise:
    """The noise of the newest snapshot of a job."""
    snapshots = history.cache.records(Snapshot, history.job)
    newest = max(snapshots, key=lambda row: (row.period_end_at, row.created_at), default=None)
    if newest is None:
        return JobNoise(None, [], "the job has no snapshot yet")
    where = ("snapshot_id", "=", newest.snapshot_id)
    rows = history.cache.read_records(SnapshotNoise, history.job, where)
    resources = [
        NoiseSummary(row, _node_variation(history, row))
        for row in sorted(rows, key=lambda row: row.resource)
    ]
    return JobNoise(newest.period_end_at, resources, "" if resources else NOT_ESTIMATED)


def _node_variation(history: JobHistory, noise: SnapshotNoise) -> NodeVariation | None:
    if noise.status == TOO_FEW or noise.windows == 0:
        return None
    columns = RESOURCES[noise.resource]
    load, sd = columns.load, columns.window_sd
    if sd is None:
        return None
    where = [("snapshot_id", "=", noise.snapshot_id)]
    rows = history.cache.read("snapshots.key_groups", history.job, where, ["node_id", load, sd])
    return None if rows is None or rows.num_rows == 0 else node_variation(rows, noise)


def node_variation(key_groups: pa.Table, noise: SnapshotNoise) -> NodeVariation | None:
    """How much the loads of nodes vary from period to period.

    A period is the mean of its windows: its variance is that of a window over their number, times
    ``period_variance_ratio`` because windows resemble the one before. The variance of a node is
    the sum of those of its key groups times ``node_variance_ratio``. A key group without a
    standard deviation gets the one that is usual for its load.

    Args:
        key_groups: the node, the load and its standard deviation between windows, in this order.
        noise: the noise of the same resource.

    Returns:
        None where no node has a load.
    """
    nodes = key_groups.column(0).combine_chunks().dictionary_encode()
    numbers = nodes.indices.to_numpy()
    load, sd = (key_groups.column(i).to_numpy() for i in (1, 2))
    known = np.isfinite(sd)
    total = load[known].sum()
    if total <= 0:
        return None
    sd = np.where(known, sd, load * (sd[known].sum() / total))
    loads = np.bincount(numbers, weights=load)
    variance = np.bincount(numbers, weights=sd**2)
    used = np.flatnonzero(loads > 0)
    ratio = noise.node_variance_ratio * noise.period_variance_ratio / noise.windows
    percent = 100.0 * np.sqrt(ratio * variance[used]) / loads[used]
    most = int(percent.argmax())
    return NodeVariation(
        typical_pct=float(np.median(percent)),
        largest_pct=float(percent[most]),
        largest_node_id=str(nodes.dictionary[int(used[most])].as_py()),
    )
