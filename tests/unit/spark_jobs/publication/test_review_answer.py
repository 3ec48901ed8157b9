"""A draft that a person must see waits; exactly the approved content is published, or nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ballast.contracts.errors import InvalidInput, NotFound, PlanStale, VerificationFailed
from ballast.contracts.settings import Settings
from ballast.contracts.task_result import RESULT_FILE_VARIABLE, read_task_result
from ballast.store.plans import read_head, read_log, waiting_plans
from ballast.store.tables import append, open_table
from spark_jobs.draft.draft_tables import read_content
from spark_jobs.program.arguments import one_line
from spark_jobs.publication.heads import head_of
from spark_jobs.publication.publisher import publish_plan, publish_reviewed
from spark_jobs.publication.review_answer import (
    APPROVED,
    REJECTED,
    TIMED_OUT,
    ReviewAnswer,
)
from spark_jobs.publication.review_request import prepare_review
from spark_jobs.publish import main
from tests.support.policies import small_policy, write_policy
from tests.support.snapshots import END, snapshot_rows, uneven, write_draft

JOB = "probe"
PERSON = small_policy(JOB, nodes=3, review={"mode": "person"})
AT = datetime(2026, 11, 16, 12, 30, tzinfo=UTC)
Row = dict[str, Any]


def drafted(settings: Settings, run_id: str = "run-1", policy=PERSON, **rows: Any) -> Row:
    return write_draft(settings, policy, run_id, placement=uneven(policy, rows.pop("extra", 2)),
                       seconds=0.1, **rows)  # fmt: skip


def answer(draft: Row, word: str = APPROVED, **fields: Any) -> ReviewAnswer:
    run_id = f"review__{draft.plan_id}"
    given = ReviewAnswer(word, "Ada", AT, run_id, draft.plan_id, draft.content_hash)
    return replace(given, **fields)


def newer_snapshot(settings: Settings, policy=PERSON, **changes: Any) -> None:
    """A snapshot taken ten minutes after all others."""
    rows = snapshot_rows(policy, "later", placement=uneven(policy), **changes)
    rows["snapshots.snapshots"][0]["created_at"] = END + timedelta(minutes=10)
    rows["snapshots.snapshots"][0]["period_end_at"] = END + timedelta(minutes=10)
    for table, of_table in rows.items():
        append(settings, table, of_table)


def events(settings: Settings) -> list[str]:
    return [row.event for row in read_log(settings, JOB)]


@pytest.fixture
def result_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(RESULT_FILE_VARIABLE, str(tmp_path / "task-result.json"))
    return tmp_path / "task-result.json"


def test_what_a_person_must_see_waits_with_the_reason_and_leaves_the_head(settings, result_file):
    draft = drafted(settings)
    for _ in range(2):
        assert publish_plan(settings, JOB, "run-1") is None
    assert read_head(settings, JOB) is None
    assert [row.plan_id for row in waiting_plans(read_log(settings, JOB))] == [draft.plan_id]
    assert events(settings) == ["waiting"]
    handed = read_task_result(result_file)
    assert (handed["outcome"], handed["plan_id"]) == ("waiting", draft.plan_id)
    assert (handed["run_id"], handed["content_hash"]) == ("run-1", draft.content_hash)


def test_within_limits_the_clock_that_is_given_decides(settings):
    limits = {"moves": 100, "hours": ["22:00-06:00"]}
    policy = small_policy(JOB, review={"mode": "automatic_within_limits", "limits": limits})
    drafted(settings, policy=policy)
    noon, night = (AT.replace(hour=hour, minute=0) for hour in (12, 3))
    assert publish_plan(settings, JOB, "run-1", now=noon) is None
    assert read_head(settings, JOB) is None
    assert [row.event for row in waiting_plans(read_log(settings, JOB))] == ["waiting"]
    head = publish_plan(settings, JOB, "run-1", now=night)
    assert (head.version, read_head(settings, JOB).version) == (1, 1)
    assert waiting_plans(read_log(settings, JOB)) == []


def test_an_approved_plan_is_published_with_the_name_of_who_approved(settings, result_file):
    draft = drafted(settings)
    publish_plan(settings, JOB, "run-1")
    for _ in range(2):
        head = publish_reviewed(settings, JOB, "run-1", answer(draft))
    assert (head.version, head.content_hash) == (1, draft.content_hash)
    assert read_head(settings, JOB).plan_id == draft.plan_id
    assert sorted(events(settings)) == ["approved", "published", "waiting"]
    said = {row.event: row for row in read_log(settings, JOB)}["approved"]
    assert (said.actor, said.at) == ("Ada", AT)
    assert read_task_result(result_file)["outcome"] == "published"


@pytest.mark.parametrize("word", [REJECTED, TIMED_OUT])
def test_reject_and_time_out_leave_the_old_plan_in_force_and_are_logged(
    settings, word, result_file
):
    first = drafted(settings, policy=small_policy(JOB, nodes=3))
    old = publish_plan(settings, JOB, "run-1")
    draft = drafted(settings, "run-2", head=old, extra=1)
    publish_plan(settings, JOB, "run-2")
    assert publish_reviewed(settings, JOB, "run-2", answer(draft, word)) is None
    assert read_head(settings, JOB).plan_id == first.plan_id
    assert word in events(settings)
    assert waiting_plans(read_log(settings, JOB)) == []
    assert read_task_result(result_file)["outcome"] == word


@pytest.mark.parametrize("word", [REJECTED, TIMED_OUT])
def test_a_publish_that_comes_again_does_not_overrule_a_no(settings, word, result_file):
    limits = {"moves": 100, "hours": ["22:00-06:00"]}
    policy = small_policy(JOB, review={"mode": "automatic_within_limits", "limits": limits})
    draft = drafted(settings, policy=policy)
    at_night = AT.replace(hour=3)
    publish_plan(settings, JOB, "run-1", now=AT)
    publish_reviewed(settings, JOB, "run-1", answer(draft, word))
    assert publish_plan(settings, JOB, "run-1", now=at_night) is None
    assert read_head(settings, JOB) is None
    handed = read_task_result(result_file)
    assert handed["outcome"] == word
    assert f"its review ended with {word}" in handed["text"]
    yes = answer(draft, review_run_id="asked again")
    assert publish_reviewed(settings, JOB, "run-1", yes).version == 1
    assert publish_plan(settings, JOB, "run-1", now=at_night).version == 1


def test_a_draft_that_changes_nothing_is_neither_shown_nor_published(settings):
    draft = write_draft(settings, PERSON, "run-1", placement={("parse", 3): "node-1"}, seconds=0.1,
                        loads={("parse", 3): 0.0, ("count", 3): 0.0})  # fmt: skip
    assert draft.status == "unchanged"
    with pytest.raises(InvalidInput, match=r"changes nothing: .*to fix it: choose one of"):
        prepare_review(settings, JOB, "run-1", draft.plan_id, draft.content_hash, "/")
    with pytest.raises(InvalidInput, match="changes nothing"):
        publish_reviewed(settings, JOB, "run-1", answer(draft))
    assert read_head(settings, JOB) is None
    assert sorted(events(settings)) == ["approved", "refused"]


def add_a_row(settings: Settings) -> None:
    rows = open_table(settings, "plans.assignments").to_pyarrow_table().to_pylist()
    append(settings, "plans.assignments", [{**rows[0], "node_id": "node-2", "key_group": 99}])


def change_a_row(settings: Settings) -> None:
    """Change a row after removing the protection of the table."""
    table = open_table(settings, "plans.assignments")
    table.alter.set_table_properties({"delta.appendOnly": "false"})
    row = table.to_pyarrow_table().to_pylist()[0]
    other = "node-1" if row["node_id"] == "node-2" else "node-2"
    this = f"operator_id = '{row['operator_id']}' AND key_group = {row['key_group']}"
    changed = table.update(new_values={"node_id": other}, predicate=this)
    assert changed["num_updated_rows"] == 1


@pytest.mark.parametrize("change", [add_a_row, change_a_row])
def test_draft_rows_changed_by_hand_after_approval_are_refused(settings, change):
    draft = drafted(settings)
    publish_plan(settings, JOB, "run-1")
    given = answer(draft)
    change(settings)
    with pytest.raises(VerificationFailed, match="was approved"):
        publish_reviewed(settings, JOB, "run-1", given)
    assert read_head(settings, JOB) is None
    assert "refused" in events(settings)


def test_another_content_than_the_approved_one_is_refused(settings):
    draft = drafted(settings)
    with pytest.raises(VerificationFailed, match="was approved"):
        publish_reviewed(settings, JOB, "run-1", answer(draft, content_hash="0" * 64))
    assert read_head(settings, JOB) is None


def test_a_newer_head_makes_the_plan_stale(settings):
    draft = drafted(settings)
    publish_plan(settings, JOB, "run-1")
    other = head_of(draft, AT)
    append(settings, "plans.heads", [replace(other, plan_id="f" * 16, run_id="other").to_row()])
    with pytest.raises(PlanStale, match="made against version 0, and version 1"):
        publish_reviewed(settings, JOB, "run-1", answer(draft))
    assert read_head(settings, JOB).run_id == "other"
    assert "refused" in events(settings)


def test_a_node_that_died_makes_the_plan_stale(settings):
    draft = drafted(settings)
    newer_snapshot(settings, states={"node-1": "dead"})
    with pytest.raises(PlanStale, match="node-1 was dead at 2026-11-16 12:10"):
        publish_reviewed(settings, JOB, "run-1", answer(draft))


def test_a_node_that_drains_by_todays_policy_makes_the_plan_stale(settings, tmp_path):
    draft = drafted(settings)
    nodes = ["node-0", "node-1", {"id": "node-2", "draining": True}]
    write_policy(tmp_path, small_policy(JOB, nodes=nodes))
    with pytest.raises(PlanStale, match="node-2 is draining by the policy"):
        publish_reviewed(replace(settings, policies=tmp_path), JOB, "run-1", answer(draft))


def test_a_node_that_began_to_drain_since_makes_the_plan_stale(settings):
    draft = drafted(settings)
    newer_snapshot(settings, states={"node-1": "draining"})
    with pytest.raises(PlanStale, match="node-1 was draining at 2026-11-16 12:10"):
        publish_reviewed(settings, JOB, "run-1", answer(draft))


def draft_of_a_drain(settings: Settings) -> Row:
    """A draft that leaves key groups on a draining node, because the budget is too small."""
    nodes = ["node-0", "node-1", {"id": "node-2", "draining": True}]
    policy = small_policy(JOB, nodes=nodes, review={"mode": "person"}, budgets={"moves": 1})
    draft = write_draft(settings, policy, "run-1", seconds=0.1)
    assert "node-2" in read_content(settings, draft)[0]["node_id"].to_pylist()
    return draft


def test_a_plan_that_leaves_a_draining_node_partly_full_is_not_stale_for_that(settings):
    draft = draft_of_a_drain(settings)
    publish_plan(settings, JOB, "run-1")
    prepare_review(settings, JOB, "run-1", draft.plan_id, draft.content_hash, "/ballast/")
    assert publish_reviewed(settings, JOB, "run-1", answer(draft)).version == 1


def test_a_draining_node_that_left_the_policy_makes_the_plan_stale(settings, tmp_path):
    draft = draft_of_a_drain(settings)
    write_policy(tmp_path, small_policy(JOB, nodes=2))
    with pytest.raises(PlanStale, match="node node-2"):
        publish_reviewed(replace(settings, policies=tmp_path), JOB, "run-1", answer(draft))


@pytest.mark.parametrize(("factor", "is_stale"), [(1.2, False), (1.3, True)])
def test_load_that_moved_by_more_than_the_limit_makes_the_plan_stale(settings, factor, is_stale):
    draft = drafted(settings)
    loads = {(op.id, g): 0.1 * factor for op in PERSON.operators for g in range(op.key_groups)}
    newer_snapshot(settings, loads=loads)
    if is_stale:
        with pytest.raises(PlanStale, match=r"moved by 30.0 %.*load_moved_pct is 25"):
            publish_reviewed(settings, JOB, "run-1", answer(draft))
    else:
        assert publish_reviewed(settings, JOB, "run-1", answer(draft)).version == 1


def test_a_newer_draft_supersedes_an_older_one_that_waits_and_never_the_other_way(settings):
    old = drafted(settings)
    publish_plan(settings, JOB, "run-1")
    new = drafted(settings, "run-2", extra=1)
    publish_plan(settings, JOB, "run-2")
    assert [row.plan_id for row in waiting_plans(read_log(settings, JOB))] == [new.plan_id]
    with pytest.raises(PlanStale, match=f"plan {new.plan_id} of run run-2 is newer"):
        publish_reviewed(settings, JOB, "run-1", answer(old))
    with pytest.raises(PlanStale):
        publish_plan(settings, JOB, "run-1")
    assert publish_reviewed(settings, JOB, "run-2", answer(new)).plan_id == new.plan_id


def test_the_review_says_what_and_why_before_and_after_and_what_moves(settings):
    draft = drafted(settings)
    publish_plan(settings, JOB, "run-1")
    text = prepare_review(settings, JOB, "run-1", draft.plan_id, draft.content_hash, "/ballast/")
    assert draft.plan_id in text.subject
    body = text.body
    for said in (
        "review.mode is person", "| node-0 | alive |", "load distance", "Bound", "budget",
        f"/ballast/?dag=reoptimize__{JOB}&run=run-1", draft.content_hash,
        f"Moves ({draft.moves})",
    ):  # fmt: skip
        assert said in body.replace("\\", ""), said
    assert events(settings) == ["waiting"]


def test_a_review_of_something_else_than_the_draft_is_refused(settings):
    draft = drafted(settings)
    with pytest.raises(NotFound, match="not plan"):
        prepare_review(settings, JOB, "run-1", "0" * 16, draft.content_hash, "/ballast/")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--plan-id", "0123456789abcdef\n"),
        ("--content-hash", "x" * 64),
        ("--answered-by", "Ada\nLovelace"),
        ("--answer", "perhaps"),
        ("--reason", "x" * 2001),
    ],
)
def test_arguments_are_matched_whole(option, value, result_file, capsys):
    with pytest.raises(SystemExit):
        main(["--job", JOB, "--run-id", "run-1", option, value])
    refusal = read_task_result(result_file)["refusal"]
    assert (refusal["error"], refusal["is_retryable"]) == ("InvalidInput", False)
    assert option in refusal["message"]


def test_the_program_without_an_answer_publishes_or_leaves_waiting(settings):
    automatic = small_policy("other", nodes=3)
    write_draft(settings, automatic, "run-1", placement=uneven(automatic), seconds=0.1)
    drafted(settings)
    for job in ("other", JOB):
        assert main(["--job", job, "--run-id", "run-1", "--warehouse", settings.warehouse]) == 0
    assert read_head(settings, "other").version == 1
    assert read_head(settings, JOB) is None
    assert events(settings) == ["waiting"]


def test_an_answer_that_names_no_content_publishes_nothing(settings):
    drafted(settings)
    argv = ["--job", JOB, "--run-id", "run-1", "--warehouse", settings.warehouse]
    assert main([*argv, "--answer", "approved"]) == VerificationFailed.exit_code
    assert read_head(settings, JOB) is None


def test_the_program_carries_an_answer_out(settings, monkeypatch):
    draft = drafted(settings)
    argv = [
        "--job", JOB, "--run-id", "run-1", "--warehouse", settings.warehouse,
        "--answer", "approved", "--answered-by", "Ada", "--answered-at", AT.isoformat(),
        "--review-run-id", "review__x", "--plan-id", draft.plan_id,
        "--content-hash", draft.content_hash, "--reason", "looks\ngood",
    ]  # fmt: skip
    assert main(argv) == 0
    assert read_head(settings, JOB).plan_id == draft.plan_id
    said = next(r.reason for r in read_log(settings, JOB) if r.event == "approved")
    assert said.endswith(": looks good")
    assert json.loads(json.dumps(said)) == said


def test_what_cannot_be_printed_in_a_reason_becomes_a_space():
    joined, to_left = "\u200d", "\u202e"
    assert one_line(f"fine \U0001f469{joined}\U0001f680 {to_left}go\x1b[0m\n") == (
        "fine \U0001f469 \U0001f680 go [0m"
    )
    assert one_line(joined) == ""
