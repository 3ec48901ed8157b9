"""A level job with a skewed operator gets a plan, or a sentence in its draft."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from ballast.contracts import plan_text
from ballast.store.plans import read_assignment, read_log
from ballast.store.tables import append
from spark_jobs.draft.draft_plan import draft_plan
from spark_jobs.draft.draft_tables import read_content, read_round
from spark_jobs.draft.report import report
from spark_jobs.draft.solve_arguments import SolveOptions
from spark_jobs.draft.verification import violations_of
from spark_jobs.publication.publisher import publish_plan
from tests.support.policies import small_policy
from tests.support.skew import JOIN, NODES, hidden_placement
from tests.support.snapshots import write_snapshot

JOB, RUN = "probe", "run-1"
POLICY = small_policy(JOB, {"join": JOIN, "parse": 26, "count": 26}, nodes=NODES)
OPTIONS = SolveOptions(solver_seconds=2)


def drafted(settings, policy=POLICY, **rows):
    given = {"placement": hidden_placement(), "traffic": False}
    snapshot = write_snapshot(settings, policy, RUN, **(given | rows))
    return snapshot, draft_plan(settings, JOB, RUN, OPTIONS)


def test_the_operator_is_levelled_by_a_plan_that_is_published(settings):
    _, draft = drafted(settings)
    assert draft.status != "unchanged"
    assert draft.load_distance_before_pct == pytest.approx(0.0, abs=1e-6)
    assert draft.load_distance_pct <= POLICY.thresholds.good_enough_pct
    assert draft.levelled_operator_id == "join"
    assert draft.operator_skew_before_pct == pytest.approx(500.0)
    assert draft.operator_skew_pct < 150.0
    assert draft.levelling_limit_pct == POLICY.thresholds.good_enough_pct
    rows = read_assignment(settings, JOB, draft.plan_id)
    held = Counter(row.node_id for row in rows if row.operator_id == "join")
    assert max(held.values()) < JOIN / 2
    assert publish_plan(settings, JOB, RUN) is not None


def test_report_log_and_page_say_what_is_skewed(settings):
    _, draft = drafted(settings)
    said = "operator join has 100 % of its cpu load on node node-0"
    assert any(line.startswith(f"skew: {said}") for line in report(draft))
    assert said in read_log(settings, JOB)[0].reason
    assert said in plan_text.plan_reason(draft)


def test_without_a_budget_the_unchanged_draft_has_the_sentence(settings):
    policy = small_policy(
        JOB, {"join": JOIN, "parse": 26, "count": 26}, nodes=NODES, budgets={"moves": 0}
    )
    _, draft = drafted(settings, policy)
    assert (draft.status, draft.levelled_operator_id) == ("unchanged", None)
    assert "no plan was found within the budget" in (draft.skew_reason or "")
    assert "operator join has 100 %" in plan_text.plan_reason(draft)
    assert "operator join has 100 %" in read_log(settings, JOB)[0].reason


def test_a_threshold_above_the_skew_says_nothing(settings):
    policy = small_policy(
        JOB, {"join": JOIN, "parse": 26, "count": 26}, nodes=NODES,
        thresholds={"operator_skew_pct": 600.0},
    )  # fmt: skip
    _, draft = drafted(settings, policy)
    assert (draft.status, draft.skew_reason) == ("unchanged", None)


@pytest.mark.parametrize(
    "change",
    [
        {"operator_skew_pct": 12.0},
        {"operator_skew_before_pct": 900.0},
        {"levelled_operator_id": "parse"},
        {"levelled_operator_id": None},
        {"levelling_limit_pct": 50.0},
    ],
)
def test_a_draft_with_another_skew_or_limit_is_not_verified(settings, change):
    snapshot, draft = drafted(settings)
    job_round, content = read_round(settings, snapshot), read_content(settings, draft)
    assert violations_of(job_round, draft, content) == []
    assert violations_of(job_round, replace(draft, **change), content)


@pytest.mark.parametrize(
    "change",
    [{"operator_skew_pct": 500.0}, {"levelling_limit_pct": 0.5}, {"levelled_operator_id": None}],
)
def test_the_table_refuses_a_worse_plan_that_levels_no_operator_within_its_limit(settings, change):
    _, draft = drafted(settings)
    worse = {"run_id": "run-2", "load_distance_before_pct": 0.5, "load_distance_pct": 1.5,
             "bound_pct": 0.0, "gap_pct": 1.5, "forced_moves": 0}  # fmt: skip
    append(settings, "plans.plans", [draft.to_row() | worse])
    with pytest.raises(Exception, match="validation check"):
        append(settings, "plans.plans", [draft.to_row() | worse | change])


def test_plans_of_earlier_versions_have_no_skew(settings):
    _, draft = drafted(settings)
    columns = ["skew_reason", "levelled_operator_id", "operator_skew_before_pct",
               "operator_skew_pct", "levelling_limit_pct"]  # fmt: skip
    old = {name: value for name, value in draft.to_row().items() if name not in columns}
    read = type(draft).from_row(old)
    assert read.skew_reason is None
    assert "skew" not in " ".join(report(read))
