"""Meta's rebalancer (PyPI ``rebalancer``): local search with single and swap moves.

The budget is its movement allowance, as a hard constraint. The goal is its linear balance: the sum
of the loads of nodes above the average. ``formula`` selects another of its goals.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from bench.rebalance.peers.exchange import Answer, Build, Instance, Solve, serve

FORMULAS = {"LINEAR": 1, "SQUARES": 2, "MAX": 3, "IDEAL": 4, "LEGACY": 5, "VARIANCE": 6}
"""Number of a value in the library's enumeration: release 1.0.4 refuses the names in its type
hints."""
NO_MORE_MOVES = "no better move left"
END_REASONS = {"2": "time limit", "9": NO_MORE_MOVES, "UNABLE_TO_FIND_MORE_MOVES": NO_MORE_MOVES}
PRECISION = 1e-14
"""The library's default, 1e-10, is larger than the gain of the smallest moves at a million key
groups."""


def build_with(formulas: tuple[str, ...]) -> Build:
    def build(instance: Instance) -> Solve:
        inputs = _Inputs(instance)

        def solve(seconds: float, seed: int) -> Answer:
            return _solve(inputs, formulas, seconds, seed)

        return solve

    return build


class _Inputs:
    """The instance in the names and dictionaries that the library takes."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.nodes = [f"n{i}" for i in range(instance.n_nodes)]
        self.groups = [f"k{k}" for k in range(instance.n_key_groups)]
        self.assignment: dict[str, list[str]] = {node: [] for node in self.nodes}
        for name, node in zip(self.groups, instance.current.tolist(), strict=True):
            self.assignment[self.nodes[node]].append(name)
        # In units of the mean, so that its precision means the same for every instance.
        scaled = instance.load / instance.load.mean(axis=0)
        self.loads = [
            dict(zip(self.groups, scaled[:, r].tolist(), strict=True))
            for r in range(scaled.shape[1])
        ]
        room = instance.capacity / instance.capacity.mean(axis=0)
        self.capacities = [
            dict(zip(self.nodes, room[:, r].tolist(), strict=True)) for r in range(room.shape[1])
        ]


def _solve(inputs: _Inputs, formulas: tuple[str, ...], seconds: float, seed: int) -> Answer:
    import rebalancer

    solver = rebalancer.ProblemSolver(service_name="rebalancer", service_scope="bench")
    solver.set_log_level("ERR")
    solver.disable_solution_summary()
    solver.set_object_name("group").set_container_name("node")
    solver.set_assignment(inputs.assignment)
    solver.set_precision({"absolute": PRECISION, "relative": PRECISION})
    for r, loads in enumerate(inputs.loads):
        solver.add_object_dimension(f"load{r}", loads)
        solver.add_container_dimension(f"load{r}", inputs.capacities[r])
    _add_budget(solver, inputs.instance)
    _add_goals(solver, len(inputs.loads), formulas)
    moves: list[dict[str, Any]] = [{"singleMoveTypeSpec": {}}, {"swapMoveTypeSpec": {}}]
    search: dict[str, Any] = {
        "solveTime": max(1, round(seconds)),
        "moveTypeList": moves,
        "randomSeed": seed,
    }
    solver.add_solver({"localSearchSolverSpec": search})
    return _answer(solver.solve(), inputs)


def _add_budget(solver: Any, instance: Instance) -> None:
    limit = instance.move_cost()
    if limit is None:
        return
    cost, budget = limit
    # In shares of the budget, so that the tolerance of the constraint is less than a byte.
    shares = (cost / budget).tolist()
    names = [f"k{k}" for k in range(instance.n_key_groups)]
    solver.add_object_dimension("cost", dict(zip(names, shares, strict=True)))
    allowance = {"dimension": "cost", "doNotNormalize": True, "allowance": 1.0 - 1e-9}
    if instance.moves is not None:
        allowance["allowance"] = 1.0 + 0.5 / budget
    spec = {"name": "budget", "scope": "node", "magicScaling": False, **allowance}
    solver.add_constraint({"minimizeMovementSpec": spec})


def _add_goals(solver: Any, resources: int, formulas: tuple[str, ...]) -> None:
    for place, formula in enumerate(formulas):
        if place:
            solver.add_goal_boundary()
        for r in range(resources):
            goal = {
                "name": f"balance-{formula}-{r}",
                "scope": "node",
                "dimension": f"load{r}",
                "formula": FORMULAS[formula],
                # Its name for total load / total capacity, which is our mean; the default is the
                # mean of the nodes' relative loads, which is another goal where sizes differ.
                "useLegacyAverage": True,
            }
            solver.add_goal({"balanceSpec": goal})


def _answer(solution: Any, inputs: _Inputs) -> Answer:
    place = {node: i for i, node in enumerate(inputs.nodes)}
    found = solution["assignment"]
    assignment = np.array([place[found[name]] for name in inputs.groups], dtype=np.int64)
    reports = solution.get("solverSummaries", [])
    reason = str(reports[-1].get("endReason", "")) if reports else ""
    note = END_REASONS.get(reason, reason)
    return Answer(assignment, 0.0, note=note, is_final=note == NO_MORE_MOVES)


def main(formulas: tuple[str, ...] = ("LINEAR",)) -> int:
    return serve(build_with(formulas))


if __name__ == "__main__":
    sys.exit(main())
