"""A freeze of the policy: plans are drafted and not published, but for dead nodes and rollbacks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ballast.contracts.errors import PlanFrozen
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Draft
from ballast.contracts.settings import Settings
from ballast.contracts.task_result import RESULT_FILE_VARIABLE, read_task_result
from ballast.store.plans import read_head, read_log
from ballast.store.tables import append
from spark_jobs.draft.draft_plan import draft_unless_stopped
from spark_jobs.draft.solve_arguments import SolveOptions
from spark_jobs.publication.publisher import publish_plan, publish_reviewed
from spark_jobs.publication.review_answer import APPROVED, ReviewAnswer
from spark_jobs.publication.review_request import prepare_review
from spark_jobs.restore.request import RollbackRequest
from spark_jobs.restore.roll_back import roll_back
from tests.support.policies import small_policy, write_policy
from tests.support.rows import row_of
from tests.support.snapshots import uneven, write_draft, write_snapshot

JOB = "probe"
OPTIONS = SolveOptions(solver_seconds=0.2)
NOW = datetime.now(UTC)


def policy(begin: timedelta = timedelta(days=-1), **fields: Any) -> JobPolicy:
    """A policy with a freeze that begins so far from now and lasts ten days."""
    freeze = {
        "name": "holidays",
        "begin": (NOW + begin).strftime("%Y-%m-%d %H:%M"),
        "end": (NOW + begin + timedelta(days=10)).strftime("%Y-%m-%d %H:%M"),
        "reason": "year end",
    }
    return small_policy(JOB, nodes=3, **{"freezes": [freeze], **fields})


FROZEN, OPEN = policy(), small_policy(JOB, nodes=3)
END = FROZEN.freezes[0].ends_at


@pytest.fixture
def result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which programs leave the result of their task."""
    path = tmp_path / "handoff.json"
    monkeypatch.setenv(RESULT_FILE_VARIABLE, str(path))
    return path


def drafted(settings: Settings, of: JobPolicy, run_id: str = "r", **rows: Any) -> Draft:
    rows = {"placement": uneven(of)} | rows
    return write_draft(settings, of, run_id, seconds=0.2, **rows)


def test_a_draft_is_made_and_not_published_until_the_freeze_ends(
    settings: Settings, result: Path
) -> None:
    draft = drafted(settings, FROZEN)
    assert draft.moves > 0
    assert publish_plan(settings, JOB, "r") is None
    assert publish_plan(settings, JOB, "r", now=END - timedelta(seconds=1)) is None
    assert read_head(settings, JOB) is None
    found = read_task_result(result)
    assert found["outcome"] == "frozen"
    assert f"freeze holidays (year end) until {END:%Y-%m-%d %H:%M} UTC" in found["text"]
    events = [entry for entry in read_log(settings, JOB) if entry.event == "frozen"]
    assert [entry.plan_id for entry in events] == [draft.plan_id]
    head = publish_plan(settings, JOB, "r", now=END)
    assert head is not None
    assert head.plan_id == draft.plan_id


def test_a_freeze_that_has_not_begun_keeps_nothing_back(settings: Settings) -> None:
    drafted(settings, policy(timedelta(days=1)))
    assert publish_plan(settings, JOB, "r") is not None


def test_a_version_that_was_published_before_the_freeze_is_found(settings: Settings) -> None:
    drafted(settings, policy(timedelta(days=1)))
    first = publish_plan(settings, JOB, "r")
    found = publish_plan(settings, JOB, "r", now=NOW + timedelta(days=2))
    assert found is not None
    assert first is not None
    assert (found.version, found.plan_id) == (1, first.plan_id)


def test_the_policy_of_today_decides_and_not_that_of_the_snapshot(settings: Settings) -> None:
    drafted(settings, OPEN)
    today = replace(settings, policies=settings.home / "policies")
    write_policy(today.policies, FROZEN)
    assert publish_plan(today, JOB, "r") is None
    write_policy(today.policies, OPEN)
    assert publish_plan(today, JOB, "r") is not None


def test_an_approved_plan_waits_for_the_end_of_the_freeze(settings: Settings) -> None:
    draft = drafted(settings, FROZEN)
    shown = prepare_review(settings, JOB, "r", draft.plan_id, draft.content_hash, "/ballast/").body
    assert "freeze holidays" in shown
    yes = ReviewAnswer(APPROVED, "ada", NOW, "review", draft.plan_id, draft.content_hash)
    with pytest.raises(PlanFrozen, match=r"approved and not published: freeze holidays .* until"):
        publish_reviewed(settings, JOB, "r", yes)
    assert read_head(settings, JOB) is None
    later = replace(yes, at=END + timedelta(minutes=1))
    assert publish_reviewed(settings, JOB, "r", later) is not None


def test_key_groups_of_a_dead_node_move_in_a_freeze_and_nothing_else_does(
    settings: Settings,
) -> None:
    placed = uneven(FROZEN) | {("parse", 0): "node-2"}
    write_snapshot(settings, FROZEN, "r", placement=placed, states={"node-2": "dead"})
    draft = draft_unless_stopped(settings, JOB, "r", OPTIONS)
    assert draft is not None
    assert (draft.moves, draft.forced_moves > 0) == (0, True)
    assert publish_plan(settings, JOB, "r") is not None


def test_an_evacuation_makes_the_moves_that_rules_need_and_no_others(settings: Settings) -> None:
    rules = {"place": [{"name": "here", "key_groups": ["parse/1"], "nodes": ["node-1"]}]}
    of = policy(rules=rules)
    placed = uneven(of) | {("parse", 0): "node-2", ("parse", 1): "node-0"}
    write_snapshot(settings, of, "r", placement=placed, states={"node-2": "dead"})
    draft = draft_unless_stopped(settings, JOB, "r", OPTIONS)
    assert draft is not None
    assert (draft.moves, draft.budget_moves, draft.restored_rules) == (1, 1, "here")
    assert publish_plan(settings, JOB, "r") is not None


def test_a_draft_from_before_the_freeze_that_moves_more_than_it_must_is_not_published(
    settings: Settings,
) -> None:
    placed = uneven(OPEN) | {("parse", 0): "node-2"}
    of = policy(timedelta(days=1))
    draft = drafted(settings, of, placement=placed, states={"node-2": "dead"})
    assert draft.moves > 0
    assert draft.forced_moves > 0
    assert publish_plan(settings, JOB, "r", now=NOW + timedelta(days=2)) is None


def test_a_rollback_is_not_frozen(settings: Settings) -> None:
    drafted(settings, OPEN)
    first = publish_plan(settings, JOB, "r")
    drafted(settings, OPEN, "run-2", head=first, placement=uneven(OPEN, 1))
    second = publish_plan(settings, JOB, "run-2")
    assert first is not None
    assert second is not None
    applied = row_of("plans.acks", job=JOB, version=second.version, plan_id=second.plan_id,
                     status="applied", acked_at=datetime.now(UTC))  # fmt: skip
    append(settings, "plans.acks", [applied])
    today = replace(settings, policies=settings.home / "policies")
    write_policy(today.policies, FROZEN)
    back = roll_back(today, JOB, "back", RollbackRequest(1, "version 2 starves node-1"))
    assert back.version == 3
