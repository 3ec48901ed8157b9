"""Lower and upper bound of each weight: m_j and M_j of [MW16-REGIONS, 5.2]."""

from __future__ import annotations

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.model.problem import BoolArray, IntArray


def weight_bounds(
    now: IntArray,
    alive: BoolArray,
    known: BoolArray,
    units: int,
    min_units: int = 0,
    max_change: int | None = None,
) -> tuple[IntArray, IntArray]:
    """Bounds from the largest change in a round and the floor.

    Dead connections get nothing; connections without measurements keep their weight. The bounds
    always allow exactly all units. If the floor does not fit beside the other bounds, a connection
    that was below it may stay at its weight, but may not go lower.

    Args:
        now: [N], weights in force.
        alive: [N], connections that exist.
        known: [N], connections with measurements.
        min_units: the floor of each weight.
        max_change: largest change of a weight in a round; no limit if None.

    Returns:
        (lowest, highest), [N] each.
    """
    _check_floor(int(alive.sum()), units, min_units)
    # The units of a dead connection must move now, so the limit on changes is lifted.
    must_go = bool((now[~alive] > 0).any())
    change = units if max_change is None or must_go else max_change
    highest = np.minimum(now + change, units)
    silent = alive & ~known
    is_kept = silent & (bool((alive & known).any()) or not must_go)
    for floor in (np.full(len(now), min_units), np.minimum(now, min_units)):
        wanted = np.where(is_kept, np.maximum(now, floor), np.maximum(now - change, floor))
        lowest = np.where(alive, np.minimum(wanted, highest), 0)
        most = np.where(alive, np.where(is_kept, lowest, highest), 0)
        if int(lowest.sum()) <= units <= int(most.sum()):
            break
    return lowest.astype(np.int64), most.astype(np.int64)


def _check_floor(living: int, units: int, min_units: int) -> None:
    if min_units * living > units:
        raise InvalidInput(
            f"min_units {min_units} for every connection needs {min_units * living} of {units} "
            "units",
            remedy="lower min_units",
        )
