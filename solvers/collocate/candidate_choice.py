"""Chooses the best candidate of a round.

Lexicographic: the load bound first, then the most saved traffic. Weighted: the best weighted sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from solvers.collocate.joint_round import Candidate, JointRound
from solvers.collocate.placement_state import TINY
from solvers.model.problem import IntArray

ROUNDING = 1e-9
"""Relative: sums of the same numbers in another order differ by less."""

Rate = Callable[[str, IntArray, float], Candidate]
"""Name, assignment and load bound in; the candidate with its figures out."""


def best_lexicographic(
    round_: JointRound, candidates: Sequence[Candidate], nothing: Candidate, *, is_stalled: bool
) -> Candidate:
    """Return the best candidate within the load bound.

    Where no move is needed, a candidate must also save at least as much as ``nothing``. With a
    stalled target the saved traffic alone decides.
    """
    is_free = nothing in candidates and not round_.needs_more(nothing)
    slack = ROUNDING * max(1.0, abs(nothing.saved))
    allowed = [
        c
        for c in candidates
        if not is_free
        or (c.distance <= round_.bound + 2 * TINY and c.saved >= nothing.saved - slack)
    ]

    def rank(c: Candidate) -> tuple[float, float, int]:
        over = max(0.0, c.distance - round_.bound)
        value = c.saved if is_stalled else c.score
        return round(over, 9), -value, round_.moves(c)

    return min(allowed, key=rank)


def best_weighted(
    round_: JointRound,
    candidates: Sequence[Candidate],
    nothing: Candidate,
    rate: Rate,
    *,
    is_stalled: bool,
) -> Candidate:
    """Return the candidate with the best weighted sum.

    The target counts in the sum, but a candidate that loses by the weights alone is not allowed.
    """
    least = [_necessary(round_, c, nothing, rate) for c in candidates]
    pairs = [*zip(candidates, least, strict=True), *((c, c) for c in least)]
    allowed = [
        c
        for c, without in pairs
        if not round_.over_cap(c.assignment).any() and not _is_loss(round_, c, without)
    ]

    def rank(c: Candidate) -> tuple[float, int]:
        gain = c.saved - nothing.saved if is_stalled else c.score
        return -round(round_.weighted_score(gain, c.distance), 9), round_.moves(c)

    return min(allowed, key=rank)


def _necessary(
    round_: JointRound, candidate: Candidate, nothing: Candidate, rate: Rate
) -> Candidate:
    """Return the candidate with only its necessary moves."""
    if not round_.must_move:
        return nothing
    must = sorted(round_.must_move)
    assignment = round_.problem.current.copy()
    assignment[must] = candidate.assignment[must]
    return rate("nothing", assignment, round_.bound)


def _is_loss(round_: JointRound, candidate: Candidate, without: Candidate) -> bool:
    """Return whether a candidate is worse by weights than its necessary moves alone.

    A candidate that frees a draining node may cost traffic, but not load distance. Otherwise the
    drain would wait for a plan that pays.
    """
    if round_.over_cap(without.assignment).any():
        return False
    score, least = (round_.weighted_score(c.saved, c.distance) for c in (candidate, without))
    if score >= least - ROUNDING * max(1.0, abs(least)):
        return False
    draining = round_.problem.draining
    frees = np.count_nonzero(draining[candidate.assignment]) < np.count_nonzero(
        draining[without.assignment]
    )
    return not (frees and candidate.distance <= without.distance + TINY)
