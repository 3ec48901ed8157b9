"""An allocation for an objective, and the verifier's result on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ballast.contracts.errors import InvalidInput
from solvers.model.amortisation import AmortisationGate
from solvers.model.budget import Budget
from solvers.model.objective import Objective, TradeWeights
from solvers.model.problem import Problem
from solvers.model.stop import Stop
from solvers.model.traffic_costs import TrafficCosts
from solvers.planner.allocation import AllocationOptions, allocate
from solvers.verify.assignment import verify
from tests.unit.solvers.instances import make, names

JOINT = Objective("joint", max_load_distance=30.0)


def pairs(**changes: Any) -> Problem:
    """Six pairs that exchange records, on three nodes, each pair on two nodes; loads 1.0 and
    0.8."""
    given: dict[str, Any] = {
        "load": [1.0] * 6 + [0.8] * 6,
        "current": [0, 0, 1, 1, 2, 2, 1, 1, 2, 2, 0, 0],
        "nodes": 3,
        "traffic_from": np.arange(6),
        "traffic_to": np.arange(6, 12),
        "traffic_rate": np.full(6, 10.0),
    }
    return make(**{**given, **changes})


def broken(problem: Problem, plan: Any, objective: Objective | None, **budget: Any) -> list[str]:
    found = verify(problem, Budget(**budget), names(problem, plan), {}, objective)
    return [violation.promise for violation in found]


def test_a_joint_round_saves_traffic_within_its_load_bound() -> None:
    problem = pairs()
    made = allocate(JOINT, problem, Budget(moves=2), Stop(steps=5), AllocationOptions(seed=1))
    assert made.result.collocation_factor == pytest.approx(100 / 3)
    assert made.result.load_distance <= 30.0
    placed = names(problem, made.result.assignment)
    assert verify(problem, Budget(moves=2), placed, made.result.to_dict(), JOINT) == []
    assert made.memory is not None


def test_rounds_with_the_memory_of_the_last_bring_everything_together() -> None:
    problem, memory = pairs(), None
    for _ in range(4):
        made = allocate(
            JOINT, problem, Budget(moves=2), Stop(steps=5), AllocationOptions(seed=1, memory=memory)
        )
        problem, memory = replace(problem, current=made.result.assignment.copy()), made.memory
    assert made.result.collocation_factor == 100.0


def test_load_may_be_traded_for_traffic_within_the_bound_alone() -> None:
    problem = pairs()
    one_over = problem.current.copy()
    one_over[6] = 0  # beside its partner
    assert broken(problem, one_over, JOINT) == []
    assert broken(problem, one_over, None) == ["better_than_nothing"]
    assert broken(problem, one_over, Objective("joint", max_load_distance=5.0)) == [
        "max_load_distance"
    ]


def test_traffic_is_not_given_up_for_a_load_that_is_level_enough() -> None:
    problem = pairs(current=[0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2])
    apart = problem.current.copy()
    apart[[0, 2]] = [1, 0]
    assert broken(problem, apart, JOINT) == ["better_than_nothing"]
    drains = replace(problem, node_state=("alive", "alive", "draining"))
    assert broken(drains, apart, JOINT) == []


def test_a_balance_round_is_what_it_always_was() -> None:
    made = allocate(Objective(), pairs(), Budget(moves=0), Stop(steps=5))
    assert (made.result.moves, made.memory) == (0, None)


@pytest.mark.parametrize("method", ["albic", "cola"])
@pytest.mark.parametrize("seed", range(3))
def test_the_plan_of_every_joint_method_keeps_the_objective(method: str, seed: int) -> None:
    problem, budget = pairs(), Budget(moves=4)
    made = allocate(JOINT, problem, budget, Stop(steps=2), AllocationOptions(seed, method))
    assert broken(problem, made.result.assignment, JOINT) == []
    assert made.result.moves <= 4


def test_a_joint_plan_beyond_the_objectives_bound_is_not_used_and_says_so() -> None:
    tight = replace(JOINT, max_load_distance=0.001)
    problem = replace(pairs(), load=pairs().load * np.linspace(1, 3, pairs().n_key_groups)[:, None])
    how = AllocationOptions(0, "albic", {"max_ld": 1000.0, "pairs": 3})
    made = allocate(tight, problem, Budget(moves=4), Stop(steps=2), how)
    assert made.result.load_distance <= made.result.load_distance_before
    assert broken(problem, made.result.assignment, tight) == []


def test_parameters_of_a_joint_method_reach_it() -> None:
    how = AllocationOptions(0, "albic", {"pairs": 0})
    with pytest.raises(InvalidInput, match=r"albic\.pairs is 0"):
        allocate(JOINT, pairs(), Budget(), Stop(steps=1), how)


def test_auto_ignores_parameters_of_methods_that_it_does_not_run() -> None:
    how = AllocationOptions(0, "auto", {"clb": {"windows": 3}, "joint": {"passes": 3}})
    assert allocate(Objective(), pairs(), Budget(), Stop(steps=1), how).result.is_solved
    how = AllocationOptions(0, "auto", {"nonsense": {}})
    with pytest.raises(InvalidInput, match="nonsense"):
        allocate(Objective(), pairs(), Budget(), Stop(steps=1), how)


def test_a_method_without_a_word_on_traffic_is_refused() -> None:
    with pytest.raises(InvalidInput, match="there is no method 'milp' for joint plans"):
        allocate(JOINT, pairs(), Budget(), Stop(steps=1), AllocationOptions(method="milp"))


@pytest.mark.parametrize("rates", [None, np.zeros(6)])
def test_without_traffic_the_load_is_levelled(rates: Any) -> None:
    ends = {} if rates is not None else {"traffic_from": None, "traffic_to": None}
    problem = pairs(current=[0] * 12, traffic_rate=rates, **ends)
    made = allocate(JOINT, problem, Budget(), Stop(steps=20))
    assert made.result.load_distance < 20
    assert made.result.reason.startswith("no traffic was measured")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"kind": "speed"}, "objective is 'speed'"),
        ({"kind": "joint", "max_load_distance": 0}, "max_load_distance is 0"),
        ({"kind": "joint", "max_load_distance": float("nan")}, "max_load_distance is nan"),
    ],
)
def test_a_bad_objective_is_named(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Objective(**bad)


@pytest.mark.parametrize("name", ["costs", "gate", "target"])
def test_parameters_that_are_no_plain_numbers_are_refused_from_outside(name: str) -> None:
    params = {"joint": {name: {"a": 1}}}
    with pytest.raises(InvalidInput, match=f"joint.{name}"):
        allocate(JOINT, pairs(), Budget(), Stop(steps=1), AllocationOptions(params=params))


def test_a_cap_is_kept_while_traffic_is_saved() -> None:
    """Memory only has to fit: node 0 has room for one more key group, and not for two."""
    load = np.column_stack(([1.0] * 6 + [0.8] * 6, np.ones(12)))
    problem = pairs(
        load=load,
        capacity=np.array([[1.0, 5.0], [1.0, 4.0], [1.0, 4.0]]),
        balanced=np.array([True, False]),
    )
    made = allocate(
        Objective("joint", 80.0), problem, Budget(), Stop(steps=5), AllocationOptions(seed=1)
    )
    on_node = np.bincount(made.result.assignment, minlength=3)
    assert on_node[0] <= 5
    assert on_node[1:].max() <= 4
    assert made.result.collocation_factor is not None
    assert made.result.collocation_factor > 0


def test_the_promise_knows_what_serialising_costs_and_the_verifier_agrees() -> None:
    """Each record between nodes costs its sender 0.01 and its receiver 0.02 of load."""
    problem = pairs()
    costs = TrafficCosts(send=(0.01,), receive=(0.02,))
    objective = Objective("joint", max_load_distance=30.0, costs=costs)
    made = allocate(objective, problem, Budget(), Stop(steps=5), AllocationOptions(seed=1))
    assert made.result.collocation_factor == 100.0
    # Six edges of rate 10: 60 records at 0.03 are saved from a load of 10.8.
    assert made.result.load_index == pytest.approx(100.0 * (10.8 - 1.8) / 10.8)
    placed = names(problem, made.result.assignment)
    promises = made.result.to_dict()
    assert verify(problem, Budget(), placed, promises, objective) == []
    without_costs = Objective("joint", max_load_distance=30.0)
    found = {v.promise for v in verify(problem, Budget(), placed, promises, without_costs)}
    assert "load_index" in found


def test_costs_beyond_the_measured_load_are_cut_to_it() -> None:
    problem = pairs()
    objective = Objective("joint", 30.0, TrafficCosts(send=(5.0,), receive=(0.0,)))
    made = allocate(objective, problem, Budget(), Stop(steps=5), AllocationOptions(seed=1))
    placed = names(problem, made.result.assignment)
    assert verify(problem, Budget(), placed, made.result.to_dict(), objective) == []
    # The senders' load was all serialisation: only the receivers' 6 x 0.8 is left.
    assert made.result.load_index == pytest.approx(100.0 * 4.8 / 10.8)


def test_the_gate_holds_back_what_does_not_pay_and_says_so() -> None:
    problem = pairs(state_bytes=[1000] * 12)
    dear = Objective("joint", 30.0, gate=AmortisationGate(records_per_byte=1.0, lifetime=10.0))
    held = allocate(dear, problem, Budget(), Stop(steps=5), AllocationOptions(seed=1))
    assert held.result.moves == 0
    assert held.held_back
    assert "costs as much as 1000" in held.held_back[0].reason
    cheap = Objective("joint", 30.0, gate=AmortisationGate(records_per_byte=0.05, lifetime=10.0))
    let_through = allocate(cheap, problem, Budget(), Stop(steps=5), AllocationOptions(seed=1))
    assert let_through.result.collocation_factor == 100.0


def test_traffic_may_move_nearer_by_racks_but_not_farther() -> None:
    problem = pairs(rack=("a", "a", "b"))
    near = TrafficCosts(within_node=0.0, within_rack=0.5, between_racks=1.0)
    objective = Objective("joint", 300.0, near)
    made = allocate(objective, problem, Budget(moves=1), Stop(steps=5), AllocationOptions(seed=1))
    placed = names(problem, made.result.assignment)
    assert verify(problem, Budget(moves=1), placed, made.result.to_dict(), objective) == []
    apart = problem.current.copy()
    apart[0] = 2  # its partner is on node 1, so that their records now cross racks
    assert "better_than_nothing" in broken(problem, apart, objective)


# ------------------------------------------------------------------ load and traffic weighed


def weighed(traffic: float, load: float, **given: Any) -> Objective:
    return Objective("joint", weights=TradeWeights(traffic, load), **given)


def together() -> Problem:
    """All pairs together on one of two nodes: all traffic saved, a load distance of 100 %."""
    return pairs(current=[0] * 12, nodes=2)


@pytest.mark.parametrize(("traffic", "load", "collocated"), [(100, 1, 100.0), (1, 100, None)])
def test_weights_decide_what_is_given_up(traffic: float, load: float, collocated: Any) -> None:
    """With all pairs separated the load is level; with three pairs on each node it is nearly
    level."""
    problem = pairs(load=[1.0] * 6 + [0.5] * 6, current=[0] * 12, nodes=2)
    objective = weighed(traffic, load)
    made = allocate(objective, problem, Budget(), Stop(steps=5), AllocationOptions(seed=1)).result
    placed = names(problem, made.assignment)
    assert verify(problem, Budget(), placed, made.to_dict(), objective) == []
    assert made.load_distance < 100.0
    if collocated is not None:
        assert made.collocation_factor == collocated


def test_weights_know_no_bound_on_the_load_distance() -> None:
    """One heavy edge between two nodes: if traffic has more weight, one node does all the work."""
    problem = make(
        load=[1.0, 1.0], current=[0, 1], nodes=2,
        traffic_from=np.array([0]), traffic_to=np.array([1]), traffic_rate=np.array([5.0]),
    )  # fmt: skip
    dear_traffic = allocate(weighed(2.0, 1.0), problem, Budget(), Stop(steps=5)).result
    assert (dear_traffic.collocation_factor, dear_traffic.load_distance) == (100.0, 100.0)
    dear_load = allocate(weighed(1.0, 2.0), problem, Budget(), Stop(steps=5)).result
    assert dear_load.moves == 0


def test_the_verifier_weighs_in_its_own_way() -> None:
    problem = pairs()
    one_over = problem.current.copy()
    one_over[6] = 0  # beside its partner: a sixth of the traffic for 22.2 % of load distance
    assert broken(problem, one_over, weighed(1.4, 1.0)) == []
    assert broken(problem, one_over, weighed(1.3, 1.0)) == ["better_than_nothing"]
    dear_racks = TrafficCosts(within_rack=1.0, between_racks=4.0)
    split = replace(problem, rack=("a", "a", "b"))
    # Within a rack already: the saving is a quarter of the price of a record between racks.
    assert broken(split, one_over, weighed(1.4, 1.0, costs=dear_racks)) == ["better_than_nothing"]
    assert broken(split, one_over, weighed(5.5, 1.0, costs=dear_racks)) == []


def test_by_weights_traffic_may_be_given_up_for_load() -> None:
    problem = together()
    apart = problem.current.copy()
    apart[:6] = 1
    assert broken(problem, apart, weighed(1.0, 2.0)) == []
    assert broken(problem, apart, weighed(2.0, 1.0)) == ["better_than_nothing"]
    assert broken(problem, apart, Objective("joint", 30.0)) == []  # out of bounds: load first


def test_a_drain_may_cost_traffic_but_not_level_load() -> None:
    problem = pairs(
        current=[0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2], states=("alive", "alive", "draining")
    )
    leaves = problem.current.copy()
    leaves[[4, 11]] = [0, 1]  # two pairs are separated; the load of the nodes that stay is level
    assert broken(problem, leaves, weighed(1000.0, 1.0)) == []
    stays = problem.current.copy()
    stays[0] = 1
    assert broken(problem, stays, weighed(1000.0, 1.0)) == ["better_than_nothing"]


def test_by_weights_a_drain_goes_on() -> None:
    problem = pairs(
        current=[0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2], states=("alive", "alive", "draining")
    )
    objective = weighed(1.0, 1.0)
    made = allocate(objective, problem, Budget(), Stop(steps=5), AllocationOptions(seed=1)).result
    assert np.count_nonzero(made.assignment == 2) == 0
    placed = names(problem, made.assignment)
    assert verify(problem, Budget(), placed, made.to_dict(), objective) == []


def test_by_weights_a_level_load_counts_at_the_gate_as_well() -> None:
    """No traffic is saved, and 1,800 bytes move for a load distance that falls from 100 to 0 %."""
    problem = pairs(
        current=[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], nodes=2, load=[1.0] * 12,
        state_bytes=[300] * 12,
    )  # fmt: skip
    gate = AmortisationGate(records_per_byte=0.02, lifetime=1.0)
    moved = allocate(weighed(1.0, 1.0, gate=gate), problem, Budget(), Stop(steps=5)).result
    assert (moved.moves, moved.load_distance) == (6, 0.0)
    dear = AmortisationGate(records_per_byte=0.04, lifetime=1.0)
    held = allocate(weighed(1.0, 1.0, gate=dear), problem, Budget(), Stop(steps=5))
    assert held.result.moves == 0
    assert held.held_back[-1].reason == "the plan as a whole does not pay"


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_weight_that_weighs_nothing_is_refused(value: float) -> None:
    with pytest.raises(InvalidInput, match="traffic_weight is"):
        TradeWeights(traffic=value)
    with pytest.raises(InvalidInput, match="load_weight is"):
        TradeWeights(load=value)


@pytest.mark.parametrize("name", ["objective", "max_load_distance", "traffic_weight"])
def test_what_the_objective_decides_is_no_parameter(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"params.joint.{name} is given"):
        allocate(
            JOINT, pairs(), Budget(), Stop(steps=1), AllocationOptions(params={"joint": {name: 1}})
        )


def test_without_traffic_the_load_is_levelled_by_weights_too() -> None:
    problem = pairs(current=[0] * 12, traffic_rate=np.zeros(6))
    objective = weighed(5.0, 0.1)
    made = allocate(objective, problem, Budget(), Stop(steps=20)).result
    placed = names(problem, made.assignment)
    assert made.load_distance < 20
    assert verify(problem, Budget(), placed, made.to_dict(), objective) == []
