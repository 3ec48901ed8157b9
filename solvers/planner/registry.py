"""The registry of methods: one table for each problem, and the catalogue that is made of it.

Policies, commands, forms of runs and documents know methods from the catalogue
(``ballast/contracts/methods.json``). ``ballast methods catalogue`` prints it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from ballast.contracts.errors import InvalidInput
from ballast.contracts.methods import MethodEntry, PlanningProblem
from solvers import collocate, key_routing, place, rebalance, scale, weights
from solvers.collocate import joint
from solvers.collocate.joint_params import JointParams
from solvers.model.budget import Budget
from solvers.model.method import MethodFacts, RebalanceMethod, by_name
from solvers.model.problem import Problem
from solvers.model.result import Result
from solvers.model.stop import Stop
from solvers.rebalance import auto

AUTO = auto.NAME


@dataclass(frozen=True, slots=True)
class JointAutoParams:
    """The parameters of the method that ``auto`` runs for a joint objective."""

    joint: JointParams = field(default_factory=JointParams)


def _solve_jointly(
    problem: Problem, budget: Budget, stop: Stop, seed: int, params: JointAutoParams
) -> Result:
    return joint.METHOD.solve(problem, budget, stop, seed, params.joint)


BALANCE: Mapping[str, RebalanceMethod] = {**rebalance.METHODS, **place.METHODS}
JOINT: Mapping[str, RebalanceMethod] = by_name(
    RebalanceMethod(
        name=AUTO,
        summary="runs `joint`; levels the load alone where no traffic was measured",
        params=JointAutoParams,
        solve=_solve_jointly,
    ),
    *collocate.METHODS.values(),
)
FIRST_PLACEMENT: Mapping[str, RebalanceMethod] = {**place.PLACEMENTS, **collocate.PLACEMENTS}
METHOD_NAMES = tuple(dict.fromkeys((*BALANCE, *JOINT)))
"""Names that ``solver.method`` may have; which of them fit depends on the objective."""
REGISTRY: Mapping[PlanningProblem, Mapping[str, MethodFacts]] = {
    PlanningProblem.BALANCE: BALANCE,
    PlanningProblem.JOINT: JOINT,
    PlanningProblem.FIRST_PLACEMENT: FIRST_PLACEMENT,
    PlanningProblem.KEY_ROUTING: key_routing.METHODS,
    PlanningProblem.SCALE: scale.METHODS,
    PlanningProblem.WEIGHTS: weights.METHODS,
}


def method_named(methods: Mapping[str, RebalanceMethod], name: str, kind: str) -> RebalanceMethod:
    """The method of that name.

    Raises:
        InvalidInput: there is none; the message has the names that there are.
    """
    if name not in methods:
        raise InvalidInput(
            f"there is no method {name!r} for {kind} plans", value=name, allowed=", ".join(methods)
        )
    return methods[name]


def entries() -> tuple[MethodEntry, ...]:
    """Every method of the registry as an entry of the catalogue."""
    return tuple(
        method.entry(problem)
        for problem, methods in REGISTRY.items()
        for method in methods.values()
    )


def catalogue_json() -> str:
    """The text of ``ballast/contracts/methods.json``."""
    return json.dumps([asdict(entry) for entry in entries()], indent=2) + "\n"
