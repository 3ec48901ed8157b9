"""A job that has stopped planning by itself: the changes that runs and people may still make."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ballast.contracts.errors import NotFound
from ballast.contracts.records import Draft, Head
from ballast.contracts.settings import Settings
from ballast.contracts.task_result import RESULT_FILE_VARIABLE, read_task_result
from ballast.store.plans import read_assignment, read_head, read_log, read_plans, read_scaling
from ballast.store.tables import append
from spark_jobs.draft.draft_plan import draft_unless_stopped
from spark_jobs.draft.solve_arguments import SolveOptions
from spark_jobs.outcome.planning_events import PlanningLog, ResumeRequest
from spark_jobs.publication.publisher import publish_plan, publish_reviewed
from spark_jobs.publication.review_answer import APPROVED, ReviewAnswer
from spark_jobs.publication.review_request import prepare_review
from spark_jobs.restore.request import RollbackRequest
from spark_jobs.restore.roll_back import roll_back
from tests.support.outcomes import JOB, first_outcomes, outcome, write_outcomes
from tests.support.policies import small_policy
from tests.support.rows import row_of
from tests.support.snapshots import uneven, write_draft, write_snapshot

POLICY = small_policy(JOB, nodes=3)
OPTIONS = SolveOptions(solver_seconds=0.2)


@pytest.fixture
def result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which programs leave the result of their task."""
    path = tmp_path / "task-result.json"
    monkeypatch.setenv(RESULT_FILE_VARIABLE, str(path))
    return path


def stop(settings: Settings) -> None:
    """Write three broken promises, which a run of ``measure`` detects."""
    write_outcomes(settings, first_outcomes("above", "above", "above"))
    assert PlanningLog(settings, JOB, "measured").update().is_stopped


def solve(settings: Settings, run_id: str, **rows: Any) -> Draft | None:
    write_snapshot(settings, rows.pop("policy", POLICY), run_id, **rows)
    return draft_unless_stopped(settings, JOB, run_id, OPTIONS)


def in_force(settings: Settings, run_id: str, extra: int = 0, head: Head | None = None) -> Head:
    write_draft(settings, POLICY, run_id, placement=uneven(POLICY, extra), head=head, seconds=0.2)
    published = publish_plan(settings, JOB, run_id)
    assert published is not None
    return published


def test_a_run_ends_without_a_draft_and_says_why(settings: Settings, result: Path) -> None:
    stop(settings)
    log = read_log(settings, JOB)
    assert solve(settings, "r", placement=uneven(POLICY)) is None
    assert draft_unless_stopped(settings, JOB, "r", OPTIONS) is None
    assert read_plans(settings, JOB) == []
    assert read_log(settings, JOB) == log
    found = read_task_result(result)
    assert found["outcome"] == "planning_stopped"
    assert found["text"].startswith("planning is stopped since 2026-11-16 15:00 UTC: the measured")
    assert f"ballast resume {JOB}" in found["text"]
    with pytest.raises(NotFound, match="has no draft"):
        publish_plan(settings, JOB, "r")


def test_a_broken_promise_fewer_stops_nothing(settings: Settings) -> None:
    write_outcomes(settings, first_outcomes("above", "above", "inside"))
    assert solve(settings, "r", placement=uneven(POLICY)) is not None


def test_planning_goes_on_after_a_person_says_so(settings: Settings) -> None:
    stop(settings)
    assert solve(settings, "r1", placement=uneven(POLICY)) is None
    PlanningLog(settings, JOB, "r2").resume(ResumeRequest("ada", "it is repaired"))
    draft = solve(settings, "r2", placement=uneven(POLICY))
    assert draft is not None
    assert draft.moves > 0
    assert publish_plan(settings, JOB, "r2") is not None


def test_planning_goes_on_when_the_promise_is_kept_again(settings: Settings) -> None:
    stop(settings)
    write_outcomes(settings, [outcome(3, "inside", 10)])
    # Even if the run that measured was killed before it logged so.
    assert solve(settings, "r", placement=uneven(POLICY)) is not None


def test_a_run_that_has_a_draft_keeps_it(settings: Settings) -> None:
    draft = solve(settings, "r", placement=uneven(POLICY))
    stop(settings)
    assert draft_unless_stopped(settings, JOB, "r", OPTIONS) == draft


def test_key_groups_of_a_dead_node_still_move_and_nothing_else_does(
    settings: Settings, result: Path
) -> None:
    stop(settings)
    placed = uneven(POLICY)
    states = {"node-2": "dead"}
    draft = solve(settings, "r", placement=placed | {("parse", 0): "node-2"}, states=states,
                  traffic=False)  # fmt: skip
    assert draft is not None
    assert (draft.moves, draft.forced_moves > 0) == (0, True)
    assert (draft.budget_moves, draft.budget_bytes) == (0, 0)
    moved = [
        row for row in read_assignment(settings, JOB, draft.plan_id)
        if row.node_id != row.previous_node_id
    ]  # fmt: skip
    assert {row.previous_node_id for row in moved} == {"node-2"}
    assert len(moved) == draft.forced_moves
    head = publish_plan(settings, JOB, "r")
    assert head is not None
    assert head.plan_id == draft.plan_id
    assert read_task_result(result)["outcome"] == "published"


def test_a_dead_node_without_key_groups_needs_no_plan(settings: Settings) -> None:
    stop(settings)
    placed = dict.fromkeys(uneven(POLICY), "node-0")
    assert solve(settings, "r", placement=placed, states={"node-2": "dead"}) is None


def test_a_scaled_job_keeps_its_nodes_while_planning_is_stopped(settings: Settings) -> None:
    nodes = [{"id": name, "capacity": {"cpu_cores": 1.0}} for name in "abc"]
    policy = small_policy(
        JOB, nodes=[*nodes, {"id": "d", "capacity": {"cpu_cores": 1.0}, "spare": True}],
        scaling={"min_nodes": 2, "cool_down_s": 60.0, "stabilisation_rounds": 1},
    )  # fmt: skip
    states = {"a": "alive", "b": "alive", "c": "dead"}
    loads = {(operator.id, group): 0.4 for operator in policy.operators for group in range(4)}
    rows = {"policy": policy, "states": states, "loads": loads, "steps": 10, "traffic": False}
    stop(settings)
    draft = solve(settings, "r", **rows)
    assert draft is not None
    assert draft.forced_moves > 0
    assert "planning is stopped" in (draft.scaling_reason or "")
    scaling = read_scaling(settings, JOB, draft.plan_id)
    assert {row.subject_id: row.action for row in scaling if row.subject == "node"}["d"] == "spare"


def test_a_draft_from_before_the_stop_is_published_by_a_person_alone(
    settings: Settings, result: Path
) -> None:
    draft = write_draft(settings, POLICY, "r", placement=uneven(POLICY), seconds=0.2)
    stop(settings)
    assert publish_plan(settings, JOB, "r") is None
    assert read_head(settings, JOB) is None
    assert read_task_result(result)["outcome"] == "planning_stopped"
    shown = prepare_review(
        settings, JOB, "r", draft.plan_id, draft.content_hash, "/ballast/"
    ).body.replace("\\", "")  # fmt: skip
    assert "planning of this job is stopped: the measured load distance of 3 plans" in shown
    now = datetime.now(UTC)
    yes = ReviewAnswer(APPROVED, "ada", now, "review", draft.plan_id, draft.content_hash)
    head = publish_reviewed(settings, JOB, "r", yes)
    assert head is not None
    assert head.plan_id == draft.plan_id


def test_a_version_that_was_published_before_the_stop_is_found(
    settings: Settings, result: Path
) -> None:
    head = in_force(settings, "r")
    stop(settings)
    found = publish_plan(settings, JOB, "r")
    assert found is not None
    assert (found.version, found.plan_id) == (1, head.plan_id)
    assert read_task_result(result)["outcome"] == "published"


def test_a_rollback_is_not_stopped(settings: Settings) -> None:
    first = in_force(settings, "run-1")
    second = in_force(settings, "run-2", extra=1, head=first)
    applied = row_of("plans.acks", job=JOB, version=second.version, plan_id=second.plan_id,
                     status="applied", acked_at=datetime.now(UTC))  # fmt: skip
    append(settings, "plans.acks", [applied])
    stop(settings)
    back = roll_back(settings, JOB, "back", RollbackRequest(1, "version 2 starves node-1"))
    assert (back.version, back.content_hash) == (3, first.content_hash)
    assert PlanningLog(settings, JOB, "later").state.is_stopped
