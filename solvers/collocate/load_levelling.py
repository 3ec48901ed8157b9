"""Levels the load of a joint plan with the moves left in its budget, without losing traffic.

A search for traffic stops at the allowed load distance, and a plan in which everything is together
has no reason of its own to be level. Here whole units move: key groups that exchange records on
their node. So no record that stays on its node leaves it. A unit goes from the node that is
farthest from the mean to another one, or two units change places, as long as the load gets more
level and the budget allows it. The moves pay by the budget alone, like those of a balance plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from solvers.collocate.cluster_packing import ClusterTarget
from solvers.collocate.joint_round import JointRound
from solvers.collocate.placement_state import PlacementState
from solvers.model.problem import FloatArray, IntArray

EXCHANGES_TRIED = 40
"""Exchanges of the node farthest from the mean that are tried, the best first."""
SMALL = 1e-12
"""An improvement below this is rounding."""
ROUNDING = 1e-9
NO_UNIT = -1
"""No unit: the other unit moves alone."""


@dataclass(frozen=True, eq=False, slots=True)
class Units:
    """The key groups of a placement in units that may move without losing traffic.

    Attributes:
        members: Key groups of each unit.
        node: [units] Node of each unit.
        load: [units, resources] Load of each unit.
    """

    members: list[list[int]]
    node: IntArray
    load: FloatArray

    @classmethod
    def of(cls, place: PlacementState, target: ClusterTarget | None) -> Units:
        """Return the units that may move: none is pinned, on a draining node or part of a cluster.

        A unit with a part of a cluster of the target waits for the rest of it.
        """
        found = [
            unit
            for unit in _connected(place)
            if place.is_staying[place.node_of[unit[0]]]
            and not any(place.is_pinned[k] for k in unit)
            and _has_whole_clusters(unit, target)
        ]
        load = np.array(place.load).T
        return cls(
            found,
            np.array([place.node_of[unit[0]] for unit in found], dtype=np.int64),
            np.array([load[unit].sum(axis=0) for unit in found]).reshape(len(found), load.shape[1]),
        )


def level_load(
    round_: JointRound, assignment: IntArray, target: ClusterTarget | None
) -> tuple[IntArray, int]:
    """Return the assignment with its load levelled, and how many exchanges that took.

    Args:
        round_: The round; its parameters say to which load distance the load is levelled.
        assignment: The plan so far, within the budget.
        target: Where the clusters should end, if there is a target.
    """
    place = round_.placement(assignment)
    level = round_.params.level_to / 100.0
    if not place.balanced or place.distance() <= level:
        return assignment, 0
    units = Units.of(place, target)
    exchanges = 0
    while place.distance() > level and not round_.clock.is_over():
        if not _exchange(place, units, level):
            break
        exchanges += 1
    return place.assignment(), exchanges


def _connected(place: PlacementState) -> list[list[int]]:
    """Return the sets of key groups that are connected by records which stay on their node."""
    seen = [False] * len(place.node_of)
    found = []
    for first in range(len(place.node_of)):
        if seen[first]:
            continue
        seen[first], unit = True, [first]
        for k in unit:  # The list grows while it is read.
            for j in place.partners[k]:
                if not seen[j] and place.node_of[j] == place.node_of[k]:
                    seen[j] = True
                    unit.append(j)
        found.append(unit)
    return found


def _has_whole_clusters(unit: list[int], target: ClusterTarget | None) -> bool:
    """Return whether the unit has all key groups of each cluster that it has one of."""
    if target is None:
        return True
    clusters = {int(target.cluster_of[k]) for k in unit} - {-1}
    return all(
        int(np.count_nonzero(target.cluster_of == cluster))
        == sum(int(target.cluster_of[k]) == cluster for k in unit)
        for cluster in clusters
    )


def _deviations(place: PlacementState) -> FloatArray:
    """[N, R]: weight x (load / mean - 1) of staying nodes and balanced resources, else 0."""
    sums, capacity = np.array(place.sums).T, np.array(place.capacity).T
    counted = np.array(place.is_staying)[:, None] & (np.array(place.total) > 0)
    mean = np.array(place.total) / np.array(place.room)
    ratio = np.ones_like(sums)
    np.divide(sums, capacity * mean, out=ratio, where=counted)
    deviation: FloatArray = (ratio - 1.0) * np.array(place.weight)
    return deviation


def _exchange(place: PlacementState, units: Units, level: float) -> bool:
    """Make the best exchange of the node farthest from the mean. Returns whether one was made."""
    before = _deviations(place)
    worst = int(np.abs(before).max(axis=1).argmax())
    tried = _ranked(place, units, worst, before, level)
    return any(_apply(place, units, one, level) for one in tried)


@dataclass(frozen=True, slots=True)
class UnitExchange:
    """A unit of one node, or none, and a unit of another node, or none, that change places."""

    first: int
    here: int
    second: int
    there: int


def _ranked(
    place: PlacementState, units: Units, worst: int, before: FloatArray, level: float
) -> Iterator[UnitExchange]:
    """Return the exchanges of a node that lower the energy most for each key group moved."""
    staying = np.flatnonzero(place.is_staying)
    others = np.flatnonzero(units.node != worst)
    targets = staying[staying != worst]
    mine = np.concatenate((np.flatnonzero(units.node == worst), [NO_UNIT])).astype(np.int64)
    yours = np.concatenate((others, np.full(len(targets), NO_UNIT))).astype(np.int64)
    there = np.concatenate((units.node[others], targets)).astype(np.int64)
    scale = np.array(place.weight) / (
        np.array(place.capacity).T * np.array(place.total) / np.array(place.room)
    )
    shift = _loads(units, yours)[None, :, :] - _loads(units, mine)[:, None, :]
    here_after = before[worst] + shift * scale[worst]
    there_after = before[there] - shift * scale[there]
    relief = _energy(before[worst], level) + _energy(before[there], level)[None, :]
    relief = relief - _energy(here_after, level) - _energy(there_after, level)
    size = _sizes(units, mine)[:, None] + _sizes(units, yours)[None, :]
    value = np.where((size > 0) & (relief > SMALL), relief / np.maximum(size, 1), 0.0)
    order = np.argsort(-value, axis=None, kind="stable")[:EXCHANGES_TRIED]
    for a, b in zip(*np.unravel_index(order, value.shape), strict=True):
        if value[a, b] > 0:
            yield UnitExchange(int(mine[a]), worst, int(yours[b]), int(there[b]))


def _loads(units: Units, chosen: IntArray) -> FloatArray:
    """[chosen, resources]: the load of each unit; 0 where there is none."""
    nothing = np.zeros((1, units.load.shape[1]))
    return np.asarray(np.concatenate((units.load, nothing))[chosen])


def _sizes(units: Units, chosen: IntArray) -> IntArray:
    """[chosen]: the number of key groups of each unit; 0 where there is none."""
    return np.array([*(len(unit) for unit in units.members), 0], dtype=np.int64)[chosen]


def _energy(deviation: FloatArray, level: float) -> FloatArray:
    """Return the sum over the resources of the squared excess over the level."""
    energy: FloatArray = (np.maximum(0.0, np.abs(deviation) - level) ** 2).sum(axis=-1)
    return energy


def _apply(place: PlacementState, units: Units, one: UnitExchange, level: float) -> bool:
    """Make an exchange; take it back if it breaks a rule, or does not level the load."""
    steps = [
        (unit, start, end)
        for unit, start, end in (
            (one.first, one.here, one.there), (one.second, one.there, one.here),
        )
        if unit != NO_UNIT
    ]  # fmt: skip
    moves = [(k, end) for unit, _, end in steps for k in units.members[unit]]
    if not all(place.may_be_on(k, node) for k, node in moves):
        return False
    back = [(k, place.node_of[k]) for k, _ in moves]
    energy, saved = _energy(_deviations(place), level).sum(), place.saved
    over_cap = set(place.over_cap)
    for k, node in moves:
        place.move(k, node)
    if (
        place.over_cap <= over_cap
        and is_within_budget(place)
        and place.saved >= saved - ROUNDING * max(1.0, abs(saved))
        and _energy(_deviations(place), level).sum() < energy - SMALL
    ):
        for unit, _, end in steps:
            units.node[unit] = end
        return True
    for k, node in back:
        place.move(k, node)
    return False


def is_within_budget(place: PlacementState) -> bool:
    """Return whether the moves of a placement are within every limit."""
    budget, (moves, n_bytes, pause) = place.budget, place.used
    return (
        (budget.moves is None or moves <= budget.moves)
        and (budget.bytes is None or n_bytes <= budget.bytes)
        and (budget.pause_s is None or pause <= budget.pause_s + budget.pause_slack_s)
    )
