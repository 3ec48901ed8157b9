"""What a policy would see if a plan were in force: [ICDE17, 4.1], decides from that.

Balance and collocation come before scaling: a potential allocation may relieve an overloaded node
or save load, and the scaling decision is taken from it and not from the raw load.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.scale.observation import NodeSample, Observation


def with_plan(
    observation: Observation,
    problem: Problem,
    assignment: IntArray,
    series: FloatArray | None = None,
) -> Observation:
    """The observation with each node's use as the assignment would make it.

    ``series`` is [key groups, resources, windows]; without it the problem's loads are taken as
    flat over the windows that were observed. A node that is silent stays so: a plan does not make
    up for metrics that are missing.
    """
    windows = max(1, round(observation.covered_s / observation.window_s))
    flat = np.repeat(problem.load[:, :, None], windows, axis=2)
    by_group = flat if series is None else np.asarray(series, dtype=np.float64)
    by_node = np.zeros((problem.n_nodes, *by_group.shape[1:]))
    np.add.at(by_node, assignment, by_group)
    index = {name: i for i, name in enumerate(problem.node_ids)}
    nodes = tuple(
        _with_use(node, problem, by_node[index[node.node_id]])
        if node.is_measured and node.node_id in index
        else node
        for node in observation.nodes
    )
    return dataclasses.replace(observation, nodes=nodes)


def _with_use(node: NodeSample, problem: Problem, use: FloatArray) -> NodeSample:
    planned = {resource: use[r].tolist() for r, resource in enumerate(problem.resources)}
    return dataclasses.replace(node, use={**(node.use or {}), **planned})
