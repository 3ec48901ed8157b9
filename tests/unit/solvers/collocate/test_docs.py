"""The example of docs/solvers-collocate.md works as described."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from solvers.model.problem import Problem

PAGE = Path(__file__).parents[4] / "docs" / "solvers-collocate.md"


def test_the_example_of_the_page_runs() -> None:
    example = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    names: dict[str, Any] = {"problem": pairs_apart()}
    exec(example[1], names)
    assert names["result"].collocation_factor == 100.0
    assert names["next_round"].target is names["made"].target is not None


def pairs_apart() -> Problem:
    """Two pairs of key groups that exchange records, each on two nodes."""
    return Problem(
        node_ids=("a", "b"),
        resources=("cpu",),
        capacity=np.ones((2, 1)),
        node_state=("alive", "alive"),
        key_group_ids=("x/0", "x/1", "y/0", "y/1"),
        operator_ids=("x", "x", "y", "y"),
        load=np.ones((4, 1)),
        state_bytes=np.full(4, 10),
        current=np.array([0, 1, 1, 0]),
        traffic_from=np.array([0, 1]),
        traffic_to=np.array([2, 3]),
        traffic_rate=np.array([5.0, 5.0]),
    )
