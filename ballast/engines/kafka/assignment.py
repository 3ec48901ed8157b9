"""Which member of a consumer group gets which partition, under a plan and without one. Pure.

Whatever happens, every partition has an owner after the last rebalance: a partition whose node is
not in the group stays where it is or goes to the member with the fewest partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

Partition = tuple[str, int]
"""Topic and number."""


@dataclass(frozen=True)
class GroupMemberState:
    """What a member reports when it joins the group."""

    member_id: str
    node_id: str
    topics: frozenset[str]
    owned: frozenset[Partition] = frozenset()
    generation: int = -1
    """The generation that it got these partitions in."""
    known_version: int = 0
    """The newest plan version that it has read."""
    is_trigger: bool = False
    """Whether it brings plans and gets no partitions."""


@dataclass(frozen=True)
class PlannedPartitions:
    """A plan as the leader of the group knows it; version 0 is none."""

    version: int = 0
    nodes: Mapping[Partition, str] | None = None


@dataclass(frozen=True)
class TargetAssignment:
    """The owner that every partition shall have in the end."""

    version: int
    owner: Mapping[Partition, str]
    displaced: tuple[Partition, ...] = ()
    """Partitions whose node is not in the group."""


def present_owners(members: Sequence[GroupMemberState]) -> dict[Partition, str]:
    """The owner of each partition, as the members report.

    If two members claim a partition, the one with the newer generation owns it; of equal ones
    neither, so that both give it up.
    """
    claims: dict[Partition, list[GroupMemberState]] = defaultdict(list)
    for member in members:
        for partition in member.owned:
            claims[partition].append(member)
    owners = {}
    for partition, claimants in claims.items():
        newest = max(member.generation for member in claimants)
        holders = [member for member in claimants if member.generation == newest]
        if len(holders) == 1:
            owners[partition] = holders[0].member_id
    return owners


def target_of(
    partitions: Collection[Partition], members: Sequence[GroupMemberState], plan: PlannedPartitions
) -> TargetAssignment:
    """The owner that each partition shall have.

    Without a plan the members get equally many partitions, and keep what they have where they can.
    A leader that has not read the newest plan moves nothing: it will assign again once it has.

    Args:
        partitions: all partitions of the topics.
        members: the members of the group; at least one.
        plan: the plan that the leader has read.
    """
    owners = present_owners(members)
    newest_known = max(member.known_version for member in members)
    if newest_known > plan.version:
        kept = {p: owners[p] for p in partitions if p in owners}
        return TargetAssignment(plan.version, _completed(kept, partitions, members))
    if plan.version == 0 or not plan.nodes:
        kept = _kept_within_quota(partitions, members, owners)
        return TargetAssignment(0, _completed(kept, partitions, members))
    return _planned(partitions, members, owners, plan)


def _planned(
    partitions: Collection[Partition],
    members: Sequence[GroupMemberState],
    owners: Mapping[Partition, str],
    plan: PlannedPartitions,
) -> TargetAssignment:
    nodes = plan.nodes or {}
    member_of = _member_of_node(members, owners, nodes)
    topics = {member.member_id: member.topics for member in members}
    wanted = {p: member_of[nodes[p]] for p in partitions if nodes.get(p) in member_of}
    placed = {p: m for p, m in wanted.items() if p[0] in topics[m]}
    displaced = tuple(sorted(p for p in partitions if p not in placed))
    for partition in displaced:
        if partition in owners:
            placed[partition] = owners[partition]
    return TargetAssignment(plan.version, _completed(placed, partitions, members), displaced)


def _member_of_node(
    members: Sequence[GroupMemberState],
    owners: Mapping[Partition, str],
    nodes: Mapping[Partition, str],
) -> dict[str, str]:
    """The member of each node; of several the one that has most of the node's partitions now."""
    has: dict[str, int] = defaultdict(int)
    node_of = {member.member_id: member.node_id for member in members}
    for partition, owner in owners.items():
        has[owner] += nodes.get(partition) == node_of[owner]
    best_last = sorted(members, key=lambda m: (has[m.member_id], _descending(m.member_id)))
    return {member.node_id: member.member_id for member in best_last}


def _descending(text: str) -> tuple[int, ...]:
    return tuple(-ord(letter) for letter in text)


def _kept_within_quota(
    partitions: Collection[Partition],
    members: Sequence[GroupMemberState],
    owners: Mapping[Partition, str],
) -> dict[Partition, str]:
    """What each member keeps, at most its share; members with the most get the larger shares."""
    held: dict[str, list[Partition]] = {member.member_id: [] for member in members}
    for partition in sorted(partitions):
        if partition in owners:
            held[owners[partition]].append(partition)
    share, larger = divmod(len(partitions), len(members))
    by_size = sorted(held, key=lambda member: (-len(held[member]), member))
    return {
        partition: member
        for place, member in enumerate(by_size)
        for partition in held[member][: share + (place < larger)]
    }


def _completed(
    placed: Mapping[Partition, str],
    partitions: Iterable[Partition],
    members: Sequence[GroupMemberState],
) -> dict[Partition, str]:
    """The placement with every other partition on the member that has the fewest."""
    complete = dict(placed)
    count: dict[str, int] = {member.member_id: 0 for member in members}
    for owner in complete.values():
        count[owner] += 1
    for partition in sorted(partitions):
        able = [member.member_id for member in members if partition[0] in member.topics]
        if partition not in complete and able:
            complete[partition] = min(able, key=lambda member: (count[member], member))
            count[complete[partition]] += 1
    return complete


def this_round(
    target: TargetAssignment, members: Sequence[GroupMemberState]
) -> dict[str, dict[str, list[int]]]:
    """What each member gets in this round of a cooperative rebalance, by topic.

    A partition that changes its owner has none in this round: the old owner gives it up and joins
    again, and the new owner gets it in the next round (KIP-429).
    """
    owners = present_owners(members)
    claimed = {partition for member in members for partition in member.owned}
    result: dict[str, dict[str, list[int]]] = {member.member_id: {} for member in members}
    for (topic, number), member in sorted(target.owner.items()):
        owner = owners.get((topic, number))
        is_free = owner is None and (topic, number) not in claimed
        if is_free or owner == member:
            result[member].setdefault(topic, []).append(number)
    return result
