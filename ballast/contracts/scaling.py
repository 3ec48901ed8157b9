"""The nodes that a job uses, from its policy and the plan in force (plans.scaling)."""

from __future__ import annotations

from collections.abc import Iterable

from ballast.contracts.identity import Scaled
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import ScalingRow

ALIVE, DRAINING = "alive", "draining"
ADD, KEEP, DRAIN, REMOVE, SPARE = "add", "keep", "drain", "remove", "spare"
OUT, IN, HOLD = "out", "in", "hold"
SIZE = "size"
NODE, CLUSTER, OPERATOR = "node", "cluster", "operator"
LARGEST_UTILISATION = 1e15
"""Stands for an infinite load in a table."""
IN_USE = {ADD: ALIVE, KEEP: ALIVE, DRAIN: DRAINING}
"""The state of a node by the plan's action on it; nodes with other actions are not used."""


def scaled(rows: Iterable[ScalingRow]) -> list[Scaled]:
    """The part of plans.scaling that belongs to a plan's content: no reasons and no figures."""
    return [(row.subject, row.subject_id, row.action, row.wanted) for row in rows]


def node_actions(scaling: Iterable[Scaled]) -> dict[str, str]:
    """The plan's action on each node, by node id."""
    return {name: action for subject, name, action, _ in scaling if subject == NODE}


def operator_sizes(scaling: Iterable[Scaled]) -> dict[str, int]:
    """Instances of each operator under the plan, by operator id."""
    return {
        name: wanted
        for subject, name, action, wanted in scaling
        if subject == OPERATOR and action == SIZE and wanted is not None
    }


def nodes_in_use(policy: JobPolicy, scaling: Iterable[Scaled] = ()) -> dict[str, str]:
    """Nodes in use under a plan, with their states, in the policy's order.

    The policy decides about a node that the plan does not name: the node came into the policy
    later, or there is no plan. A node that the policy marks as draining always drains.
    """
    actions = node_actions(scaling)
    states = {}
    for node in policy.nodes:
        action = actions.get(node.id, SPARE if node.spare else KEEP)
        if action in IN_USE:
            states[node.id] = DRAINING if node.draining else IN_USE[action]
    return states
