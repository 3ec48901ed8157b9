"""``publish`` moves the head by one verified version, or leaves it and says why."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ballast.contracts.errors import NotFound, PublishConflict, VerificationFailed
from ballast.contracts.records import Head
from ballast.store.plans import read_head, read_log
from ballast.store.tables import append, open_table
from spark_jobs.publication.heads import compare_and_set, head_of, when_in_force
from spark_jobs.publication.publisher import publish_plan
from tests.support.policies import small_policy
from tests.support.snapshots import uneven, write_draft, write_snapshot

JOB = "probe"
POLICY = small_policy(JOB)


def drafted(settings, run_id, head=None, extra=2):
    return write_draft(settings, POLICY, run_id, placement=uneven(POLICY, extra), head=head)


def in_force(settings, draft, version=None):
    """A head without a log row, as of a publisher that died before writing it."""
    head = head_of(draft, datetime.now(UTC))
    append(settings, "plans.heads", [head.to_row() | {"version": version or head.version}])
    return read_head(settings, JOB)


def published(settings):
    log = [row for row in read_log(settings, JOB) if row.event == "published"]
    return [(row.version, row.plan_id, row.run_id) for row in log]


def test_versions_follow_each_other_and_each_is_logged_once(settings):
    first = drafted(settings, "run-1")
    head = publish_plan(settings, JOB, "run-1")
    assert (head.version, head.plan_id) == (1, first.plan_id)
    second = drafted(settings, "run-2", head=head, extra=1)
    publish_plan(settings, JOB, "run-2")
    found = read_head(settings, JOB)
    assert (found.version, found.plan_id, found.run_id) == (2, second.plan_id, "run-2")
    assert found.content_hash == second.content_hash
    expected = [(1, first.plan_id, "run-1"), (2, second.plan_id, "run-2")]
    assert published(settings) == expected
    commits = [entry.get("userMetadata") for entry in open_table(settings, "plans.heads").history()]
    assert commits[0] == (
        f'{{"job": "probe", "plan_id": "{second.plan_id}", "run_id": "run-2", "version": 2}}'
    )
    # A repeated run finds its plan in force, or replaced since.
    for run_id in ("run-1", "run-2"):
        publish_plan(settings, JOB, run_id)
    assert read_head(settings, JOB) == found
    assert published(settings) == expected


def test_a_draft_made_against_an_older_version_loses_and_names_the_winner(settings):
    winner = drafted(settings, "run-1")
    drafted(settings, "run-2", extra=1)
    in_force(settings, winner)
    for _ in range(2):
        with pytest.raises(PublishConflict, match=f"plan {winner.plan_id} of run run-1"):
            publish_plan(settings, JOB, "run-2")
    assert [row.event for row in read_log(settings, JOB)] == ["published", "conflict"]
    assert published(settings) == [(1, winner.plan_id, "run-1")]


def test_a_head_that_has_moved_is_left_and_leaves_no_trace_of_the_loser(settings):
    now = datetime.now(UTC)
    winner, loser = (Head(JOB, 1, plan, "hash", run, now) for plan, run in (("a", "1"), ("b", "2")))
    assert compare_and_set(settings, winner).plan_id == "a"
    assert compare_and_set(settings, loser).plan_id == "a"
    assert when_in_force(settings, winner) is not None
    assert when_in_force(settings, loser) is None


def test_publishing_one_job_leaves_the_heads_of_others(settings):
    now = datetime.now(UTC)
    for job in ("one", "two"):
        assert compare_and_set(settings, Head(job, 1, job, "hash", "1", now)).plan_id == job
    compare_and_set(settings, Head("one", 2, "new", "hash", "2", now))
    assert [read_head(settings, job).plan_id for job in ("one", "two")] == ["new", "two"]


def test_the_log_of_a_publisher_that_died_is_completed_by_the_next(settings):
    first = drafted(settings, "run-1")
    head = in_force(settings, first)
    assert published(settings) == []
    second = drafted(settings, "run-2", head=head, extra=1)
    publish_plan(settings, JOB, "run-2")
    expected = [(1, first.plan_id, "run-1"), (2, second.plan_id, "run-2")]
    assert published(settings) == expected
    publish_plan(settings, JOB, "run-1")
    assert published(settings) == expected


def test_no_change_publishes_nothing(settings):
    write_draft(settings, POLICY, "run-1")
    assert publish_plan(settings, JOB, "run-1") is None
    assert read_head(settings, JOB) is None


def test_a_dry_run_is_logged_once_and_leaves_the_head(settings):
    draft = drafted(settings, "run-1")
    for _ in range(2):
        assert publish_plan(settings, JOB, "run-1", dry_run=True) is None
    assert read_head(settings, JOB) is None
    log = [(row.event, row.plan_id) for row in read_log(settings, JOB)]
    assert log == [("dry_run", draft.plan_id)]


def test_content_that_was_changed_after_the_draft_is_never_published(settings):
    draft = drafted(settings, "run-1")
    extra = {"job": JOB, "plan_id": draft.plan_id, "operator_id": "parse", "key_group": 99,
             "node_id": "node-0", "previous_node_id": "node-0", "state_bytes": 0}  # fmt: skip
    append(settings, "plans.assignments", [extra])
    with pytest.raises(VerificationFailed, match="content_hash: promised"):
        publish_plan(settings, JOB, "run-1")
    assert read_head(settings, JOB) is None
    assert [row.event for row in read_log(settings, JOB)] == ["refused"]


def test_a_promise_that_does_not_hold_is_never_published(settings):
    write_snapshot(settings, POLICY, "run-1", placement=uneven(POLICY))
    other = drafted(settings, "run-2")
    # The same rows promised for a draft of run-1, with a better figure than they keep.
    from ballast.contracts.identity import plan_id, snapshot_id

    snapshot = snapshot_id(JOB, "run-1", ["test"])
    false = plan_id(JOB, snapshot, other.content_hash)
    rows = open_table(settings, "plans.assignments").to_pyarrow_table().to_pylist()
    append(settings, "plans.assignments", [{**row, "plan_id": false} for row in rows])
    promised = {"plan_id": false, "run_id": "run-1", "snapshot_id": snapshot, "moves": 3}
    append(settings, "plans.plans", [{**other.to_row(), **promised}])
    with pytest.raises(VerificationFailed, match="moves: promised 3, is 4"):
        publish_plan(settings, JOB, "run-1")
    assert read_head(settings, JOB) is None


def test_a_run_without_a_draft_is_told_to_solve_first(settings):
    write_snapshot(settings, POLICY, "run-1")
    with pytest.raises(NotFound, match="run `solve --job probe --run-id 'run-1'` first"):
        publish_plan(settings, JOB, "run-1")
