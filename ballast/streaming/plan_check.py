"""Check a published plan against the job's own world before anything is changed by it.

Nothing that comes from a table is trusted: a plan that does not fit is refused with the reason,
and the job keeps the one it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ballast.contracts.errors import PlanRefused
from ballast.contracts.identity import content_hash
from ballast.contracts.policy import JobPolicy
from ballast.store.plans import Head
from ballast.streaming.operators import Topology
from ballast.streaming.routing import Placement, moves_between


def checked_placement(
    head: Head,
    rows: Sequence[Mapping[str, Any]],
    topology: Topology,
    policy: JobPolicy,
    current: Placement,
) -> Placement:
    """The placement that the rows describe, or :class:`PlanRefused` with the reason."""
    content = [(str(r["operator_id"]), int(r["key_group"]), str(r["node_id"])) for r in rows]
    _check_hash(head, content)
    _check_key_groups(content, topology)
    _check_nodes(content, policy)
    owner = {(operator, group): node for operator, group, node in content}
    placement = Placement(
        head.version,
        head.plan_id,
        {
            operator: tuple(owner[operator, group] for group in range(groups))
            for operator, groups in zip(topology.ids, topology.key_groups, strict=True)
        },
    )
    _check_draining(current, placement, topology, policy)
    return placement


def _check_hash(head: Head, content: list[tuple[str, int, str]]) -> None:
    found = content_hash(content)
    if found != head.content_hash:
        raise PlanRefused(
            f"content hash of plan {head.plan_id} is {found[:16]} over {len(content)} rows, "
            f"the head promises {head.content_hash[:16]}; publish the plan again"
        )


def _check_key_groups(content: list[tuple[str, int, str]], topology: Topology) -> None:
    counted = Counter((operator, group) for operator, group, _ in content)
    wanted = set(topology.all_key_groups)
    twice = sorted(name for name, count in counted.items() if count > 1)
    unknown = sorted(counted.keys() - wanted)
    missing = sorted(wanted - counted.keys())
    for problem, names in (("twice", twice), ("unknown to the job", unknown), ("not", missing)):
        if names:
            raise PlanRefused(
                f"the plan places {_some(names)} {problem}; each key group of "
                f"{', '.join(topology.ids)} must be placed exactly once"
            )


def _check_nodes(content: list[tuple[str, int, str]], policy: JobPolicy) -> None:
    known = [node.id for node in policy.nodes]
    unknown = sorted({node for _, _, node in content} - set(known))
    if unknown:
        raise PlanRefused(
            f"the plan uses the unknown node {', '.join(unknown)}; the job's policy has "
            f"{', '.join(known)}: add the node to the policy and restart the job, or plan again"
        )


def _check_draining(
    current: Placement, new: Placement, topology: Topology, policy: JobPolicy
) -> None:
    draining = {node.id for node in policy.nodes if node.draining}
    onto = [
        (move.operator_id, move.key_group)
        for move in moves_between(current, new, topology.ids)
        if move.target in draining
    ]
    if onto:
        raise PlanRefused(
            f"the plan moves {_some(onto)} onto a draining node; draining nodes get nothing new: "
            "plan again"
        )


def _some(names: list[tuple[str, int]]) -> str:
    shown = ", ".join(f"{operator}/{group}" for operator, group in names[:3])
    return shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")
