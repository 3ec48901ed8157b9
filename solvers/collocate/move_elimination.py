"""Takes back the moves of a joint plan whose gain in traffic and load is within the noise.

After the search, moves are taken back one by one, those worth least first, while what they are
worth in traffic together stays below a share of the noise of the traffic, and the median of the
load distance that the next period measures stays within the same share of its noise (ADR 59).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solvers.collocate.candidate_search import CandidateSearch
from solvers.collocate.joint_round import Candidate, JointRound
from solvers.collocate.move_rating import MoveRating
from solvers.collocate.placement_state import TINY
from solvers.model.problem import IntArray
from solvers.noise.load_distance_distribution import LoadDistanceDistribution, next_load_distance
from solvers.rebalance.fewest_moves import FewestMovesParams, tolerance_of

SHARE = FewestMovesParams().tolerance
"""In standard deviations of the figure that will be measured, as for balance plans."""


def without_idle_moves(
    round_: JointRound, search: CandidateSearch, best: Candidate, nothing: Candidate
) -> Candidate:
    """Return the best candidate without the moves whose gain is within the noise.

    Necessary moves and moves off draining nodes stay, and so do moves towards the target, which
    count as worth more than the traffic they save now.
    """
    rating = MoveRating(round_.placement(best.assignment), search.objective)
    place, measured = rating.place, _measured(round_, best.assignment)
    level = measured.median + tolerance_of(measured, SHARE)
    spare = SHARE * _traffic_noise(round_, best.assignment)
    limit = max(round_.bound, best.distance)
    for k in _optional_moves(round_, rating, best.assignment):
        node, home = place.node_of[k], place.home[k]
        worth = -rating.worth(k, home)
        if worth > spare or not place.fits(k, home, limit):
            continue
        rating.put(k, home)
        if _measured(round_, place.assignment()).probability(level) < 0.5:
            rating.put(k, node)
            continue
        spare -= max(0.0, worth)
    assignment = place.assignment()
    if np.array_equal(assignment, nothing.assignment):
        return nothing
    found = search.rated(best.name, assignment, round_.bound)
    return found if _is_no_loss(round_, found, nothing) else best


def _optional_moves(round_: JointRound, rating: MoveRating, assignment: IntArray) -> list[int]:
    """Return the moves that no rule and no drain asks for, those that are worth least first."""
    problem = round_.problem
    optional = (assignment != problem.current) & problem.staying[problem.current]
    moved = [k for k in np.flatnonzero(optional).tolist() if k not in round_.must_move]
    size = problem.state_bytes
    return sorted(moved, key=lambda k: (-rating.worth(k, rating.place.home[k]), -size[k], k))


def _measured(round_: JointRound, assignment: IntArray) -> LoadDistanceDistribution:
    after = replace(round_.problem, load=round_.load_under(assignment))
    return next_load_distance(round_.problem, assignment, after)


def _traffic_noise(round_: JointRound, assignment: IntArray) -> float:
    """Return the standard deviation of the rate that stays within nodes; 0 if it is not known."""
    problem, noise = round_.problem, round_.problem.noise
    if noise is None or noise.traffic_error is None:
        return 0.0
    period = 0.0 if noise.traffic_period_sd is None else noise.traffic_period_sd
    variance = noise.traffic_error**2 + np.asarray(period) ** 2
    is_local = assignment[problem.traffic_from] == assignment[problem.traffic_to]
    return round_.params.costs.saved_by_node * float(np.sqrt(variance[is_local].sum()))


def _is_no_loss(round_: JointRound, found: Candidate, nothing: Candidate) -> bool:
    """Return whether a candidate is no worse than the necessary moves alone, by the objective."""
    if round_.over_cap(found.assignment).any():
        return False
    if round_.is_weighted:
        scores = [round_.weighted_score(c.saved, c.distance) for c in (found, nothing)]
        return scores[0] >= scores[1] - TINY
    return round_.needs_more(nothing) or found.saved >= nothing.saved - TINY
