"""First placement by component: operators with one partition key share nodes ([AUTODASP17], CBP).

Two operators that are partitioned by the same key have the records of a key in key groups of the
same number, if they have as many key groups; otherwise in those with the same remainder by the
greatest common divisor of their numbers. These key groups are a unit. With each unit on one node no
record between the operators leaves its node, whatever the traffic is. Units are placed largest
first, where most of their state is, or else where the load stays lowest.

Operators whose keys only overlap would be one component if the job's author partitioned them by the
common attributes. No plan can do that; ``component_advice`` says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from ballast.contracts.identity import split_key_group_name
from ballast.contracts.methods import MethodLimit, MethodNeed
from solvers.collocate.clusters import connected_sets
from solvers.model.budget import Budget
from solvers.model.method import Parameter, RebalanceMethod, check_parameters
from solvers.model.problem import IntArray, Problem
from solvers.model.result import Result, SolverRun, infeasible_result, make_result
from solvers.model.stop import Stop
from solvers.rebalance.bound import counting_bound
from solvers.rebalance.plan_repair import repair_plan
from solvers.rebalance.start import normalised_loads, place_must_moves, why_infeasible

NAME = "components"


@dataclass(frozen=True, slots=True)
class ComponentParams:
    """Parameters of the placement by component."""

    tolerance: Annotated[
        float,
        Parameter(
            "how far above the mean a node may come, in percent of it, so that a unit stays where "
            "most of its state is",
            at_least=0,
        ),
    ] = 2.0
    partition_keys: Mapping[str, tuple[str, ...]] | None = field(default=None, compare=False)
    """Partition key of each operator."""

    def __post_init__(self) -> None:
        check_parameters(NAME, self)


def solve(
    problem: Problem,
    budget: Budget,
    stop: Stop,
    seed: int,  # noqa: ARG001 - every method has the same signature
    params: ComponentParams,
) -> Result:
    """Place every unit of key groups of one component on one node.

    Arguments and result are described in ``RebalanceMethod``.
    """
    clock = stop.start()
    reason = why_infeasible(problem, budget)
    if reason is not None:
        return infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
    units = list(component_units(problem, params.partition_keys or {}))
    wanted = _place(problem, budget, units, params.tolerance)
    repaired = repair_plan(problem, budget, wanted, is_joint=True)
    together = sum(1 for unit in units if len(unit) > 1)
    return make_result(
        problem,
        repaired.assignment.copy(),
        SolverRun(
            method=NAME,
            bound=counting_bound(problem, budget),
            seconds=clock.elapsed(),
            reason=repaired.reason(f"{together} units of key groups with the same keys"),
        ),
    )


def component_units(
    problem: Problem, partition_keys: Mapping[str, tuple[str, ...]]
) -> Iterator[IntArray]:
    """Key groups that have the same keys, as sets; a key group without such a partner is alone."""
    groups: dict[str, dict[int, int]] = {}
    for row, name in enumerate(problem.key_group_ids):
        operator, number = split_key_group_name(name)
        groups.setdefault(operator, {})[number] = row
    for operators in _components(problem, list(groups), partition_keys):
        divisor = math.gcd(*(len(groups[operator]) for operator in operators))
        units: dict[int, list[int]] = {}
        for operator in operators:
            for number, row in groups[operator].items():
                units.setdefault(number % divisor, []).append(row)
        if len(operators) > 1:
            yield from (np.array(rows, dtype=np.int64) for rows in units.values())
        else:
            rows = [row for unit in units.values() for row in unit]
            yield from (np.array([row], dtype=np.int64) for row in rows)


def _components(
    problem: Problem, operators: list[str], partition_keys: Mapping[str, tuple[str, ...]]
) -> Iterator[list[str]]:
    """Operators that have one partition key and records between them; others alone."""
    index = {operator: i for i, operator in enumerate(operators)}
    ends = set()
    if problem.traffic_from is not None and problem.traffic_to is not None:
        of_row = np.array([index[name] for name in problem.operator_ids], dtype=np.int64)
        pairs = np.unique(
            np.column_stack([of_row[problem.traffic_from], of_row[problem.traffic_to]]), axis=0
        )
        ends = {(a, b) for a, b in pairs.tolist() if a != b}
    keys = [partition_keys.get(operator) for operator in operators]
    same = sorted((a, b) for a, b in ends if keys[a] is not None and keys[a] == keys[b])
    sets = connected_sets(len(operators), [a for a, _ in same], [b for _, b in same])
    alone = set(range(len(operators)))
    for members in sets:
        found = members.tolist()
        alone -= set(found)
        yield [operators[i] for i in found]
    yield from ([operators[i]] for i in sorted(alone))


def _place(problem: Problem, budget: Budget, units: list[IntArray], tolerance: float) -> IntArray:
    """[key groups]: the node of each, units with the most load first."""
    weight = normalised_loads(problem)
    nodes = np.flatnonzero(problem.staying)
    room = problem.capacity[nodes] / problem.capacity[nodes].mean(axis=0)
    mean = weight.sum(axis=0) / room.sum(axis=0)
    limit = float(mean[problem.balanced_mask].max(initial=0.0)) * (1 + tolerance / 100)
    plan = place_must_moves(problem, budget).copy()
    sums = np.zeros((len(nodes), problem.n_resources))
    for unit in sorted(units, key=lambda rows: (-float(weight[rows].sum(axis=0).max()), rows[0])):
        after = ((sums + weight[unit].sum(axis=0)) / room)[:, problem.balanced_mask].max(axis=1)
        state = np.bincount(
            plan[unit], weights=problem.state_bytes[unit] + 1.0, minlength=problem.n_nodes
        )[nodes]
        fits = after <= limit
        chosen = int(np.argmax(np.where(fits, state, -1.0)))
        if not fits[chosen] or state[chosen] <= 0:
            chosen = int(np.argmin(after))
        plan[unit] = nodes[chosen]
        sums[chosen] += weight[unit].sum(axis=0)
    return plan


METHOD = RebalanceMethod(
    name=NAME,
    summary=(
        "puts key groups of operators with the same partition key onto one node, so that records "
        "between them never leave it"
    ),
    paper="AUTODASP17, CBP",
    params=ComponentParams,
    needs=(MethodNeed.TRAFFIC, MethodNeed.PARTITION_KEYS),
    cannot=(MethodLimit.BUDGET,),
    solve=solve,
)
