"""Weights of a region's connections, and the weighted round robin among them.

Weights are whole units of 0.1 % [MW16-REGIONS, 5.1].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ballast.contracts.errors import InvalidInput
from ballast.contracts.regions import UNITS, even_units

Units = NDArray[np.int64]


def even_weights(workers: int) -> list[int]:
    """Weights as even as whole units can be."""
    return list(even_units([str(worker) for worker in range(workers)]).values())


def checked(weights: Sequence[int], workers: int) -> Units:
    """The weights as an array.

    Raises:
        InvalidInput: they are not whole units that add up, one for each worker.
    """
    given = [int(w) for w in weights]
    if len(given) != workers or any(w != g for w, g in zip(weights, given, strict=True)):
        raise InvalidInput(
            f"{len(given)} weights for {workers} workers, or some not whole",
            value=list(weights),
            allowed=f"{workers} whole units",
        )
    if min(given) < 0 or sum(given) != UNITS:
        raise InvalidInput(
            f"the weights add up to {sum(given)}",
            value=given,
            allowed=f"whole units >= 0 that add up to {UNITS}",
            remedy="pass the weights of a plan or of the local loop unchanged",
        )
    return np.array(given, dtype=np.int64)


def rounded(parts: Sequence[float]) -> Units:
    """Whole units in these proportions, by the largest remainder method."""
    exact = np.asarray(parts, dtype=np.float64) * (UNITS / float(np.sum(parts)))
    units = np.floor(exact).astype(np.int64)
    order = np.argsort(units - exact, kind="stable")
    units[order[: UNITS - int(units.sum())]] += 1
    return units


def among_alive(weights: Units, alive: NDArray[np.bool_]) -> Units:
    """Gives the weights of dead workers to the others in proportion, evenly if those have none."""
    parts = np.where(alive, weights, 0)
    if not parts.any():
        parts = alive.astype(np.int64)
    return rounded(parts.tolist()) if int(parts.sum()) != UNITS else parts


def near(wanted: Sequence[int], middle: Sequence[int], reach: int) -> list[int]:
    """The wanted weights, limited to ``reach`` units around the middle.

    What is cut off goes to weights that are below their limit, in proportion to the difference.
    """
    lowest = np.maximum(np.asarray(middle, dtype=np.int64) - reach, 0)
    highest = np.minimum(np.asarray(middle, dtype=np.int64) + reach, UNITS)
    units = np.clip(np.asarray(wanted, dtype=np.int64), lowest, highest)
    missing = UNITS - int(units.sum())
    room = highest - units if missing > 0 else units - lowest
    # The middle adds up to all units, so there is always enough room.
    part = abs(missing) * room // max(int(room.sum()), 1)
    rest = abs(missing) - int(part.sum())
    part[np.argsort(part - room, kind="stable")[:rest]] += 1
    return [int(u) for u in (units + part if missing > 0 else units - part)]


class WeightedRoundRobin:
    """Smooth weighted round robin that keeps its credit when weights change.

    A connection of weight 1 gets one record of a thousand, even if weights change every hundred
    records. With a fixed cycle that restarts at each change it would never get one.
    """

    def __init__(self, weights: Units) -> None:
        self.weights = weights
        self._credit = np.zeros(len(weights), dtype=np.float64)

    def change(self, weights: Units) -> None:
        self.weights = weights
        # Credit from a large weight must not become a burst under a small one.
        self._credit = np.where(weights > 0, np.clip(self._credit, -UNITS, UNITS), 0.0)

    def next(self) -> int:
        self._credit += self.weights
        chosen = int(np.argmax(np.where(self.weights > 0, self._credit, -np.inf)))
        self._credit[chosen] -= UNITS
        return chosen

    def charge_instead(self, chosen: int, taken: int) -> None:
        """Charge the record to the connection that took it, not to the one that was chosen."""
        self._credit[chosen] += UNITS
        self._credit[taken] -= UNITS
