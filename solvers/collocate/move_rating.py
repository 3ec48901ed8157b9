"""Rates moves of single key groups, and applies them to a placement."""

from __future__ import annotations

from solvers.collocate.move_objective import MoveObjective
from solvers.collocate.placement_state import PlacementState

FREE_MOVE = 0.05
"""Cost of another node for a key group that moves already; above 0, so worth per cost is finite."""
SMALL = 1e-12
"""A worth below this is rounding."""
NODES_TRIED = 6
"""Nodes that are tried for a key group without a partner there, emptiest first."""

Option = tuple[float, int]
"""Worth of a move, and the node it goes to."""


class MoveRating:
    """A placement, and the worth of moves by an objective.

    ``score`` is the sum of the worth of all applied moves.
    """

    def __init__(self, place: PlacementState, objective: MoveObjective) -> None:
        self.place, self.objective = place, objective
        self.score = 0.0
        self._rated: dict[int, list[Option]] = {}

    def worth(self, k: int, node: int) -> float:
        """Return how much better the plan is with ``k`` on ``node``."""
        place, objective = self.place, self.objective
        old = place.node_of[k]
        worth = place.gain(k, node)
        if objective.pull[k]:
            at_target = (node == objective.target[k]) - (old == objective.target[k])
            worth += objective.pull[k] * at_target
        if objective.leave[k]:
            worth += objective.leave[k] * (place.is_staying[node] - place.is_staying[old])
        return worth

    def cost(self, k: int) -> float:
        """Return the cost of moving ``k``, 1 on average."""
        place = self.place
        return self.objective.cost[k] if place.node_of[k] == place.home[k] else FREE_MOVE

    def options(self, k: int) -> list[Option]:
        """Return the moves of ``k`` that gain, best first.

        The nodes of its partners, its target and, for a draining node, nodes with room are tried.
        The list depends on where ``k`` and its partners are, so it is cached until one of them
        moves. With racks or a drain it depends on every move and is not cached.
        """
        known = self._rated.get(k)
        if known is None:
            known = self._rate(k)
            if not (self.objective.leave[k] or self.place.has_racks):
                self._rated[k] = known
        return known

    def apply(self, k: int, node: int) -> None:
        """Move ``k`` to ``node`` and add the worth to the score."""
        self.score += self.worth(k, node)
        self.put(k, node)

    def put(self, k: int, node: int) -> None:
        """Move ``k`` to ``node`` without the score, to take a move back."""
        place = self.place
        if node == place.node_of[k]:
            return
        place.move(k, node)
        self._rated.pop(k, None)
        for j in place.partners[k]:
            self._rated.pop(j, None)

    def _rate(self, k: int) -> list[Option]:
        place, objective = self.place, self.objective
        rated: dict[int, float] = {}
        others = {objective.target[k]} - {-1}
        if objective.leave[k] or place.has_racks:
            others.update(place.to_node[k])
        else:
            # The same as ``worth`` without a call for each node: there can be many partners.
            old, price, to_node = place.node_of[k], place.node_price, place.to_node[k]
            lost = price * to_node.get(old, 0.0) + objective.pull[k] * (old == objective.target[k])
            rated = {node: price * rate - lost for node, rate in to_node.items()}
        if objective.leave[k] and not place.is_staying[place.node_of[k]]:
            others.update(place.emptiest_nodes(NODES_TRIED))
        if place.has_racks:
            others.update(self._nodes_of_racks(k))
        rated |= {node: self.worth(k, node) for node in others}
        good = [(w, node) for node, w in rated.items() if w > SMALL and self._may_go(k, node, w)]
        good.sort(key=lambda option: (-option[0], option[1]))
        return good

    def _may_go(self, k: int, node: int, worth: float) -> bool:
        place, objective = self.place, self.objective
        if node == place.node_of[k] or not place.may_be_on(k, node):
            return False
        if node == place.home[k]:
            return True
        if objective.held[k] and not (objective.leave[k] or objective.pays(k, place.gain(k, node))):
            return False
        return worth > SMALL

    def _nodes_of_racks(self, k: int) -> list[int]:
        """Return the emptier nodes of the racks with partners: a node in the rack saves too."""
        place = self.place
        racks = {r for r, rate in place.to_rack[k].items() if rate > 0}
        near = [i for i, r in enumerate(place.rack_of) if r in racks and place.is_staying[i]]
        ratio = place.ratio[place.balanced[0]]
        return sorted(near, key=lambda i: ratio[i])[:NODES_TRIED]
