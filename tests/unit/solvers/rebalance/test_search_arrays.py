"""The arrays that the search works on: what of a budget counts as a limit."""

from __future__ import annotations

import numpy as np
import pytest

from solvers.model.budget import Budget
from solvers.rebalance.search_arrays import Layout
from tests.unit.solvers.instances import make

NO_LIMIT = np.inf


@pytest.mark.parametrize(
    ("budget", "allowance"),
    [
        (Budget(moves=2), [2, NO_LIMIT, NO_LIMIT]),
        (Budget(moves=2, bytes=90), [2, NO_LIMIT, NO_LIMIT]),
        (Budget(moves=2, bytes=89), [2, 89, NO_LIMIT]),
        (Budget(bytes=120), [NO_LIMIT, NO_LIMIT, NO_LIMIT]),
        (Budget(bytes=119), [NO_LIMIT, 119, NO_LIMIT]),
        (Budget(moves=1, pause_s=5.0), [1, NO_LIMIT, NO_LIMIT]),
        (Budget(moves=9, bytes=1000, pause_s=7.5), [9, NO_LIMIT, 7.5]),
        (Budget(moves=0, bytes=0), [0, NO_LIMIT, NO_LIMIT]),
    ],
)
def test_bytes_and_pauses_that_no_plan_can_use_up_are_no_limit(
    budget: Budget, allowance: list[float]
) -> None:
    """State of 30, 40 and 50 bytes, 5 s a 50 bytes: at most 90 bytes with two moves."""
    sizes = np.array([30, 40, 50])
    problem = make([1.0, 2.0, 3.0], [0, 0, 0], nodes=2, state_bytes=sizes, pause_s_per_byte=0.1)
    assert Layout.of(problem, budget).fixed.allowance == pytest.approx(allowance)
