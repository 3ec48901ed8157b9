"""The verifier names each broken promise, and shares no code with the solvers."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.stop import Stop
from solvers.rebalance.solve import solve
from solvers.verify import assignment as verify_module
from solvers.verify.assignment import verify
from solvers.verify.infeasible import verify_infeasible
from tests.unit.solvers.instances import make, names


@pytest.fixture
def problem() -> Problem:
    return make(
        [4, 3, 2, 1, 1],
        [0, 0, 1, 2, 3],
        states=["alive", "alive", "draining", "dead"],
        pinned=np.array([False, False, True, False, False]),
        allowed=np.array([[1, 1, 1, 1], [1, 0, 0, 0], *[[1, 1, 1, 1]] * 3], dtype=bool),
        traffic_from=np.array([0]),
        traffic_to=np.array([1]),
        traffic_rate=np.array([2.0]),
    )


BUDGET = Budget(moves=1, bytes=10, pause_s=5)


def promises_of(plan: Any, **changes: Any) -> list[str]:
    """The promises broken by a plan that is given by node indices."""
    problem = plan[0]
    found = verify(problem, BUDGET, names(problem, plan[1]), changes)
    return [violation.promise for violation in found]


def test_a_true_plan_passes(problem: Problem) -> None:
    result = solve(problem, BUDGET, Stop(), method="milp")
    assert verify(problem, BUDGET, names(problem, result.assignment), result.to_dict()) == []
    as_mapping = dict(zip(*names(problem, result.assignment), strict=True))
    assert verify(problem, BUDGET, as_mapping, result.to_dict()) == []


@pytest.mark.parametrize(
    ("plan", "promise"),
    [
        ([0, 0, 1, 2, 3], "nodes.alive"),
        ([0, 0, 1, 3, 1], "nodes.dead"),
        ([2, 0, 1, 2, 1], "nodes.draining"),
        ([0, 0, 0, 2, 1], "pinned"),
        ([0, 1, 1, 2, 1], "allowed_nodes"),
        ([1, 0, 1, 1, 1], "budget.moves"),
        ([1, 0, 1, 1, 1], "budget.bytes"),
    ],
)
def test_each_rule_is_named_when_it_is_broken(
    problem: Problem, plan: list[int], promise: str
) -> None:
    assert promise in promises_of((problem, plan))


def test_a_budget_violation_says_how_much() -> None:
    problem = make([1, 1, 1], [0, 0, 0], nodes=2)
    found = verify(problem, Budget(moves=1), names(problem, [1, 1, 0]), {})
    assert "budget.moves: 2 moves, allowed 1" in [str(v) for v in found]


def test_a_pause_budget_does_not_count_forced_moves() -> None:
    problem = make([1, 1], [0, 1], states=["alive", "dead"], pause_c0_s=9.0)
    plan = names(problem, [0, 0])
    assert verify(problem, Budget(pause_s=1.0), plan, {"pause_s": 9.0, "forced_pause_s": 9.0}) == []


@pytest.mark.parametrize(
    "figure",
    [
        "load_distance_before",
        "load_distance",
        "load_distance_points_before",
        "load_distance_points_after",
        "moves",
        "bytes",
        "forced_moves",
        "forced_bytes",
        "pause_s",
        "forced_pause_s",
        "draining_load",
        "collocation_factor",
        "collocation_factor_before",
    ],
)
@pytest.mark.parametrize("lie", [1.5, -3, "many", None, float("nan")])
def test_each_figure_that_is_not_true_is_named(problem: Problem, figure: str, lie: Any) -> None:
    result = solve(problem, BUDGET, Stop(), method="milp")
    promised = result.to_dict()
    wrong = promised[figure] + lie if isinstance(lie, float | int) else lie
    found = verify(problem, BUDGET, names(problem, result.assignment), {**promised, figure: wrong})
    assert figure in [violation.promise for violation in found]


def test_a_bound_above_the_load_distance_is_named(problem: Problem) -> None:
    plan = (problem, [0, 0, 1, 2, 1])
    assert "bound" in promises_of(plan, bound=1e6)
    assert "bound" in promises_of(plan, bound=-1)
    assert "status" in promises_of(plan, bound=0, status="optimal")
    assert "status" in promises_of(plan, status="unchanged")
    assert "status" in promises_of(plan, status="wonderful")
    assert "gap" in promises_of(plan, bound=0, gap=0)


def test_a_bound_of_the_traffic_below_what_the_plan_has_is_named(problem: Problem) -> None:
    plan = (problem, [0, 0, 1, 2, 1])  # All traffic is within a node.
    assert "collocation_bound" in promises_of(plan, collocation_bound=99.9)
    assert "collocation_bound" in promises_of(plan, collocation_bound="all")
    assert "collocation_bound" not in promises_of(plan, collocation_bound=100.0)
    assert "collocation_bound" not in promises_of(plan, collocation_bound=None)


def test_rows_that_are_missing_doubled_or_unknown_are_named() -> None:
    problem = make([1, 1], [0, 1])
    cases = {
        "assignment.exactly_once": [(["k0"], ["n0"]), (["k0", "k1", "k1"], ["n0", "n1", "n1"])],
        "assignment.known_key_groups": [
            (["k0", "k1", "kx"], ["n0", "n0", "n0"]),
            (["k0", None], ["n0", "n0"]),
        ],
        "assignment.known_nodes": [(["k0", "k1"], ["n0", "nx"]), (["k0", "k1"], ["n0", None])],
    }
    for promise, columns in cases.items():
        for rows in columns:
            assert promise in [v.promise for v in verify(problem, Budget(), rows, {})]


def test_a_plan_worse_than_nothing_is_named() -> None:
    problem = make([1, 1], [0, 1])
    found = verify(problem, Budget(), names(problem, [0, 0]), {})
    assert [v.promise for v in found] == ["better_than_nothing"]


def test_with_a_dead_node_the_plan_is_compared_with_its_forced_moves_alone() -> None:
    problem = make([2, 2, 4], [0, 1, 2], states=["alive", "alive", "dead"])
    assert verify(problem, Budget(), names(problem, [0, 1, 0]), {}) == []
    worse = verify(problem, Budget(), names(problem, [0, 0, 0]), {})
    assert [v.promise for v in worse] == ["better_than_nothing"]


def test_an_infeasible_word_is_checked_as_well() -> None:
    assert verify_infeasible(make([1], [0], states=["draining"]), Budget()) == []
    assert [v.promise for v in verify_infeasible(make([1], [0]), Budget())] == ["status"]


TYPES_OF_THE_MODEL = ("solvers.model.problem",)


def test_the_verifier_imports_no_code_of_the_solvers_at_run_time() -> None:
    for path in sorted(Path(verify_module.__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text())
        at_run_time = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        modules = {getattr(node, "module", None) or node.names[0].name for node in at_run_time}
        of_solvers = {m for m in modules if m.startswith("solvers.")} - {*TYPES_OF_THE_MODEL}
        assert all(m.startswith("solvers.verify.") for m in of_solvers), path.name
        if path.name not in ("routes.py", "scaling.py", "splits.py", "weights.py"):
            assert not any(module.startswith("ballast") for module in modules), path.name
