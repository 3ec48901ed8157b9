"""Methods of the papers on any problem: every plan keeps every rule, and says what was undone."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.contracts.errors import InvalidInput
from solvers.model.budget import Budget
from solvers.model.method import MethodInputs, RebalanceMethod, with_inputs
from solvers.model.problem import Problem
from solvers.model.result import Result
from solvers.model.stop import Stop
from solvers.place import METHODS, PLACEMENTS
from solvers.verify.assignment import verify
from solvers.verify.infeasible import verify_infeasible
from tests.unit.solvers.instances import make, names, problems

EVERY = {**METHODS, **PLACEMENTS}


def solved(method: RebalanceMethod, problem: Problem, budget: Budget, **params: Any) -> Result:
    """The plan of a method, with a series that varies and nodes of two clusters in turn."""
    rng = np.random.default_rng(5)
    varied = rng.uniform(0.5, 1.5, (problem.n_key_groups, problem.n_resources, 4))
    clusters = {node: f"cluster-{i % 2}" for i, node in enumerate(problem.node_ids)}
    inputs = MethodInputs(problem.load[:, :, None] * varied, clusters)
    given_params = with_inputs(method, method.params(**params), inputs)
    return method.solve(problem, budget, Stop(steps=1), 1, given_params)


@pytest.mark.parametrize("name", list(EVERY))
@given(
    problem=problems(max_nodes=4, max_groups=8, max_resources=2),
    moves=st.none() | st.integers(0, 4),
    n_bytes=st.none() | st.integers(0, 40),
)
@settings(max_examples=20, deadline=None)
def test_every_plan_passes_the_verifier(
    name: str, problem: Problem, moves: int | None, n_bytes: int | None
) -> None:
    budget = Budget(moves=moves, bytes=n_bytes)
    try:
        result = solved(EVERY[name], problem, budget)
    except InvalidInput as error:
        refused = str(error)
    else:
        refused = ""
    if refused:
        assert "choose another method" in refused
        return
    if not result.is_solved:
        assert verify_infeasible(problem, budget) == []
        return
    placed = names(problem, result.assignment)
    assert verify(problem, budget, placed, result.to_dict()) == []


UNEVEN = make(
    [4, 3, 3, 2, 2, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0, 1, 2], nodes=3, capacity=[[10.0]] * 3
)


@pytest.mark.parametrize("name", ["elb", "clb", "mclb"])
def test_an_uneven_load_becomes_level(name: str) -> None:
    params = {"band": 1.0} if name == "elb" else {}
    result = solved(METHODS[name], UNEVEN, Budget(), **params)
    assert result.load_distance < result.load_distance_before / 3


@pytest.mark.parametrize("name", list(METHODS))
def test_moves_beyond_the_budget_are_undone_and_the_reason_says_how_many(name: str) -> None:
    result = solved(METHODS[name], UNEVEN, Budget(moves=1))
    assert result.moves <= 1
    unlimited = solved(METHODS[name], UNEVEN, Budget())
    if unlimited.moves > 1 and name in ("elb", "clb", "mclb"):
        assert "were undone to keep the budget" in result.reason


@pytest.mark.parametrize("name", ["elb", "clb", "mclb"])
def test_nodes_of_different_capacity_are_refused(name: str) -> None:
    unequal = replace(UNEVEN, capacity=np.array([[10.0], [10.0], [5.0]]))
    with pytest.raises(InvalidInput, match="assumes nodes of the same capacity"):
        solved(METHODS[name], unequal, Budget())


def test_a_model_that_is_too_large_makes_necessary_moves_alone_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The name in the package is the function of the same name.
    monkeypatch.setattr(import_module("solvers.place.mclb"), "MOST_TERMS", 10)
    result = solved(METHODS["mclb"], UNEVEN, Budget())
    assert result.moves == 0
    assert "the exact model would have" in result.reason


def test_key_groups_on_a_draining_node_leave_it() -> None:
    leaving = replace(UNEVEN, node_state=("alive", "alive", "draining"))
    result = solved(METHODS["elb"], leaving, Budget())
    assert result.draining_load == 0


def test_the_static_mapping_puts_whole_operators_on_clusters_by_size() -> None:
    """A large operator of 8 on the two nodes of one cluster, two of 2 on the node of the other."""
    load = [2.0] * 4 + [1.0, 1.0, 1.0, 1.0]
    problem = replace(
        make(load, [0, 1, 2, 0, 1, 2, 0, 1], nodes=3, capacity=[[10.0]] * 3),
        operator_ids=("a",) * 4 + ("b",) * 2 + ("c",) * 2,
    )
    inputs = MethodInputs(clusters={"n0": "big", "n1": "big", "n2": "small"})
    method = METHODS["static_mapping"]
    params = with_inputs(method, method.params(), inputs)
    plan = method.solve(problem, Budget(), Stop(steps=3), 1, params).assignment.tolist()
    assert set(plan[:4]) <= {0, 1}
    assert set(plan[4:]) == {2}


@pytest.mark.parametrize("name", ["static_mapping", "dynamic_mapping"])
def test_one_cluster_alone_is_refused(name: str) -> None:
    inputs = MethodInputs(UNEVEN.load[:, :, None], dict.fromkeys(UNEVEN.node_ids, "main"))
    method = METHODS[name]
    params = with_inputs(method, method.params(), inputs)
    with pytest.raises(InvalidInput, match="1 cluster"):
        method.solve(UNEVEN, Budget(), Stop(steps=1), 1, params)


def test_a_method_without_its_input_is_refused_with_what_it_needs() -> None:
    with pytest.raises(InvalidInput, match="'clb' needs load series"):
        with_inputs(METHODS["clb"], METHODS["clb"].params(), MethodInputs())


def test_a_series_follows_loads_that_a_question_changes() -> None:
    inputs = MethodInputs(UNEVEN.load[:, :, None].repeat(2, axis=2))
    doubled = replace(UNEVEN, load=2 * UNEVEN.load)
    changed = inputs.with_load_of(UNEVEN, doubled).series
    assert changed is not None
    assert changed[:, :, 1].tolist() == doubled.load.tolist()
