"""Searches one round of moves: best worth per cost first, within a load limit.

A move that does not fit alone is tried in a cycle with others (one comes, one goes). Then some
moves are undone and the budget is filled again, and the better of the two plans stays.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Collection

from solvers.collocate.load_repair import repair_load
from solvers.collocate.move_objective import MoveObjective
from solvers.collocate.move_rating import SMALL, MoveRating, Option
from solvers.collocate.placement_state import TINY, PlacementState

UNDO_SHARE = 0.3
"""Share of the moves that are undone before the budget is filled again."""
PAIRS_TRIED = 12
BLOCKED_TRIED = 60
LONGEST_CYCLE = 4
CYCLE_BRANCHES = 2


class MoveSearch(MoveRating):
    """Changes a placement in place. ``limit`` is the load distance that moves must keep."""

    def __init__(
        self, place: PlacementState, objective: MoveObjective, limit: float, seed: int
    ) -> None:
        super().__init__(place, objective)
        self.limit = limit
        self.random = random.Random(seed)

    def run(self, passes: int, keep: Collection[int], is_over: Callable[[], bool]) -> None:
        """Repair the load if needed, fill the budget, then undo and refill several times.

        Args:
            passes: How often moves are undone and the budget is filled again.
            keep: Key groups whose moves are never undone.
            is_over: Whether the time is over.
        """
        bound, place = self.limit, self.place
        if place.distance() > bound + TINY:
            repair_load(self, bound)
        self.limit = max(bound, place.distance())
        self.fill()
        for _ in range(passes):
            if is_over():
                break
            self.undo_and_refill(keep)

    def fill(self) -> None:
        """Apply the best moves until the budget or the good moves are used up."""
        waiting = list(range(len(self.place.node_of)))
        while waiting:
            moved, blocked = self._fill_once(waiting)
            paired = self._move_blocked(blocked) if blocked else False
            if not (moved or paired):
                return
            waiting = blocked

    def undo_and_refill(self, keep: Collection[int]) -> bool:
        """Undo some moves and fill again; take it all back if that is not better.

        Returns:
            Whether the placement is better than before.
        """
        place = self.place
        before, score = list(place.node_of), self.score
        moved = [k for k, i in enumerate(place.node_of) if i != place.home[k] and k not in keep]
        if not moved:
            return False
        for k in self.random.sample(moved, max(1, round(UNDO_SHARE * len(moved)))):
            if place.may_be_on(k, place.home[k]):
                self.apply(k, place.home[k])
        # Some moves were made for the load alone; without them no other move would fit.
        repair_load(self, self.limit)
        if place.distance() <= self.limit + TINY:
            self.fill()
        is_valid = place.distance() <= self.limit + TINY and not place.over_cap
        if self.score > score + SMALL and is_valid:
            return True
        for k, node in enumerate(before):
            self.put(k, node)
        self.score = score
        return False

    def _fill_once(self, groups: list[int]) -> tuple[bool, list[int]]:
        """Apply moves by a heap, and return whether one was made and which did not fit.

        Entries of the heap can be outdated, so each is rated again when it comes up.
        """
        heap = [(-p, k) for k in groups if (p := self._priority(k)) > 0]
        heapq.heapify(heap)
        blocked: dict[int, None] = {}
        moved = False
        while heap:
            negative, k = heapq.heappop(heap)
            options = self._affordable_options(k)
            if not options:
                continue
            priority = options[0][0] / self.cost(k)
            if priority < -negative - SMALL:
                heapq.heappush(heap, (-priority, k))
                continue
            node = next((i for _, i in options if self.place.fits(k, i, self.limit)), None)
            if node is None:
                blocked[k] = None
                continue
            self.apply(k, node)
            moved = True
            for j in (k, *self.place.partners[k]):
                if (p := self._priority(j)) > 0:
                    heapq.heappush(heap, (-p, j))
        return moved, list(blocked)

    def _priority(self, k: int) -> float:
        options = self._affordable_options(k)
        return options[0][0] / self.cost(k) if options else 0.0

    def _affordable_options(self, k: int) -> list[Option]:
        place = self.place
        if place.is_pinned[k]:
            return []
        if place.node_of[k] == place.home[k] and not place.is_affordable(k, -1):
            return []
        return self.options(k)

    def _move_blocked(self, blocked: list[int]) -> bool:
        """Try the moves that did not fit as cycles. Returns whether one was made."""
        ranked = sorted(blocked, key=lambda k: (-self._priority(k), k))[:BLOCKED_TRIED]
        return sum(self._move_in_cycle(k) for k in ranked) > 0

    def _move_in_cycle(self, k: int) -> bool:
        place = self.place
        for worth, node in self._affordable_options(k)[:2]:
            old = place.node_of[k]
            before = self.score
            self.apply(k, node)
            if self._close_cycle(node, old, (k,), worth):
                return True
            self.put(k, old)
            self.score = before
        return False

    def _close_cycle(self, node: int, freed: int, gone: tuple[int, ...], worth: float) -> bool:
        """Close the move cycle: a key group leaves ``node``, and others may follow in turn.

        Args:
            node: Node that a key group came to.
            freed: Node that the first key group of the cycle left.
            gone: Key groups that moved already.
            worth: Worth of the moves so far.
        """
        place = self.place
        leavers = [
            leaver
            for leaver in self._leavers(node, freed, gone)[:PAIRS_TRIED]
            if worth + leaver[0] > SMALL and place.is_affordable(leaver[1], leaver[2])
        ]
        for _, j, there in leavers:
            if place.fits(j, there, self.limit):
                self.apply(j, there)
                return True
        if len(gone) >= LONGEST_CYCLE:
            return False
        for other_worth, j, there in leavers[:CYCLE_BRANCHES]:
            before = self.score
            self.apply(j, there)
            if self._close_cycle(there, freed, (*gone, j), worth + other_worth):
                return True
            self.put(j, node)
            self.score = before
        return False

    def _leavers(self, node: int, freed: int, but: tuple[int, ...]) -> list[tuple[float, int, int]]:
        """Return (worth, key group, destination) of the key groups on ``node``, best first."""
        place, objective = self.place, self.objective
        leavers = []
        for j in place.members[node]:
            if j in but or place.is_pinned[j] or (objective.held[j] and not objective.leave[j]):
                continue
            places = {freed, objective.target[j]} - {node, -1}
            leavers += [(self.worth(j, i), j, i) for i in places if place.may_be_on(j, i)]
        leavers.sort(key=lambda leaver: (-leaver[0], leaver[1], leaver[2]))
        return leavers
