"""A level job with a skewed operator gets a plan or a sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ballast.contracts.identity import hashed_key_group
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.key_statistics import KeyStatistics
from solvers.model.objective import Objective
from solvers.model.result import SolverRun, Status, make_result
from solvers.model.stop import Stop
from solvers.planner.local_skew import SkewRules, SkewStatus, local_skew
from solvers.planner.plan import PlanRequest, plan
from solvers.planner.skew_check import SkewCheckRequest, check_local_skew
from solvers.rebalance.solve import solve
from solvers.verify.assignment import verify
from tests.support.policies import small_policy
from tests.support.skew import JOIN, hidden_edge_skew, hidden_skew

POLICY = small_policy(operators={"join": JOIN, "parse": 26, "count": 26}, nodes=6)
STOP = Stop(steps=1)


def kept(problem):
    """The result of a round without moves."""
    run = SolverRun(method="search", bound=0.0, seconds=0.1, reason="is good enough")
    return make_result(problem, problem.current.copy(), run)


def request(problem, **fields):
    given = {
        "problem": problem,
        "result": kept(problem),
        "objective": Objective(),
        "policy": POLICY,
        "budget": Budget(),
        "stop": STOP,
    }
    return SkewCheckRequest(**(given | fields))


def uneven_loads(seed, problem):
    """Different loads whose sums are level to a few percent."""
    load = 1.0 + np.random.default_rng(seed).random((problem.n_key_groups, 1))
    return replace(problem, load=load)


def promises(check):
    figures = {name: value for name, value in check.result.to_dict().items() if value is not None}
    levelled = check.levelled
    if levelled is None:
        return figures
    return figures | {
        "levelled_operator": levelled.operator_id,
        "operator_skew_before": levelled.before_pct,
        "operator_skew": levelled.after_pct,
    }


def assert_verified(problem, check, objective=Objective(), budget=Budget()):  # noqa: B008
    nodes = [problem.node_ids[i] for i in check.result.assignment]
    names = list(problem.key_group_ids), nodes
    assert verify(problem, budget, names, promises(check), objective) == []


def skew_after(problem, result):
    found = local_skew(problem, result.assignment, SkewRules())
    return {f.name: f.excess_pct for f in found.findings if f.status is not SkewStatus.QUIET}


@pytest.mark.parametrize("seed", range(4))
def test_an_operator_on_one_node_of_a_level_job_gets_a_verified_plan(seed):
    problem = uneven_loads(seed, hidden_skew())
    check = check_local_skew(request(problem))
    assert check.result.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert check.result.load_distance <= check.result.load_distance_before + 1e-6
    assert skew_after(problem, check.result)["join"] < 100.0
    assert check.reason.startswith("operator join has 100 % of its cpu load on node node-0")
    assert "this plan brings operator join from 500 to" in check.reason
    assert_verified(problem, check)


def test_an_edge_that_one_node_receives_gets_a_verified_plan_that_names_no_operator():
    problem = hidden_edge_skew()
    check = check_local_skew(request(problem))
    assert check.result.moves > 0
    assert check.levelled is None
    assert check.result.load_distance <= check.result.load_distance_before + 1e-6
    assert check.reason.startswith("node node-0 receives 100 % of the records of edge parse -> ")
    assert "this plan brings edge parse -> count (received) from 500 to" in check.reason
    assert_verified(problem, check)


def test_without_a_budget_the_sentence_says_which_edge_is_skewed():
    check = check_local_skew(request(hidden_edge_skew(), budget=Budget(moves=0)))
    assert check.result.status is Status.UNCHANGED
    assert "node node-0 receives 100 % of the records of edge parse -> count" in check.reason
    assert "no plan was found within the budget" in check.reason


def test_a_round_that_would_move_nothing_levels_the_operator():
    found = plan(
        PlanRequest(
            problem=hidden_skew(), objective=Objective(), policy=POLICY, budget=Budget(), stop=STOP
        )
    )
    assert found.result.moves > 0
    assert found.skew is not None
    assert found.skew.levelled is not None
    assert "without that: no plan within the budget is better" in found.result.reason


def test_equal_loads_are_levelled_by_exchanges():
    problem = hidden_skew()
    result = check_local_skew(request(problem)).result
    assert result.moves > 0
    assert result.load_distance == pytest.approx(0.0, abs=1e-6)
    assert skew_after(problem, result)["join"] < 100.0


def test_a_plan_moves_few_key_groups_of_a_large_job():
    """Seven of eight key groups have to move; a search without bounds would move most of 60."""
    problem = uneven_loads(5, hidden_skew())
    assert check_local_skew(request(problem)).result.moves <= 24


def test_a_small_budget_lowers_the_skew_as_far_as_it_reaches():
    problem, budget = uneven_loads(1, hidden_skew()), Budget(moves=6)
    check = check_local_skew(request(problem, budget=budget))
    assert 0 < check.result.moves <= 6
    assert (
        skew_after(problem, check.result)["join"] < 0.8 * skew_after(problem, kept(problem))["join"]
    )
    assert_verified(problem, check, budget=budget)


def test_without_a_budget_the_sentence_says_what_is_skewed_and_why_it_stays():
    problem = hidden_skew()
    check = check_local_skew(request(problem, budget=Budget(moves=0)))
    assert check.result.status is Status.UNCHANGED
    assert "operator join has 100 % of its cpu load on node node-0" in check.reason
    assert "no plan was found within the budget" in check.reason


def test_a_perfectly_level_job_may_become_a_little_less_level_within_the_limit():
    """Loads without a common divisor: no other placement is exactly level."""
    problem = uneven_loads(0, hidden_skew())
    pinned = np.array([o == "join" for o in problem.operator_ids])
    level = solve(replace(problem, pinned=pinned), Budget(), Stop(steps=20), 0, "search")
    problem = replace(problem, current=level.assignment)
    assert level.load_distance < 0.1
    strict = check_local_skew(request(problem))
    assert strict.result.load_distance <= strict.result.load_distance_before + 1e-6
    limit = Objective(levelling_limit=4.0)
    check = check_local_skew(request(problem, objective=limit))
    assert check.levelled is not None
    assert check.levelled.operator_id == "join"
    assert check.levelled.after_pct < 150.0 < 500.0 == pytest.approx(check.levelled.before_pct)
    assert 0.1 < check.result.load_distance <= 4.0
    assert_verified(problem, check, limit)


def test_a_job_that_is_level_in_every_part_has_nothing_to_say():
    problem = hidden_skew(join_on=range(6))
    check = check_local_skew(request(problem))
    assert check.reason == ""
    assert check.result.status is Status.UNCHANGED
    assert check.progress == ["3 operators and edges level over nodes"]


def test_a_plan_that_moves_something_is_not_replaced():
    problem = hidden_skew()
    moved = problem.current.copy()
    moved[8], moved[-1] = moved[-1], moved[8]
    result = make_result(problem, moved, SolverRun(method="test", bound=0.0, seconds=0.0))
    check = check_local_skew(request(problem, result=result))
    assert check.result is result
    assert "so it is with this plan; a later plan may level it" in check.reason


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"objective": Objective("joint")}, "joint plans do not level single operators"),
        ({"method": "unchanged"}, "'unchanged' moves nothing by choice"),
        ({"changes_nodes": True}, "a later plan may level it"),
    ],
)
def test_the_sentence_says_that_no_plan_is_made_for_it(fields, why):
    check = check_local_skew(request(hidden_skew(), **fields))
    assert check.result.status is Status.UNCHANGED
    assert why in check.reason


def test_an_operator_on_one_rack_gets_a_sentence():
    problem = replace(hidden_skew(join_on=range(6)), rack=("east",) * 3 + ("west",) * 3)
    two = tuple("two" if i in (8, 20) else o for i, o in enumerate(problem.operator_ids))
    placed = problem.current.copy()
    placed[8], placed[20] = 0, 1
    check = check_local_skew(request(replace(problem, operator_ids=two, current=placed)))
    assert "operator two has 100 % of its cpu load on rack east" in check.reason
    assert "plans level nodes and not racks" in check.reason


def test_a_key_group_that_no_placement_can_level_is_named_with_its_heaviest_key():
    problem = hidden_skew(join_on=range(6))
    load = np.array(problem.load)
    load[3] = 40.0
    heavy = replace(problem, load=load)
    reason = check_local_skew(request(heavy)).reason
    assert "key group join/3 alone has" in reason
    assert "give operator join more key groups, or split its heaviest key" in reason
    inside = next(f"k{n}" for n in range(100) if hashed_key_group(f"k{n}", JOIN) == 3)
    routed = {"join": {"elsewhere": 0}}
    keys = KeyStatistics(keys={"join": {inside: 5.0, "elsewhere": 9.0}})
    named = check_local_skew(request(heavy, statistics=keys, routing=routed)).reason
    assert f"split its heaviest key {inside!r}" in named


def test_new_operators_are_unknown_in_words():
    check = check_local_skew(
        request(hidden_skew(), unmeasured={"join": "it had load in 2 windows"})
    )
    assert check.reason == "nothing is said of operator join: it had load in 2 windows"
    assert "1 unknown (operator join)" in check.progress[0]


def test_an_operator_beside_the_skewed_one_does_not_become_skewed():
    for seed in range(3):
        problem = uneven_loads(seed, hidden_skew())
        result = check_local_skew(request(problem)).result
        after = local_skew(problem, result.assignment, SkewRules())
        assert not after.skewed


def test_draining_and_dead_nodes_get_nothing():
    problem = uneven_loads(2, hidden_skew())
    drained = replace(problem, node_state=("alive",) * 5 + ("draining",))
    current = np.where(drained.current == 5, 4, drained.current)
    problem = replace(drained, current=current)
    result = check_local_skew(request(problem)).result
    assert not np.any(result.assignment == 5)
    assert metrics.load_distance(problem, result.assignment) <= metrics.load_distance(
        problem, problem.current
    )
