"""A plan states the precision that it was made with and the evidence for its decision."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from solvers.model.budget import Budget
from solvers.model.objective import Objective
from solvers.model.result import Status
from solvers.model.stop import Stop
from solvers.planner.plan import PlanRequest, plan
from tests.support.policies import small_policy
from tests.unit.solvers.noisy_instances import cluster


def planned(problem, **request):
    return plan(
        PlanRequest(
            **{
                "problem": problem,
                "objective": Objective(),
                "policy": small_policy(),
                "budget": Budget(),
                "stop": Stop(steps=20),
                **request,
            }
        )
    )


NOISY = dataclasses.replace(cluster(5, 60), key_group_ids=tuple(f"operator/{k}" for k in range(60)))


def test_a_measured_plan_has_fewer_moves_and_says_that_it_is_measured():
    few, exact = (planned(NOISY, precision=name) for name in ("measured", "exact"))
    assert (few.precision, exact.precision) == ("measured", "exact")
    assert 0 < few.result.moves < exact.result.moves


@pytest.mark.parametrize("precision", ["measured", "exact"])
def test_both_precisions_say_with_what_chance_the_gain_is_real(precision):
    found = planned(NOISY, precision=precision)
    assert found.gain.is_real
    assert 0.95 <= found.gain.chance <= 1.0


@pytest.mark.parametrize("precision", ["measured", "exact"])
def test_without_noise_a_plan_is_exact_and_has_no_chance(precision):
    found = planned(dataclasses.replace(NOISY, noise=None), precision=precision)
    assert (found.precision, found.gain) == ("exact", None)


@pytest.mark.parametrize(
    ("method", "precision"), [("search", "exact"), ("fewest_moves", "measured")]
)
def test_a_single_method_has_its_own_precision(method, precision):
    assert planned(NOISY, method=method).precision == precision


@pytest.mark.parametrize("precision", ["measured", "exact"])
def test_a_level_placement_stays_whatever_the_estimated_loads_say(precision):
    level = planned(NOISY, precision="exact").result.assignment
    rng = np.random.default_rng(0)
    sd = NOISY.noise.mean_error
    seen = dataclasses.replace(
        NOISY, current=level, load=np.maximum(0.0, NOISY.load + sd * rng.normal(size=sd.shape))
    )
    found = planned(seen, precision=precision)
    assert found.result.status is Status.UNCHANGED
    assert found.gain is None


def test_loads_that_moved_are_named_by_a_plan_that_is_made():
    trend = dataclasses.replace(NOISY.noise, trend="cpu: loads rose by 9 %")
    found = planned(dataclasses.replace(NOISY, noise=trend))
    assert found.result.moves > 0
    assert "loads moved during the period (cpu: loads rose by 9 %)" in found.result.reason


def test_a_first_placement_makes_the_plan_where_it_is_worth_its_moves():
    found = planned(NOISY, first_placement="ring", precision="exact")
    assert found.result.method == "ring"
    assert found.precision == "exact"
    assert found.result.load_distance < found.result.load_distance_before


def test_a_first_placement_that_makes_no_plan_leaves_it_to_the_method_and_says_so():
    found = planned(NOISY, first_placement="hash", budget=Budget(moves=0))
    assert found.result.status is Status.UNCHANGED
    ordinary = planned(NOISY, first_placement="hash", budget=Budget(moves=1))
    assert ordinary.result.moves <= 1
    assert "the first placement 'hash' makes no plan" in found.result.reason
