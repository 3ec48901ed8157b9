"""Checks a plan against everything it promises, and shares no code with any solver.

Takes the raw arrays of the problem and names of key groups and nodes; recomputes each figure in
its own way (sorted slices, not the running counts of ``metrics``). Nothing from ``solvers`` is
imported but the three input types, and those only for type checking. Whole columns at a time: a
plan of a million key groups takes seconds.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from solvers.model.budget import Budget
    from solvers.model.objective import Objective, TradeWeights
    from solvers.model.problem import Problem

RELATIVE_TOLERANCE = 1e-6
ABSOLUTE_TOLERANCE = 1e-6
"""A promised number may differ from the recomputed one by 1e-6, absolute or relative."""
ROUNDING = 1e-12
"""Relative error of a node's sum: points of load, a difference of two sums, may be off by that."""

CAP_TOLERANCE = 2e-9
"""Relative: twice what a plan may use, for sums of the same loads in another order."""

OPTIMAL_GAP = 1e-4
"""Percentage points by which a plan called optimal may be above its bound."""

STATUSES = ("optimal", "feasible", "unchanged", "infeasible")
MAX_NAMED = 3

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Assignment = Mapping[str, str] | tuple[Sequence[Any], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that does not hold, and how."""

    promise: str
    message: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.message}"


def verify(
    problem: Problem,
    budget: Budget,
    assignment_names: Assignment,
    promises: Mapping[str, Any],
    objective: Objective | None = None,
    after: Problem | None = None,
) -> list[Violation]:
    """All the promises that the plan breaks; an empty list means that it keeps them.

    ``assignment_names`` is a mapping or a pair of columns (key_group_ids, node_ids); only columns
    can show a key group that is listed twice. ``promises`` is what result.json says; figures that
    it leaves out are not checked. ``objective`` is what the plan is for: balance unless given.
    ``after`` has loads and traffic as the plan's routes change them; the same unless given.
    """
    ids, nodes = _columns(assignment_names)
    violations = list(_check_rows(problem, ids, nodes))
    if violations:
        return violations  # Figures of a broken assignment would only be noise.
    plan = _place(problem, ids, nodes)
    facts = _Facts(problem, plan, objective, after or problem)
    return [
        *_check_nodes(problem, facts),
        *_check_rules(problem, facts),
        *_check_caps(problem, facts),
        *_check_budget(budget, facts),
        *_check_figures(promises, facts),
        *_check_bound(promises, facts),
        *_check_status(promises, facts, is_rerouted=after is not None),
        *_check_better_than_nothing(problem, facts, objective),
    ]


def node_sums(
    problem: Problem,
    assignment_names: Assignment,
    objective: Objective | None = None,
    after: Problem | None = None,
) -> dict[str, Floats]:
    """What each node carries of each resource under a plan that :func:`verify` finds whole."""
    plan = _place(problem, *_columns(assignment_names))
    sums = _Facts(problem, plan, objective, after or problem).sums
    return dict(zip(problem.node_ids, sums, strict=True))


def verify_infeasible(problem: Problem, budget: Budget) -> list[Violation]:
    """Is there really no plan? Looks for the simplest one: only what must move is moved.

    Under caps that plan may be hard to find; where it is not found, the word is taken.
    """
    before = np.asarray(problem.current)
    state = np.array(problem.node_state)
    if not np.any(state == "alive"):
        return []
    on_dead = state[before] == "dead"
    astray = ~on_dead & ~_is_listed(problem, before)
    must = on_dead | astray
    if problem.pinned is not None and np.any(must & problem.pinned):
        return []
    placed = _place_first_fit(problem, np.flatnonzero(must))
    costs = (
        (budget.moves, int(np.count_nonzero(astray))),
        (budget.bytes, _bytes(problem, astray)),
        (budget.pause_s, _pause(problem, astray)),
    )
    if placed is None or any(limit is not None and used > limit for limit, used in costs):
        return []
    return [Violation("status", "says infeasible, but a plan exists that moves only what it must")]


def _place_first_fit(problem: Problem, groups: Ints) -> Ints | None:
    """A plan that puts these key groups on the first node that takes them; None: none found.

    The caps are what makes it a loop: without them the first listed node that is alive will do.
    """
    plan = np.array(problem.current)
    alive = np.flatnonzero(np.array(problem.node_state) == "alive")
    sums = _sum_by_node(problem, plan, problem.load)
    room = _cap_limits(problem, sums) - sums
    for k in groups.tolist():
        room[plan[k]] += problem.load[k]
    for k in groups.tolist():
        nodes = alive
        if problem.allowed is not None and problem.allowed.restricted[k]:
            row = slice(problem.allowed.indptr[k], problem.allowed.indptr[k + 1])
            nodes = np.intersect1d(alive, problem.allowed.nodes[row])
        fits = nodes[np.all(room[nodes] >= problem.load[k], axis=1)]
        if not len(fits):
            return None
        plan[k] = fits[0]
        room[fits[0]] -= problem.load[k]
    return plan


def _is_listed(problem: Problem, plan: Ints) -> npt.NDArray[np.bool_]:
    """[G]: the key group is where its allowed nodes let it be."""
    allowed = problem.allowed
    if allowed is None:
        return np.ones(len(plan), dtype=bool)
    owner = np.repeat(np.arange(len(plan)), np.diff(allowed.indptr))
    listed = ~allowed.restricted
    listed[owner[allowed.nodes == plan[owner]]] = True
    return listed


def _cap_limits(problem: Problem, sums_before: Floats) -> Floats:
    """[N, R]: capacity, or what the node had before where that was more; infinite if no cap."""
    limits = np.maximum(problem.capacity, sums_before) * (1 + CAP_TOLERANCE)
    limits[np.array(problem.node_state) != "alive"] = np.inf
    limits[:, slice(None) if problem.balanced is None else problem.balanced] = np.inf
    return np.asarray(limits, dtype=np.float64)


def _columns(assignment: Assignment) -> tuple[list[Any], list[Any]]:
    if isinstance(assignment, Mapping):
        return list(assignment.keys()), list(assignment.values())
    ids, nodes = assignment
    return list(ids), list(nodes)


def _some(names: Sequence[Any], rows: Ints | None = None) -> str:
    """The first few names, of all or of these rows, and how many more there are."""
    count = len(names) if rows is None else len(rows)
    first = range(min(MAX_NAMED, count)) if rows is None else rows[:MAX_NAMED].tolist()
    shown = ", ".join(repr(names[i]) for i in first)
    return shown + (f" and {count - MAX_NAMED} more" if count > MAX_NAMED else "")


def _check_rows(problem: Problem, ids: list[Any], nodes: list[Any]) -> Iterator[Violation]:
    """Each key group of the problem exactly once, and only nodes that exist."""
    if len(ids) != len(nodes):
        yield Violation("assignment", f"{len(ids)} key groups, but {len(nodes)} nodes")
        return
    strange = sorted({str(name) for name in set(nodes) - set(problem.node_ids)})
    if strange:
        yield Violation("assignment.known_nodes", f"unknown {_some(strange)}")
    if ids == list(problem.key_group_ids):
        return  # All of them, each once: a problem names no key group twice.
    known, listed = set(problem.key_group_ids), set(ids)
    unknown = sorted({str(name) for name in listed - known})
    if unknown:
        yield Violation("assignment.known_key_groups", f"unknown {_some(unknown)}")
    if len(listed) != len(ids):
        seen: set[Any] = set()
        twice = [name for name in ids if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
        yield Violation("assignment.exactly_once", f"more than once: {_some(twice)}")
    missing = known - listed
    if missing:
        yield Violation("assignment.exactly_once", f"missing: {_some(sorted(missing))}")


def _place(problem: Problem, ids: list[Any], nodes: list[Any]) -> Ints:
    """Node index of each key group, in the problem's order."""
    row_of = {name: i for i, name in enumerate(problem.key_group_ids)}
    index_of = {name: i for i, name in enumerate(problem.node_ids)}
    rows = np.fromiter(map(row_of.__getitem__, ids), dtype=np.int64, count=len(ids))
    plan = np.empty(len(ids), dtype=np.int64)
    plan[rows] = np.fromiter(map(index_of.__getitem__, nodes), dtype=np.int64, count=len(ids))
    return plan


class _Facts:
    """Every figure of the plan, recomputed from the raw arrays."""

    def __init__(
        self, problem: Problem, plan: Ints, objective: Objective | None, after: Problem
    ) -> None:
        states = np.array(problem.node_state)
        before = np.asarray(problem.current)
        # What routes shift is counted by itself: keys carry their share of the load along.
        shift = after.load - problem.load
        load = np.maximum(0.0, _load_under(problem, plan, objective) + shift)
        self.after = after
        self.plan = plan
        self.before = before
        self.moved = plan != before
        self.was_dead = states[before] == "dead"
        self.forced = self.moved & self.was_dead
        self.chosen = self.moved & ~self.was_dead
        self.sums = _sum_by_node(problem, plan, load)
        sums_before = _sum_by_node(problem, before, problem.load)
        self.cap_limits = _cap_limits(problem, sums_before)
        self.figures: dict[str, float | None] = {
            "load_distance_before": _distance(problem, sums_before, problem.load, relative=True),
            "load_distance": _distance(problem, self.sums, load, relative=True),
            "load_distance_points_before": _distance(
                problem, sums_before, problem.load, relative=False
            ),
            "load_distance_points_after": _distance(problem, self.sums, load, relative=False),
            "moves": int(np.count_nonzero(self.chosen)),
            "bytes": _bytes(problem, self.chosen),
            "forced_moves": int(np.count_nonzero(self.forced)),
            "forced_bytes": _bytes(problem, self.forced),
            "pause_s": _pause(problem, self.moved),
            "forced_pause_s": _pause(problem, self.forced),
            "draining_load": _draining_share(problem, self.sums, load),
            "collocation_factor": _collocated(after, plan),
            "collocation_factor_before": _collocated(problem, before),
            "load_index": _load_index(problem, load),
        }
        if objective is not None and objective.is_weighted:
            # What weights weigh; where nothing is weighed nobody promises it.
            self.figures |= {
                "traffic_saved_before": _saved_pct(problem, before, objective),
                "traffic_saved": _saved_pct(after, plan, objective),
                "drained_moves": int(np.count_nonzero(self.moved & (states[before] == "draining"))),
            }
        self.chosen_pause_s = _pause(problem, self.chosen)
        largest = 100.0 * float(np.max(sums_before / problem.capacity, initial=0.0))
        self.rounding = {
            "load_distance_points_before": ROUNDING * largest,
            "load_distance_points_after": ROUNDING
            * max(largest, 100.0 * float(np.max(self.sums / problem.capacity, initial=0.0))),
        }

    def number(self, name: str) -> float:
        value = self.figures[name]
        return 0.0 if value is None else float(value)


def _load_under(problem: Problem, plan: Ints, objective: Objective | None) -> Floats:
    """[G, R]: the loads under the plan. Measured ones hold what serialising cost as it was.

    Edge by edge: a record that no longer changes nodes costs its sender and its receiver nothing.
    Where the costs are more than all that was measured of a key group, they are cut to that.
    """
    source, target, rates = problem.traffic_from, problem.traffic_to, problem.traffic_rate
    if objective is None or not objective.is_joint:
        return problem.load
    if source is None or target is None or rates is None:
        return problem.load
    costs = objective.costs
    load = np.array(problem.load, dtype=np.float64)
    for r in range(len(problem.resources)):
        charged = [np.zeros(len(plan)), np.zeros(len(plan))]
        for place, charge in zip((problem.current, plan), charged, strict=True):
            rate = np.where(place[source] != place[target], rates, 0.0)
            if costs.send:
                np.add.at(charge, source, rate * costs.send[r])
            if costs.receive:
                np.add.at(charge, target, rate * costs.receive[r])
        was, will_be = charged
        too_much = was > problem.load[:, r]
        cut = np.ones(len(plan))
        cut[too_much] = problem.load[too_much, r] / was[too_much]
        load[:, r] = np.maximum(problem.load[:, r] - cut * was, 0.0) + cut * will_be
    return load


def _load_index(problem: Problem, load: Floats) -> float:
    totals = zip(problem.load.sum(axis=0).tolist(), load.sum(axis=0).tolist(), strict=True)
    return max((100.0 * now / was for was, now in totals if was > 0), default=100.0)


def _sum_by_node(problem: Problem, plan: Ints, load: Floats) -> Floats:
    """[N, R] by sorting and summing slices, pairwise and so with little rounding."""
    order = np.argsort(plan, kind="stable")
    nodes, cuts = np.unique(plan[order], return_index=True)
    sums = np.zeros((len(problem.node_ids), len(problem.resources)))
    if len(nodes):
        for r in range(len(problem.resources)):
            sums[nodes, r] = np.add.reduceat(load[order, r], cuts)
    return sums


def _distance(problem: Problem, sums: Floats, load: Floats, *, relative: bool) -> float:
    """100 x the largest |load - m| of a staying node and a balanced resource.

    Over m and times the resource's weight where ``relative``; in points of load otherwise.
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


def _bytes(problem: Problem, which: npt.NDArray[np.bool_]) -> int:
    return sum(problem.state_bytes[which].tolist())


def _pause(problem: Problem, which: npt.NDArray[np.bool_]) -> float:
    count = int(np.count_nonzero(which))
    return problem.pause_c0_s * count + problem.pause_s_per_byte * _bytes(problem, which)


def _draining_share(problem: Problem, sums: Floats, load: Floats) -> float:
    left = sums[np.array(problem.node_state) == "draining"].sum(axis=0)
    totals = load.sum(axis=0)
    return 100.0 * max(
        (float(a / b) for a, b in zip(left, totals, strict=True) if b > 0), default=0.0
    )


def _collocated(problem: Problem, plan: Ints) -> float | None:
    if problem.traffic_rate is None or not float(np.sum(problem.traffic_rate)) > 0:
        return None
    apart = plan[problem.traffic_from] != plan[problem.traffic_to]
    crossing = float(np.sum(problem.traffic_rate, where=apart))
    return 100.0 * (1.0 - crossing / float(np.sum(problem.traffic_rate)))


def _named(problem: Problem, which: npt.NDArray[np.bool_]) -> str:
    return _some(problem.key_group_ids, np.flatnonzero(which))


def _check_nodes(problem: Problem, facts: _Facts) -> Iterator[Violation]:
    """Nothing is left on a dead node, and nothing new comes onto a draining or dead one."""
    state = np.array(problem.node_state)[facts.plan]
    left_on_dead = ~facts.moved & (state == "dead")
    if left_on_dead.any():
        yield Violation("nodes.alive", f"left on a dead node: {_named(problem, left_on_dead)}")
    for bad in ("dead", "draining"):
        arrived = facts.moved & (state == bad)
        if arrived.any():
            yield Violation(f"nodes.{bad}", f"moved onto a {bad} node: {_named(problem, arrived)}")


def _check_rules(problem: Problem, facts: _Facts) -> Iterator[Violation]:
    if problem.pinned is not None:
        broken = facts.moved & problem.pinned
        if broken.any():
            yield Violation("pinned", f"moved although pinned: {_named(problem, broken)}")
    outside = ~_is_listed(problem, facts.plan)
    if outside.any():
        named = _named(problem, outside)
        yield Violation("allowed_nodes", f"on a node that is not allowed: {named}")


def _check_caps(problem: Problem, facts: _Facts) -> Iterator[Violation]:
    """A capped resource fits the node, or is no more than the node had before."""
    limits = facts.cap_limits
    for i, r in np.argwhere(facts.sums > limits)[:MAX_NAMED].tolist():
        yield Violation(
            "caps",
            f"{problem.node_ids[i]!r} carries {facts.sums[i, r]:.9g} of the capped resource "
            f"{problem.resources[r]!r}, allowed {limits[i, r]:.9g}",
        )


def _check_budget(budget: Budget, facts: _Facts) -> Iterator[Violation]:
    """Forced moves are outside of the budget."""
    moves, n_bytes = int(facts.number("moves")), int(facts.figures["bytes"] or 0)
    if budget.moves is not None and moves > budget.moves:
        yield Violation("budget.moves", f"{moves} moves, allowed {budget.moves}")
    if budget.bytes is not None and n_bytes > budget.bytes:
        yield Violation("budget.bytes", f"{n_bytes} bytes, allowed {budget.bytes}")
    pause_s = facts.chosen_pause_s
    if (
        budget.pause_s is not None
        and pause_s > budget.pause_s
        and not _close(pause_s, budget.pause_s)
    ):
        yield Violation("budget.pause_s", f"{pause_s:g} s of pause, allowed {budget.pause_s:g}")


def _close(a: float, b: float, rounding: float = 0.0) -> bool:
    absolute = max(ABSOLUTE_TOLERANCE, rounding)
    return math.isclose(a, b, rel_tol=RELATIVE_TOLERANCE, abs_tol=absolute)


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # Compared, not converted: a whole number may be beyond what a float can hold.
    return is_number and -sys.float_info.max <= value <= sys.float_info.max


def _check_figures(promises: Mapping[str, Any], facts: _Facts) -> Iterator[Violation]:
    for name, actual in facts.figures.items():
        if name not in promises:
            continue
        promised = promises[name]
        if promised is None and actual is None:
            continue
        if actual is None or not _is_number(promised):
            yield Violation(name, f"promised {promised!r}, is {actual!r}")
        elif isinstance(actual, int) and promised != actual:
            yield Violation(name, f"promised {promised}, is {actual}")
        elif not _close(float(promised), float(actual), facts.rounding.get(name, 0.0)):
            yield Violation(name, f"promised {promised:.9g}, is {actual:.9g}")


def _check_bound(promises: Mapping[str, Any], facts: _Facts) -> Iterator[Violation]:
    distance = facts.number("load_distance")
    bound, gap = promises.get("bound"), promises.get("gap")
    if bound is None:
        return
    if not _is_number(bound) or bound < 0:
        yield Violation("bound", f"promised {bound!r}, which is not a number >= 0")
        return
    if bound > distance and not _close(bound, distance):
        yield Violation("bound", f"{bound:.9g} is above the load distance {distance:.9g}")
    if gap is not None and (
        not _is_number(gap) or abs(gap - max(0.0, distance - bound)) > OPTIMAL_GAP
    ):
        yield Violation("gap", f"promised {gap!r}, is {max(0.0, distance - bound):.9g}")


def _check_status(
    promises: Mapping[str, Any], facts: _Facts, *, is_rerouted: bool
) -> Iterator[Violation]:
    status = promises.get("status")
    if status is None:
        return
    if status not in STATUSES:
        yield Violation("status", f"{status!r} is none of {', '.join(STATUSES)}")
    if status == "infeasible":
        yield Violation("status", "says infeasible, but there is an assignment")
    if status == "unchanged" and is_rerouted:
        yield Violation("status", "says unchanged, but routes changed")
    if status == "unchanged" and facts.moved.any():
        yield Violation(
            "status", f"says unchanged, but {np.count_nonzero(facts.moved)} key groups moved"
        )
    bound = promises.get("bound")
    distance = facts.number("load_distance")
    is_proven = bound is not None and _is_number(bound) and distance - bound <= OPTIMAL_GAP
    if status == "optimal" and not is_proven:
        yield Violation("status", f"says optimal at {distance:.9g}, but the bound is {bound!r}")


def _check_better_than_nothing(
    problem: Problem, facts: _Facts, objective: Objective | None
) -> Iterator[Violation]:
    """With dead nodes "nothing" is impossible: compare with the plan's necessary moves alone.

    Where those alone are over a cap they are no plan, and there is nothing to compare with. A
    joint plan may trade load within its bound for traffic, and then has to save some; by weights
    the sum of both may not be worse.
    """
    necessary = facts.was_dead | ~_is_listed(problem, facts.before)
    least = np.where(necessary, facts.plan, facts.before)
    load = _load_under(problem, least, objective)
    sums = _sum_by_node(problem, least, load)
    if np.any(sums > facts.cap_limits):
        return
    without = _distance(problem, sums, load, relative=True)
    distance = facts.number("load_distance")
    is_worse = distance > without and not _close(distance, without)
    if objective is None or not objective.is_joint:
        if is_worse:
            yield Violation(
                "better_than_nothing",
                f"load distance {distance:.9g} % with the plan, {without:.9g} % without",
            )
        return
    if objective.weights is not None:
        yield from _check_weighted(problem, facts, least, without, objective, objective.weights)
        return
    bound = objective.max_load_distance
    if is_worse and distance > bound and not _close(distance, bound):
        yield Violation(
            "max_load_distance",
            f"load distance {distance:.9g} % with the plan, {without:.9g} % without, allowed "
            f"{bound:.9g} %",
        )
    if without <= bound and "draining" not in problem.node_state:
        yield from _check_traffic_is_kept(problem, facts, least, objective)


def _check_traffic_is_kept(
    problem: Problem, facts: _Facts, least: Ints, objective: Objective
) -> Iterator[Violation]:
    """Traffic is given up only to level the load, or to empty a node that drains."""
    before = _traffic_price(problem, least, objective)
    after = _traffic_price(facts.after, facts.plan, objective)
    if after > before and not _close(after, before):
        yield Violation(
            "better_than_nothing",
            f"traffic between nodes costs {after:.9g} with the plan, {before:.9g} without",
        )


def _check_weighted(
    problem: Problem,
    facts: _Facts,
    least: Ints,
    without: float,
    objective: Objective,
    weights: TradeWeights,
) -> Iterator[Violation]:
    """Weighed together, traffic and load are no worse. A drain may cost traffic, not level load."""
    per_traffic, per_load = weights.traffic, weights.load
    distance = facts.number("load_distance")
    span = objective.costs.between_racks - objective.costs.within_node
    cheaper = _traffic_price(problem, least, objective) - _traffic_price(
        facts.after, facts.plan, objective
    )
    gain = per_traffic * cheaper / span - per_load * (distance - without)
    tolerance = ABSOLUTE_TOLERANCE * (per_traffic + per_load * (1.0 + distance))
    if gain >= -tolerance:
        return
    if facts.number("drained_moves") and (distance <= without or _close(distance, without)):
        return
    yield Violation(
        "better_than_nothing",
        f"by weights {per_traffic:g} of traffic and {per_load:g} of load the plan is "
        f"{-gain:.9g} worse than doing nothing: load distance {distance:.9g} % with it, "
        f"{without:.9g} % without, traffic saved {cheaper / span:.9g} points",
    )


def _saved_pct(problem: Problem, plan: Ints, objective: Objective) -> float | None:
    """Percent of what the traffic would cost if all of it went between racks."""
    if problem.traffic_rate is None or not float(np.sum(problem.traffic_rate)) > 0:
        return None
    dearest = 100.0 * objective.costs.between_racks
    span = objective.costs.between_racks - objective.costs.within_node
    return (dearest - _traffic_price(problem, plan, objective)) / span


def _traffic_price(problem: Problem, plan: Ints, objective: Objective) -> float:
    """What a hundred records cost on average by how far they go."""
    if problem.traffic_rate is None or not float(np.sum(problem.traffic_rate)) > 0:
        return 0.0
    ends = plan[problem.traffic_from], plan[problem.traffic_to]
    racks = np.array(problem.rack) if problem.rack else np.zeros(len(problem.node_ids))
    price = np.full(len(problem.traffic_rate), objective.costs.between_racks)
    price[racks[ends[0]] == racks[ends[1]]] = objective.costs.within_rack
    price[ends[0] == ends[1]] = objective.costs.within_node
    return 100.0 * float(np.average(price, weights=problem.traffic_rate))
