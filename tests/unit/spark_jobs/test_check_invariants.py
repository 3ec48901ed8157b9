"""``check_invariants`` on real tables: it repairs the log, once, and reports the rest."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ballast.contracts.records import Head
from ballast.store.plans import read_head, read_log
from ballast.store.tables import append, open_table
from spark_jobs import check_invariants
from spark_jobs.check_invariants import main
from spark_jobs.publication.heads import compare_and_set, head_of
from spark_jobs.publication.plan_events import log_published
from spark_jobs.publication.publisher import publish_plan
from spark_jobs.upkeep.job_state import jobs_with_plans
from spark_jobs.upkeep.log_repair import check_jobs
from tests.support.limits import limit_s
from tests.support.policies import small_policy
from tests.support.snapshots import uneven, write_draft

JOB = "probe"
POLICY = small_policy(JOB)


def drafted(settings, run_id, extra=2):
    return write_draft(
        settings, POLICY, run_id, placement=uneven(POLICY, extra), head=read_head(settings, JOB)
    )


def published(settings):
    log = [row for row in read_log(settings, JOB) if row.event == "published"]
    return [(row.version, row.plan_id, row.run_id) for row in log]


def put_in_force_unlogged(settings, run_id):
    """Put a plan in force without its log row, as a publisher does that dies after its commit."""
    return compare_and_set(settings, head_of(drafted(settings, run_id), datetime.now(UTC)))


def run(settings, *arguments):
    return main(["--warehouse", settings.warehouse, *arguments])


def test_a_whole_warehouse_passes_and_is_not_written_to(settings, capsys):
    assert run(settings) == 0
    drafted(settings, "run-1")
    publish_plan(settings, JOB, "run-1")
    versions = [open_table(settings, name).version() for name in ("plans.log", "plans.heads")]
    assert run(settings) == 0
    assert "all invariants hold in 1 jobs" in capsys.readouterr().out
    assert versions == [
        open_table(settings, name).version() for name in ("plans.log", "plans.heads")
    ]


def test_a_row_that_the_log_lacks_is_added_once_with_the_time_of_the_commit(settings):
    head = put_in_force_unlogged(settings, "run-1")
    assert [finding.repair.version for finding in check_jobs(settings, [JOB], repair=False)] == [1]
    assert published(settings) == []
    assert check_jobs(settings, [JOB]) == []
    assert published(settings) == [(1, head.plan_id, "run-1")]
    row = read_log(settings, JOB)[-1]
    assert abs((row.at - head.published_at).total_seconds()) < limit_s(3)
    assert "by check_invariants" in row.reason
    # The publisher was only slow: it writes the same event now.
    log_published(settings, head, "compare-and-set won")
    assert check_jobs(settings, [JOB]) == []
    assert published(settings) == [(1, head.plan_id, "run-1")]


def test_a_version_that_was_replaced_before_its_log_is_found_in_the_history(settings):
    first = put_in_force_unlogged(settings, "run-1")
    second = put_in_force_unlogged(settings, "run-2")
    assert check_jobs(settings, [JOB]) == []
    assert published(settings) == [
        (1, first.plan_id, "run-1"), (2, second.plan_id, "run-2")]  # fmt: skip


def test_a_publisher_between_its_commit_and_its_log_is_no_breach(settings, monkeypatch):
    """It publishes during the check, between the reads of the log and the heads."""
    drafted(settings, "run-1")
    from spark_jobs.upkeep import job_state as read

    real = read.open_table

    def publishing(settings, name):
        publish_plan(settings, JOB, "run-1")
        return real(settings, name)

    monkeypatch.setattr(read, "open_table", publishing)
    assert check_jobs(settings, [JOB]) == []
    assert [version for version, _, _ in published(settings)] == [1]


def test_a_head_without_its_content_ends_with_8_and_says_what_to_do(settings, capsys):
    drafted(settings, "run-1")
    head = publish_plan(settings, JOB, "run-1")
    lost = Head(JOB, 2, "gone", head.content_hash, "run-x", datetime.now(UTC))
    compare_and_set(settings, lost)
    assert run(settings, "--job", JOB) == 8
    error = capsys.readouterr().err
    assert "InvariantBroken" in error
    assert "names plan gone, which plans.plans does not have" in error
    assert "ballast rollback probe VERSION" in error


def test_content_that_was_changed_by_hand_is_found(settings):
    plan = drafted(settings, "run-1")
    publish_plan(settings, JOB, "run-1")
    append(settings, "plans.assignments", [{
        "job": JOB, "plan_id": plan.plan_id, "operator_id": "stray", "key_group": 0,
        "node_id": "n1", "previous_node_id": "n1", "state_bytes": 0}])  # fmt: skip
    assert "assignments and 0 routes hash to" in str(check_jobs(settings, [JOB])[0])


def test_a_version_that_nobody_published_shows_as_a_gap(settings):
    drafted(settings, "run-1")
    head = publish_plan(settings, JOB, "run-1")
    row = head.to_row() | {"version": 4}
    table = open_table(settings, "plans.heads")
    from ballast.store.tables import replace_if_unmoved

    assert replace_if_unmoved(table, "plans.heads", JOB, [row], mark="by hand")
    found = " ".join(map(str, check_jobs(settings, [JOB], repair=False)))
    assert "neither plans.log nor the history of plans.heads has version 2, 3" in found
    assert "the last commit of plans.heads brought version 1" in found


def test_a_job_whose_head_is_gone_is_still_looked_at(settings):
    drafted(settings, "run-1")
    publish_plan(settings, JOB, "run-1")
    open_table(settings, "plans.heads").delete(f"job = '{JOB}'")
    assert jobs_with_plans(settings) == [JOB]
    assert "the job has no head" in str(check_jobs(settings, [JOB])[0])


def test_no_spark_is_needed():
    import subprocess
    import sys

    program = f"import {check_invariants.__name__}, sys; print('pyspark' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("name", ["../x", "X"])
def test_a_job_that_is_no_name_is_refused(settings, name):
    with pytest.raises(SystemExit) as ended:
        run(settings, "--job", name)
    assert ended.value.code == 2
