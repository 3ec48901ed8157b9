"""Checks a published plan against the job's operators and nodes before the job follows it.

Nothing that comes from a table is trusted: a plan that does not fit is refused with a reason, and
the job keeps the plan that it has.
"""

from __future__ import annotations

from collections.abc import Sequence

from ballast.contracts.errors import InvalidInput, PlanRefused
from ballast.contracts.identity import Split, is_routable
from ballast.contracts.placement_check import (
    check_key_groups,
    check_nodes,
    shown_key_groups,
)
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Head
from ballast.contracts.scaling import DRAINING, nodes_in_use
from ballast.contracts.tables import LONGEST_ROUTED_KEY_BYTES
from ballast.store.plan_content import PublishedContent, Route
from ballast.streaming.operators import Topology
from ballast.streaming.routing import Placement, key_transfers_between, moves_between

SHOWN_KEY = 40


def checked_placement(
    head: Head,
    content: PublishedContent,
    topology: Topology,
    policy: JobPolicy,
    current: Placement,
) -> Placement:
    """The placement that a plan's content describes.

    The weights of ordered regions are kept with it; the regions check what the weights say.

    Args:
        head: the published version.
        content: the plan's content as the tables have it.
        topology: the job's operators and key groups.
        policy: the job's policy, with its nodes.
        current: the placement in force, to see what would move.

    Raises:
        PlanRefused: the content is not what was published, or does not fit the job.
    """
    content.check_hash(head)
    check_key_groups(content.assignment, dict(zip(topology.ids, topology.key_groups, strict=True)))
    check_nodes(content.assignment, policy, content.scaling)
    _check_routes(content.routes, topology)
    _check_split_rows(content.splits, topology)
    owner = {(operator, group): node for operator, group, node in content.assignment}
    placement = Placement(
        head.version,
        head.plan_id,
        {
            operator: tuple(owner[operator, group] for group in range(groups))
            for operator, groups in zip(topology.ids, topology.key_groups, strict=True)
        },
        _by_operator(content.routes),
        tuple(content.scaling),
        tuple(content.weights),
        _parts_by_operator(content.splits),
    )
    _check_split_homes(placement)
    _check_draining(current, placement, topology, policy)
    return placement


def check_keeps_routes(placement: Placement, topology: Topology) -> None:
    """Checks after a restart that operators with routes in force still keep their state by key."""
    for operator in topology.operators:
        if placement.routes_of(operator.id) and not operator.state_by_key:
            raise InvalidInput(
                f"plan v{placement.version} routes keys of {operator.id}, which no longer says "
                "that it keeps its state by key",
                value=operator.id, allowed="state_by_key=True",
                remedy="declare it again, or publish a plan without routes first",
            )  # fmt: skip


def check_keeps_merges(placement: Placement, topology: Topology) -> None:
    """Checks after a restart that operators with split keys in force still declare a merge."""
    for operator in topology.operators:
        if placement.splits.get(operator.id) and operator.merge is None:
            raise InvalidInput(
                f"plan v{placement.version} splits keys of {operator.id}, which no longer declares "
                "how partial states merge", value=operator.id, allowed="merge=StateMerge(...)",
                remedy="declare it again, or publish a plan without splits first",
            )  # fmt: skip


def _check_split_rows(splits: Sequence[Split], topology: Topology) -> None:
    """Every part names an operator that merges, a key, and a key group of the operator once."""
    key_groups = dict(zip(topology.ids, topology.key_groups, strict=True))
    merging = {operator.id for operator in topology.operators if operator.merge is not None}
    for position, (operator, key, group) in enumerate(splits):
        if operator not in key_groups:
            problem = f"operator {operator!r} is unknown to the job"
        elif operator not in merging:
            problem = f"{operator} does not declare how partial states merge (merge=StateMerge)"
        elif not is_routable(key):
            problem = f"the key is longer than {LONGEST_ROUTED_KEY_BYTES} bytes or no UTF-8"
        elif not 0 <= group < key_groups[operator]:
            problem = f"key group {group} is not one of 0 to {key_groups[operator] - 1}"
        elif (operator, key, group) in splits[:position]:
            problem = f"key group {group} is given twice"
        else:
            continue
        raise PlanRefused(f"the plan splits key {_shown(key)} of {operator}: {problem}; plan again")


def _check_split_homes(placement: Placement) -> None:
    """Every split has two parts or more, and the key's own key group is one of them."""
    for operator, splits in placement.splits.items():
        for key, groups in splits.items():
            home = placement.group_of(operator, key)
            if len(groups) < 2 or home not in groups:
                raise PlanRefused(
                    f"the plan splits key {_shown(key)} of {operator} over the key groups "
                    f"{', '.join(map(str, groups))}; allowed: two or more, with its own key group "
                    f"{home}; plan again"
                )


def _parts_by_operator(splits: Sequence[Split]) -> dict[str, dict[str, tuple[int, ...]]]:
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for operator, key, group in sorted(splits):
        keys = found.setdefault(operator, {})
        keys[key] = (*keys.get(key, ()), group)
    return found


def _shown(key: str) -> str:
    return repr(key if len(key) <= SHOWN_KEY else f"{key[:SHOWN_KEY]}...")


def _check_routes(routes: Sequence[Route], topology: Topology) -> None:
    """Every route names an operator with state by key, a key group of it, and a key once."""
    key_groups = dict(zip(topology.ids, topology.key_groups, strict=True))
    by_key = {operator.id for operator in topology.operators if operator.state_by_key}
    seen = set()
    for operator, key, group in routes:
        if operator not in key_groups:
            problem = f"operator {operator!r} is unknown to the job"
        elif operator not in by_key:
            problem = f"{operator} does not keep its state by key (state_by_key=True)"
        elif not is_routable(key):
            problem = f"the key is longer than {LONGEST_ROUTED_KEY_BYTES} bytes or no UTF-8"
        elif not 0 <= group < key_groups[operator]:
            problem = f"key group {group} is not one of 0 to {key_groups[operator] - 1}"
        elif (operator, key) in seen:
            problem = "the key has another route"
        else:
            seen.add((operator, key))
            continue
        raise PlanRefused(f"the plan routes key {_shown(key)} of {operator}: {problem}; plan again")


def _by_operator(routes: Sequence[Route]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for operator, key, group in routes:
        found.setdefault(operator, {})[key] = group
    return found


def _check_draining(
    current: Placement, new: Placement, topology: Topology, policy: JobPolicy
) -> None:
    states = nodes_in_use(policy, new.scaling)
    draining = {node for node, state in states.items() if state == DRAINING}
    onto = [
        (move.operator_id, move.key_group)
        for move in moves_between(current, new, topology.ids)
        if move.target in draining
    ]
    if onto:
        raise PlanRefused(
            f"the plan moves {shown_key_groups(onto)} onto a draining node; draining nodes get "
            "nothing new: plan again"
        )
    for routed in key_transfers_between(current, new, topology.ids):
        # The key group that a key is joined in has a part of it already.
        is_joined = routed.to_group in current.parts_of(routed.operator_id, routed.key)
        if routed.target in draining and routed.source != routed.target and not is_joined:
            raise PlanRefused(
                f"the plan routes key {routed.key[:SHOWN_KEY]!r} of {routed.operator_id} onto "
                f"the draining node {routed.target}; draining nodes get nothing new: plan again"
            )
    _check_draining_parts(current, new, draining)


def _check_draining_parts(current: Placement, new: Placement, draining: set[str]) -> None:
    for operator, splits in new.splits.items():
        for key, groups in splits.items():
            added = set(groups) - set(current.parts_of(operator, key))
            node = next((n for g in added if (n := new.node_of(operator, g)) in draining), None)
            if node is not None:
                raise PlanRefused(
                    f"the plan splits key {_shown(key)} of {operator} onto the draining node "
                    f"{node}; draining nodes get nothing new: plan again"
                )
