"""Builds the objective of the move search from the target, the drain and the gate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from solvers.collocate.cluster_packing import NOWHERE, ClusterTarget, move_costs
from solvers.collocate.joint_params import JointParams
from solvers.collocate.joint_round import JointRound
from solvers.model.amortisation import HeldBack
from solvers.model.pause import move_pause_s
from solvers.model.problem import BoolArray, FloatArray, Problem
from solvers.model.traffic_graph import TrafficGraph, sum_by
from solvers.rebalance.start import normalised_loads


@dataclass(frozen=True, slots=True)
class MoveObjective:
    """What a move is worth besides saved traffic, for each key group and in the same unit.

    Attributes:
        target: Node where the key group should end, or -1.
        pull: Worth of being at the target.
        leave: Worth of leaving a draining node.
        cost: Cost of a move, 1 on average.
        held: Whether the gate lets the key group move neither alone nor with its cluster.
        pays: Key group and gain in; whether the gate lets it move for that gain.
    """

    target: list[int]
    pull: list[float]
    leave: list[float]
    cost: list[float]
    held: list[bool]
    pays: Callable[[int, float], bool] = field(default=lambda _k, _gain: True)


def make_move_objective(
    round_: JointRound, target: ClusterTarget | None
) -> tuple[MoveObjective, tuple[HeldBack, ...]]:
    """Return the objective of a round with this target, and the clusters that the gate holds back.

    Without a target only saved traffic and the drain count.
    """
    problem, graph, params = round_.problem, round_.graph, round_.params
    inner = _inner_rate(problem, graph, target)
    paying, held = _paying_clusters(problem, graph, params, target)
    if target is None:
        wanted = np.full(problem.n_key_groups, NOWHERE)
    else:
        wanted = np.where(paying, target.node_of, NOWHERE)
    gate = params.gate
    n_bytes, pause = problem.state_bytes.tolist(), move_pause_s(problem).tolist()

    def pays(k: int, gain: float) -> bool:
        return gate is None or gate.pays(gain, n_bytes[k], pause[k])

    objective = MoveObjective(
        target=wanted.tolist(),
        pull=(params.target_bonus * params.costs.saved_by_node * inner).tolist(),
        leave=_drain_worth(problem, graph, params).tolist(),
        cost=move_costs(problem, round_.budget).tolist(),
        held=[gate is not None and node == NOWHERE for node in wanted.tolist()],
        pays=pays,
    )
    return objective, held


def _inner_rate(problem: Problem, graph: TrafficGraph, target: ClusterTarget | None) -> FloatArray:
    """Return [key groups]: the rate between a key group and the rest of its cluster."""
    if target is None:
        return np.zeros(problem.n_key_groups)
    rows = graph.rows()
    cluster = target.cluster_of
    inside = (cluster[rows] >= 0) & (cluster[rows] == cluster[graph.partner])
    return sum_by(rows, graph.rate * inside, problem.n_key_groups)


def _paying_clusters(
    problem: Problem, graph: TrafficGraph, params: JointParams, target: ClusterTarget | None
) -> tuple[BoolArray, tuple[HeldBack, ...]]:
    """Return [key groups]: whether the gate lets the cluster of a key group come together.

    Without a gate every cluster may. Also returns the clusters that the gate holds back.
    """
    paying = np.ones(problem.n_key_groups, dtype=bool)
    gate = params.gate
    if target is None or gate is None:
        return paying, ()
    # A key group outside of clusters saves no traffic, so it moves only for balance.
    paying[target.cluster_of < 0] = False
    saved = params.costs.saved_by_node * _saved_by_cluster(problem, graph, target)
    pause_s = move_pause_s(problem)
    held: list[HeldBack] = []
    for cluster, gain in enumerate(saved.tolist()):
        members = np.flatnonzero(target.cluster_of == cluster)
        moving = members[target.node_of[members] != problem.current[members]]
        n_bytes, pause = int(problem.state_bytes[moving].sum()), float(pause_s[moving].sum())
        if not len(moving) or gate.pays(gain, n_bytes, pause):
            continue
        paying[members] = False
        names = tuple(problem.key_group_ids[k] for k in moving.tolist())
        held.append(HeldBack(names, gain, n_bytes, gate.figures_text(gain, n_bytes, pause)))
    return paying, tuple(held)


def _saved_by_cluster(problem: Problem, graph: TrafficGraph, target: ClusterTarget) -> FloatArray:
    """Return [clusters]: the rate that is remote now and local with all members in place."""
    rows, cluster = graph.rows(), target.cluster_of
    ends = target.node_of[rows], target.node_of[graph.partner]
    gained = (
        (cluster[rows] >= 0)
        & (cluster[rows] == cluster[graph.partner])
        & (problem.current[rows] != problem.current[graph.partner])
        & (ends[0] == ends[1])
        & (ends[0] != NOWHERE)
    )
    count = int(cluster.max(initial=-1)) + 1
    return sum_by(cluster[rows[gained]], graph.rate_out[gained], count)


def _drain_worth(problem: Problem, graph: TrafficGraph, params: JointParams) -> FloatArray:
    """Return [key groups]: the worth of leaving a draining node.

    It is the key group's share of the load, in units of all traffic.
    """
    is_draining = problem.draining[problem.current]
    if not is_draining.any():
        return np.zeros(problem.n_key_groups)
    scale = max(graph.total_rate * params.costs.saved_by_node, 1.0)
    share = normalised_loads(problem).max(axis=1) + 1.0 / max(1, problem.n_key_groups)
    worth: FloatArray = params.drain_worth * scale * share * is_draining
    return worth
