"""Build the problem that a snapshot's rows state. Pure."""

from __future__ import annotations

import pyarrow as pa

from ballast.contracts.policy import JobPolicy
from ballast.store.snapshots import problem_columns
from solvers.model.problem import Problem


def build_problem(
    policy: JobPolicy, key_groups: pa.Table, nodes: pa.Table, traffic: pa.Table
) -> Problem:
    """The problem that a snapshot's rows state. The order of the rows does not matter."""
    return Problem(**vars(problem_columns(policy, key_groups, nodes, traffic)))
