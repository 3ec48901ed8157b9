"""``solve`` writes one complete draft for each run, or none."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

import spark_jobs.draft.assemble
from ballast.contracts.errors import Infeasible, InvalidInput, NotFound, VerificationFailed
from ballast.store.plans import read_assignment, read_log, read_plans
from solvers.verify.violation import Violation
from spark_jobs.draft.content import content_hash_of
from spark_jobs.draft.draft_plan import draft_plan, make_draft
from spark_jobs.draft.draft_tables import read_content, target_in_force, write_draft
from spark_jobs.draft.report import report
from spark_jobs.draft.solve_arguments import SolveOptions
from spark_jobs.publication.publisher import publish_plan
from tests.support.policies import small_policy
from tests.support.snapshots import uneven, write_snapshot

JOB, RUN = "probe", "run-1"


@pytest.fixture
def policy():
    return small_policy(JOB)


def draft(settings, choice=SolveOptions(), run_id=RUN):  # noqa: B008
    return draft_plan(settings, JOB, run_id, choice)


def events(settings):
    return [(row.event, row.run_id, row.plan_id) for row in read_log(settings, JOB)]


def test_a_draft_levels_the_nodes_and_holds_every_key_group(settings, policy):
    write_snapshot(settings, policy, RUN, placement=uneven(policy))
    plan = draft(settings)
    assert plan.load_distance_before_pct == pytest.approx(100.0)
    assert plan.load_distance_pct == pytest.approx(0.0)
    assert (plan.moves, plan.bytes, plan.status) == (4, 4000, "optimal")
    rows = read_assignment(settings, JOB, plan.plan_id)
    assert len(rows) == 8
    moved = [row for row in rows if row.node_id != row.previous_node_id]
    assert [row.state_bytes for row in moved] == [1000] * 4
    assert content_hash_of(read_content(settings, plan)) == plan.content_hash
    assert events(settings) == [("drafted", RUN, plan.plan_id)]


def test_the_report_says_in_words_what_is_proven_and_how_it_was_found(settings, policy):
    write_snapshot(settings, policy, RUN, placement=uneven(policy))
    plan = draft(settings)
    text = " ".join(report(plan))
    assert "proven optimal" in text
    assert f"solved by {plan.method} in" in text
    assert "100.00 % after" in text
    gap = replace(plan, gap_pct=0.25, bound_pct=1.5)
    assert "at most 0.25 points from the best possible" in " ".join(report(gap))


def test_a_second_run_of_the_task_returns_the_draft(settings, policy):
    write_snapshot(settings, policy, RUN, placement=uneven(policy))
    first = draft(settings)
    assert draft(settings, SolveOptions(budget_moves=1)) == first
    assert len(read_plans(settings, JOB)) == 1
    assert len(read_log(settings, JOB)) == 1


def test_two_attempts_at_once_leave_one_draft_with_each_row_once(settings, policy):
    snapshot = write_snapshot(settings, policy, RUN, placement=uneven(policy))
    same = [make_draft(settings, snapshot, SolveOptions()) for _ in range(2)]
    other = make_draft(settings, snapshot, SolveOptions(budget_moves=2))
    for made in (*same, other):
        write_draft(settings, made)
    plans = read_plans(settings, JOB)
    assert [plan.plan_id for plan in plans] == [same[0].draft.plan_id]
    assert len(read_assignment(settings, JOB, plans[0].plan_id)) == 8


def test_budgets_of_the_command_line_replace_those_of_the_policy(settings):
    policy = small_policy(JOB, budgets={"moves": 0, "bytes": 10**6, "pause_s": 60})
    write_snapshot(settings, policy, RUN, placement=uneven(policy))
    plan = draft(settings, SolveOptions(budget_moves=2, budget_bytes="none", seed=7))
    limits = (plan.budget_moves, plan.budget_bytes, plan.budget_pause_s, plan.seed)
    assert limits == (2, None, 60.0, 7)
    assert plan.moves == 2


def test_a_level_job_gets_an_unchanged_draft_with_its_present_placement(settings, policy):
    write_snapshot(settings, policy, RUN)
    plan = draft(settings)
    assert (plan.status, plan.moves) == ("unchanged", 0)
    rows = read_assignment(settings, JOB, plan.plan_id)
    assert all(row.node_id == row.previous_node_id for row in rows)
    assert len(rows) == 8
    assert events(settings) == [("unchanged", RUN, plan.plan_id)]


def test_a_run_without_a_snapshot_is_an_error_that_names_condense(settings):
    with pytest.raises(NotFound, match="run `condense --job probe --run-id 'run-1'` first"):
        draft(settings)


def test_an_infeasible_problem_is_refused_in_the_log_and_drafts_nothing(settings, policy):
    write_snapshot(settings, policy, RUN, states={"node-0": "dead", "node-1": "draining"})
    for _ in range(2):
        with pytest.raises(Infeasible, match="no plan for job probe keeps every rule") as caught:
            draft(settings)
    assert caught.value.exit_code == 3
    assert read_plans(settings, JOB) == []
    assert [row.event for row in read_log(settings, JOB)] == ["refused"]


def test_a_plan_that_breaks_a_promise_is_not_written(settings, policy, monkeypatch):
    write_snapshot(settings, policy, RUN, placement=uneven(policy))
    broken = Violation("moves", "promised 4, is 5")
    monkeypatch.setattr(spark_jobs.draft.assemble, "violations_of", lambda *_: [broken])
    with pytest.raises(VerificationFailed, match="moves: promised 4, is 5"):
        draft(settings)
    assert read_plans(settings, JOB) == []
    log = read_log(settings, JOB)
    assert [(row.event, row.reason) for row in log] == [
        ("refused", "verification failed: moves: promised 4, is 5")
    ]


def test_dead_nodes_are_left_even_when_the_rest_is_level(settings):
    policy = small_policy(JOB, nodes=3, operators={"parse": 6})
    write_snapshot(settings, policy, RUN, states={"node-2": "dead"}, traffic=False)
    plan = draft(settings)
    assert (plan.forced_moves, plan.moves, plan.status) == (2, 0, "optimal")
    assert plan.collocation_factor_pct is None


# ------------------------------------------------------------------ load and traffic together


def apart(policy):
    """Each key group of ``count`` is on the other node than the key group of ``parse`` that sends
    to it."""
    return {
        (operator, number): f"node-{(number + shift) % 2}"
        for operator, shift in (("parse", 0), ("count", 1))
        for number in range(4)
    }


@pytest.fixture
def joint():
    return small_policy(JOB, objective={"kind": "joint"}, budgets={"moves": 2})


def test_a_joint_draft_brings_traffic_within_nodes(settings, joint):
    write_snapshot(settings, joint, RUN, placement=apart(joint))
    plan = draft(settings)
    assert (plan.objective, plan.method, plan.max_load_distance_pct) == (
        "joint", "joint", 10.0,
    )  # fmt: skip
    assert plan.collocation_factor_before_pct == 0.0
    assert plan.collocation_factor_pct == pytest.approx(50.0)
    assert (plan.moves, plan.load_distance_pct) == (2, pytest.approx(0.0))
    assert "traffic within nodes from 0.0 to 50.0 %" in " ".join(report(plan))


def test_the_next_round_moves_on_to_the_same_target(settings, joint):
    write_snapshot(settings, joint, RUN, placement=apart(joint))
    first = draft(settings)
    head = publish_plan(settings, JOB, RUN)
    placed = {
        (row.operator_id, row.key_group): row.node_id
        for row in read_assignment(settings, JOB, first.plan_id)
    }
    snapshot = write_snapshot(settings, joint, "run-2", placement=placed, head=head)
    memory = target_in_force(settings, snapshot)
    assert memory is not None
    assert memory.to_json() == first.target_json
    second = draft(settings, run_id="run-2")
    assert second.collocation_factor_pct == pytest.approx(100.0)
    assert publish_plan(settings, JOB, "run-2").version == 2


def test_a_target_grows_older_by_rounds_that_change_nothing(settings, joint):
    strict = joint.model_copy(
        update={"thresholds": joint.thresholds.model_copy(update={"min_collocation_gain_pct": 99})}
    )
    ages = []
    for number in range(3):
        snapshot = write_snapshot(
            settings, strict, f"run-{number}", placement=apart(strict), created_at=datetime.now(UTC)
        )
        memory = target_in_force(settings, snapshot)
        ages.append(memory and memory.age)
        assert draft(settings, run_id=f"run-{number}").status == "unchanged"
    assert ages == [None, 1, 2]


def test_drafts_from_after_the_snapshot_leave_its_target_alone(settings, joint):
    write_snapshot(settings, joint, RUN, placement=apart(joint))
    assert draft(settings).target_json
    early = write_snapshot(settings, joint, "run-2", placement=apart(joint))
    assert target_in_force(settings, early) is None


def test_a_joint_policy_without_traffic_levels_the_load(settings, joint):
    write_snapshot(settings, joint, RUN, placement=uneven(joint), traffic=False)
    plan = draft(settings)
    assert plan.load_distance_pct < plan.load_distance_before_pct
    assert plan.reason.startswith("no traffic was measured")


def test_a_method_that_knows_nothing_of_traffic_is_refused(settings, joint):
    write_snapshot(settings, joint, RUN, placement=apart(joint))
    with pytest.raises(InvalidInput, match="there is no method 'flux' for joint plans"):
        draft(settings, SolveOptions(method="flux"))


def weighed(**changes):
    aim = {"kind": "joint", "trade": "weighted", **changes}
    return small_policy(JOB, objective=aim, budgets={"moves": 1})


def test_a_weighed_draft_may_unlevel_the_load_and_is_published(settings):
    policy = weighed(traffic_weight=3.0)
    write_snapshot(settings, policy, RUN, placement=apart(policy))
    plan = draft(settings)
    assert (plan.trade, plan.traffic_weight, plan.load_weight) == ("weighted", 3.0, 1.0)
    assert plan.max_load_distance_pct is None
    assert (plan.moves, plan.load_distance_before_pct) == (1, pytest.approx(0.0))
    assert plan.load_distance_pct > 20.0  # one of four key groups too many
    assert (plan.traffic_saved_before_pct, plan.traffic_saved_pct) == (0.0, 25.0)
    assert "(weighed: 1 a percent of it, 3 a percent of traffic)" in " ".join(report(plan))
    assert publish_plan(settings, JOB, RUN).version == 1


def test_a_weighed_draft_that_gains_nothing_is_unchanged(settings):
    policy = weighed(load_weight=3.0)
    write_snapshot(settings, policy, RUN, placement=apart(policy))
    assert draft(settings).status == "unchanged"


def test_the_table_refuses_a_plan_that_loses_by_its_weights(settings):
    policy = weighed(traffic_weight=3.0)
    snapshot = write_snapshot(settings, policy, RUN, placement=apart(policy))
    made = make_draft(settings, snapshot, SolveOptions())
    loses = replace(made.draft, traffic_weight=0.5)
    with pytest.raises(Exception, match="1 rows failed validation check"):
        write_draft(settings, replace(made, draft=loses))
    assert read_plans(settings, JOB) == []
    better = replace(loses, drained_moves=1, load_distance_pct=0.0)
    write_draft(settings, replace(made, draft=better))
    assert len(read_plans(settings, JOB)) == 1


# ------------------------------------------------------------------ advice


def test_the_report_advises_on_components_and_the_content_does_not_know_it(settings, joint):
    snapshot = write_snapshot(settings, joint, RUN, placement=apart(joint))
    plan = make_draft(settings, snapshot, SolveOptions()).draft
    advised = "operators parse, count could be one component, partitioned by key: 100.0 % of the"
    assert plan.advice.startswith(advised)
    assert f"advice: {advised}" in " ".join(report(plan))
    strangers = small_policy(JOB, partition_keys={"parse": "a"}, objective={"kind": "joint"},
                             budgets={"moves": 2})  # fmt: skip
    other = write_snapshot(settings, strangers, "run-2", placement=apart(strangers))
    unadvised = make_draft(settings, other, SolveOptions()).draft
    assert unadvised.advice is None
    assert "advice" not in " ".join(report(unadvised))
    assert unadvised.content_hash == plan.content_hash


# ------------------------------------------------------------------ the first plan


def test_the_first_plan_has_a_budget_of_its_own_and_the_next_has_not(settings):
    budgets = {"moves": 1, "first_plan": {"moves": 3, "bytes": 3000}}
    policy = small_policy(JOB, objective={"kind": "joint"}, budgets=budgets)
    write_snapshot(settings, policy, RUN, placement=apart(policy))
    first = draft(settings)
    assert (first.budget_moves, first.budget_bytes) == (3, 3000)
    assert 1 < first.moves <= 3
    said = " ".join(report(first))
    assert "a first plan: a placement from scratch (COLA) is over the budget" in said
    head = publish_plan(settings, JOB, RUN)
    write_snapshot(settings, policy, "run-2", placement=apart(policy), head=head)
    second = draft(settings, run_id="run-2")
    assert (second.budget_moves, second.budget_bytes) == (1, None)
    assert second.moves <= 1
    assert "first plan" not in " ".join(report(second))


def test_a_first_plan_may_place_everything_anew(settings):
    policy = small_policy(
        JOB, objective={"kind": "joint"}, budgets={"moves": 0, "first_plan": {"moves": 8}}
    )
    write_snapshot(settings, policy, RUN, placement=apart(policy))
    plan = draft(settings)
    assert "(COLA) was a candidate" in plan.reason
    assert plan.collocation_factor_pct == pytest.approx(100.0)
    assert plan.load_distance_pct == pytest.approx(0.0)
    assert publish_plan(settings, JOB, RUN).version == 1


def test_without_a_budget_of_its_own_a_first_plan_is_like_any_other(settings, joint):
    write_snapshot(settings, joint, RUN, placement=apart(joint))
    plan = draft(settings)
    assert plan.budget_moves == 2
    assert "COLA" not in plan.reason
