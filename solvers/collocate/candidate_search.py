"""Makes the candidate placements of a round: several searches from several starts."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from solvers.collocate.cluster_packing import NOWHERE, ClusterTarget
from solvers.collocate.cola import place_from_scratch
from solvers.collocate.joint_round import Candidate, JointRound
from solvers.collocate.move_objective import MoveObjective
from solvers.collocate.move_search import MoveSearch
from solvers.collocate.placement_state import TINY
from solvers.model.problem import IntArray
from solvers.model.result import TraceStep
from solvers.model.stop import Stop
from solvers.rebalance import flux
from solvers.rebalance.start import within_budget

LADDER = (1.0, 0.5, 0.25, 0.1, 2.0, 4.0)
"""Load bounds that a weighted search tries, as multiples of the given one."""


class CandidateSearch:
    """Searches for candidates and rates all of them by one objective.

    ``trace`` records each search, ``scratch_fits`` whether COLA's placement was within the budget.
    """

    def __init__(self, round_: JointRound, objective: MoveObjective) -> None:
        self.round, self.objective = round_, objective
        self.trace: list[TraceStep] = []
        self.scratch_fits = False

    def nothing(self) -> Candidate:
        """Return the placement with only the necessary moves."""
        start = self.round.start
        place = self.round.placement(start)
        return Candidate("nothing", start, place.distance(), place.saved, 0.0)

    def candidates(
        self, nothing: Candidate, target: ClusterTarget | None, myopic: MoveObjective
    ) -> list[Candidate]:
        """Return ``nothing`` and what every search finds within each load bound.

        Args:
            nothing: The placement with only the necessary moves.
            target: Where the clusters should end, if there is a target.
            myopic: The objective without a target.
        """
        candidates = [nothing]
        for bound in self._bounds(nothing):
            if len(candidates) > 1 and self.round.clock.is_over():
                break
            candidates += self._within(bound, nothing, target, myopic)
        return candidates

    def rated(self, name: str, assignment: IntArray, bound: float) -> Candidate:
        """Return an assignment with its figures, counted from the start of the round."""
        start = self.round.start
        search = MoveSearch(self.round.placement(start), self.objective, bound, self.round.seed)
        for k in np.flatnonzero(assignment != start).tolist():
            search.apply(k, int(assignment[k]))
        return Candidate(
            name, assignment, search.place.distance(), search.place.saved, search.score
        )

    def _bounds(self, nothing: Candidate) -> list[float]:
        """Return the load bounds to search, none above what all traffic left could pay for."""
        round_ = self.round
        if not round_.is_weighted:
            return [round_.bound]
        left = 1.0 - round_.saved_pct(nothing.saved) / 100.0
        worth, price = round_.params.traffic_weight * left, round_.params.load_weight
        # All load on one node is the largest load distance there is.
        most = float(round_.problem.n_nodes)
        if worth < most * price:
            most = min(most, nothing.distance + worth / price)
        rungs = [round_.bound * rung for rung in LADDER]
        return [rung for rung in (*rungs, most) if rung <= most] or rungs[:1]

    def _within(
        self,
        bound: float,
        nothing: Candidate,
        target: ClusterTarget | None,
        myopic: MoveObjective,
    ) -> list[Candidate]:
        start, candidates = self.round.start, []
        if target is not None:
            candidates.append(self._searched("target", self.objective, bound, start))
            candidates += self._at_target(target, bound)
        candidates.append(self._searched("myopic", myopic, bound, start))
        candidates += self._from_scratch(bound)
        if nothing.distance > bound + TINY:
            candidates.append(self._searched("flux", self.objective, bound, self._rebalanced))
        return candidates

    def _searched(
        self, name: str, objective: MoveObjective, bound: float, start: IntArray
    ) -> Candidate:
        """Search from ``start`` within a load bound."""
        round_ = self.round
        search = MoveSearch(round_.placement(start), objective, bound, round_.seed)
        search.run(self._passes(), round_.must_move, round_.clock.is_over)
        candidate = self.rated(name, search.place.assignment(), bound)
        self.trace.append((round_.clock.elapsed(), name, 100.0 * candidate.distance))
        return candidate

    def _passes(self) -> int:
        passes, steps = self.round.params.passes, self.round.stop.steps
        return passes if steps is None else min(passes, steps)

    def _at_target(self, target: ClusterTarget, bound: float) -> list[Candidate]:
        """Search from the target itself if the budget reaches it.

        Large key groups can block every single step on the way there.
        """
        problem, start = self.round.problem, self.round.start
        wanted = np.array(self.objective.target, dtype=np.int64)
        goal = np.where(wanted == NOWHERE, start, target.node_of)
        # A target of an earlier round may break pins and allowed nodes that are newer than it.
        may = problem.permits(np.arange(len(goal)), goal) & ~problem.pinned_mask
        goal = np.where(may, goal, start)
        if not within_budget(problem, self.round.budget, goal):
            return []
        return [self._searched("target", self.objective, bound, goal)]

    def _from_scratch(self, bound: float) -> list[Candidate]:
        """Return COLA's placement, and a search from it, if the budget allows it.

        Before the first plan key groups have no state that would be expensive to move.
        """
        round_ = self.round
        if not round_.params.from_scratch:
            return []
        cola = place_from_scratch(round_.problem, 100.0 * bound, round_.seed, round_.clock.is_over)
        self.scratch_fits = within_budget(round_.problem, round_.budget, cola)
        if not self.scratch_fits:
            return []
        plain = self.rated("cola", cola, bound)
        return [plain, self._searched("cola", self.objective, bound, cola)]

    @cached_property
    def _rebalanced(self) -> IntArray:
        """The placement of [ICDE17]'s baseline: a start where the load is out of bounds."""
        round_ = self.round
        result = flux.solve(
            round_.problem, round_.budget, Stop(steps=50), round_.seed, flux.FluxParams()
        )
        return result.assignment.copy()
