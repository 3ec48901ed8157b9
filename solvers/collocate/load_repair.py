"""Brings the load distance of a placement under its bound with the least loss for the objective."""

from __future__ import annotations

import heapq

from solvers.collocate.move_rating import NODES_TRIED, SMALL, MoveRating
from solvers.collocate.placement_state import TINY, PlacementState


def repair_load(rating: MoveRating, bound: float) -> None:
    """Move key groups until the load distance is at most ``bound`` or the budget is used up.

    The relief of a move is counted at its two nodes only. Where records between nodes cost load, a
    move also changes other nodes, and moves can undo each other, so the repair ends when a
    placement comes back.
    """
    place = rating.place
    changes, seen = 0, {0}
    while place.distance() > bound + TINY:
        best = max(_repairs(rating, bound), default=None)
        if best is None:
            return
        _, _, k, node = best
        changes ^= hash((k, place.node_of[k])) ^ hash((k, node))
        rating.apply(k, node)
        if changes in seen:
            return
        seen.add(changes)


def _repairs(rating: MoveRating, bound: float) -> list[tuple[float, float, int, int]]:
    """Return (relief, worth, key group, node) of the moves that relieve a node."""
    place = rating.place
    repairs = []
    for k, node in _repair_moves(place):
        if node == place.node_of[k] or not place.may_be_on(k, node):
            continue
        if not (place.is_affordable(k, node) and place.keeps_caps(k, node)):
            continue
        relief = load_relief(place, k, node, bound)
        if relief > SMALL:
            repairs.append((round(relief, 9), rating.worth(k, node), k, node))
    return repairs


def _repair_moves(place: PlacementState) -> list[tuple[int, int]]:
    """Return (key group, node): moves off the worst node, or onto it if it is too empty."""
    _, r, worst = max(
        (place.weight[r] * abs(place.ratio[r][i] * place.room[r] / place.total[r] - 1.0), r, i)
        for r in place.balanced
        if place.total[r] > 0
        for i, stays in enumerate(place.is_staying)
        if stays
    )
    if place.ratio[r][worst] * place.room[r] / place.total[r] > 1.0:
        emptiest = place.emptiest_nodes(NODES_TRIED, r)
        return [(k, i) for k in place.members[worst] for i in emptiest]
    full = heapq.nlargest(
        NODES_TRIED, range(len(place.is_staying)), key=lambda i: place.ratio[r][i]
    )
    draining = [i for i, stays in enumerate(place.is_staying) if not stays]
    return [(k, worst) for i in {*full, *draining} for k in place.members[i]]


def load_relief(place: PlacementState, k: int, node: int, bound: float) -> float:
    """Return by how much the squared excesses of the two nodes fall, over balanced resources."""
    old = place.node_of[k]
    relief = 0.0
    shifts = place.shifts(k, node)
    for r in place.balanced:
        if place.total[r] <= 0:
            continue
        old_change, new_change, _ = shifts[r]
        weight = place.weight[r]
        for i, change in ((old, old_change), (node, new_change)):
            if place.is_staying[i]:
                scale = place.room[r] / (place.total[r] * place.capacity[r][i])
                before = place.sums[r][i] * scale - 1.0
                after = (place.sums[r][i] + change) * scale - 1.0
                relief += max(0.0, weight * abs(before) - bound) ** 2
                relief -= max(0.0, weight * abs(after) - bound) ** 2
    return relief
