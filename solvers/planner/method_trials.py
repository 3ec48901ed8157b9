"""Every method of the registry that fits, on one problem with the same budget and time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ballast.contracts.errors import InvalidInput
from ballast.contracts.method_rules import MethodConditions, why_unfit
from ballast.contracts.methods import MethodEntry, MethodNeed, PlanningProblem
from solvers.model.budget import Budget
from solvers.model.method import MethodInputs
from solvers.model.objective import Objective
from solvers.model.problem import Problem
from solvers.model.result import Result
from solvers.model.stop import Stop
from solvers.planner.allocation import AllocationOptions, allocate
from solvers.planner.registry import REGISTRY
from solvers.rebalance.compile_kernels import make_ready

ONE_WINDOW = "no load series is stored, so the load of the period is its only window"


@dataclass(frozen=True, eq=False, slots=True)
class MethodTrial:
    """A method of the registry and its plan, or why it has none."""

    entry: MethodEntry
    result: Result | None = None
    """None if the method does not fit."""
    note: str = ""
    """Why the method does not fit, or what it had to do without."""

    @property
    def name(self) -> str:
        """The name of the method; that of a first placement says so."""
        is_first = self.entry.problem is PlanningProblem.FIRST_PLACEMENT
        return f"{self.entry.name} (first placement)" if is_first else self.entry.name


@dataclass(frozen=True, eq=False, slots=True)
class TrialRequest:
    """What all methods are given."""

    objective: Objective
    problem: Problem
    budget: Budget
    stop: Stop
    """The time of each method."""
    options: AllocationOptions
    """Seed, precision and inputs. Parameters are by the names of methods."""


def try_methods(request: TrialRequest) -> Iterator[MethodTrial]:
    """Plan by each method for the objective, then by each first placement, as they are listed.

    Loops are compiled before the first one, so that no method pays for them.
    """
    make_ready(request.problem.n_resources > 1)
    job = problem_conditions(request.problem, request.options.inputs)
    own = PlanningProblem.JOINT if request.objective.is_joint else PlanningProblem.BALANCE
    for problem in (own, PlanningProblem.FIRST_PLACEMENT):
        for method in REGISTRY[problem].values():
            entry = method.entry(problem)
            reason = why_unfit(entry, job)
            yield MethodTrial(entry, note=reason) if reason else _trial(request, entry)


def problem_conditions(problem: Problem, inputs: MethodInputs) -> MethodConditions:
    """What a problem has of that which methods need. A period is a series of one step at least."""
    rate = problem.traffic_rate
    room = problem.capacity[problem.staying][:, problem.balanced_mask]
    clusters = inputs.clusters or {}
    staying = np.array(problem.node_ids)[problem.staying].tolist()
    return MethodConditions(
        has_traffic=rate is not None and bool(rate.any()),
        has_series=True,
        clusters=len({clusters[node] for node in staying if node in clusters}),
        balanced_resources=int(problem.balanced_mask.sum()),
        has_equal_nodes=bool((room == room[:1]).all()),
        shares_partition_keys=_shares_partition_keys(problem, inputs.partition_keys or {}),
    )


def _shares_partition_keys(problem: Problem, keys: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether records go between two operators with the same partition key."""
    if problem.traffic_from is None or problem.traffic_to is None:
        return False
    operators = np.array(problem.operator_ids)
    ends = np.column_stack([operators[problem.traffic_from], operators[problem.traffic_to]])
    pairs = np.unique(ends, axis=0).tolist()
    return any(a != b and a in keys and keys[a] == keys.get(b) for a, b in pairs)


def _trial(request: TrialRequest, entry: MethodEntry) -> MethodTrial:
    options, note = request.options, ""
    if MethodNeed.SERIES in entry.needs and options.inputs.series is None:
        series = request.problem.load[:, :, None]
        options = replace(options, inputs=replace(options.inputs, series=series))
        note = ONE_WINDOW
    is_first = entry.problem is PlanningProblem.FIRST_PLACEMENT
    params = options.params or {}
    options = replace(
        options,
        method="auto" if is_first else entry.name,
        params=params if entry.name == "auto" else params.get(entry.name, {}),
        first_placement=entry.name if is_first else None,
    )
    try:
        found = allocate(request.objective, request.problem, request.budget, request.stop, options)
    except InvalidInput as error:
        return MethodTrial(entry, note=str(error))
    return MethodTrial(entry, found.result, note)
