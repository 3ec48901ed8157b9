"""Loads and traffic prices under another assignment, predicted from the costs of traffic.

A record between two key groups of one node is neither serialised nor deserialised [ICDE17, 4.3.2].
So an assignment that puts both on one node lowers their load.
"""

from __future__ import annotations

import numpy as np

from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.model.traffic_costs import TrafficCosts
from solvers.model.traffic_graph import TrafficGraph


def serialisation_costs(
    problem: Problem, graph: TrafficGraph, costs: TrafficCosts
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return [G, R] each: load without serialisation, load per record sent, and per received.

    Measured loads contain the serialisation of records that are remote now. If the costs exceed a
    key group's whole load, they are scaled down for it. So no load is negative, and the current
    placement has exactly the measured load.

    Args:
        problem: The measured loads and the current assignment.
        graph: The traffic between key groups.
        costs: Load per record sent and received.
    """
    send, receive = costs.per_resource(problem)
    rows = graph.rows()
    remote = problem.current[rows] != problem.current[graph.partner]
    out = np.bincount(rows, weights=graph.rate_out * remote, minlength=graph.n_vertices)
    into = np.bincount(rows, weights=graph.rate_in * remote, minlength=graph.n_vertices)
    contained = out[:, None] * send + into[:, None] * receive
    share = np.ones_like(contained)
    np.divide(problem.load, contained, out=share, where=contained > problem.load)
    base: FloatArray = np.maximum(0.0, problem.load - share * contained)
    return base, share * send, share * receive


def predicted_load(
    problem: Problem, graph: TrafficGraph, costs: TrafficCosts, assignment: IntArray
) -> FloatArray:
    """[G, R]: the loads under an assignment, computed independently of the incremental search.

    Args:
        problem: The measured loads and the current assignment.
        graph: The traffic between key groups.
        costs: Load per record sent and received.
        assignment: The node of each key group.
    """
    base, send, receive = serialisation_costs(problem, graph, costs)
    rows = graph.rows()
    remote = assignment[rows] != assignment[graph.partner]
    out = np.bincount(rows, weights=graph.rate_out * remote, minlength=graph.n_vertices)
    into = np.bincount(rows, weights=graph.rate_in * remote, minlength=graph.n_vertices)
    load: FloatArray = base + out[:, None] * send + into[:, None] * receive
    return load


def traffic_price(problem: Problem, assignment: IntArray, costs: TrafficCosts) -> float:
    """Return the cost of all records of a unit of time, by their distance; 0 without traffic."""
    if problem.traffic_from is None or problem.traffic_to is None or problem.traffic_rate is None:
        return 0.0
    source, target = assignment[problem.traffic_from], assignment[problem.traffic_to]
    racks = np.unique(problem.rack, return_inverse=True)[1] if problem.rack else None
    is_near = np.ones(len(source), bool) if racks is None else racks[source] == racks[target]
    price = np.where(is_near, costs.within_rack, costs.between_racks)
    price = np.where(source == target, costs.within_node, price)
    return float(price @ problem.traffic_rate)
