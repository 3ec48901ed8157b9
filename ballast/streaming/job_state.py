"""Reads the state of a job that is stopped or between two batches, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ballast.contracts.errors import NotFound
from ballast.contracts.settings import Settings, check_job_name
from ballast.streaming.batch_versions import DecisionLog
from ballast.streaming.key_group_state import StateStore
from ballast.streaming.operators import Operator, State
from ballast.streaming.routing import Placement
from ballast.streaming.state_merge import merged


def job_folder(settings: Settings, job: str) -> Path:
    """The job's folder: checkpoint, decisions, state, unwritten metrics and acknowledgements."""
    return settings.home / "jobs" / check_job_name(job)


def placement_in_force(settings: Settings, job: str) -> Placement:
    """The placement of the job's last batch.

    Raises:
        NotFound: the job has not run a batch.
    """
    folder = job_folder(settings, job) / "decisions"
    decision = DecisionLog(folder).latest() if folder.is_dir() else None
    placement = DecisionLog(folder).placement(decision.placement) if decision else None
    if placement is None:
        raise NotFound(
            f"job {job} has not run a batch in {folder.parent}", value=job,
            remedy="start the job first, or set BALLAST_HOME to its folder",
        )  # fmt: skip
    return placement


def read_key_states(settings: Settings, job: str, operator: Operator) -> dict[str, Any]:
    """``state[key]`` of every key of an operator that keeps its state by key.

    Parts of a key that the plan in force splits are merged.

    Raises:
        NotFound: the job has not run a batch, or has no such operator.
        InvalidInput: a key has state in two key groups, and the operator declares no merge.
    """
    found: dict[str, Any] = {}
    for state in read_states(settings, job, operator.id).values():
        for key, value in state.items():
            found[key] = merged(operator, found[key], value) if key in found else value
    return found


def read_states(settings: Settings, job: str, operator_id: str) -> dict[int, State]:
    """The state of every key group of an operator, by key group.

    Raises:
        NotFound: the job has not run a batch, or has no such operator.
    """
    placement = placement_in_force(settings, job)
    nodes = placement.nodes.get(operator_id)
    if nodes is None:
        raise NotFound(
            f"job {job} has no operator {operator_id!r}", value=operator_id,
            allowed=", ".join(placement.nodes),
        )  # fmt: skip
    store = StateStore(job_folder(settings, job) / "state")
    return {group: store.read(node, operator_id, group) for group, node in enumerate(nodes)}
