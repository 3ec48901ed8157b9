"""Converts the figures of a round to a problem, and an assignment to a placement."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ballast.contracts.identity import key_group_name
from ballast.streaming.operators import Topology
from ballast.streaming.routing import Placement
from bench.real_jobs.cluster import RoundFigures
from solvers.collocate.clusters import heavy_mask
from solvers.model.problem import IntArray, Problem
from solvers.model.traffic_graph import TrafficGraph

MEAN_LOAD = 0.5
"""Load of an average node in the first round. The nodes are slots without a capacity of their own,
but ALBIC's parameters are in points of a node's capacity, so one has to be chosen."""
SCORE_FACTOR = 1.5
"""Score above which a pair is worth collocating: ALBIC's own default (Algorithm 2)."""


def capacity_of(first: RoundFigures, nodes: int) -> float:
    """CPU ms per round that a node can use by definition."""
    return first.cpu_s * 1000 / nodes / MEAN_LOAD


def problem_of(
    topology: Topology,
    placement: Placement,
    node_ids: tuple[str, ...],
    figures: RoundFigures,
    capacity_ms: float,
) -> Problem:
    """Make a problem; loads are CPU ms per round, rates are records per round."""
    groups = topology.all_key_groups
    index = {name: k for k, name in enumerate(groups)}
    number = {node: i for i, node in enumerate(node_ids)}
    ends = [((a, g), (b, h), n) for (a, g, b, h), n in figures.traffic.items()]
    return Problem(
        node_ids=node_ids,
        resources=("cpu",),
        capacity=np.full((len(node_ids), 1), capacity_ms),
        node_state=("alive",) * len(node_ids),
        key_group_ids=tuple(key_group_name(*name) for name in groups),
        operator_ids=tuple(operator for operator, _ in groups),
        load=np.array([[figures.cpu_ms.get(name, 0.0)] for name in groups]),
        state_bytes=np.array([figures.state_bytes.get(name, 0) for name in groups], dtype=np.int64),
        current=np.array([number[placement.node_of(*name)] for name in groups], dtype=np.int64),
        traffic_from=np.array([index[a] for a, _, _ in ends], dtype=np.int64),
        traffic_to=np.array([index[b] for _, b, _ in ends], dtype=np.int64),
        traffic_rate=np.array([n for _, _, n in ends], dtype=np.float64),
    )


def placement_of(
    topology: Topology, node_ids: tuple[str, ...], assignment: IntArray, version: int
) -> Placement:
    """Make a placement of an assignment; key groups are in the topology's order."""
    names = [node_ids[int(i)] for i in assignment]
    nodes: dict[str, tuple[str, ...]] = {}
    start = 0
    for operator, groups in zip(topology.ids, topology.key_groups, strict=True):
        nodes[operator] = tuple(names[start : start + groups])
        start += groups
    return Placement(version, "", nodes)


def even_placement(topology: Topology, node_ids: tuple[str, ...]) -> Placement:
    """Place as many key groups of each operator on every node; each operator starts at another
    node."""
    return Placement(
        0,
        "",
        {
            operator: tuple(node_ids[(g + number) % len(node_ids)] for g in range(groups))
            for number, (operator, groups) in enumerate(
                zip(topology.ids, topology.key_groups, strict=True)
            )
        },
    )


def worst_assignment(problem: Problem, per_node: Mapping[str, int], seed: int) -> IntArray:
    """A level start with as little collocation as possible (5.4).

    The heaviest key group comes first. Each goes to the least loaded node that has room for its
    operator and none of its heavy partners. So no pair worth collocating is on one node, and the
    load is level: the rounds then show the effect of collocation alone.
    """
    graph = TrafficGraph.of(problem)
    heavy = heavy_mask(problem, graph, SCORE_FACTOR)
    partners: list[set[int]] = [set() for _ in range(problem.n_key_groups)]
    for a, b in zip(graph.rows()[heavy].tolist(), graph.partner[heavy].tolist(), strict=True):
        partners[a].add(b)
        partners[b].add(a)
    load = problem.load[:, 0]
    node_load = np.zeros(problem.n_nodes)
    placed = np.full(problem.n_key_groups, -1, dtype=np.int64)
    room = {op: np.full(problem.n_nodes, n) for op, n in per_node.items()}
    random = np.random.default_rng(seed)
    order = np.lexsort((random.random(problem.n_key_groups), -load))
    for k in order.tolist():
        free = room[problem.operator_ids[k]]
        where = np.array([placed[j] for j in partners[k] if placed[j] >= 0], dtype=np.int64)
        together = np.bincount(where, minlength=problem.n_nodes)
        # Room is a rule; a partner's node is taken only when every node with room has one.
        rank = np.lexsort((node_load, together, free <= 0))
        node = int(rank[0])
        placed[k] = node
        free[node] -= 1
        node_load[node] += load[k]
    return placed
