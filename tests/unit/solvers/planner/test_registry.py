"""The registry of methods, and the catalogue, page and forms that are made from it."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from ballast.contracts import methods
from ballast.contracts.methods import PlanningProblem
from ballast.contracts.methods_page import NEEDS, TITLES, limits_text, methods_markdown
from ballast.contracts.policy import RoutingPolicy, ScalingMethod
from ballast.contracts.regions import RegionPolicy
from solvers.model.method import parameter_specs
from solvers.planner.registry import REGISTRY, catalogue_json, entries

ROOT = Path(__file__).resolve().parents[4]


def test_the_catalogue_is_that_of_the_registry() -> None:
    """To fix it: ``ballast methods catalogue > ballast/contracts/methods.json``."""
    assert methods.CATALOGUE.read_text(encoding="utf-8") == catalogue_json()
    assert methods.methods() == entries()


def test_the_page_of_methods_is_that_of_the_catalogue() -> None:
    """To fix it: ``ballast methods docs > docs/methods.md``."""
    assert (ROOT / "docs" / "methods.md").read_text(encoding="utf-8") == methods_markdown()


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: f"{entry.problem}-{entry.name}")
def test_every_method_says_what_it_does_needs_and_cannot_do(entry: methods.MethodEntry) -> None:
    assert entry.summary
    assert entry.summary[0].islower()
    assert not entry.summary.endswith(".")
    assert entry.problem in TITLES
    assert all(need in NEEDS for need in entry.needs)
    assert bool(entry.cannot) == bool(limits_text(entry))


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: f"{entry.problem}-{entry.name}")
def test_every_default_is_within_its_own_range(entry: methods.MethodEntry) -> None:
    for spec in entry.parameters:
        assert spec.permits(spec.default), spec.name
        assert spec.text


def test_policies_may_name_every_method_for_scaling_routing_and_weights() -> None:
    by_keys = RoutingPolicy.model_fields["method"].annotation
    assert set(get_args(by_keys)) == set(REGISTRY[PlanningProblem.KEY_ROUTING])
    assert set(get_args(ScalingMethod)) == set(REGISTRY[PlanningProblem.SCALE])
    by_region = RegionPolicy.model_fields["method"].annotation
    assert set(get_args(by_region)) == set(REGISTRY[PlanningProblem.WEIGHTS])


def test_parameters_of_methods_that_a_method_runs_have_its_name() -> None:
    auto = REGISTRY[PlanningProblem.BALANCE]["auto"]
    names = [spec.name for spec in parameter_specs(auto.params)]
    assert "milp.threads" in names
    assert "milp.start" not in names
    assert "precision" not in names


@pytest.mark.parametrize(
    ("value", "is_allowed"),
    [(1, True), (0, False), (True, False), (1.0, False), ("1", False), (2**80, True)],
)
def test_a_whole_number_is_no_boolean_and_no_fraction(value: object, is_allowed: bool) -> None:
    spec = methods.ParameterSpec("threads", "int", 1, "threads of HiGHS", at_least=1)
    assert spec.permits(value) == is_allowed


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "0.5", None])
def test_a_number_is_finite(value: object) -> None:
    assert not methods.ParameterSpec("share", "float", 0.5, "a share").permits(value)
