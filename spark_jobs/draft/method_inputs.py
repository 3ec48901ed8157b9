"""What some methods need beside the problem: the load series of a snapshot, clusters, keys."""

from __future__ import annotations

from ballast.contracts.problem_columns import load_series
from ballast.contracts.settings import Settings
from ballast.store.snapshots import read_load_series
from solvers.model.method import MethodInputs
from spark_jobs.draft.round import Round


def read_method_inputs(settings: Settings, job_round: Round) -> MethodInputs:
    """The inputs of a round. The series is None if snapshots of the job have none."""
    policy = job_round.policy
    rows = read_load_series(settings, job_round.snapshot, policy)
    return MethodInputs(
        None if rows is None else load_series(job_round.problem, rows),
        {node.id: node.cluster for node in policy.nodes},
        {each.id: each.partition_key for each in policy.operators},
    )
