"""Plans that split a hot key: from a snapshot's keys to a published version, and back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from ballast.contracts import identity
from ballast.contracts.errors import VerificationFailed
from ballast.contracts.plan_text import plan_reason
from ballast.store.plans import read_plan, read_splits
from ballast.store.tables import append
from spark_jobs.draft.content import PlanContent, content_hash_of, splits_of
from spark_jobs.draft.draft_plan import draft_plan
from spark_jobs.draft.draft_tables import find_snapshot, read_content, read_round
from spark_jobs.draft.report import report
from spark_jobs.draft.solve_arguments import SolveOptions
from spark_jobs.draft.verification import violations_of
from spark_jobs.publication.publisher import publish_plan
from spark_jobs.restore.request import RollbackRequest
from spark_jobs.restore.roll_back import roll_back
from tests.support.hot_keys import HOT, JOB, OPERATOR, hot_policy, write_hot_snapshot
from tests.support.snapshots import END

FAST = SolveOptions(solver_seconds=1)


def parts_of(settings, plan):
    return splits_of(read_splits(settings, JOB, plan.plan_id)).get(OPERATOR, {})


def split_and_published(settings):
    """The draft of version 1, which splits the hot key."""
    write_hot_snapshot(settings, hot_policy(), "run-1", 0.4)
    plan = draft_plan(settings, JOB, "run-1", FAST)
    return plan, publish_plan(settings, JOB, "run-1")


def later_snapshot(settings, head, share, splits, run_id="run-2", policy=None, rounds=1):
    at = END + timedelta(minutes=10 * rounds)
    return write_hot_snapshot(
        settings, policy or hot_policy(), run_id, share, splits, head=head, at=at,
        applied_plan_id=head.plan_id, placement=placement(settings, head),
    )  # fmt: skip


def placement(settings, head):
    rows = read_content(settings, read_plan(settings, JOB, head.plan_id)).assignments.to_pylist()
    return {(row["operator_id"], row["key_group"]): row["node_id"] for row in rows}


def test_a_hot_key_is_split_and_the_plan_says_what_that_saves(settings):
    plan, head = split_and_published(settings)
    assert plan.split_keys == 1
    assert len(parts_of(settings, plan)[HOT]) == 3, "as few as suffice: 40 % on nodes of 16.7 %"
    assert plan.load_distance_before_pct > 140
    assert plan.unsplit_bound_pct == pytest.approx(140.0, abs=0.01)
    assert plan.load_distance_pct <= plan.unsplit_bound_pct / 4
    assert head.content_hash == content_hash_of(read_content(settings, plan))
    text = " ".join(report(plan))
    assert "key 'the' of count alone has 40.0 % of the load" in text
    assert "without splits at least 140.00 %" in text
    assert "it is split over 3 key groups" in plan_reason(plan)


def test_a_split_key_stays_split_while_it_is_hot_and_is_joined_when_it_cooled_down(settings):
    first, head = split_and_published(settings)
    parts = parts_of(settings, first)
    later_snapshot(settings, head, 0.4, parts)
    second = draft_plan(settings, JOB, "run-2", FAST)
    assert parts_of(settings, second) == parts
    assert second.status == "unchanged"
    assert second.unsplit_bound_pct == pytest.approx(140.0, abs=0.01)
    later_snapshot(settings, head, 0.12, parts, "run-3", rounds=2)
    between = draft_plan(settings, JOB, "run-3", FAST)
    assert parts_of(settings, between) == parts, "below the split, above join_below"
    later_snapshot(settings, head, 0.02, parts, "run-4", rounds=3)
    joined = draft_plan(settings, JOB, "run-4", FAST)
    assert (joined.split_keys, joined.unsplit_bound_pct) == (0, None)
    assert "is joined: its load is 12 % of the mean" in joined.splits_reason
    assert joined.load_distance_pct <= joined.load_distance_before_pct
    assert publish_plan(settings, JOB, "run-4").version == 2


def test_a_key_that_got_hotter_gets_more_parts(settings):
    first, head = split_and_published(settings)
    parts = parts_of(settings, first)
    later_snapshot(settings, head, 0.7, parts)
    hotter = draft_plan(settings, JOB, "run-2", FAST)
    assert len(parts_of(settings, hotter)[HOT]) > 3
    assert hotter.unsplit_bound_pct == pytest.approx(320.0, abs=0.1)
    assert hotter.load_distance_pct < hotter.load_distance_before_pct


def test_without_a_merge_function_the_report_says_what_to_declare(settings):
    write_hot_snapshot(settings, hot_policy(splits={}), "run-1", 0.4)
    plan = draft_plan(settings, JOB, "run-1", FAST)
    assert plan.split_keys == 0
    assert "key 'the' of count alone has 40.0 % of the load" in plan.splits_reason
    assert "no placement has a load distance below 140.0 %" in plan.splits_reason
    assert "declare merge=StateMerge(function, sample) for the operator" in plan.splits_reason
    assert f"hot keys: {plan.splits_reason}" in report(plan)
    assert plan.load_distance_pct >= 140.0 - 1e-6, "the bound holds"


def test_a_policy_without_the_section_splits_nothing(settings):
    write_hot_snapshot(settings, hot_policy(splits=None), "run-1", 0.4)
    plan = draft_plan(settings, JOB, "run-1", FAST)
    assert (plan.split_keys, plan.splits_reason) == (0, None)


def test_a_rollback_joins_every_key(settings):
    write_hot_snapshot(settings, hot_policy(splits=None), "run-0", 0.4)
    draft_plan(settings, JOB, "run-0", FAST)
    before = publish_plan(settings, JOB, "run-0")
    later_snapshot(settings, before, 0.4, None, "run-1")
    split = draft_plan(settings, JOB, "run-1", FAST)
    assert split.split_keys == 1
    head = publish_plan(settings, JOB, "run-1")
    later_snapshot(settings, head, 0.4, parts_of(settings, split), "run-2", rounds=2)
    back = roll_back(settings, JOB, "back", RollbackRequest(1, "the split is not wanted"))
    plan = read_plan(settings, JOB, back.plan_id)
    assert read_splits(settings, JOB, back.plan_id) == []
    assert plan.split_keys == 0
    assert plan.load_distance_pct >= 140.0 - 1e-6, "the whole key is on one node again"
    assert back.version == 3


def test_splits_that_were_changed_after_the_draft_are_not_published(settings):
    snapshot = write_hot_snapshot(settings, hot_policy(), "run-1", 0.4)
    plan = draft_plan(settings, JOB, "run-1", FAST)
    given = read_round(settings, find_snapshot(settings, JOB, "run-1"))
    content = read_content(settings, plan)
    assert violations_of(given, plan, content) == []
    parts = content.splits

    def broken(rows, **figures):
        changed = content._replace(splits=rows)
        hashed = content_hash_of(changed)
        plan_id = identity.plan_id(JOB, snapshot.snapshot_id, hashed)
        draft = replace(plan, content_hash=hashed, plan_id=plan_id, **figures)
        return {violation.promise for violation in violations_of(given, draft, changed)}

    assert "load_distance" in broken([])
    assert broken(parts, split_keys=2) == {"split_keys"}
    assert "load_distance" in broken(parts[:2])
    assert broken([*parts, (OPERATOR, HOT, 99)]) == {"splits"}
    assert broken([*parts, parts[0]]) == {"splits"}
    assert broken([(OPERATOR, "word 1", group) for _, _, group in parts]) == {"splits"}, "no home"
    assert broken([(OPERATOR, HOT, group) for group in range(36)]) == {"splits"}, "max_parts"
    assert "unsplit_bound_pct" in broken(parts, unsplit_bound_pct=150.0)
    only = PlanContent(content.assignments)
    assert violations_of(given, plan, only)[0].promise == "content_hash"
    row = {"job": JOB, "plan_id": plan.plan_id, "operator_id": OPERATOR, "key": "word 1"}
    append(settings, "plans.splits", [{**row, "key_group": 1}])
    with pytest.raises(VerificationFailed, match="content_hash"):
        publish_plan(settings, JOB, "run-1")
