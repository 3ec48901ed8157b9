"""Build the problem that a snapshot's rows state. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import SnapshotNoise
from ballast.store.snapshots import noise_columns, problem_columns
from solvers.model.problem import Problem
from solvers.noise.snapshot_noise import noise_of_snapshot


def build_problem(
    policy: JobPolicy,
    key_groups: pa.Table,
    nodes: pa.Table,
    traffic: pa.Table,
    noise: Sequence[SnapshotNoise] = (),
) -> Problem:
    """The problem that a snapshot's rows state. The order of the rows does not matter.

    Without rows of ``noise`` nothing is known of the loads but their means.
    """
    columns = problem_columns(policy, key_groups, nodes, traffic)
    stored = noise_columns(policy, key_groups, traffic, noise)
    return Problem(**vars(columns), noise=noise_of_snapshot(columns.resources, stored))
