"""The observation of a plan that is not in force yet."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from solvers.scale import Observation
from solvers.scale.planned_observation import with_plan
from tests.unit.solvers.instances import make
from tests.unit.solvers.scale.world import measured


def observation(problem: object, *use: float) -> Observation:
    nodes = tuple(
        dataclasses.replace(measured(f"n{i}", u), capacity={"r0": 1.0}, use={"r0": (u,) * 12})
        for i, u in enumerate(use)
    )
    return Observation(0.0, 50.0, nodes)


def test_each_node_has_the_load_that_the_plan_gives_it() -> None:
    problem = make([0.2, 0.3, 0.4], [0, 0, 0], nodes=2)
    seen = with_plan(observation(problem, 0.9, 0.0), problem, np.array([0, 1, 1]))
    assert [n.level("r0") for n in seen.nodes] == pytest.approx([0.2, 0.7])


def test_a_series_of_key_groups_becomes_one_of_nodes() -> None:
    problem = make([0.2, 0.2], [0, 0], nodes=2)
    series = np.array([[[0.1, 0.3]], [[0.3, 0.1]]])
    seen = with_plan(observation(problem, 0.4, 0.0), problem, np.array([0, 0]), series)
    assert seen.nodes[0].use == {"r0": pytest.approx([0.4, 0.4])}
    assert seen.nodes[1].use == {"r0": [0.0, 0.0]}


def test_a_plan_does_not_make_up_for_missing_metrics() -> None:
    problem = make([0.2, 0.2], [0, 1])
    full = observation(problem, 0.2, 0.2)
    silent = dataclasses.replace(full.nodes[1], use=None)
    partial = dataclasses.replace(full, nodes=(full.nodes[0], silent))
    assert with_plan(partial, problem, problem.current).missing() == ("node n1",)
