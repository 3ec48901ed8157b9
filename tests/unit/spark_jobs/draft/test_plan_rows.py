"""Snapshot rows become a problem in any order, and a draft's rows keep its promises."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from ballast.contracts.errors import InvalidInput
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Outcome, Snapshot
from ballast.contracts.table_schemas import arrow_schema
from ballast.contracts.tables import TABLES
from solvers.model import metrics
from solvers.model.amortisation import MOST_EXAMPLES, MOST_NAMES
from solvers.model.budget import Budget
from solvers.model.stop import Stop
from solvers.planner.allocation import allocate
from solvers.planner.plan import Plan
from spark_jobs.draft.assemble import DraftRequest, assemble_draft
from spark_jobs.draft.content import PlanContent, content_hash_of
from spark_jobs.draft.report import report
from spark_jobs.draft.round import RoundInputs, build_problem, round_of
from spark_jobs.draft.verification import violations_of
from tests.support.policies import small_policy
from tests.support.snapshots import snapshot_rows, uneven

PARTS = ("snapshots.key_groups", "snapshots.nodes", "snapshots.traffic")


def tables(rows, *, backwards=False):
    return [
        pa.Table.from_pylist(
            rows[name][::-1] if backwards else rows[name], schema=arrow_schema(TABLES[name])
        )
        for name in PARTS
    ]


def problem_of(policy, **fields):
    return build_problem(policy, *tables(snapshot_rows(policy, "run-1", **fields)))


def drafted_from(policy, budget, outcomes=(), **fields):
    rows = snapshot_rows(policy, "run-1", **fields)
    key_groups, nodes, traffic = tables(rows)
    given = round_of(
        RoundInputs(
            snapshot=Snapshot.from_row(rows["snapshots.snapshots"][0]),
            policy=policy,
            key_groups=key_groups,
            nodes=nodes,
            traffic=traffic,
            outcomes=outcomes,
        )
    )
    found = allocate(given.objective, given.problem, budget, Stop(seconds=5))
    plan = Plan(
        problem=given.problem, rerouted=given.problem, result=found.result, memory=found.memory,
        held_back=found.held_back,
    )  # fmt: skip
    made = assemble_draft(
        DraftRequest(round=given, plan=plan, budget=budget, seed=3, created_at=datetime.now(UTC))
    )
    return given, made.draft, made.content.assignments


@pytest.fixture
def drafted():
    policy = small_policy()
    return drafted_from(policy, Budget(moves=4), placement=uneven(policy))


def test_the_order_of_rows_does_not_change_the_problem():
    policy = small_policy()
    rows = snapshot_rows(policy, "run-1", placement=uneven(policy), loads={("parse", 1): 0.4})
    one, other = (
        build_problem(policy, *tables(rows)),
        build_problem(policy, *tables(rows, backwards=True)),
    )
    assert one.key_group_ids == other.key_group_ids
    assert one.load.tolist() == other.load.tolist()
    assert one.current.tolist() == other.current.tolist()
    assert metrics.collocation_factor(one, one.current) == metrics.collocation_factor(
        other, other.current
    )


def test_key_groups_are_named_and_ordered_by_number_not_by_text():
    problem = problem_of(small_policy(operators={"parse": 11}), traffic=False)
    assert problem.key_group_ids[:3] == ("parse/0", "parse/1", "parse/2")
    assert problem.key_group_ids[-1] == "parse/10"
    assert problem.traffic_rate is None


def test_resources_capacities_states_and_pause_come_from_snapshot_and_policy():
    nodes = [{"id": "a", "capacity": {"cpu_cores": 2, "memory_bytes": 5000}},
             {"id": "b", "capacity": {"cpu_cores": 1, "memory_bytes": 9000}}]  # fmt: skip
    changes = {
        "nodes": nodes,
        "objective": {"resources": ["memory", "cpu"]},
        "pause": {"c0_s": 0.5, "s_per_byte": 1e-6},
    }
    policy = JobPolicy.model_validate({**small_policy().model_dump(by_alias=True), **changes})
    problem = problem_of(policy, states={"b": "draining"})
    assert problem.resources == ("memory", "cpu")
    assert problem.capacity.tolist() == [[5000.0, 2.0], [9000.0, 1.0]]
    assert problem.load[0].tolist() == [1000.0, 0.1]
    assert problem.node_state == ("alive", "draining")
    assert (problem.pause_c0_s, problem.pause_s_per_byte) == (0.5, 1e-6)


def test_a_resource_without_capacity_is_named():
    rows = snapshot_rows(small_policy(), "run-1")
    policy = small_policy().model_copy(
        update={"objective": small_policy().objective.model_copy(update={"resources": ("memory",)})}
    )
    with pytest.raises(InvalidInput, match="no memory_capacity_bytes for 2 of its rows"):
        build_problem(policy, *tables(rows))


def test_a_key_group_on_an_unknown_node_is_named():
    with pytest.raises(InvalidInput, match="key group parse/2 on node 'node-7'"):
        problem_of(small_policy(), placement={("parse", 2): "node-7"})


def test_traffic_of_an_unknown_key_group_is_named():
    policy = small_policy()
    rows = snapshot_rows(policy, "run-1")
    rows["snapshots.traffic"][0]["to_key_group"] = 50
    with pytest.raises(InvalidInput, match="traffic of key group count/50"):
        build_problem(policy, *tables(rows))


def test_a_drafts_rows_keep_its_promises(drafted):
    given, plan, content = drafted
    assert violations_of(given, plan, PlanContent(content, [])) == []
    assert content_hash_of(PlanContent(content)) == plan.content_hash
    backwards = content.take(list(range(content.num_rows))[::-1])
    assert content_hash_of(PlanContent(backwards)) == plan.content_hash
    assert plan.moves == 4
    assert plan.seed == 3


@pytest.mark.parametrize(
    ("change", "promise"),
    [
        ({"content_hash": "0" * 64}, "content_hash"),
        ({"plan_id": "0" * 16}, "plan_id"),
        ({"moves": 3}, "moves"),
        ({"load_distance_pct": -1.0}, "load_distance"),
        ({"bound_pct": 5.0}, "bound"),
        ({"budget_moves": 3}, "budget.moves"),
        ({"status": "unchanged"}, "status"),
        ({"pause_s": 99.0}, "pause_s"),
        ({"collocation_factor_pct": None}, "collocation_factor"),
        ({"load_index_pct": 90.0}, "load_index"),
        ({"wire_bytes_per_s": 1.0}, "wire_bytes_per_s"),
        ({"wire_bytes_before_per_s": None}, "wire_bytes_before_per_s"),
    ],
)
def test_every_broken_promise_of_a_draft_is_found(drafted, change, promise):
    given, plan, content = drafted
    violations = violations_of(given, replace(plan, **change), PlanContent(content, []))
    assert promise in [violation.promise for violation in violations]


def test_a_row_left_out_of_the_content_is_found(drafted):
    given, plan, content = drafted
    assert (
        violations_of(given, plan, PlanContent(content.slice(1), []))[0].promise == "content_hash"
    )


def test_a_plan_cannot_claim_another_objective_than_the_policy_has(drafted):
    given, plan, content = drafted
    found = violations_of(given, replace(plan, objective="joint"), PlanContent(content, []))
    assert [v.promise for v in found] == ["objective"]


def joint_policy(**changes):
    given = {**small_policy().model_dump(by_alias=True), "objective": {"kind": "joint"}, **changes}
    return JobPolicy.model_validate(given)


def test_a_joint_draft_promises_load_and_bytes_as_they_will_be():
    policy = joint_policy(traffic={"send_cpu_s": 1e-3, "receive_cpu_s": 1e-3})
    apart = {("count", group): f"node-{(group + 1) % 2}" for group in range(4)}
    given, plan, content = drafted_from(policy, Budget(), placement=apart)
    assert plan.collocation_factor_pct == 100.0
    assert (plan.wire_bytes_before_per_s > 0, plan.wire_bytes_per_s) == (True, 0.0)
    assert plan.load_index_pct < 100.0
    assert plan.serialise_us == pytest.approx(2000.0)
    assert violations_of(given, plan, PlanContent(content, [])) == []


def test_what_does_not_pay_is_kept_with_the_plan():
    policy = joint_policy(gate={"records_per_byte": 1e9, "first_life_s": 1.0})
    apart = {("count", group): f"node-{(group + 1) % 2}" for group in range(4)}
    _, plan, _ = drafted_from(policy, Budget(), placement=apart)
    assert (plan.status, plan.moves) == ("unchanged", 0)
    assert "costs as much as" in plan.held_back_json
    assert any("held back because it does not pay" in line for line in report(plan))


def test_what_is_kept_of_what_was_held_back_is_little():
    """Three hundred key groups that exchange records; no move pays for itself."""
    policy = small_policy(
        operators={"parse": 150, "count": 150}, objective={"kind": "joint"},
        gate={"records_per_byte": 1e9, "first_life_s": 1.0},
    )  # fmt: skip
    apart = {("count", group): f"node-{(group + 1) % 2}" for group in range(150)}
    _, plan, _ = drafted_from(policy, Budget(), placement=apart)
    found = json.loads(plan.held_back_json)
    assert len(found) <= 2 * (MOST_EXAMPLES + 1)
    assert sum(one["count"] for one in found) >= 150
    assert all(len(one["what"]) <= MOST_NAMES for one in found)
    assert found[MOST_EXAMPLES]["what"] == []


def test_an_outcome_that_came_after_the_snapshot_changes_nothing():
    policy = joint_policy()
    at = datetime(2026, 11, 17, tzinfo=UTC)
    later = Outcome(
        job="probe", version=1, plan_id="plan", run_id="run", figure="serialise_us", unit="",
        promised=2.0, measured=900.0, windows=1, period_start_at=at, period_end_at=at,
        measured_at=at,
    )  # fmt: skip
    _, plan, _ = drafted_from(policy, Budget(), [later])
    first = policy.traffic
    assert plan.serialise_us == pytest.approx(1e6 * (first.send_cpu_s + first.receive_cpu_s))
    sooner = replace(later, measured_at=datetime(2026, 11, 15, tzinfo=UTC))
    _, plan, _ = drafted_from(policy, Budget(), [sooner])
    assert plan.serialise_us == pytest.approx(900.0)


def test_a_plan_cannot_claim_other_weights_than_the_policy_has():
    aim = {"kind": "joint", "trade": "weighted", "traffic_weight": 3.0}
    policy = small_policy(objective=aim)
    apart = {("count", number): f"node-{(number + 1) % 2}" for number in range(4)}
    given, plan, content = drafted_from(policy, Budget(moves=1), placement=apart)
    assert plan.moves == 1
    assert violations_of(given, plan, PlanContent(content, [])) == []
    for claim, promise in (
        ({"load_weight": 0.5}, "load_weight"),
        ({"trade": None}, "trade"),
        ({"traffic_saved_pct": 99.0}, "traffic_saved"),
        ({"drained_moves": 3}, "drained_moves"),
    ):
        found = violations_of(given, replace(plan, **claim), PlanContent(content, []))
        assert [v.promise for v in found] == [promise]
