"""Snapshot rows become a problem whatever their order, and a draft's rows keep its promises."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from ballast.contracts import identity
from ballast.contracts.errors import InvalidInput
from ballast.contracts.policy import JobPolicy
from ballast.contracts.schemas import arrow_schema
from ballast.contracts.tables import TABLES
from solvers import Budget, Stop, metrics, solve
from solvers.objective import Objective
from spark_jobs.problems import (
    assignment_rows,
    build_problem,
    content_hash_of,
    content_hash_of_result,
    plan_row,
    violations_of,
)
from tests.support.policies import small_policy
from tests.support.snapshots import snapshot_rows, uneven

BALANCE = Objective()
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


@pytest.fixture
def drafted():
    policy = small_policy()
    rows = snapshot_rows(policy, "run-1", placement=uneven(policy))
    problem = build_problem(policy, *tables(rows))
    result = solve(problem, Budget(moves=4), Stop(seconds=5))
    snapshot = rows["snapshots.snapshots"][0]
    content = content_hash_of_result(problem, result)
    plan_id = identity.plan_id("probe", snapshot["snapshot_id"], content)
    budget = Budget(moves=4)
    plan = plan_row(snapshot, plan_id, content, result, BALANCE, budget, 3, datetime.now(UTC))
    return problem, plan, assignment_rows("probe", plan_id, problem, result)


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
    problem, plan, content = drafted
    assert violations_of(problem, plan, content, BALANCE) == []
    assert content_hash_of(content) == plan["content_hash"]
    backwards = content.take(list(range(content.num_rows))[::-1])
    assert content_hash_of(backwards) == plan["content_hash"]
    assert plan["moves"] == 4
    assert plan["seed"] == 3


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
    ],
)
def test_every_broken_promise_of_a_draft_is_found(drafted, change, promise):
    problem, plan, content = drafted
    violations = violations_of(problem, {**plan, **change}, content, BALANCE)
    assert promise in [violation.promise for violation in violations]


def test_a_row_left_out_of_the_content_is_found(drafted):
    problem, plan, content = drafted
    assert violations_of(problem, plan, content.slice(1), BALANCE)[0].promise == "content_hash"


def test_a_plan_cannot_claim_another_objective_than_the_policy_has(drafted):
    problem, plan, content = drafted
    found = violations_of(problem, {**plan, "objective": "joint"}, content, BALANCE)
    assert [v.promise for v in found] == ["objective"]
