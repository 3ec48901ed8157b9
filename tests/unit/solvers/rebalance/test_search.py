"""The search: optimal if it can be checked, repeatable, independent of names and units."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from ballast.contracts.errors import InvalidInput
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.result import Result, Status
from solvers.model.stop import Stop
from solvers.rebalance.solve import solve
from tests.unit.solvers.instances import exhaustive_optimum, make


def _cluster(seed: int = 3, groups: int = 60, nodes: int = 6, resources: int = 1) -> Problem:
    rng = np.random.default_rng(seed)
    return make(rng.lognormal(0, 0.8, (groups, resources)), rng.integers(0, nodes, groups))


def _search(problem: Problem, budget: Budget, steps: int = 10, **rest: object) -> Result:
    return solve(problem, budget, Stop(steps=steps), seed=1, method="search", **rest)  # type: ignore[arg-type]


@pytest.mark.parametrize("resources", [1, 2])
def test_finds_the_optimum_of_tiny_problems(resources: int) -> None:
    for seed in range(12):
        problem = _cluster(seed, groups=7, nodes=3, resources=resources)
        optimum = exhaustive_optimum(problem, Budget(moves=3))
        assert _search(problem, Budget(moves=3)).load_distance == pytest.approx(optimum, abs=2e-4)


def test_the_same_seed_and_steps_give_the_same_plan() -> None:
    one, other = (_search(_cluster(), Budget(moves=8)) for _ in range(2))
    assert np.array_equal(one.assignment, other.assignment)


def test_renaming_nodes_changes_nothing() -> None:
    problem = _cluster()
    to = np.random.default_rng(1).permutation(problem.n_nodes)
    renamed = dataclasses.replace(problem, current=to[problem.current])
    one, other = _search(problem, Budget(moves=8)), _search(renamed, Budget(moves=8))
    assert np.array_equal(to[one.assignment], other.assignment)


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**40])
def test_the_unit_of_load_changes_nothing(scale: float) -> None:
    problem = _cluster()
    scaled = dataclasses.replace(problem, load=problem.load * scale)
    one, other = _search(problem, Budget(moves=8)), _search(scaled, Budget(moves=8))
    assert np.array_equal(one.assignment, other.assignment)


def test_loads_of_thirty_orders_of_magnitude_do_not_break_it() -> None:
    rng = np.random.default_rng(2)
    problem = make(10.0 ** rng.uniform(-12, 18, 80), rng.integers(0, 5, 80))
    result = _search(problem, Budget(moves=10))
    assert result.load_distance <= result.load_distance_before
    assert result.moves <= 10


def test_caps_are_kept_while_the_bottleneck_is_balanced() -> None:
    rng = np.random.default_rng(4)
    load = np.column_stack((rng.lognormal(0, 0.8, 60), rng.uniform(0.5, 1.5, 60)))
    current = rng.integers(0, 6, 60)
    room = np.column_stack((np.ones(6), np.full(6, 11.0)))
    problem = make(load, current, capacity=room, balanced=np.array([True, False]))
    result = _search(problem, Budget(moves=10))
    assert result.load_distance < 0.5 * result.load_distance_before
    assert not metrics.over_cap(problem, result.assignment).any()


def test_room_under_a_cap_is_made_for_what_has_to_move() -> None:
    """Key group 2 must leave the dead node, and fits nowhere until key group 1 has moved."""
    problem = make(
        [[5.3, 0.55], [2.1, 1.02], [1.5, 0.69]],
        [0, 1, 3],
        states=["alive", "alive", "alive", "dead"],
        capacity=[[2.0, 1.13], [1.0, 0.57], [1.0, 0.57], [1.0, 0.57]],
        balanced=np.array([True, False]),
    )
    result = _search(problem, Budget(moves=3))
    assert not result.is_solved or not metrics.over_cap(problem, result.assignment).any()
    assert result.is_solved == (exhaustive_optimum(problem, Budget(moves=3)) is not None)


def test_what_is_left_of_the_budget_empties_draining_nodes() -> None:
    rng = np.random.default_rng(6)
    states = ["alive"] * 4 + ["draining"]
    problem = make(rng.lognormal(0, 0.5, 40), rng.integers(0, 5, 40), states=states)
    result = _search(problem, Budget())
    assert result.draining_load == 0


def test_moves_that_the_result_does_not_need_are_not_made() -> None:
    """One pinned large key group determines the distance: nothing else has to move."""
    problem = make(
        [100, 5, 1, 1, 1], [0, 1, 1, 2, 2], pinned=np.array([True, False, False, False, False])
    )
    result = _search(problem, Budget())
    nothing = solve(problem, Budget(), Stop(), method="unchanged")
    assert result.load_distance <= nothing.load_distance + 1e-4
    assert result.moves <= 4


def test_a_clock_that_is_over_leaves_a_valid_plan() -> None:
    problem = _cluster(groups=3000, nodes=50)
    result = solve(problem, Budget(moves=30), Stop(seconds=1e-3), method="search")
    assert result.moves <= 30
    assert result.load_distance <= result.load_distance_before
    assert result.status in (Status.FEASIBLE, Status.UNCHANGED, Status.OPTIMAL)


def test_parameters_it_does_not_know_are_refused() -> None:
    with pytest.raises(InvalidInput, match="search"):
        _search(_cluster(), Budget(), params={"speed": 3})
    with pytest.raises(InvalidInput, match="tolerance"):
        _search(_cluster(), Budget(), params={"tolerance": -1.0})


def test_importing_the_solvers_does_not_import_numba() -> None:
    code = "import sys, solvers; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
