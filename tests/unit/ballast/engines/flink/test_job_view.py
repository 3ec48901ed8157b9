"""A job as the cluster shows it, and answers that make no sense."""

from __future__ import annotations

from typing import Any

import pytest

from ballast.engines.flink.job_view import FlinkJob, JobMissing, TopologyChanged
from ballast.engines.flink.rest import FlinkUnavailable
from tests.support.flink_answers import ENGINE, NOW, Answers, cluster, job, subtask, vertex


def flink_job(**changes: Any) -> FlinkJob:
    return FlinkJob(Answers(cluster(**changes)), ENGINE)  # type: ignore[arg-type]


def test_a_view_has_the_subtasks_of_each_operator_in_order() -> None:
    view = flink_job().view()
    assert (view.job_id, view.sizes, view.is_running) == ("j1", {"visits": 1, "count": 2}, True)
    assert [each.records_in for each in view.vertices["count"].subtasks] == [3294, 3142]
    assert [each.busy_ms for each in view.vertices["count"].subtasks] == [7754.0, 7379.0]
    assert view.running_since_ms == NOW - 8000


def test_operators_of_one_slot_group_share_slots() -> None:
    view = flink_job().view()
    assert view.slots_for({"visits": 1, "count": 5}) == 5
    apart = job("Source: visits", "count -> end: Writer")
    apart["vertices"][0]["slotSharingGroupId"] = "other"
    assert flink_job(**{"/jobs/j1": apart}).view().slots_for({"visits": 1, "count": 5}) == 6


@pytest.mark.parametrize("busy", ["NaN", float("nan"), float("inf"), -1.0, None])
def test_a_busy_time_that_is_no_time_is_unknown(busy: Any) -> None:
    changed = {"/jobs/j1/vertices/id-0": vertex("Source: visits", subtask(0, 5, busy))}
    assert flink_job(**changed).view().vertices["visits"].subtasks[0].busy_ms is None


def test_a_counter_that_was_not_fetched_is_unknown_and_not_zero() -> None:
    new = subtask(0, 0, 0.0)
    new["metrics"]["read-records-complete"] = False
    changed = {"/jobs/j1/vertices/id-0": vertex("Source: visits", new)}
    assert flink_job(**changed).view().vertices["visits"].subtasks[0].records_in is None


@pytest.mark.parametrize(
    "jobs",
    [
        [],
        [{"jid": "j0", "name": "visits", "state": "FINISHED"}],
        [{"jid": "j0", "name": "other", "state": "RUNNING"}],
    ],
)
def test_a_job_that_is_not_there_is_missing(jobs: list[dict[str, str]]) -> None:
    with pytest.raises(JobMissing, match="no job named 'visits' runs"):
        flink_job(**{"/jobs/overview": {"jobs": jobs}}).view()


def test_two_jobs_of_one_name_are_named() -> None:
    jobs = [{"jid": name, "name": "visits", "state": "RUNNING"} for name in ("j1", "j2")]
    with pytest.raises(JobMissing, match="2 jobs are named 'visits': j1, j2; cancel all but one"):
        flink_job(**{"/jobs/overview": {"jobs": jobs}}).view()


@pytest.mark.parametrize(
    "names",
    [
        ("Source: visits",),
        ("Source: visits", "count"),
        ("Source: visits", "count -> end: Writer", "new"),
        ("Source: visits", "Source: visits", "count -> end: Writer"),
    ],
)
def test_other_vertices_than_the_policy_names_are_another_topology(names: tuple[str, ...]) -> None:
    with pytest.raises(TopologyChanged, match=r"correct engine\.vertices"):
        flink_job(**{"/jobs/j1": job(*names)}).view()


def test_a_job_that_ends_while_it_is_looked_at_is_missing() -> None:
    answers = cluster()
    del answers["/jobs/j1/vertices/id-1"]
    with pytest.raises(JobMissing, match="ended while it was looked at"):
        FlinkJob(Answers(answers), ENGINE).view()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/jobs/overview", {"jobs": "none"}),
        ("/jobs/overview", []),
        ("/jobs/overview", {"jobs": [{"name": "visits", "state": "RUNNING"}]}),
        ("/jobs/j1", {"vertices": [{"name": "Source: visits"}]}),
        ("/jobs/j1/vertices/id-0", {"subtasks": []}),
        ("/jobs/j1/vertices/id-0", {"now": True, "subtasks": []}),
        ("/jobs/j1/vertices/id-0", vertex("Source: visits", {"subtask": 0})),
    ],
)
def test_nonsense_is_unavailable_and_no_crash(path: str, answer: Any) -> None:
    with pytest.raises((FlinkUnavailable, JobMissing)):
        flink_job(**{path: answer}).view()


def test_pending_records_are_those_of_the_source() -> None:
    job_ = flink_job()
    view = job_.view()
    assert job_.pending_records(view, "visits") == 11
    silent = flink_job(**{"/jobs/j1/vertices/id-0/subtasks/metrics": [{"id": "numRecordsOut"}]})
    assert silent.pending_records(view, "visits") is None


@pytest.mark.parametrize("value", [None, "NaN", float("nan"), -1.0])
def test_pending_records_that_are_no_number_are_unknown(value: Any) -> None:
    path = "/jobs/j1/vertices/id-0/subtasks/metrics?get=Source__visits.pendingRecords&agg=sum"
    found = flink_job(**{path: [{"id": "Source__visits.pendingRecords", "sum": value}]})
    assert found.pending_records(found.view(), "visits") is None


def test_checkpoints_give_state_by_subtask_only_for_the_same_number_of_them() -> None:
    found = flink_job()
    view = found.view()
    newest = found.checkpoint("j1")
    assert newest is not None
    assert (newest.number, newest.state_bytes) == (5, 527482)
    assert found.state_sizes(view, "count", 5) == (10, 20)
    assert found.state_sizes(view, "visits", 5) is None
    path = "/jobs/j1/checkpoints/details/5/subtasks/id-1"
    other = flink_job(**{path: {"subtasks": [{"index": 0, "state_size": 10}]}})
    assert other.state_sizes(view, "count", 5) is None
    restored = found.restored("j1")
    assert restored is not None
    assert restored.number == 4


def test_a_job_without_checkpoints_has_none() -> None:
    answers = cluster()
    del answers["/jobs/j1/checkpoints"]
    found = FlinkJob(Answers(answers), ENGINE)  # type: ignore[arg-type]
    assert found.checkpoint("j1") is None
    assert found.restored("j1") is None


def test_requirements_are_read_and_asked_for_by_vertex_id() -> None:
    answers = Answers(cluster())
    found = FlinkJob(answers, ENGINE)  # type: ignore[arg-type]
    assert found.requirements("j1") == {"id-0": (1, 1), "id-1": (1, 2)}
    found.require("j1", {"id-0": (1, 1), "id-1": (1, 3)})
    assert answers.put_bodies == [
        ("/jobs/j1/resource-requirements",
         {"id-0": {"parallelism": {"lowerBound": 1, "upperBound": 1}},
          "id-1": {"parallelism": {"lowerBound": 1, "upperBound": 3}}}),
    ]  # fmt: skip
