"""Problems with other nodes and another load; the original problem is not changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ballast.contracts.errors import InvalidInput
from solvers.model.budget import Budget
from solvers.model.noise import LoadNoise
from solvers.model.problem import Problem
from solvers.model.stop import Stop
from solvers.planner.what_if_problem import (
    WhatIfQuestion,
    apply_question,
    nodes_that_hold,
    with_load_of,
)
from solvers.rebalance.solve import solve
from tests.unit.solvers.instances import make


def test_nodes_go_drain_grow_and_come() -> None:
    problem = make([1.0] * 8, [0, 0, 1, 1, 2, 2, 3, 3])
    question = WhatIfQuestion(gone=("n0",), leaving=("n1",), added=2, resized={"n2": 2.0})
    there = apply_question(problem, question)
    assert there.node_ids == ("n0", "n1", "n2", "n3", "new-1", "new-2")
    assert there.node_state == ("dead", "draining", "alive", "alive", "alive", "alive")
    assert there.capacity[:, 0].tolist() == [1, 1, 2, 1, 1, 1]
    result = solve(there, Budget(moves=2), Stop(steps=5))
    assert result.forced_moves == 2
    assert problem.node_state == ("alive",) * 4


def test_nodes_that_come_may_have_another_capacity_and_rack() -> None:
    problem = make([1.0, 1.0], [0, 1])
    there = apply_question(
        problem, WhatIfQuestion(added=1, resized={"new-1": 3.0}, racks={"new-1": "far"})
    )
    assert (there.capacity[-1, 0], there.rack[-1]) == (3.0, "far")
    with pytest.raises(InvalidInput, match="there is no node 'new-2'"):
        apply_question(problem, WhatIfQuestion(added=1, racks={"new-2": "far"}))


def test_load_is_scaled_by_operator_or_for_all() -> None:
    problem = make([1.0, 2.0], [0, 1])
    assert apply_question(problem, WhatIfQuestion(scaled={"*": 1.5})).load[:, 0].tolist() == [
        1.5,
        3.0,
    ]
    assert apply_question(problem, WhatIfQuestion(scaled={"op": 2, "*": 9})).load[
        :, 0
    ].tolist() == [2.0, 4.0]


def noisy(load: list[float], current: list[int], **rest: Any) -> Problem:
    """A problem whose loads vary by a tenth of themselves."""
    tenth = 0.1 * np.array(load).reshape(-1, 1)
    return make(load, current, noise=LoadNoise(tenth, tenth, np.ones(1), 12), **rest)


def test_scaled_loads_vary_in_proportion_and_those_of_another_time_as_they_did_then() -> None:
    problem, other = noisy([1.0, 2.0], [0, 1]), noisy([7.0, 8.0, 9.0], [0, 0, 0], nodes=2)
    scaled = apply_question(problem, WhatIfQuestion(added=2, gone=("n0",), scaled={"*": 3.0}))
    assert scaled.noise is not None
    assert scaled.noise.period_sd == pytest.approx(0.1 * scaled.load)
    then = with_load_of(problem, other)
    assert then.noise is not None
    assert then.noise.mean_error == pytest.approx(0.1 * then.load)
    unknown = make([7.0, 8.0], [0, 0], nodes=2)
    assert with_load_of(problem, unknown).noise is None
    assert apply_question(unknown, WhatIfQuestion(scaled={"*": 3.0})).noise is None


def test_the_load_of_another_time_is_taken_by_name() -> None:
    problem, other = make([1.0, 2.0], [0, 1]), make([7.0, 8.0, 9.0], [0, 0, 0], nodes=2)
    assert with_load_of(problem, other).load[:, 0].tolist() == [7.0, 8.0]
    with pytest.raises(InvalidInput, match="lacks 1 key groups, first 'k2'"):
        with_load_of(other, problem)
    with pytest.raises(InvalidInput, match="the other load is of r0, r1"):
        with_load_of(problem, make([[1, 1], [1, 1]], [0, 1]))


@pytest.mark.parametrize(
    ("loads", "utilisation", "nodes"),
    [([0.5] * 8, 0.5, 8), ([0.5] * 8, 1.0, 4), ([0.5] * 8, 4.0, 1), ([0.25] * 40, 0.7, 20)],
)
def test_how_many_nodes_hold_the_load(loads: list[float], utilisation: float, nodes: int) -> None:
    problem = make(loads, np.arange(len(loads)) % 4, nodes=4)
    found, fullest = nodes_that_hold(problem, utilisation)
    assert found == nodes
    assert fullest <= utilisation


def test_a_key_group_larger_than_a_node_is_said() -> None:
    with pytest.raises(InvalidInput, match="largest key group alone is 300 % of a node"):
        nodes_that_hold(make([3.0, 1.0], [0, 1]), 0.7)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"gone": ("n7",)}, "no node 'n7'"),
        ({"resized": {"n7": 2.0}}, "no node 'n7'"),
        ({"scaled": {"parse": 2.0}}, "no operator 'parse'"),
        ({"scaled": {"*": float("nan")}}, "load of operator '\\*' times nan"),
        ({"resized": {"n0": 0.0}}, "capacity of node 'n0' times 0.0"),
        ({"added": -1}, "-1 nodes to add"),
        ({"gone": ("n0",), "leaving": ("n0",)}, "both gone and draining"),
    ],
)
def test_a_bad_question_is_named(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        apply_question(make([1.0, 2.0], [0, 1]), WhatIfQuestion(**bad))
