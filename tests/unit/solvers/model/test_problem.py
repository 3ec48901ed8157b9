"""A problem checks itself on construction and cannot be changed afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ballast.contracts.errors import InvalidInput
from solvers.model.budget import Budget
from solvers.model.problem import AllowedNodes
from solvers.model.stop import Stop
from tests.unit.solvers.instances import make


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"load": [-1.0, 1.0]}, "load of 'k0'"),
        ({"load": [float("nan"), 1.0]}, "load of 'k0'"),
        ({"load": [1.0, float("inf")]}, "load of 'k1'"),
        ({"load": [1e308, 1e308]}, "overflows"),
        ({"capacity": [[0.0], [1.0]]}, "capacity of 'n0'"),
        ({"current": [0, 2]}, "current of 'k1'"),
        ({"states": ["alive", "ill"]}, "node_state of 'n1'"),
        ({"state_bytes": np.array([1, -1])}, "state_bytes of 'k1'"),
        ({"state_bytes": np.array([1])}, "state_bytes has 1"),
        ({"state_bytes": np.array([2**62, 2**62])}, "total of state_bytes.*64 bits"),
        ({"pinned": np.array([True])}, "pinned has 1"),
        ({"allowed": np.ones((1, 2), dtype=bool)}, "allowed has 1"),
        ({"pause_c0_s": -1.0}, "pause_c0_s"),
        ({"traffic_from": np.array([0])}, "same length"),
        (
            {"traffic_from": [0, 0], "traffic_to": [1, 1], "traffic_rate": [1e308, 1e308]},
            "total of traffic_rate overflows",
        ),
        ({"weight": [0.0]}, "weight of 'r0'"),
        ({"weight": [1e-300]}, "weight of 'r0' is 1e-300; allowed: 1e-06 to 1e\\+06"),
        ({"weight": [1e300]}, "weight of 'r0'"),
        ({"pause_c0_s": 1e308}, "the pause of moving everything overflows"),
        ({"pause_s_per_byte": 1.7e308}, "the pause of moving everything overflows"),
        ({"weight": [float("nan")]}, "weight of 'r0'"),
        ({"weight": [1.0, 1.0]}, "weight has the shape"),
        ({"balanced": [False]}, "nothing to balance"),
        ({"balanced": [True, False]}, "balanced has 2 values"),
        ({"balanced": [1.0]}, "balanced is not a list of true and false"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_bad_input_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"load": [1.0, 1.0], "current": [0, 1], "nodes": 2}
    with pytest.raises(InvalidInput, match=message):
        make(**{**good, **change})


def test_arrays_are_copied_and_read_only() -> None:
    state_bytes = np.array([1, 2])
    problem = make([1, 1], [0, 1], state_bytes=state_bytes)
    state_bytes[0] = 99
    assert problem.state_bytes[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        problem.load[0] = 5


def test_allowed_rows_answer_like_the_mask_they_came_from() -> None:
    rng = np.random.default_rng(1)
    mask = rng.random((20, 6)) < 0.6
    mask[3] = True
    mask[4] = False
    allowed = AllowedNodes.from_mask(mask)
    groups, nodes = np.divmod(np.arange(120), 6)
    assert np.array_equal(allowed.permits(groups, nodes), mask.ravel())
    assert not allowed.restricted[3]


@pytest.mark.parametrize(
    "bad",
    [{"moves": -1}, {"bytes": 1.5}, {"pause_s": -0.1}, {"moves": True}, {"moves": 10**400},
     {"bytes": 2**63}, {"pause_s": 10**400}, {"pause_s": "1"}],
)  # fmt: skip
def test_a_bad_budget_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(bad))):
        Budget(**bad)


@pytest.mark.parametrize(
    "bad",
    [{"seconds": 0}, {"seconds": float("nan")}, {"seconds": True}, {"seconds": "10"}, {"steps": 0},
     {"steps": float("nan")}, {"steps": 1.5}, {"steps": "3"}],
)  # fmt: skip
def test_a_bad_stop_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(bad))):
        Stop(**bad)
