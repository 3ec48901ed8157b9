"""The inputs of one round of the joint search, and the figures that its steps share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solvers.collocate.joint_params import JointParams
from solvers.collocate.placement_state import TINY, PlacementState
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.objective import WEIGHTED
from solvers.model.predicted_load import predicted_load
from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem
from solvers.model.stop import SolverClock, Stop
from solvers.model.traffic_graph import TrafficGraph
from solvers.rebalance.start import must_move_mask, place_must_moves


@dataclass(frozen=True, eq=False, slots=True)
class Candidate:
    """A placement that a round may choose.

    Attributes:
        name: Which search made it.
        assignment: [key groups] Node of each key group.
        distance: Load distance as a share of the mean, serialisation included.
        saved: Priced records that stay on a node or in a rack, per unit of time.
        score: Worth of its moves by the objective of the round.
    """

    name: str
    assignment: IntArray
    distance: float
    saved: float
    score: float


@dataclass(frozen=True, eq=False)
class JointRound:
    """One call of ``joint.plan``.

    Attributes:
        problem: Nodes, key groups, loads and traffic.
        budget: Limits of moves, bytes and pause.
        stop: When the search ends.
        clock: Time since the round began.
        seed: Seed of everything random.
        params: Parameters of the search.
    """

    problem: Problem
    budget: Budget
    stop: Stop
    clock: SolverClock
    seed: int
    params: JointParams

    @cached_property
    def graph(self) -> TrafficGraph:
        """Traffic between the key groups."""
        return TrafficGraph.of(self.problem)

    @cached_property
    def start(self) -> IntArray:
        """[key groups] The current placement with only the necessary moves made."""
        return place_must_moves(self.problem, self.budget)

    @cached_property
    def must_move(self) -> frozenset[int]:
        """Key groups that must leave their node."""
        return frozenset(np.flatnonzero(must_move_mask(self.problem)).tolist())

    @property
    def bound(self) -> float:
        """The allowed load distance as a share of the mean."""
        return self.params.max_load_distance / 100.0

    @property
    def is_weighted(self) -> bool:
        return self.params.objective == WEIGHTED

    def placement(self, assignment: IntArray) -> PlacementState:
        """Return an assignment as a placement that a search can change."""
        return PlacementState(self.problem, self.graph, self.params.costs, self.budget, assignment)

    def load_under(self, assignment: IntArray) -> FloatArray:
        """Return [key groups, resources]: the loads under an assignment."""
        return predicted_load(self.problem, self.graph, self.params.costs, assignment)

    def over_cap(self, assignment: IntArray) -> BoolArray:
        """Return [nodes, resources]: whether a node would carry more than its cap."""
        return metrics.over_cap(self.problem, assignment, self.load_under(assignment))

    def moves(self, candidate: Candidate) -> int:
        """Return the number of moves beyond the necessary ones."""
        return int(np.count_nonzero(candidate.assignment != self.start))

    def most_saved(self) -> float:
        """Return what would be saved if no record left its node."""
        return self.params.costs.saved_by_node * self.graph.total_rate

    def saved_pct(self, saved: float) -> float:
        """Return saved traffic in percent of all traffic."""
        total = self.most_saved()
        return 100.0 * saved / total if total > 0 else 0.0

    def weighted_score(self, saved: float, distance: float) -> float:
        """Return the weighted sum of saved traffic and load distance."""
        load = self.params.load_weight * 100.0 * distance
        return self.params.traffic_weight * self.saved_pct(saved) - load

    def needs_more(self, nothing: Candidate) -> bool:
        """Return whether the necessary moves alone are not enough.

        The load is out of bounds, or a node drains.
        """
        is_out = not self.is_weighted and nothing.distance > self.bound + TINY
        return is_out or bool(self.problem.draining.any())
