"""What the subtasks of a job did between two looks, from the differences of their counters. Pure.

Flink's counters begin at 0 when a subtask starts, so a difference counts only if the subtask did
not start again meanwhile. Rates that Flink computes are not used: they restart with the subtask
and lag behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ballast.engines.flink.job_view import JobView, SubtaskView


@dataclass(frozen=True)
class JobSample:
    """The job at the end of a window."""

    view: JobView
    version: int
    """The version that it runs under."""
    planned: Mapping[str, int]
    """Subtasks of each operator under that version."""
    pending: Mapping[str, int | None]
    """Records that wait at each source; None if unknown."""
    state_bytes: Mapping[str, tuple[int, ...] | None]
    """State of each subtask of an operator in the newest checkpoint; None if unknown."""

    @property
    def is_as_planned(self) -> bool:
        """Whether every operator runs with the subtasks that the version gives it."""
        return self.view.is_running and self.view.sizes == dict(self.planned)


@dataclass(frozen=True)
class SubtaskWork:
    """What one subtask did in a window."""

    records_in: int
    records_out: int
    busy_ms: float


def work_between(
    before: JobSample, after: JobSample, operator: str
) -> tuple[SubtaskWork, ...] | None:
    """What each subtask of an operator did between two samples.

    Args:
        before: the job at the start of the window.
        after: the job at its end.
        operator: the operator.

    Returns:
        The work by the number of the subtask; None if one of them started again meanwhile, if the
        operator did not run as planned, or if a counter is unknown.
    """
    if before.version != after.version or before.view.job_id != after.view.job_id:
        return None
    then, now = (sample.view.vertices[operator].subtasks for sample in (before, after))
    planned = after.planned.get(operator)
    if len(then) != planned or len(now) != planned:
        return None
    found = [_work(old, new) for old, new in zip(then, now, strict=True)]
    whole = [each for each in found if each is not None]
    return tuple(whole) if len(whole) == len(found) else None


def _work(before: SubtaskView, after: SubtaskView) -> SubtaskWork | None:
    if before.identity != after.identity:
        return None
    records_in = _difference(before.records_in, after.records_in)
    records_out = _difference(before.records_out, after.records_out)
    if records_in is None or records_out is None:
        return None
    if before.busy_ms is None or after.busy_ms is None:
        return None
    # Flink computes it as what is left beside idle and back-pressured time, so that it may go back
    # by a little.
    busy_ms = max(0.0, after.busy_ms - before.busy_ms)
    return SubtaskWork(records_in, records_out, busy_ms)


def _difference(before: int | None, after: int | None) -> int | None:
    if before is None or after is None or after < before:
        return None
    return after - before
