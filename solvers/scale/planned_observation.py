"""An observation as it would be under a plan: [ICDE17, 4.1] decides on scaling from that.

Balance and collocation come before scaling. A plan may relieve an overloaded node or save load, so
the decision is made from the loads under the plan, and not from the measured loads.
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
    """The observation with the use of each node under an assignment.

    A node without metrics stays without: a plan does not replace missing metrics.

    Args:
        assignment: [key groups], node of each key group.
        series: [key groups, resources, windows], loads; the problem's loads in every window if
            None.
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
