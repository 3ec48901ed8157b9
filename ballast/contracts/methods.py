"""The catalogue of methods: what a policy may name, with parameters, needs and limits.

``methods.json`` is written from the registry of the solvers (``solvers/planner/registry.py``), as
contracts import no solver. A unit test compares the two.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

CATALOGUE = Path(__file__).with_name("methods.json")


class PlanningProblem(StrEnum):
    """The problems that methods solve."""

    BALANCE = "balance"
    JOINT = "joint"
    KEY_ROUTING = "key_routing"
    FIRST_PLACEMENT = "first_placement"
    SCALE = "scale"
    WEIGHTS = "weights"


class MethodNeed(StrEnum):
    """What a method needs beside loads, nodes and the current placement."""

    TRAFFIC = "traffic"
    SERIES = "series"
    CLUSTERS = "clusters"
    PARTITION_KEYS = "partition_keys"
    KEY_PAIRS = "key_pairs"
    SOURCES = "sources"
    REGIONS = "regions"


class MethodLimit(StrEnum):
    """What a method cannot do."""

    BUDGET = "budget"
    """It knows no budget. Its moves that are worth least are undone until the budget holds."""
    SEVERAL_RESOURCES = "several_resources"
    """It levels one resource."""
    UNEQUAL_NODES = "unequal_nodes"
    """It assumes nodes of the same capacity."""
    SEVERAL_CLUSTERS = "several_clusters"
    """It sizes one cluster."""


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """A parameter of a method: its type, its default, its range and what it means.

    A parameter of a method that another method runs has a name with a dot: ``search.tolerance``.
    """

    name: str
    kind: str
    """``int``, ``float``, ``bool`` or ``str``."""
    default: int | float | bool | str | None
    text: str
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """What values may be given, in words."""
        if self.choices:
            return ", ".join(self.choices)
        if self.kind == "bool":
            return "true or false"
        words = "a whole number" if self.kind == "int" else "a finite number"
        limits = [
            f"{sign} {limit:g}"
            for sign, limit in ((">=", self.at_least), (">", self.above), ("<=", self.at_most))
            if limit is not None
        ]
        return " ".join((words, " and ".join(limits))) if limits else words

    def permits(self, value: object) -> bool:
        """Whether the value has the type and is within the range; booleans are not numbers."""
        if self.kind == "bool":
            return isinstance(value, bool)
        if self.kind == "str":
            return isinstance(value, str) and (not self.choices or value in self.choices)
        return self._permits_number(value)

    def _permits_number(self, value: object) -> bool:
        kinds = (int,) if self.kind == "int" else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds):
            return False
        # A whole number may be beyond what a float can hold, so it is compared as it is.
        is_number = isinstance(value, int) or math.isfinite(value)
        return (
            is_number
            and (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
        )


@dataclass(frozen=True, slots=True)
class MethodEntry:
    """A method of the catalogue."""

    problem: PlanningProblem
    name: str
    summary: str
    paper: str = ""
    """Key and section of the paper, as in ``ICDE17, 4.3.2``; empty for a method of Ballast."""
    needs: tuple[MethodNeed, ...] = ()
    cannot: tuple[MethodLimit, ...] = ()
    parameters: tuple[ParameterSpec, ...] = ()

    def parameter(self, name: str) -> ParameterSpec | None:
        """The parameter of that name; None if the method has none."""
        return next((each for each in self.parameters if each.name == name), None)


@cache
def methods() -> tuple[MethodEntry, ...]:
    """Every method of the catalogue, in the order of the registry."""
    return tuple(map(_entry, json.loads(CATALOGUE.read_text(encoding="utf-8"))))


def methods_of(problem: PlanningProblem) -> Mapping[str, MethodEntry]:
    """The methods of a problem by name."""
    return {entry.name: entry for entry in methods() if entry.problem == problem}


def flat_parameters(params: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Parameters by name; those of a method that another method runs have a name with a dot."""
    for name, value in params.items():
        if isinstance(value, Mapping):
            yield from flat_parameters(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _entry(row: Mapping[str, Any]) -> MethodEntry:
    return MethodEntry(
        PlanningProblem(row["problem"]),
        row["name"],
        row["summary"],
        row["paper"],
        tuple(map(MethodNeed, row["needs"])),
        tuple(map(MethodLimit, row["cannot"])),
        tuple(
            ParameterSpec(**{**each, "choices": tuple(each["choices"])})
            for each in row["parameters"]
        ),
    )
