"""Key groups of operators with one partition key share a node, without a look at the traffic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ballast.contracts.identity import hashed_key_group
from solvers.collocate.component_placement import METHOD, ComponentParams, component_units
from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.stop import Stop
from tests.unit.solvers.instances import make

KEYS = {"parse": ("word",), "count": ("word",), "total": ("letter",)}


def job(parse: int = 4, count: int = 4, total: int = 2) -> Problem:
    """parse sends to count and to total; every operator's key groups are on nodes in turn."""
    sizes = {"parse": parse, "count": count, "total": total}
    ids = [(operator, k) for operator, size in sizes.items() for k in range(size)]
    row = {name: i for i, name in enumerate(ids)}
    ends = [(row["parse", 0], row["count", 0]), (row["parse", 0], row["total", 0])]
    problem = make([1.0] * len(ids), [i % 3 for i in range(len(ids))], nodes=3)
    return replace(
        problem,
        key_group_ids=tuple(f"{operator}/{k}" for operator, k in ids),
        operator_ids=tuple(operator for operator, _ in ids),
        traffic_from=np.array([a for a, _ in ends]),
        traffic_to=np.array([b for _, b in ends]),
        traffic_rate=np.array([5.0, 5.0]),
    )


def test_key_groups_of_the_same_number_are_a_unit() -> None:
    units = [unit.tolist() for unit in component_units(job(), KEYS)]
    assert sorted(units) == [[0, 4], [1, 5], [2, 6], [3, 7], [8], [9]]


def test_with_other_numbers_of_key_groups_a_key_stays_within_its_unit() -> None:
    problem = job(parse=4, count=6)
    unit_of = {
        problem.key_group_ids[row]: number
        for number, unit in enumerate(component_units(problem, KEYS))
        for row in unit.tolist()
    }
    for number in range(200):
        key = f"word-{number}"
        first = f"parse/{hashed_key_group(key, 4)}"
        second = f"count/{hashed_key_group(key, 6)}"
        assert unit_of[first] == unit_of[second]


def test_operators_without_records_between_them_are_no_component() -> None:
    keys = {**KEYS, "total": ("word",)}
    problem = replace(job(), traffic_from=None, traffic_to=None, traffic_rate=None)
    assert all(len(unit) == 1 for unit in component_units(problem, keys))


def test_every_unit_is_on_one_node_and_the_load_is_level() -> None:
    problem = replace(job(parse=6, count=6, total=3), current=np.arange(15) // 5)
    result = METHOD.solve(problem, Budget(), Stop(), 1, ComponentParams(partition_keys=KEYS))
    for unit in component_units(problem, KEYS):
        assert len(set(result.assignment[unit].tolist())) == 1
    assert result.load_distance == 0
    assert "6 units of key groups with the same keys" in result.reason


def test_within_a_budget_some_units_come_together_and_the_reason_says_so() -> None:
    problem = replace(job(parse=6, count=6, total=3), current=np.arange(15) // 5)
    result = METHOD.solve(problem, Budget(moves=2), Stop(), 1, ComponentParams(partition_keys=KEYS))
    assert result.moves <= 2
    assert "were undone to keep the budget" in result.reason
