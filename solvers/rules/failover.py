"""Fail-over after the loss of a node or a rack: where key groups go, and how full nodes get.

The key groups of the lost nodes are placed one after another, the largest first, each on the node
that stays, that its rules for single key groups permit and that is then the least full. No other
key group moves. The result is a possible placement, so no node needs to get fuller; a better
placement may exist. The verifier does the same with code of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from solvers.model import metrics
from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem
from solvers.model.rules import HeadroomRule

NODE, RACK = "node", "rack"
ROUNDING = 9
"""Decimals of a utilisation. Nodes that are equal up to them are compared by their order, so that
sums of the same loads in another order choose the same node."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Nodes that are lost together."""

    kind: str
    """``node`` or ``rack``."""
    name: str
    nodes: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, eq=False, slots=True)
class Failover:
    """How full the other nodes are after a loss."""

    loss: Loss
    utilisation: float
    """Of the fullest node; infinite if a key group has no node to go to."""
    fullest: int
    """The index of that node, or of the key group's node if it has no other."""
    largest: float
    """Utilisation that the largest lost key group alone adds to a node of mean capacity."""


def losses_of(problem: Problem, rule: HeadroomRule) -> list[Loss]:
    """Return each loss that a rule names: of a live node, or of all live nodes of a rack."""
    live = np.flatnonzero(~problem.dead).tolist()
    found = []
    if NODE in rule.loss_of:
        found += [Loss(NODE, problem.node_ids[i], (i,)) for i in live]
    if RACK in rule.loss_of:
        racks = dict.fromkeys(problem.rack[i] for i in live)
        found += [
            Loss(RACK, rack, tuple(i for i in live if problem.rack[i] == rack)) for rack in racks
        ]
    return found


def failover(problem: Problem, assignment: IntArray, loss: Loss) -> Failover:
    """Place the key groups of a loss on the other nodes.

    Args:
        problem: nodes, key groups, and where rules permit them.
        assignment: the node of each key group before the loss.
        loss: the nodes that are lost.
    """
    is_lost: BoolArray = np.zeros(problem.n_nodes, dtype=bool)
    is_lost[list(loss.nodes)] = True
    sums = np.zeros((problem.n_nodes, problem.n_resources))
    groups = is_lost[assignment]
    np.add.at(sums, assignment[~groups], problem.load[~groups])
    share: FloatArray = (problem.load / problem.capacity.mean(axis=0)).max(axis=1)
    share = np.round(share, ROUNDING)
    lost = np.flatnonzero(groups)
    order = lost[np.argsort(-share[lost], kind="stable")]
    receives = problem.staying & ~is_lost
    largest = float(share[lost].max(initial=0.0))
    for k in order.tolist():
        targets = _targets(problem, k, receives)
        if not len(targets):
            return Failover(loss, math.inf, int(assignment[k]), largest)
        filled = ((sums[targets] + problem.load[k]) / problem.capacity[targets]).max(axis=1)
        sums[targets[int(np.argmin(np.round(filled, ROUNDING)))]] += problem.load[k]
    left = np.flatnonzero(~is_lost & ~problem.dead)
    if not len(left):
        return Failover(loss, math.inf, loss.nodes[0], largest)
    full = (sums[left] / problem.capacity[left]).max(axis=1)
    at = int(np.argmax(full))
    return Failover(loss, float(full[at]), int(left[at]), largest)


def failovers(problem: Problem, assignment: IntArray, rule: HeadroomRule) -> list[Failover]:
    """Return the fail-over of a placement after each loss."""
    return [failover(problem, assignment, loss) for loss in losses_of(problem, rule)]


def worst(found: Sequence[Failover]) -> Failover | None:
    """Return the loss after which a node is fullest; None if nothing can be lost."""
    return max(found, key=lambda one: one.utilisation, default=None)


def keeps_headroom(rule: HeadroomRule, utilisation: float) -> bool:
    """Return whether a utilisation is within the limit of a rule."""
    return utilisation <= rule.max_utilisation * (1.0 + metrics.CAP_TOLERANCE)


def over_limit(rule: HeadroomRule, found: Sequence[Failover]) -> Iterator[Failover]:
    """Return the losses after which the limit is broken."""
    return (one for one in found if not keeps_headroom(rule, one.utilisation))


def _targets(problem: Problem, k: int, receives: BoolArray) -> IntArray:
    if problem.rules is None or problem.allowed is None:
        return np.flatnonzero(receives)
    targets = problem.targets_of(k)
    return targets[receives[targets]]
