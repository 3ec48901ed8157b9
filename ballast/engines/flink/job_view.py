"""A Flink job as its cluster shows it: typed records, read from answers that may be wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ballast.contracts.engine import FlinkEngine
from ballast.contracts.errors import BallastError
from ballast.engines.flink.rest import FlinkRefusal, FlinkUnavailable, RestClient

RUNNING = "RUNNING"
ENDED = ("FINISHED", "CANCELED", "FAILED")
PENDING = ".pendingRecords"
"""End of the name of the metric with the records that wait at a source."""


class JobMissing(BallastError):
    """The job, or a part of it, is not on the cluster now. It may come back."""


class TopologyChanged(JobMissing):
    """The job has other vertices than the policy names, as after a new deployment."""


@dataclass(frozen=True)
class SubtaskView:
    """Counters of one subtask since it started; None where Flink has not fetched them."""

    attempt: int
    started_ms: int
    status: str
    running_since_ms: int
    records_in: int | None
    records_out: int | None
    busy_ms: float | None

    @property
    def identity(self) -> tuple[int, int]:
        """Differs after every restart: the counters then begin at 0."""
        return self.attempt, self.started_ms


@dataclass(frozen=True)
class VertexView:
    """One vertex of the job with its subtasks, by their number."""

    vertex_id: str
    name: str
    slot_group: str
    """Vertices of one group share slots: subtasks of different vertices, and never of the same."""
    most: int
    """The most subtasks that its state allows."""
    subtasks: tuple[SubtaskView, ...]

    @property
    def is_running(self) -> bool:
        """Whether every subtask processes records."""
        return all(each.status == RUNNING for each in self.subtasks)


@dataclass(frozen=True)
class JobView:
    """The job at one moment."""

    job_id: str
    state: str
    scheduler: str
    vertices: Mapping[str, VertexView]
    """By the operators of the policy."""

    @property
    def sizes(self) -> dict[str, int]:
        """Subtasks of each operator."""
        return {name: len(vertex.subtasks) for name, vertex in self.vertices.items()}

    def slots_for(self, sizes: Mapping[str, int]) -> int:
        """Slots that the job needs with so many subtasks."""
        groups: dict[str, int] = {}
        for operator, vertex in self.vertices.items():
            groups[vertex.slot_group] = max(groups.get(vertex.slot_group, 0), sizes[operator])
        return sum(groups.values())

    @property
    def running_since_ms(self) -> int:
        """When the last of its subtasks began to process records."""
        return max(s.running_since_ms for v in self.vertices.values() for s in v.subtasks)

    @property
    def is_running(self) -> bool:
        """Whether every subtask processes records."""
        return self.state == RUNNING and all(v.is_running for v in self.vertices.values())


@dataclass(frozen=True)
class Checkpoint:
    """A completed checkpoint."""

    number: int
    triggered_ms: int
    completed_ms: int
    state_bytes: int


class FlinkJob:
    """Answers questions about the job of a policy.

    Args:
        client: the REST API.
        engine: the section of the policy: names of the job and of its vertices.
    """

    def __init__(self, client: RestClient, engine: FlinkEngine) -> None:
        self._client, self._engine = client, engine
        self._pending_names: dict[str, str] = {}

    def job_id(self) -> str:
        """The id of the job; a job that is submitted again gets a new one.

        Raises:
            JobMissing: no job, or more than one, has its name and has not ended.
        """
        name = self._engine.job_name
        jobs = _list(self._client.get("/jobs/overview"), "jobs")
        found = [
            _text(job, "jid")
            for job in jobs
            if job.get("name") == name and job.get("state") not in ENDED
        ]
        if len(found) == 1:
            return found[0]
        if found:
            raise JobMissing(
                f"{len(found)} jobs are named {name!r}: {', '.join(found)}; cancel all but one"
            )
        raise JobMissing(f"no job named {name!r} runs on the cluster; start it")

    def view(self) -> JobView:
        """The job now.

        Raises:
            JobMissing: there is no such job.
            TopologyChanged: it has other vertices than the policy names.
            FlinkUnavailable: the cluster does not answer, or not in a way that makes sense.
        """
        job_id = self.job_id()
        try:
            job = self._client.get(f"/jobs/{job_id}")
            by_name = self._named(_list(job, "vertices"))
            vertices = {
                operator: self._vertex(job_id, by_name[vertex.name])
                for operator, vertex in self._engine.vertices.items()
            }
        except FlinkRefusal as error:
            raise _gone(error) from error
        return JobView(job_id, _text(job, "state"), _text(job, "schedulerType"), vertices)

    def _named(self, found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Vertices by name; the same names as those of the policy.

        Raises:
            TopologyChanged: they differ, or a name is there twice.
        """
        names = [_text(vertex, "name") for vertex in found]
        known = [vertex.name for vertex in self._engine.vertices.values()]
        if sorted(names) != sorted(known):
            raise TopologyChanged(
                f"job {self._engine.job_name!r} has the vertices {', '.join(map(repr, names))}, "
                f"and the policy names {', '.join(map(repr, known))}: correct engine.vertices, "
                "restart the engine, and plan again once the job has been measured"
            )
        return dict(zip(names, found, strict=True))

    def pending_records(self, view: JobView, operator: str) -> int | None:
        """Records that wait at a source; None if it does not say."""
        vertex = view.vertices[operator]
        path = f"/jobs/{view.job_id}/vertices/{vertex.vertex_id}/subtasks/metrics"
        name = self._pending_name(operator, path)
        if name is None:
            return None
        found = self._client.get(f"{path}?get={quote(name)}&agg=sum")
        values = [each.get("sum") for each in found if isinstance(each, dict)]
        if len(values) != 1 or not isinstance(values[0], int | float) or not values[0] >= 0:
            return None
        return round(values[0])

    def _pending_name(self, operator: str, path: str) -> str | None:
        if operator not in self._pending_names:
            listed = self._client.get(path)
            names = [str(each.get("id")) for each in listed if isinstance(each, dict)]
            found = [name for name in names if name.endswith(PENDING)]
            if len(found) != 1:
                return None
            self._pending_names[operator] = found[0]
        return self._pending_names[operator]

    def checkpoint(self, job_id: str) -> Checkpoint | None:
        """The newest completed checkpoint of a job; None if there is none."""
        found = self._checkpoints(job_id).get("completed")
        return _checkpoint(found) if isinstance(found, dict) else None

    def restored(self, job_id: str) -> Checkpoint | None:
        """The checkpoint that the job last went on from; None if there is none, or it is gone."""
        found = self._checkpoints(job_id).get("restored")
        if not isinstance(found, dict):
            return None
        try:
            path = f"/jobs/{job_id}/checkpoints/details/{_int(found, 'id')}"
            return _checkpoint(_dict(self._client.get(path)))
        except FlinkRefusal:
            return None

    def state_sizes(self, view: JobView, operator: str, number: int) -> tuple[int, ...] | None:
        """State of each subtask in a checkpoint; None if it has another number of subtasks."""
        vertex = view.vertices[operator]
        path = f"/jobs/{view.job_id}/checkpoints/details/{number}/subtasks/{vertex.vertex_id}"
        try:
            subtasks = _list(self._client.get(path), "subtasks")
        except FlinkRefusal:
            # It was removed from the history meanwhile.
            return None
        if len(subtasks) != len(vertex.subtasks) or any("state_size" not in s for s in subtasks):
            return None
        sizes = {_int(each, "index"): _int(each, "state_size") for each in subtasks}
        return tuple(sizes[index] for index in sorted(sizes))

    def free_slots(self) -> int:
        """Slots of the cluster that no job uses."""
        return _int(self._client.get("/overview"), "slots-available")

    def requirements(self, job_id: str) -> dict[str, tuple[int, int]]:
        """Lower and upper bound of each vertex, by vertex id.

        Raises:
            JobMissing: the job is not under the adaptive scheduler, or is gone.
        """
        try:
            found = self._client.get(f"/jobs/{job_id}/resource-requirements")
        except FlinkRefusal as error:
            raise _gone(error) from error
        if not isinstance(found, dict):
            raise FlinkUnavailable("the cluster answers with no resource requirements")
        bounds = {}
        for vertex, each in found.items():
            parallelism = _dict(_dict(each).get("parallelism"))
            bounds[str(vertex)] = _int(parallelism, "lowerBound"), _int(parallelism, "upperBound")
        return bounds

    def require(self, job_id: str, bounds: Mapping[str, tuple[int, int]]) -> None:
        """Ask for a number of subtasks; the cluster accepts it, which does not mean that it has it.

        Raises:
            FlinkRefusal: the cluster does not accept it.
        """
        body = {
            vertex: {"parallelism": {"lowerBound": lower, "upperBound": upper}}
            for vertex, (lower, upper) in bounds.items()
        }
        self._client.put(f"/jobs/{job_id}/resource-requirements", body)

    def rescales(self, job_id: str) -> list[Mapping[str, Any]]:
        """The newest rescales of the job, newest first; empty if the cluster keeps no history."""
        try:
            found = self._client.get(f"/jobs/{job_id}/rescales/history")
        except FlinkRefusal:
            return []
        return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []

    def rescale(self, job_id: str, uuid: str) -> Mapping[str, Any]:
        """The stages of one rescale."""
        return _dict(self._client.get(f"/jobs/{job_id}/rescales/details/{quote(uuid)}"))

    def _checkpoints(self, job_id: str) -> dict[str, Any]:
        try:
            found = self._client.get(f"/jobs/{job_id}/checkpoints")
        except FlinkRefusal:
            # The job has no checkpoints at all.
            return {}
        return _dict(_dict(found).get("latest"))

    def _vertex(self, job_id: str, summary: Mapping[str, Any]) -> VertexView:
        vertex_id = _text(summary, "id")
        found = self._client.get(f"/jobs/{job_id}/vertices/{vertex_id}")
        now = _int(found, "now")
        ordered = sorted(_list(found, "subtasks"), key=lambda each: _int(each, "subtask"))
        return VertexView(
            vertex_id,
            _text(found, "name"),
            _text(summary, "slotSharingGroupId"),
            _int(found, "maxParallelism"),
            tuple(_subtask(each, now) for each in ordered),
        )


def _gone(error: FlinkRefusal) -> Exception:
    if error.status == 404:
        return JobMissing(f"the job ended while it was looked at: {error}")
    return error


def _subtask(found: Mapping[str, Any], now_ms: int) -> SubtaskView:
    metrics = _dict(found.get("metrics"))
    durations = _dict(found.get("status-duration"))
    running_ms = durations.get(RUNNING)
    if not isinstance(running_ms, int) or running_ms < 0:
        running_ms = 0
    return SubtaskView(
        attempt=_int(found, "attempt"),
        started_ms=_int(found, "start-time"),
        status=_text(found, "status"),
        running_since_ms=now_ms - running_ms,
        records_in=_counter(metrics, "read-records"),
        records_out=_counter(metrics, "write-records"),
        busy_ms=_busy(metrics),
    )


def _counter(metrics: Mapping[str, Any], name: str) -> int | None:
    """A counter, unless the cluster says that it has not heard of it yet."""
    value = metrics.get(name)
    if metrics.get(f"{name}-complete") is not True or not isinstance(value, int) or value < 0:
        return None
    return value


def _busy(metrics: Mapping[str, Any]) -> float | None:
    """The time that a subtask was busy; some sources do not measure it."""
    value = metrics.get("accumulated-busy-time")
    if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return float(value)


def _checkpoint(found: Mapping[str, Any]) -> Checkpoint:
    return Checkpoint(
        _int(found, "id"),
        _int(found, "trigger_timestamp"),
        _int(found, "latest_ack_timestamp"),
        max(0, _int(found, "state_size")),
    )


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any, name: str) -> list[dict[str, Any]]:
    found = _dict(value).get(name)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise FlinkUnavailable(f"the cluster's answer has no list {name!r}")
    return found


def _text(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str) or not found:
        raise FlinkUnavailable(f"the cluster's answer has no text {name!r}")
    return found


def _int(value: Any, name: str) -> int:
    found = _dict(value).get(name)
    if not isinstance(found, int) or isinstance(found, bool):
        raise FlinkUnavailable(f"the cluster's answer has no whole number {name!r}")
    return found
