"""Applies the amortisation gate to a whole plan, and names key groups that it holds back."""

from __future__ import annotations

import numpy as np

from solvers.collocate.joint_round import Candidate, JointRound
from solvers.collocate.placement_state import TINY
from solvers.model.amortisation import KEY_GROUP, PLAN, HeldBack
from solvers.model.pause import move_pause_s, total_pause_s


def hold_back_plan(
    round_: JointRound, best: Candidate, nothing: Candidate
) -> tuple[Candidate, tuple[HeldBack, ...]]:
    """Return ``nothing`` instead of a plan that does not pay as a whole.

    A plan that the load or a drain makes necessary always passes.

    Returns:
        The candidate to use, and the plan that was held back, if it was.
    """
    problem, gate = round_.problem, round_.params.gate
    if gate is None or round_.needs_more(nothing) or best is nothing:
        return best, ()
    moved = best.assignment != round_.start
    n_bytes = int(problem.state_bytes[moved].sum())
    saved = _worth(round_, best, nothing)
    if gate.pays(saved, n_bytes, total_pause_s(problem, moved)):
        return best, ()
    names = tuple(problem.key_group_ids[k] for k in np.flatnonzero(moved).tolist())
    return nothing, (HeldBack(names, saved, n_bytes, "the plan as a whole does not pay", PLAN),)


def held_back_key_groups(
    round_: JointRound, best: Candidate, held: tuple[HeldBack, ...]
) -> tuple[HeldBack, ...]:
    """Return key groups that stay, would save records elsewhere, and do not pay for their move.

    Key groups that ``held`` names already are left out.
    """
    problem, gate = round_.problem, round_.params.gate
    if gate is None:
        return ()
    place = round_.placement(best.assignment)
    named = {name for one in held for name in one.what}
    n_bytes, pause_s = problem.state_bytes.tolist(), move_pause_s(problem).tolist()
    held_alone = []
    for k in np.flatnonzero(best.assignment == problem.current).tolist():
        nodes = [node for node in place.to_node[k] if place.may_be_on(k, node)]
        gain = max((place.gain(k, node) for node in nodes), default=0.0)
        name = problem.key_group_ids[k]
        if gain <= TINY or name in named or gate.pays(gain, n_bytes[k], pause_s[k]):
            continue
        why = gate.figures_text(gain, n_bytes[k], pause_s[k])
        held_alone.append(HeldBack((name,), gain, n_bytes[k], why, KEY_GROUP))
    return tuple(held_alone)


def _worth(round_: JointRound, best: Candidate, nothing: Candidate) -> float:
    """Return the worth of a plan in records per unit of time.

    It is the traffic that the plan saves. With weights, a lower load distance counts as the
    records that the weights put it equal to.
    """
    saved, params = best.saved - nothing.saved, round_.params
    if not round_.is_weighted or params.traffic_weight == 0:
        return saved
    rate = params.load_weight / params.traffic_weight
    return saved + rate * (nothing.distance - best.distance) * round_.most_saved()
