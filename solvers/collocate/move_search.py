"""One round of moves: by gain per cost with a pull toward the target, inside the load limit.

Moves that do not fit alone are tried in pairs (one comes, one goes); then some moves are undone
and the budget is filled again, and the better of the two is kept.
"""

from __future__ import annotations

import heapq
import random

from solvers.collocate.move_objective import MoveObjective
from solvers.collocate.placement_state import TINY, PlacementState

FREE_MOVE = 0.05
"""Cost of re-routing a key group that moves anyway, so that scores per cost stay finite."""
SMALL = 1e-12
UNDO_SHARE = 0.3
PAIRS_TRIED = 12
BLOCKED_TRIED = 60
NODES_TRIED = 6
LONGEST_CYCLE = 4
CYCLE_BRANCHES = 2


class MoveSearch:
    """Changes a placement in place; ``score`` is the sum of ``worth`` over the moves made."""

    def __init__(
        self, place: PlacementState, objective: MoveObjective, limit: float, seed: int
    ) -> None:
        self.place, self.objective, self.limit = place, objective, limit
        self.random = random.Random(seed)
        self.score = 0.0
        self._rated: dict[int, list[tuple[float, int]]] = {}

    def worth(self, k: int, node: int) -> float:
        """How much better the plan is with ``k`` on ``node`` instead of where it is."""
        place, objective = self.place, self.objective
        old = place.node_of[k]
        worth = place.gain(k, node)
        if objective.pull[k]:
            worth += objective.pull[k] * (
                (node == objective.target[k]) - (old == objective.target[k])
            )
        if objective.leave[k]:
            worth += objective.leave[k] * (place.is_staying[node] - place.is_staying[old])
        return worth

    def _cost(self, k: int) -> float:
        place = self.place
        return self.objective.cost[k] if place.node_of[k] == place.home[k] else FREE_MOVE

    def _may_go(self, k: int, node: int, worth: float) -> bool:
        place, objective = self.place, self.objective
        if node == place.node_of[k] or not place.may_be_on(k, node):
            return False
        if node == place.home[k]:
            return True
        if objective.held[k] and not (objective.leave[k] or objective.pays(k, place.gain(k, node))):
            return False
        return worth > SMALL

    def options(self, k: int) -> list[tuple[float, int]]:
        """(worth, node), best first: nodes of partners, the target, and room for what drains.

        They depend on where k and its partners are, so they are kept until one of those moves.
        Room and racks change with every move: where they count, nothing is kept.
        """
        known = self._rated.get(k)
        if known is None:
            known = self._rate(k)
            if not (self.objective.leave[k] or self.place.has_racks):
                self._rated[k] = known
        return known

    def _rate(self, k: int) -> list[tuple[float, int]]:
        place, objective = self.place, self.objective
        rated: dict[int, float] = {}
        others = {objective.target[k]} - {-1}
        if objective.leave[k] or place.has_racks:
            others.update(place.to_node[k])
        else:
            # As ``worth``, without a call for each node: a key group may talk to all of them.
            old, price, to_node = place.node_of[k], place.node_price, place.to_node[k]
            lost = price * to_node.get(old, 0.0) + objective.pull[k] * (old == objective.target[k])
            rated = {node: price * rate - lost for node, rate in to_node.items()}
        if objective.leave[k] and not place.is_staying[place.node_of[k]]:
            others.update(self.emptiest())
        if place.has_racks:
            others.update(self._nodes_of_racks(k))
        rated |= {node: self.worth(k, node) for node in others}
        good = [(w, node) for node, w in rated.items() if w > SMALL and self._may_go(k, node, w)]
        good.sort(key=lambda option: (-option[0], option[1]))
        return good

    def _nodes_of_racks(self, k: int) -> list[int]:
        """Where racks count, being near is worth something: the emptier nodes of such racks."""
        place = self.place
        racks = {r for r, rate in place.to_rack[k].items() if rate > 0}
        near = [i for i, r in enumerate(place.rack_of) if r in racks and place.is_staying[i]]
        ratio = place.ratio[place.balanced[0]]
        return sorted(near, key=lambda i: ratio[i])[:NODES_TRIED]

    def emptiest(self, r: int | None = None) -> list[int]:
        """Of a resource, or of the first one that is balanced."""
        place = self.place
        ratio = place.ratio[place.balanced[0] if r is None else r]
        staying = [i for i, stays in enumerate(place.is_staying) if stays]
        return heapq.nsmallest(NODES_TRIED, staying, key=lambda i: ratio[i])

    def apply(self, k: int, node: int) -> None:
        self.score += self.worth(k, node)
        self._put(k, node)

    def _put(self, k: int, node: int) -> None:
        """Without the score, for moves that are taken back."""
        place = self.place
        if node == place.node_of[k]:
            return
        place.move(k, node)
        self._rated.pop(k, None)
        for j in place.partners[k]:
            self._rated.pop(j, None)

    def fill(self) -> None:
        """Best moves first until the budget or the good moves are used up."""
        waiting = list(range(len(self.place.node_of)))
        while waiting:
            moved, blocked = self._fill_once(waiting)
            paired = self._pair_up(blocked) if blocked else False
            if not (moved or paired):
                return
            waiting = blocked

    def _fill_once(self, groups: list[int]) -> tuple[bool, list[int]]:
        """One pass by a heap whose entries may be outdated: re-rated when they come up."""
        heap = [(-p, k) for k in groups if (p := self._priority(k)) > 0]
        heapq.heapify(heap)
        blocked: dict[int, None] = {}
        moved = False
        while heap:
            negative, k = heapq.heappop(heap)
            options = self._affordable_options(k)
            if not options:
                continue
            priority = options[0][0] / self._cost(k)
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
        return options[0][0] / self._cost(k) if options else 0.0

    def _affordable_options(self, k: int) -> list[tuple[float, int]]:
        place = self.place
        if place.is_pinned[k]:
            return []
        if place.node_of[k] == place.home[k] and not place.is_affordable(k, -1):
            return []
        return self.options(k)

    def _pair_up(self, blocked: list[int]) -> bool:
        """For what did not fit: somebody of the wanted node goes where there is room."""
        ranked = sorted(blocked, key=lambda k: (-self._priority(k), k))[:BLOCKED_TRIED]
        return sum(self._with_partner(k) for k in ranked) > 0

    def _with_partner(self, k: int) -> bool:
        place = self.place
        for worth, node in self._affordable_options(k)[:2]:
            old = place.node_of[k]
            before = self.score
            self.apply(k, node)
            if self._close_cycle(node, old, (k,), worth):
                return True
            self._put(k, old)
            self.score = before
        return False

    def _close_cycle(self, node: int, freed: int, gone: tuple[int, ...], worth: float) -> bool:
        """Close the move cycle: a key group leaves ``node``, and others may follow it in turn."""
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
            self._put(j, node)
            self.score = before
        return False

    def _leavers(self, node: int, freed: int, but: tuple[int, ...]) -> list[tuple[float, int, int]]:
        """(worth, key group, destination) of those on ``node``, least loss first."""
        place, objective = self.place, self.objective
        found = []
        for j in place.members[node]:
            if j in but or place.is_pinned[j] or (objective.held[j] and not objective.leave[j]):
                continue
            places = {freed, objective.target[j]} - {node, -1}
            found += [(self.worth(j, i), j, i) for i in places if place.may_be_on(j, i)]
        found.sort(key=lambda leaver: (-leaver[0], leaver[1], leaver[2]))
        return found

    def repair(self, bound: float) -> None:
        """Bring load distance down to ``bound`` as far as the budget goes, at the least loss.

        What a move relieves is reckoned at its two nodes; where records between nodes cost load it
        also changes others, and moves may undo each other: a placement that comes again is the end.
        """
        place = self.place
        changes, seen = 0, {0}
        while place.distance() > bound + TINY:
            best = max(self._repairs(bound), default=None)
            if best is None:
                return
            _, _, k, node = best
            changes ^= hash((k, place.node_of[k])) ^ hash((k, node))
            self.apply(k, node)
            if changes in seen:
                return
            seen.add(changes)

    def _repairs(self, bound: float) -> list[tuple[float, float, int, int]]:
        place = self.place
        found = []
        for k, node in self._repair_moves():
            if node == place.node_of[k] or not place.may_be_on(k, node):
                continue
            if not (place.is_affordable(k, node) and place.keeps_caps(k, node)):
                continue
            relief = self._relief(k, node, bound)
            if relief > SMALL:
                found.append((round(relief, 9), self.worth(k, node), k, node))
        return found

    def _repair_moves(self) -> list[tuple[int, int]]:
        """From the worst node, or from full and draining nodes to it, worst resource first."""
        place = self.place
        _, r, worst = max(
            (place.weight[r] * abs(place.ratio[r][i] * place.room[r] / place.total[r] - 1.0), r, i)
            for r in place.balanced
            if place.total[r] > 0
            for i, stays in enumerate(place.is_staying)
            if stays
        )
        if place.ratio[r][worst] * place.room[r] / place.total[r] > 1.0:
            return [(k, i) for k in place.members[worst] for i in self.emptiest(r)]
        full = heapq.nlargest(
            NODES_TRIED, range(len(place.is_staying)), key=lambda i: place.ratio[r][i]
        )
        draining = [i for i, stays in enumerate(place.is_staying) if not stays]
        return [(k, worst) for i in {*full, *draining} for k in place.members[i]]

    def _relief(self, k: int, node: int, bound: float) -> float:
        """By how much the squared excesses of the two nodes shrink, over all balanced resources."""
        place = self.place
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

    def undo_and_refill(self, keep: set[int]) -> bool:
        """Send some moves home and fill again; ``keep`` has to stay moved. True if better."""
        place = self.place
        before, score = list(place.node_of), self.score
        moved = [k for k, i in enumerate(place.node_of) if i != place.home[k] and k not in keep]
        if not moved:
            return False
        for k in self.random.sample(moved, max(1, round(UNDO_SHARE * len(moved)))):
            if place.may_be_on(k, place.home[k]):
                self.apply(k, place.home[k])
        # Some moves were made for the load alone; without them no other move would fit.
        self.repair(self.limit)
        if place.distance() <= self.limit + TINY:
            self.fill()
        is_valid = place.distance() <= self.limit + TINY and not place.over_cap
        if self.score > score + SMALL and is_valid:
            return True
        for k, node in enumerate(before):
            self._put(k, node)
        self.score = score
        return False
