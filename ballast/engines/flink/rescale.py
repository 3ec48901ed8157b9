"""How a rescale went: from the stages that the cluster recorded to the pause of the job. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ballast.engines.flink.job_view import JobView, SubtaskView

COMPLETED, EXECUTING = "COMPLETED", "Executing"


@dataclass(frozen=True)
class RescaleStages:
    """A rescale that the cluster completed."""

    stopped_ms: int
    """When the job left its old subtasks."""
    sizes_after: Mapping[str, int]
    """Subtasks by vertex id."""


def newest_completed(rescales: Sequence[Mapping[str, Any]], since_ms: int) -> str | None:
    """The id of the newest rescale that was completed since a time; None if there is none.

    Args:
        rescales: the history of a job, newest first.
        since_ms: milliseconds since 1970.
    """
    for each in rescales:
        ended, uuid = each.get("endTimestampInMillis"), each.get("rescaleUuid")
        if each.get("terminalState") != COMPLETED or not isinstance(uuid, str):
            continue
        if isinstance(ended, int) and ended >= since_ms:
            return uuid
    return None


def stages_of(details: Mapping[str, Any]) -> RescaleStages | None:
    """The stages of a rescale; None if the cluster's answer does not have them."""
    states = details.get("schedulerStates")
    vertices = details.get("vertices")
    if not isinstance(states, list) or not isinstance(vertices, dict):
        return None
    left = [
        state.get("leaveTimestampInMillis")
        for state in states
        if isinstance(state, dict) and state.get("state") == EXECUTING
    ]
    after = {
        str(vertex): size
        for vertex, each in vertices.items()
        if isinstance(each, dict) and isinstance(size := each.get("postRescaleParallelism"), int)
    }
    if not left or not isinstance(left[0], int) or len(after) < len(vertices):
        return None
    return RescaleStages(left[0], after)


def pause_ms(stages: RescaleStages, view: JobView) -> float:
    """How long no record was processed: from the old subtasks' end to the last new one's start."""
    return float(max(0, view.running_since_ms - stages.stopped_ms))


@dataclass(frozen=True)
class CountedRecords:
    """Records that the sources of a job passed on until a moment."""

    at_ms: int
    records: int
    identities: tuple[tuple[int, int], ...]


def counted_records(view: JobView, sources: Sequence[str], at_ms: int) -> CountedRecords | None:
    """The records of the sources now; None if a counter is unknown."""
    subtasks: list[SubtaskView] = [s for name in sources for s in view.vertices[name].subtasks]
    counts = [each.records_out for each in subtasks]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return None
    return CountedRecords(at_ms, sum(known), tuple(each.identity for each in subtasks))


def records_per_s(before: CountedRecords | None, after: CountedRecords | None) -> float | None:
    """The rate between two counts; None if a source started again between them."""
    if before is None or after is None or before.identities != after.identities:
        return None
    elapsed = after.at_ms - before.at_ms
    return 1000 * max(0, after.records - before.records) / elapsed if elapsed > 0 else None
