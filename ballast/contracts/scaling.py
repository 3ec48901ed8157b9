"""Which nodes a job uses, by its policy and the rows of plans.scaling of the plan in force."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ballast.contracts.identity import Scaled
from ballast.contracts.policy import JobPolicy

ALIVE, DRAINING = "alive", "draining"
ADD, KEEP, DRAIN, REMOVE, SPARE = "add", "keep", "drain", "remove", "spare"
OUT, IN, HOLD = "out", "in", "hold"
SIZE = "size"
NODE_ACTIONS = (ADD, KEEP, DRAIN, REMOVE, SPARE)
CLUSTER_ACTIONS = (OUT, IN, HOLD)
NODE, CLUSTER, OPERATOR = "node", "cluster", "operator"
SUBJECTS = (NODE, CLUSTER, OPERATOR)
IN_USE = {ADD: ALIVE, KEEP: ALIVE, DRAIN: DRAINING}
"""State of a node by what the plan in force does with it; a node of another action is not used."""


def scaled(rows: Iterable[Any]) -> list[Scaled]:
    """What rows of plans.scaling say is to be done, without the reasons."""
    return [(r["subject"], r["subject_id"], r["action"], r["wanted"]) for r in rows]


def node_actions(scaling: Iterable[Scaled]) -> dict[str, str]:
    """What becomes of each node."""
    return {name: action for subject, name, action, _ in scaling if subject == NODE}


def nodes_in_use(policy: JobPolicy, scaling: Iterable[Scaled] = ()) -> dict[str, str]:
    """Nodes in use under a plan, with their states, in the policy's order.

    A node that the plan does not know is as the policy says: it came into the policy later, or
    there is no such plan. A node that the policy marks as draining drains in any case.
    """
    actions = node_actions(scaling)
    states = {}
    for node in policy.nodes:
        action = actions.get(node.id, SPARE if node.spare else KEEP)
        if action in IN_USE:
            states[node.id] = DRAINING if node.draining else IN_USE[action]
    return states
