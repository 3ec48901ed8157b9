"""OR-Tools CP-SAT on the model of [ICDE17, 4.3.1], in whole numbers, started from the placement.

There is one boolean for each key group and node, and every core works. Loads are rounded to a
billionth of an average node's fair share, and the distance is in ten-millionths of it.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import numpy as np

from bench.rebalance.peers.exchange import Answer, Instance, Solve, TracePoint, serve

LOAD_UNITS = 1_000_000_000
DISTANCE_UNITS = 10_000_000


def build(instance: Instance) -> Solve:
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    groups, nodes = instance.n_key_groups, instance.n_nodes
    x = [[model.new_bool_var("") for _ in range(nodes)] for _ in range(groups)]
    for row, here in zip(x, instance.current.tolist(), strict=True):
        model.add_exactly_one(row)
        for node, variable in enumerate(row):
            model.add_hint(variable, node == here)
    distance = model.new_int_var(0, 100 * DISTANCE_UNITS, "d")
    _add_balance(model, instance, x, distance)
    _add_budget(model, instance, x)
    model.minimize(distance)

    def solve(seconds: float, seed: int) -> Answer:
        return _solve(model, x, seconds, seed)

    return solve


def _add_balance(model: Any, instance: Instance, x: list[list[Any]], distance: Any) -> None:
    """Add |load - fair share| <= d x fair share, for every node and resource."""
    from ortools.sat.python import cp_model

    share = instance.fair_share()
    unit = share.mean(axis=0) / LOAD_UNITS
    loads = np.rint(instance.load / unit).astype(np.int64)
    fair = np.rint(share / unit).astype(np.int64)
    slope = np.maximum(1, np.rint(share / unit / DISTANCE_UNITS)).astype(np.int64)
    for r in range(instance.load.shape[1]):
        weights = loads[:, r].tolist()
        for node in range(instance.n_nodes):
            total = cp_model.LinearExpr.weighted_sum([row[node] for row in x], weights)
            room = int(slope[node, r]) * distance
            model.add(total <= int(fair[node, r]) + room)
            model.add(total >= int(fair[node, r]) - room)
    model.add_hint(distance, _start_distance(instance, loads, fair, slope))


def _start_distance(instance: Instance, loads: Any, fair: Any, slope: Any) -> int:
    """The distance without any move, so that the hint is a complete solution."""
    sums = np.zeros_like(fair)
    np.add.at(sums, instance.current, loads)
    return int(np.ceil(np.abs(sums - fair) / slope).max())


def _add_budget(model: Any, instance: Instance, x: list[list[Any]]) -> None:
    from ortools.sat.python import cp_model

    limit = instance.move_cost()
    if limit is None:
        return
    cost, budget = limit
    stays = [row[here] for row, here in zip(x, instance.current.tolist(), strict=True)]
    kept = cp_model.LinearExpr.weighted_sum(stays, cost.tolist())
    model.add(kept >= int(cost.sum()) - budget)


def _solve(model: Any, x: list[list[Any]], seconds: float, seed: int) -> Answer:
    from ortools.sat.python import cp_model

    trace: list[TracePoint] = []
    began = time.monotonic()

    class Note(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            percent = 100.0 * self.objective_value / DISTANCE_UNITS
            trace.append((time.monotonic() - began, percent))

    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = os.cpu_count() or 1
    solver.parameters.random_seed = seed
    status = solver.solve(model, Note())
    note = solver.status_name(status)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Answer(None, 0.0, note=note)
    chosen = [next(i for i, v in enumerate(row) if solver.boolean_value(v)) for row in x]
    return Answer(
        np.array(chosen, dtype=np.int64),
        0.0,
        note=note,
        is_final=status == cp_model.OPTIMAL,
        trace=tuple(trace),
    )


if __name__ == "__main__":
    sys.exit(serve(build))
