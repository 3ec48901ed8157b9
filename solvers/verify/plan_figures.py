"""Recomputes every figure of a plan from the raw arrays of the problem.

The sums are taken over sorted slices, and not by the running counts of ``solvers.model.metrics``:
an error in one of the two shows as a difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from solvers.verify.rules import is_permitted

if TYPE_CHECKING:
    from solvers.model.objective import Objective
    from solvers.model.problem import Problem
    from solvers.model.traffic_costs import TrafficCosts

ROUNDING = 1e-12
"""Relative error of the sum of a node. Points of load are a difference of two sums, and may have
this error."""
CAP_TOLERANCE = 2e-9
"""Relative: twice what a plan may use, because the same loads are summed in another order."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False, slots=True)
class PlanFigures:
    """The figures of a plan, and the arrays that the checks read.

    Indices are those of the problem: ``plan`` and the masks are [G], ``sums`` and ``cap_limits``
    are [N, R].
    """

    after: Problem
    """The problem with loads and traffic under the plan's routes."""
    plan: Ints
    before: Ints
    moved: Bools
    was_dead: Bools
    """The key group was on a dead node: its move is forced and costs no budget."""
    sums: Floats
    """The load of each node under the plan."""
    cap_limits: Floats
    chosen_pause_s: float
    """Pause of the moves that are not forced."""
    values: dict[str, float | None]
    """Recomputed figures, by the name under which a plan promises them."""
    rounding: dict[str, float]
    """Absolute error that a figure may have because of rounding."""

    @classmethod
    def of(
        cls, problem: Problem, plan: Ints, objective: Objective | None, after: Problem
    ) -> PlanFigures:
        """Recompute the figures of ``plan``, which has the node index of each key group."""
        before = np.asarray(problem.current)
        was_dead = np.array(problem.node_state)[before] == "dead"
        moved = plan != before
        # Routes move load with the keys. That change is added to the change by moves.
        shift = after.load - problem.load
        load = np.maximum(0.0, load_under(problem, plan, objective) + shift)
        sums_before = sum_by_node(problem, before, problem.load)
        sums = sum_by_node(problem, plan, load)
        values = {
            **_load_figures(problem, sums_before, sums, load),
            **_move_figures(problem, moved, was_dead),
            "collocation_factor": _collocation_factor(after, plan),
            "collocation_factor_before": _collocation_factor(problem, before),
        }
        if objective is not None and objective.is_weighted:
            # Only plans with weights promise these figures.
            drained = moved & (np.array(problem.node_state)[before] == "draining")
            values |= {
                "traffic_saved_before": _traffic_saved(problem, before, objective),
                "traffic_saved": _traffic_saved(after, plan, objective),
                "drained_moves": int(np.count_nonzero(drained)),
            }
        return cls(
            after=after,
            plan=plan,
            before=before,
            moved=moved,
            was_dead=was_dead,
            sums=sums,
            cap_limits=cap_limits(problem, sums_before),
            chosen_pause_s=pause_of(problem, moved & ~was_dead),
            values=values,
            rounding=_rounding(problem, sums_before, sums),
        )

    def number(self, name: str) -> float:
        """Return the figure of this name; 0 if it is None."""
        value = self.values[name]
        return 0.0 if value is None else float(value)


def _load_figures(
    problem: Problem, sums_before: Floats, sums: Floats, load: Floats
) -> dict[str, float | None]:
    measured = problem.load
    return {
        "load_distance_before": load_distance(problem, sums_before, measured, relative=True),
        "load_distance": load_distance(problem, sums, load, relative=True),
        "load_distance_points_before": load_distance(
            problem, sums_before, measured, relative=False
        ),
        "load_distance_points_after": load_distance(problem, sums, load, relative=False),
        "draining_load": _draining_share(problem, sums, load),
        "load_index": _load_index(problem, load),
    }


def _move_figures(problem: Problem, moved: Bools, was_dead: Bools) -> dict[str, float | None]:
    forced, chosen = moved & was_dead, moved & ~was_dead
    return {
        "moves": int(np.count_nonzero(chosen)),
        "bytes": state_bytes_of(problem, chosen),
        "forced_moves": int(np.count_nonzero(forced)),
        "forced_bytes": state_bytes_of(problem, forced),
        "pause_s": pause_of(problem, moved),
        "forced_pause_s": pause_of(problem, forced),
    }


def _rounding(problem: Problem, sums_before: Floats, sums: Floats) -> dict[str, float]:
    largest_before = 100.0 * float(np.max(sums_before / problem.capacity, initial=0.0))
    largest = 100.0 * float(np.max(sums / problem.capacity, initial=0.0))
    return {
        "load_distance_points_before": ROUNDING * largest_before,
        "load_distance_points_after": ROUNDING * max(largest_before, largest),
    }


def load_under(problem: Problem, plan: Ints, objective: Objective | None) -> Floats:
    """[G, R]: the loads under the plan.

    The measured loads contain the cost of serialising the records that change nodes now. The plan
    changes which records do: for each edge that cost is subtracted and the new one added. A cost
    above the measured load of a key group is reduced to that load. Only joint plans are made with
    these costs.
    """
    if objective is None or not objective.is_joint:
        return problem.load
    return load_with_costs(problem, plan, objective.costs)


def load_with_costs(problem: Problem, plan: Ints, costs: TrafficCosts) -> Floats:
    """[G, R]: the loads under the plan with the cost of records that change nodes."""
    source, target, rates = problem.traffic_from, problem.traffic_to, problem.traffic_rate
    if source is None or target is None or rates is None:
        return problem.load
    load = np.array(problem.load, dtype=np.float64)
    for r in range(len(problem.resources)):
        charged = [np.zeros(len(plan)), np.zeros(len(plan))]
        for place, charge in zip((problem.current, plan), charged, strict=True):
            rate = np.where(place[source] != place[target], rates, 0.0)
            if costs.send:
                np.add.at(charge, source, rate * costs.send[r])
            if costs.receive:
                np.add.at(charge, target, rate * costs.receive[r])
        now, then = charged
        too_much = now > problem.load[:, r]
        cut = np.ones(len(plan))
        cut[too_much] = problem.load[too_much, r] / now[too_much]
        load[:, r] = np.maximum(problem.load[:, r] - cut * now, 0.0) + cut * then
    return load


def _load_index(problem: Problem, load: Floats) -> float:
    """Total load under the plan in percent of the measured total, for the largest resource."""
    totals = zip(problem.load.sum(axis=0).tolist(), load.sum(axis=0).tolist(), strict=True)
    return max((100.0 * now / was for was, now in totals if was > 0), default=100.0)


def sum_by_node(problem: Problem, plan: Ints, load: Floats) -> Floats:
    """[N, R]: the load of each node. Sums of sorted slices are pairwise, with little rounding."""
    order = np.argsort(plan, kind="stable")
    nodes, cuts = np.unique(plan[order], return_index=True)
    sums = np.zeros((len(problem.node_ids), len(problem.resources)))
    if len(nodes):
        for r in range(len(problem.resources)):
            sums[nodes, r] = np.add.reduceat(load[order, r], cuts)
    return sums


def load_distance(problem: Problem, sums: Floats, load: Floats, *, relative: bool) -> float:
    """100 x the largest |load - m| of a staying node and a balanced resource.

    ``m`` is the mean load. If ``relative``, the difference is divided by m and multiplied by the
    weight of the resource. Otherwise it is in points of load.
    """
    stays = np.flatnonzero(np.array(problem.node_state) == "alive")
    worst = 0.0
    for r in range(len(problem.resources)):
        if not len(stays) or not (problem.balanced is None or problem.balanced[r]):
            continue
        room = problem.capacity[stays, r]
        mean = float(np.sum(load[:, r])) / float(np.sum(room))
        if mean == 0.0:
            continue
        away = float(np.max(np.abs(sums[stays, r] / room - mean)))
        weight = 1.0 if problem.weight is None else float(problem.weight[r])
        worst = max(worst, weight * away / mean if relative else away)
    return 100.0 * worst


def state_bytes_of(problem: Problem, which: Bools) -> int:
    """Return the bytes of state of these key groups."""
    return sum(problem.state_bytes[which].tolist())


def pause_of(problem: Problem, which: Bools) -> float:
    """Return the seconds of pause for moves of these key groups."""
    count = int(np.count_nonzero(which))
    return problem.pause_c0_s * count + problem.pause_s_per_byte * state_bytes_of(problem, which)


def _draining_share(problem: Problem, sums: Floats, load: Floats) -> float:
    """Return the percentage of the load on draining nodes, for the worst resource."""
    left = sums[np.array(problem.node_state) == "draining"].sum(axis=0)
    totals = load.sum(axis=0)
    return 100.0 * max(
        (float(a / b) for a, b in zip(left, totals, strict=True) if b > 0), default=0.0
    )


def _collocation_factor(problem: Problem, plan: Ints) -> float | None:
    """Return the percentage of the traffic within nodes; None without traffic."""
    if problem.traffic_rate is None or not float(np.sum(problem.traffic_rate)) > 0:
        return None
    is_remote = plan[problem.traffic_from] != plan[problem.traffic_to]
    crossing = float(np.sum(problem.traffic_rate, where=is_remote))
    return 100.0 * (1.0 - crossing / float(np.sum(problem.traffic_rate)))


def _traffic_saved(problem: Problem, plan: Ints, objective: Objective) -> float | None:
    """Return the percentage saved of the traffic's price if all of it went between racks."""
    if problem.traffic_rate is None or not float(np.sum(problem.traffic_rate)) > 0:
        return None
    dearest = 100.0 * objective.costs.between_racks
    span = objective.costs.between_racks - objective.costs.within_node
    return (dearest - traffic_price(problem, plan, objective)) / span


def traffic_price(problem: Problem, plan: Ints, objective: Objective) -> float:
    """Return the mean price of a hundred records; the price depends on the distance."""
    if problem.traffic_rate is None or not float(np.sum(problem.traffic_rate)) > 0:
        return 0.0
    ends = plan[problem.traffic_from], plan[problem.traffic_to]
    racks = np.array(problem.rack) if problem.rack else np.zeros(len(problem.node_ids))
    price = np.full(len(problem.traffic_rate), objective.costs.between_racks)
    price[racks[ends[0]] == racks[ends[1]]] = objective.costs.within_rack
    price[ends[0] == ends[1]] = objective.costs.within_node
    return 100.0 * float(np.average(price, weights=problem.traffic_rate))


def cap_limits(problem: Problem, sums_before: Floats) -> Floats:
    """[N, R]: the larger of the capacity and the load before; infinite without a cap."""
    limits = np.maximum(problem.capacity, sums_before) * (1 + CAP_TOLERANCE)
    limits[np.array(problem.node_state) != "alive"] = np.inf
    limits[:, slice(None) if problem.balanced is None else problem.balanced] = np.inf
    return np.asarray(limits, dtype=np.float64)


def is_on_allowed_node(problem: Problem, plan: Ints) -> Bools:
    """[G]: the key group is on a node of its list, or has no list, and no rule forbids the node."""
    allowed = problem.allowed
    if allowed is None:
        return is_permitted(problem, plan)
    owner = np.repeat(np.arange(len(plan)), np.diff(allowed.indptr))
    listed = ~allowed.restricted
    listed[owner[allowed.nodes == plan[owner]]] = True
    return listed & is_permitted(problem, plan)
