"""Checks the placement of a published plan against a job's key groups and nodes.

An engine that takes a plan up checks it first. Nothing that comes from a table is trusted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ballast.contracts.errors import PlanRefused
from ballast.contracts.identity import Scaled
from ballast.contracts.policy import JobPolicy
from ballast.contracts.scaling import IN_USE, node_actions, nodes_in_use

Assigned = tuple[str, int, str]
"""Operator, key group, node."""
MOST_SHOWN = 3


def check_key_groups(assignment: Sequence[Assigned], key_groups: Mapping[str, int]) -> None:
    """Check that every key group is placed exactly once.

    Args:
        assignment: the placement.
        key_groups: the number of key groups of each operator of the job.

    Raises:
        PlanRefused: a key group is placed twice, not at all, or is unknown to the job.
    """
    counted = Counter((operator, group) for operator, group, _ in assignment)
    wanted = {(operator, group) for operator, size in key_groups.items() for group in range(size)}
    twice = sorted(name for name, count in counted.items() if count > 1)
    unknown = sorted(counted.keys() - wanted)
    missing = sorted(wanted - counted.keys())
    for problem, names in (("twice", twice), ("unknown to the job", unknown), ("not", missing)):
        if names:
            raise PlanRefused(
                f"the plan places {shown_key_groups(names)} {problem}; each key group of "
                f"{', '.join(key_groups)} must be placed exactly once"
            )


def check_nodes(
    assignment: Sequence[Assigned], policy: JobPolicy, scaling: Sequence[Scaled]
) -> None:
    """Check that the plan uses nodes of the policy alone, and places nothing on unused ones.

    Raises:
        PlanRefused: it uses a node that is unknown, spare or removed.
    """
    known = [node.id for node in policy.nodes]
    used = {name for name, action in node_actions(scaling).items() if action in IN_USE}
    strange = sorted(used - set(known))
    if strange:
        raise PlanRefused(
            f"the plan adds or keeps the unknown node {', '.join(strange)}; the job's policy has "
            f"{', '.join(known)}: add the node to the policy and restart the job, or plan again"
        )
    placed = {node for _, _, node in assignment} & set(known)
    unused = sorted(placed - nodes_in_use(policy, scaling).keys())
    if unused:
        raise PlanRefused(
            f"the plan places key groups on node {', '.join(unused)}, which it does not use (a "
            "spare node, or one it removes): plan again"
        )
    unknown = sorted({node for _, _, node in assignment} - set(known))
    if unknown:
        raise PlanRefused(
            f"the plan uses the unknown node {', '.join(unknown)}; the job's policy has "
            f"{', '.join(known)}: add the node to the policy and restart the job, or plan again"
        )


def shown_key_groups(names: Sequence[tuple[str, int]]) -> str:
    """The first key groups of a list, and how many more there are."""
    shown = ", ".join(f"{operator}/{group}" for operator, group in names[:MOST_SHOWN])
    more = len(names) - MOST_SHOWN
    return shown + (f" and {more} more" if more > 0 else "")
