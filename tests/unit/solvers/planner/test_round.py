"""Algorithm 1 of [ICDE17]: each of its properties, with every rebalance method."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solvers.model.budget import Budget
from solvers.model.node_set import NodeSpec
from solvers.model.problem import Problem
from solvers.model.result import Result
from solvers.model.stop import Stop
from solvers.planner import round as algorithm
from solvers.planner.allocation import Allocation
from solvers.planner.drain import DrainLimits, choose_to_drain, due_now, levelled
from solvers.planner.node_changes import NodeChangeRules
from solvers.planner.round import RoundPlan, ScalingRequest, drained_nodes, scaling_by_policy
from solvers.rebalance.solve import solve
from solvers.scale import (
    Boundaries,
    HotNode,
    NodeSample,
    Observation,
    Policy,
    ScalingAction,
    ScalingDecision,
    ScalingHistory,
)
from solvers.verify.assignment import verify
from tests.unit.solvers.instances import budgets, exhaustive_optimum, make, names, problems

QUICK = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def allocator(method: str = "flux") -> Any:
    # A step of the search, which is part of auto, is thousands of proposals.
    stop = Stop(steps=5 if method == "auto" else 50)

    def allocate(problem: Problem, budget: Budget) -> Allocation:
        return Allocation(solve(problem, budget, stop, method=method))

    return allocate


def plan_round(
    problem: Problem, budget: Budget, allocate: Any, decide: Any, **nodes: Any
) -> RoundPlan:
    return algorithm.plan_round(problem, budget, allocate, ScalingRequest(decide, **nodes))


def fixed(change: int) -> Any:
    """A scaling that always wants this many nodes more or fewer."""

    def scaling(problem: Problem, potential: Result, hot: HotNode | None) -> ScalingDecision:
        staying = [problem.node_ids[i] for i in np.flatnonzero(problem.staying)]
        before, after = {"": len(staying)}, {"": max(1, len(staying) + change)}
        action = (
            ScalingAction.OUT
            if change > 0
            else ScalingAction.IN
            if after != before
            else ScalingAction.HOLD
        )
        return ScalingDecision(
            action, before, after, "told to", "cpu", "", removable=tuple(staying)
        )

    return scaling


def by_policy(problem: Problem, policy: Policy, windows: int = 12, history: Any = None) -> Any:
    """The policy, applied to every node of the problem at its raw load."""
    by_node = np.zeros(problem.n_nodes)
    np.add.at(by_node, problem.current, problem.load[:, 0])
    nodes = tuple(
        NodeSample(
            name,
            {problem.resources[0]: float(problem.capacity[i, 0])},
            {problem.resources[0]: (float(by_node[i]),) * windows},
            state,
        )
        for i, (name, state) in enumerate(zip(problem.node_ids, problem.node_state, strict=True))
    )
    seen = Observation(6000.0, 50.0, nodes)
    return scaling_by_policy(seen, policy, history or ScalingHistory())


def spares(problem: Problem, count: int) -> tuple[NodeSpec, ...]:
    room = (1.0,) * problem.n_resources
    return tuple(NodeSpec(f"new{i}", room) for i in range(count))


def follow(plan: RoundPlan) -> Problem:
    """The next round's problem after the plan; deadlines are not part of it."""
    return dataclasses.replace(plan.problem, current=plan.result.assignment, allowed=None)


# Lines 1-3


def test_drained_nodes_are_ended_and_no_others() -> None:
    problem = make([1, 1], [0, 1], states=["alive", "draining", "draining", "alive"])
    assert drained_nodes(problem) == ("n2",)
    plan = plan_round(problem, Budget(moves=0), allocator(), fixed(0))
    assert plan.ended == ("n2",)
    assert "n2" not in plan.problem.node_ids
    assert "n1" in plan.problem.node_ids
    assert "n3" in plan.problem.node_ids


@given(problem=problems(max_nodes=5, max_groups=6), change=st.integers(-2, 2))
@QUICK
def test_a_draining_node_is_ended_when_it_is_empty_and_only_then(
    problem: Problem, change: int
) -> None:
    holds = set(problem.current.tolist())
    empty = {
        name
        for i, (name, state) in enumerate(zip(problem.node_ids, problem.node_state, strict=True))
        if state == "draining" and i not in holds
    }
    plan = plan_round(problem, Budget(), allocator(), fixed(change), spares=spares(problem, 1))
    assert set(plan.ended) == empty
    assert not empty & set(plan.problem.node_ids)
    assert set(problem.node_ids) - empty <= set(plan.problem.node_ids)


# Lines 4-5


@given(problem=problems(max_nodes=4, max_groups=8), budget=budgets, change=st.integers(-2, 2))
@QUICK
def test_it_decides_once_from_the_potential_allocation_and_allocates_again_only_if_it_scales(
    problem: Problem, budget: Budget, change: int
) -> None:
    allocated: list[tuple[Problem, Budget, Result]] = []
    decided: list[tuple[Problem, Result]] = []

    def allocate(problem: Problem, budget: Budget) -> Allocation:
        found: Allocation = allocator()(problem, budget)
        allocated.append((problem, budget, found.result))
        return found

    def scaling(problem: Problem, potential: Result, hot: HotNode | None) -> ScalingDecision:
        assert len(allocated) == 1, "the decision comes after the potential allocation"
        decided.append((problem, potential))
        return fixed(change)(problem, potential, hot)  # type: ignore[no-any-return]

    plan = plan_round(problem, budget, allocate, scaling, spares=spares(problem, 2))
    assert all(given is budget for _, given, _ in allocated)
    assert plan.potential is allocated[0][2]
    if not plan.potential.is_solved:
        assert decided == []
        assert len(allocated) == 1
        return
    assert [potential for _, potential in decided] == [plan.potential]
    has_scaled = bool(plan.added or plan.marked or plan.revived)
    if has_scaled:
        assert len(allocated) == 2
        assert (plan.problem, plan.result) == (allocated[1][0], allocated[1][2])
    else:
        # A second allocation that failed leaves the potential one in force.
        assert len(allocated) == 1 or not allocated[1][2].is_solved
        assert plan.result is plan.potential


def test_the_decision_is_taken_from_the_potential_allocation_and_not_from_the_raw_load() -> None:
    """One node at 120 %, which balancing lowers to 60 %: no node is added."""
    policy = Policy(resource="r0")
    problem = make([0.4, 0.4, 0.4, 0, 0], [0, 0, 0, 1, 1], nodes=2)
    plan = plan_round(problem, Budget(), allocator("milp"), by_policy(problem, policy))
    assert plan.decision.action is ScalingAction.HOLD
    assert not plan.added
    stuck = plan_round(problem, Budget(moves=0), allocator("milp"), by_policy(problem, policy))
    assert stuck.decision.action is ScalingAction.HOLD
    assert "balancing brings to" in stuck.decision.reason


def test_collocation_that_saves_load_can_make_scaling_needless() -> None:
    """The allocation may predict a smaller load than the raw one."""
    policy = Policy(resource="r0")
    raw = make([0.9, 0.9], [0, 1])
    saved = make([0.5, 0.5], [0, 1])
    for problem, expected in ((raw, ScalingAction.OUT), (saved, ScalingAction.HOLD)):
        plan = plan_round(
            problem, Budget(), allocator(), by_policy(raw, policy), spares=spares(raw, 4)
        )
        assert plan.decision.action is expected


def test_one_key_group_larger_than_a_node_names_the_operator_to_split() -> None:
    problem = make([1.3, 0.1, 0.1, 0.1], [0, 1, 2, 3])
    policy = Policy(resource="r0")
    plan = plan_round(
        problem, Budget(), allocator(), by_policy(problem, policy), spares=spares(problem, 4)
    )
    assert not plan.added
    assert "no plan can help" in plan.reason
    assert "split operator op" in plan.reason


def test_another_node_is_added_where_balancing_alone_cannot_relieve_a_node() -> None:
    problem = make([0.55, 0.55, 0.5], [0, 1, 1])
    policy = Policy(resource="r0", boundaries=Boundaries(0.3, 0.7, 0.9))
    plan = plan_round(
        problem, Budget(), allocator("milp"), by_policy(problem, policy), spares=spares(problem, 4)
    )
    assert plan.added == ("new0",)
    assert plan.result.load_distance_points_after < 30


# Line 7


@pytest.mark.parametrize("method", ["flux", "milp", "auto"])
def test_new_nodes_are_filled_in_the_same_round(method: str) -> None:
    problem = make(np.full(12, 0.15), [0, 1] * 6)
    plan = plan_round(
        problem, Budget(moves=6), allocator(method), fixed(1), spares=spares(problem, 2)
    )
    assert plan.added == ("new0",)
    new = plan.problem.node_ids.index("new0")
    assert (plan.result.assignment == new).any()
    assert plan.result.moves <= 6


def test_nodes_that_take_time_to_launch_are_filled_once_they_report() -> None:
    problem = make(np.full(12, 0.15), [0, 1] * 6)
    rules = NodeChangeRules(fill_new_nodes=False)
    plan = plan_round(
        problem, Budget(), allocator(), fixed(1), spares=spares(problem, 2), rules=rules
    )
    assert plan.added == ("new0",)
    assert "new0" not in plan.problem.node_ids


def test_growing_takes_a_draining_node_back_before_a_new_one() -> None:
    problem = make([0.3] * 6, [0, 0, 1, 1, 2, 2], states=["alive", "alive", "draining"])
    plan = plan_round(problem, Budget(), allocator(), fixed(2), spares=spares(problem, 2))
    assert plan.revived == ("n2",)
    assert plan.added == ("new0",)
    assert plan.drains == {}


def test_a_node_that_the_policy_drains_is_not_taken_back() -> None:
    problem = make([0.3] * 6, [0, 0, 1, 1, 2, 2], states=["alive", "alive", "draining"])
    rules = NodeChangeRules(leaving=frozenset({"n2"}))
    plan = plan_round(
        problem, Budget(), allocator(), fixed(1), spares=spares(problem, 1), rules=rules
    )
    assert (plan.revived, plan.added) == ((), ("new0",))


def test_without_a_node_to_add_the_plan_says_so() -> None:
    problem = make([0.9, 0.9], [0, 1])
    plan = plan_round(problem, Budget(), allocator(), fixed(3), spares=spares(problem, 1))
    assert plan.added == ("new0",)
    assert plan.decision.after == {"": 3}
    assert "2 more nodes are wanted" in plan.reason


# One budget, nothing into draining nodes, the bound on rounds


@pytest.mark.parametrize("method", ["flux", "milp"])
@given(problem=problems(max_nodes=4, max_groups=8), budget=budgets, change=st.integers(-2, 2))
@QUICK
def test_every_round_keeps_the_budget_and_fills_no_draining_node(
    method: str, problem: Problem, budget: Budget, change: int
) -> None:
    plan = plan_round(
        problem,
        budget,
        allocator(method),
        fixed(change),
        spares=spares(problem, 2),
        rules=NodeChangeRules(max_drain_rounds=3),
    )
    if not plan.result.is_solved:
        assert plan.decision.action is ScalingAction.HOLD
        return
    solved = plan.problem
    promises = plan.result.to_dict()
    assert verify(solved, budget, names(solved, plan.result.assignment), promises) == []
    arrived = plan.result.assignment != solved.current
    assert not solved.draining[plan.result.assignment[arrived]].any()


@pytest.mark.parametrize("method", ["flux", "milp", "auto"])
@given(
    groups=st.integers(4, 16),
    moves=st.integers(1, 4),
    max_rounds=st.integers(1, 6),
    seed=st.integers(0, 10**6),
)
@settings(QUICK, max_examples=15)
def test_a_drain_ends_within_the_policys_rounds(
    method: str, groups: int, moves: int, max_rounds: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    problem = make(rng.lognormal(0, 0.8, groups) / 40, rng.integers(0, 4, groups), nodes=4)
    budget, rules = Budget(moves=moves), NodeChangeRules(max_drain_rounds=max_rounds)
    plan = plan_round(problem, budget, allocator(method), fixed(-1), rules=rules)
    if not plan.marked:
        least = min(int((problem.current == i).sum()) for i in range(4))
        assert least > moves * max_rounds
        assert "rounds" in plan.reason
        return
    rounds = 1
    while plan.problem.draining[plan.result.assignment].any():
        rounds += 1
        assert rounds <= max_rounds
        plan = plan_round(
            follow(plan), budget, allocator(method), fixed(0), drains=plan.drains, rules=rules
        )
        assert plan.result.moves <= moves
        arrived = plan.result.assignment != plan.problem.current
        assert not plan.problem.draining[plan.result.assignment[arrived]].any()
    after = plan_round(follow(plan), budget, allocator(method), fixed(0), drains=plan.drains)
    assert after.ended
    assert after.drains == {}


@given(seed=st.integers(0, 10**6), max_rounds=st.integers(1, 5))
@settings(QUICK, max_examples=40)
def test_a_drain_ends_in_time_under_a_budget_of_bytes(seed: int, max_rounds: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 100, 12)
    problem = make(np.full(12, 0.02), rng.integers(0, 3, 12), nodes=3, state_bytes=sizes)
    budget, rules = Budget(bytes=120), NodeChangeRules(max_drain_rounds=max_rounds)
    plan = plan_round(problem, budget, allocator(), fixed(-1), rules=rules)
    if not plan.marked:
        return
    for _ in range(max_rounds - 1):
        plan = plan_round(
            follow(plan), budget, allocator(), fixed(0), drains=plan.drains, rules=rules
        )
        assert plan.result.bytes <= 120
    assert not plan.problem.draining[plan.result.assignment].any()


def test_an_overload_goes_before_a_drain() -> None:
    """One move, a node at 150 % and a node to drain: the overload is more urgent (4.1)."""
    problem = make(
        [0.5, 0.5, 0.5, 0.2, 0.2], [0, 0, 0, 1, 2], states=["alive", "alive", "draining"]
    )
    plan = plan_round(problem, Budget(moves=1), allocator("milp"), fixed(0))
    assert plan.result.moves == 1
    moved = np.flatnonzero(plan.result.assignment != plan.problem.current)
    assert problem.current[moved[0]] == 0


@given(
    groups=st.integers(3, 6),
    moves=st.integers(1, 2),
    done=st.integers(0, 3),
    seed=st.integers(0, 10**6),
)
@settings(QUICK, max_examples=30)
def test_with_rounds_to_spare_a_drain_takes_nothing_from_what_is_more_urgent(
    groups: int, moves: int, done: int, seed: int
) -> None:
    """The plan is as level as any plan within the budget without a drain."""
    rng = np.random.default_rng(seed)
    problem = make(
        rng.lognormal(-1, 1, groups),
        rng.integers(0, 3, groups),
        states=["alive", "alive", "draining"],
    )
    budget, rules = Budget(moves=moves), NodeChangeRules(max_drain_rounds=done + 1 + groups)
    assert not len(due_now(problem, budget, {"n2": done}, rules.max_drain_rounds))
    plan = plan_round(
        problem, budget, allocator("milp"), fixed(0), drains={"n2": done}, rules=rules
    )
    if plan.ended:
        return
    best = exhaustive_optimum(problem, budget)
    assert plan.result.load_distance == pytest.approx(best, abs=1e-4)


def test_at_the_deadline_the_drain_goes_first() -> None:
    problem = make(
        [0.5, 0.5, 0.5, 0.2, 0.2], [0, 0, 0, 1, 2], states=["alive", "alive", "draining"]
    )
    assert due_now(problem, Budget(moves=1), {"n2": 3}, 4).tolist() == [4]
    plan = plan_round(
        problem,
        Budget(moves=1),
        allocator("milp"),
        fixed(0),
        drains={"n2": 3},
        rules=NodeChangeRules(max_drain_rounds=4),
    )
    assert not plan.problem.draining[plan.result.assignment].any()


# Scale-in that must not happen


def test_no_scale_in_where_the_rest_could_not_be_balanced() -> None:
    """The means would fit (1.5 on 2 nodes); three key groups of 0.5 do not."""
    problem = make([0.5, 0.5, 0.5], [0, 1, 2])
    plan = plan_round(problem, Budget(), allocator(), fixed(-1))
    assert plan.marked == ()
    assert plan.decision.action is ScalingAction.HOLD
    assert "could not be balanced below 100 %" in plan.reason


def test_a_node_with_a_pinned_key_group_is_never_drained() -> None:
    problem = make([0.1] * 3, [0, 1, 2], pinned=np.array([True, False, True]))
    plan = plan_round(problem, Budget(), allocator(), fixed(-1))
    assert plan.marked == ("n1",)
    none = plan_round(problem, Budget(), allocator(), fixed(-2))
    assert none.marked == ("n1",)
    assert "is pinned" in none.reason


def test_the_cheapest_node_to_drain_is_chosen() -> None:
    problem = make([0.1] * 4, [0, 1, 1, 2], nodes=3, state_bytes=np.array([50, 10, 10, 30]))
    chosen, _ = choose_to_drain(problem, problem.node_ids, 1, DrainLimits(Budget(), 3, 0.9))
    assert chosen == ("n1",)


@pytest.mark.parametrize(
    ("budget", "chosen"),
    [
        (Budget(), "n0"),
        (Budget(moves=2), "n1"),
        (Budget(moves=4), "n0"),
        (Budget(moves=2, bytes=50), "n0"),
    ],
)
def test_a_node_that_the_budget_empties_sooner_is_chosen_before_one_of_less_state(
    budget: Budget, chosen: str
) -> None:
    """n0 has four key groups with little state, n1 two with more, n2 has too much to move."""
    sizes = np.array([1, 1, 1, 1, 50, 50, 1000])
    problem = make([0.02] * 7, [0, 0, 0, 0, 1, 1, 2], nodes=3, state_bytes=sizes)
    found, _ = choose_to_drain(problem, problem.node_ids, 1, DrainLimits(budget, 3, 0.9))
    assert found == (chosen,)


def test_all_nodes_draining_is_said_and_nothing_moves() -> None:
    problem = make([0.1, 0.1], [0, 1], states=["draining", "draining"])
    plan = plan_round(problem, Budget(), allocator(), fixed(-1))
    assert not plan.result.is_solved
    assert plan.decision.action is ScalingAction.HOLD
    assert "add a node" in plan.reason


def test_levelled_is_a_plan_that_exists() -> None:
    problem = make([0.5, 0.5, 0.5], [0, 0, 0], nodes=2)
    assert levelled(problem) == pytest.approx(1.0)
    assert levelled(make([0.4, 0.3, 0.3], [0, 0, 0], nodes=2)) == pytest.approx(0.6)


def test_each_cluster_grows_and_shrinks_by_itself() -> None:
    clusters = {"n0": "a", "n1": "b", "n2": "b", "new0": "a", "new1": "b"}
    problem = make([0.5, 0.5, 0.05, 0.05], [0, 0, 1, 2], nodes=3)

    def scaling(problem: Problem, potential: Result, hot: HotNode | None) -> ScalingDecision:
        return ScalingDecision(
            ScalingAction.OUT,
            {"a": 1, "b": 2},
            {"a": 2, "b": 1},
            "told to",
            "cpu",
            "",
            removable=("n1", "n2"),
        )

    new = tuple(NodeSpec(name, (1.0,), cluster=clusters[name]) for name in ("new1", "new0"))
    plan = plan_round(problem, Budget(), allocator(), scaling, spares=new, clusters=clusters)
    assert plan.added == ("new0",)
    assert plan.marked in (("n1",), ("n2",))
    assert plan.decision.after == {"a": 2, "b": 1}


def test_a_drained_node_that_still_reports_is_not_missed() -> None:
    problem = make([0.3, 0.3], [0, 1], states=["alive", "alive", "draining"])
    plan = plan_round(problem, Budget(), allocator(), by_policy(problem, Policy(resource="r0")))
    assert plan.ended == ("n2",)
    assert plan.decision.missing == ()


def test_a_silent_node_is_not_drained_by_a_round_and_the_plan_names_it() -> None:
    """The lowest load, and one node without metrics: the round balances and does not scale in."""
    problem = make([0.05, 0.05, 0.0], [0, 0, 1], nodes=3)
    policy = Policy(resource="r0", stabilisation_rounds=1, cool_down_s=0)
    nodes = [NodeSample(f"n{i}", {"r0": 1.0}, {"r0": (0.05,) * 12}) for i in range(3)]
    whole = Observation(6000.0, 50.0, tuple(nodes))
    silent = dataclasses.replace(nodes[2], use=None)
    withheld = Observation(6000.0, 50.0, (*nodes[:2], silent))
    plans = [
        plan_round(
            problem, Budget(), allocator(), scaling_by_policy(seen, policy, ScalingHistory())
        )
        for seen in (whole, withheld)
    ]
    assert plans[0].marked
    assert plans[1].marked == ()
    assert "missing of node n2" in plans[1].reason


def test_a_round_without_any_load_has_a_plan_and_moves_nothing() -> None:
    problem = make([0.0, 0.0, 0.0], [0, 1, 1], nodes=2)
    plan = plan_round(problem, Budget(), allocator(), by_policy(problem, Policy(resource="r0")))
    assert plan.result.is_solved
    assert plan.result.moves == 0


def test_pinned_key_groups_keep_as_many_nodes_as_they_need_whatever_the_policy_wants() -> None:
    problem = make([0.01] * 4, [0, 1, 2, 3], pinned=np.array([True] * 4))
    policy = Policy(resource="r0", stabilisation_rounds=1, cool_down_s=0, max_step_in=1.0)
    plan = plan_round(problem, Budget(), allocator(), by_policy(problem, policy))
    assert plan.marked == ()
    assert plan.decision.action is ScalingAction.HOLD
    assert "is pinned" in plan.reason
