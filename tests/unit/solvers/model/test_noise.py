"""The noise of loads is checked on construction, and stays with its key groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ballast.contracts.errors import InvalidInput
from solvers.model.noise import LoadNoise
from tests.unit.solvers.instances import make

ONES = np.ones((2, 1))


def noise(**changes: Any) -> LoadNoise:
    columns: dict[str, Any] = {
        "mean_error": np.array([[1.0], [2.0]]),
        "period_sd": np.array([[3.0], [4.0]]),
        "node_variance_ratio": np.array([2.0]),
        "windows": 12,
    }
    return LoadNoise(**{**columns, **changes})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean_error": -ONES}, "noise.mean_error"),
        ({"period_sd": ONES * np.nan}, "noise.period_sd"),
        ({"period_sd": np.ones((3, 1))}, "same shape"),
        ({"node_variance_ratio": np.zeros(1)}, "node_variance_ratio"),
        ({"traffic_error": np.array([np.inf])}, "noise.traffic_error"),
    ],
)
def test_values_that_are_no_noise_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        noise(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean_error": np.ones((3, 1)), "period_sd": np.ones((3, 1))}, "row for each key group"),
        ({"node_variance_ratio": np.ones(2)}, "value for each resource"),
        ({"traffic_error": np.ones(1)}, "value for each edge"),
    ],
)
def test_a_problem_refuses_the_noise_of_another_problem(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        make([1.0, 2.0], [0, 1], noise=noise(**change))


def test_the_next_period_has_the_error_of_the_means_and_a_noise_of_its_own() -> None:
    assert noise().error_variance.tolist() == [[2.0], [8.0]]
    assert noise().variance.tolist() == [[20.0], [40.0]]


def test_noise_follows_scaled_and_chosen_loads() -> None:
    found = noise().of_scaled_loads(np.array([2.0, 0.0]))
    assert (found.mean_error.tolist(), found.period_sd.tolist()) == ([[2], [0]], [[6], [0]])
    with_traffic = noise(traffic_error=np.ones(5), traffic_period_sd=np.ones(5))
    chosen = with_traffic.of_key_groups(np.array([1, 1, 0]))
    assert chosen.mean_error.tolist() == [[2], [2], [1]]
    assert chosen.traffic_error is None
    assert with_traffic.without_traffic().traffic_period_sd is None
