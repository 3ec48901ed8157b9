"""Windows of a level job with one operator on one node are condensed, solved and published."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from ballast.contracts.settings import Settings
from ballast.store.plans import read_assignment, read_log
from spark_jobs.draft.draft_plan import draft_plan
from spark_jobs.draft.solve_arguments import SolveOptions
from spark_jobs.publication.publisher import publish_plan
from tests.spark.spark_jobs.snapshot.conftest import Condense
from tests.support.metrics import START, Row, write_windows
from tests.support.policies import small_policy
from tests.support.skew import JOIN, NODES, hidden_placement

JOB = "hidden"
SIZES = {"parse": 26, "count": 26, "join": JOIN}
OPTIONS = SolveOptions(solver_seconds=2.0)


def test_windows_of_a_level_job_with_one_operator_on_one_node_become_a_plan(
    settings: Settings, take: Condense
) -> None:
    policy = small_policy(JOB, SIZES, nodes=NODES)
    end = write_windows(settings, policy, START, 6, nodes=hidden_placement(), traffic=False)
    take(settings, policy, "run-1", end)
    draft = draft_plan(settings, JOB, "run-1", OPTIONS)
    assert draft.load_distance_before_pct == pytest.approx(0.0, abs=1e-6)
    assert draft.levelled_operator_id == "join"
    head = publish_plan(settings, JOB, "run-1")
    assert head is not None
    rows = read_assignment(settings, JOB, head.plan_id)
    held = Counter(row.node_id for row in rows if row.operator_id == "join")
    assert max(held.values()) < JOIN / 2


def test_an_operator_that_began_in_the_period_is_not_taken_for_level_or_skewed(
    settings: Settings, take: Condense
) -> None:
    policy = small_policy(JOB, SIZES, nodes=NODES)
    began = START + timedelta(seconds=4 * policy.window_s)

    def late_join(table: str, row: Row) -> Row:
        is_early = table == "metrics.key_groups" and row["window_start_at"] < began
        if not is_early or row["operator_id"] != "join":
            return row
        return row | {"records": 0, "cpu_ms": 0.0, "busy_ms": 0.0}

    end = write_windows(
        settings, policy, START, 6, nodes=hidden_placement(), traffic=False, change=late_join
    )
    take(settings, policy, "run-1", end)
    draft = draft_plan(settings, JOB, "run-1", OPTIONS)
    assert draft.levelled_operator_id is None
    assert "nothing is said of operator join" in (draft.skew_reason or "")
    assert "more than 2 windows" in (draft.skew_reason or "")


def test_without_moves_the_log_says_which_operator_is_on_one_node(
    settings: Settings, take: Condense
) -> None:
    policy = small_policy(JOB, SIZES, nodes=NODES, budgets={"moves": 0})
    end = write_windows(settings, policy, START, 6, nodes=hidden_placement(), traffic=False)
    take(settings, policy, "run-1", end)
    draft = draft_plan(settings, JOB, "run-1", OPTIONS)
    assert draft.status == "unchanged"
    (event,) = read_log(settings, JOB)
    assert "operator join has 100 % of its cpu load on node node-0" in event.reason
