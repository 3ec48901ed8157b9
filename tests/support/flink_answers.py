"""Answers of a Flink 2.3 cluster, shortened."""

from __future__ import annotations

from typing import Any

from ballast.contracts.engine import FlinkEngine, FlinkVertex
from ballast.engines.flink.rest import FlinkRefusal

ENGINE = FlinkEngine(
    kind="flink",
    job_name="visits",
    vertices={
        "visits": FlinkVertex(name="Source: visits"),
        "count": FlinkVertex(name="count -> end: Writer", parallelism=2),
    },
)
NOW = 1_795_123_378_709
STARTED = 1_795_123_370_046


def subtask(number: int, records: int, busy: float | str, **fields: Any) -> dict[str, Any]:
    """A subtask as ``/jobs/ID/vertices/ID`` has it."""
    metrics = {
        "read-records": records, "read-records-complete": True,
        "write-records": records, "write-records-complete": True,
        "accumulated-busy-time": busy,
    }  # fmt: skip
    return {
        "subtask": number, "status": "RUNNING", "attempt": 0, "start-time": STARTED,
        "status-duration": {"RUNNING": 8000}, "metrics": metrics, **fields,
    }  # fmt: skip


def vertex(name: str, *subtasks: dict[str, Any]) -> dict[str, Any]:
    return {"id": name, "name": name, "maxParallelism": 128, "now": NOW, "subtasks": [*subtasks]}


def job(*names: str, state: str = "RUNNING") -> dict[str, Any]:
    vertices = [
        {"id": f"id-{number}", "name": name, "slotSharingGroupId": "g"}
        for number, name in enumerate(names)
    ]
    return {"jid": "j1", "state": state, "schedulerType": "Adaptive", "vertices": vertices}


def cluster(**changes: Any) -> dict[str, Any]:
    """Answers by path."""
    return {
        "/jobs/overview": {
            "jobs": [
                {"jid": "j0", "name": "visits", "state": "CANCELED"},
                {"jid": "j1", "name": "visits", "state": "RUNNING"},
            ]
        },
        "/jobs/j1": job("Source: visits", "count -> end: Writer"),
        "/jobs/j1/vertices/id-0": vertex("Source: visits", subtask(0, 6594, 438.0)),
        "/jobs/j1/vertices/id-1": vertex(
            "count -> end: Writer", subtask(1, 3142, 7379.0), subtask(0, 3294, 7754.0)
        ),
        "/jobs/j1/vertices/id-0/subtasks/metrics": [
            {"id": "numRecordsOut"}, {"id": "Source__visits.pendingRecords"},
        ],
        "/jobs/j1/vertices/id-0/subtasks/metrics?get=Source__visits.pendingRecords&agg=sum": [
            {"id": "Source__visits.pendingRecords", "sum": 11.0}
        ],
        "/jobs/j1/checkpoints": {
            "latest": {
                "completed": {"id": 5, "trigger_timestamp": 1, "latest_ack_timestamp": 2,
                              "state_size": 527482},
                "restored": {"id": 4},
            }
        },
        "/jobs/j1/checkpoints/details/4": {
            "id": 4, "trigger_timestamp": 0, "latest_ack_timestamp": 1, "state_size": 5,
        },
        "/jobs/j1/checkpoints/details/5/subtasks/id-1": {
            "subtasks": [{"index": 1, "state_size": 20}, {"index": 0, "state_size": 10}]
        },
        "/jobs/j1/resource-requirements": {
            "id-0": {"parallelism": {"lowerBound": 1, "upperBound": 1}},
            "id-1": {"parallelism": {"lowerBound": 1, "upperBound": 2}},
        },
        "/overview": {"slots-available": 4, "slots-total": 6},
        "/jobs/j1/rescales/history": [],
        **changes,
    }  # fmt: skip


class Answers:
    """Answers paths as the cluster would; a path that is not there is refused with 404."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.put_bodies: list[Any] = []

    def get(self, path: str) -> Any:
        if path not in self.answers:
            raise FlinkRefusal(f"{path} is refused with 404", 404)
        return self.answers[path]

    def put(self, path: str, body: Any) -> Any:
        self.put_bodies.append((path, body))
        return {}
