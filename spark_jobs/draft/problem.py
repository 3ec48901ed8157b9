"""From a snapshot's rows to a problem. Pure: Arrow tables in, a problem out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ballast.contracts.policy import JobPolicy
from ballast.store.snapshots import problem_columns
from solvers.model.problem import Problem

Row = Any  # TRANSITION: typed records take its place


def build_problem(
    policy: JobPolicy, key_groups: pa.Table, nodes: pa.Table, traffic: pa.Table
) -> Problem:
    """The problem that a snapshot's rows state, in an order that does not depend on theirs."""
    return Problem(**vars(problem_columns(policy, key_groups, nodes, traffic)))
