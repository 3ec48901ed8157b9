"""The record of a method in the registry, and its typed and documented parameters.

A field of a parameter dataclass is a parameter that users may set if its type is
``Annotated[..., Parameter(...)]``. Other fields are set by the planner, such as a start plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from ballast.contracts.errors import InvalidInput
from ballast.contracts.methods import (
    MethodEntry,
    MethodLimit,
    MethodNeed,
    ParameterSpec,
    PlanningProblem,
)
from solvers.model.budget import Budget
from solvers.model.problem import FloatArray, Problem
from solvers.model.result import Result
from solvers.model.stop import Stop


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a parameter means, and the values that it may have."""

    text: str
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NoParameters:
    """The parameters of a method that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodFacts:
    """A method: what it does, where it is from, what it needs and what it cannot do."""

    name: str
    summary: str
    """What the method does, as a clause without a subject."""
    paper: str = ""
    """Key and section of the paper; empty for a method of Ballast."""
    params: type[Any] = NoParameters
    """The dataclass of its parameters."""
    needs: tuple[MethodNeed, ...] = ()
    cannot: tuple[MethodLimit, ...] = ()

    def entry(self, problem: PlanningProblem) -> MethodEntry:
        """The method as an entry of the catalogue."""
        specs = tuple(parameter_specs(self.params))
        return MethodEntry(
            problem, self.name, self.summary, self.paper, self.needs, self.cannot, specs
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceMethod(MethodFacts):
    """A method that assigns key groups to nodes.

    Every ``solve`` has the same signature and meaning:

    Args:
        problem: Nodes, key groups, loads and the current assignment.
        budget: Limits on the moves that are not forced.
        stop: Limits of seconds and steps; without any, the method runs until it is done.
        seed: Seed of the random numbers. The same seed and steps give the same plan.
        params: Parameters of the method.

    Returns:
        The plan with its figures, its bound and its trace. A problem that no assignment solves
        has the status ``infeasible`` and the reason.

    Raises:
        InvalidInput: A parameter does not fit the problem (only the MILP's ``start``).
    """

    solve: Callable[[Problem, Budget, Stop, int, Any], Result]

    def solve_with_defaults(
        self, problem: Problem, budget: Budget, stop: Stop, seed: int
    ) -> Result:
        """Solve with the default parameters of the method."""
        return self.solve(problem, budget, stop, seed, self.params())


@dataclass(frozen=True, eq=False, slots=True)
class MethodInputs:
    """What some methods need beside the problem. None: it is not known."""

    series: FloatArray | None = None
    """[key groups, resources, steps]: loads over time, in the order of the problem."""
    clusters: Mapping[str, str] | None = None
    """Cluster of each node."""
    partition_keys: Mapping[str, tuple[str, ...]] | None = None
    """Partition key of each operator."""

    def with_load_of(self, before: Problem, after: Problem) -> MethodInputs:
        """The inputs for a problem with the same key groups and another load."""
        if self.series is None:
            return self
        factor = after.load / np.where(before.load > 0, before.load, 1.0)
        return replace(self, series=self.series * factor[:, :, None])


INPUTS = {
    MethodNeed.SERIES: ("series", "load series, which snapshots have for this method"),
    MethodNeed.CLUSTERS: ("clusters", "the cluster of each node, from a policy"),
    MethodNeed.PARTITION_KEYS: ("partition_keys", "partition keys of operators, from a policy"),
}
"""Needs that are fields of ``MethodInputs`` and of a method's parameters, and what they are."""


def with_inputs(method: MethodFacts, params: Any, inputs: MethodInputs) -> Any:
    """The parameters of a method with the inputs that it needs.

    Raises:
        InvalidInput: an input that the method needs is not known.
    """
    for need in method.needs:
        if need not in INPUTS:
            continue
        name, words = INPUTS[need]
        value = getattr(inputs, name)
        if value is None:
            raise InvalidInput(
                f"method {method.name!r} needs {words}, and there is none here",
                value=method.name,
                remedy="name a job whose policy names this method, or choose another method",
            )
        params = replace(params, **{name: value})
    return params


Facts = TypeVar("Facts", bound=MethodFacts)


def by_name(*methods: Facts) -> dict[str, Facts]:
    """The methods by name, in this order."""
    return {method.name: method for method in methods}


def parameter_specs(kind: type[Any], prefix: str = "") -> Iterator[ParameterSpec]:
    """The parameters of a dataclass that users may set, with those of nested dataclasses."""
    defaults, own = kind(), {spec.name: spec for spec in own_specs(kind)}
    for name in (field.name for field in fields(kind)):
        default = getattr(defaults, name)
        if name in own:
            yield replace(own[name], name=prefix + name, default=default)
        elif is_dataclass(default) and not isinstance(default, type):
            yield from parameter_specs(type(default), f"{prefix}{name}.")


def check_parameters(method: str, params: Any) -> None:
    """Check the types and ranges of the parameters that users may set.

    Raises:
        InvalidInput: a value is not allowed.
    """
    for spec in own_specs(type(params)):
        value = getattr(params, spec.name)
        if not spec.permits(_plain(value)):
            raise InvalidInput(
                f"{method}.{spec.name} is {value!r}", value=value, allowed=spec.allowed
            )


def own_specs(kind: type[Any]) -> tuple[ParameterSpec, ...]:
    """The parameters of a dataclass that users may set, without defaults and nested ones."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        _spec(name, *get_args(hint)[:2])
        for name, hint in hints.items()
        if get_origin(hint) is Annotated
    )


def _spec(name: str, kind: type[Any], given: Parameter) -> ParameterSpec:
    ranges = given.at_least, given.above, given.at_most
    return ParameterSpec(name, kind.__name__, None, given.text, *ranges, given.choices)


def _plain(value: Any) -> Any:
    """A number of numpy as Python's own; other values as they are."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
