"""Checks a plan against everything it promises, and shares no code with any solver.

Takes the raw arrays of the problem and names of key groups and nodes; recomputes each figure in
its own way (sorted slices, not the running counts of ``metrics``). Nothing from ``solvers`` is
imported but the two input types, and those only for type checking.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from solvers.budget import Budget
    from solvers.problem import Problem

RELATIVE_TOLERANCE = 1e-6
ABSOLUTE_TOLERANCE = 1e-6
"""A promised number may differ from the recomputed one by 1e-6, absolute or relative."""

OPTIMAL_GAP = 1e-4
"""Percentage points by which a plan called optimal may be above its bound."""

STATUSES = ("optimal", "feasible", "unchanged", "infeasible")
MAX_NAMED = 3

Assignment = Mapping[str, str] | tuple[Sequence[Any], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that does not hold, and how."""

    promise: str
    message: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.message}"


def verify(
    problem: Problem, budget: Budget, assignment_names: Assignment, promises: Mapping[str, Any]
) -> list[Violation]:
    """All the promises that the plan breaks; an empty list means that it keeps them.

    ``assignment_names`` is a mapping or a pair of columns (key_group_ids, node_ids); only columns
    can show a key group that is listed twice. ``promises`` is what result.json says; figures that
    it leaves out are not checked.
    """
    ids, nodes = _columns(assignment_names)
    violations = list(_check_rows(problem, ids, nodes))
    if violations:
        return violations  # Figures of a broken assignment would only be noise.
    plan = _place(problem, ids, nodes)
    facts = _Facts(problem, plan)
    return [
        *_check_nodes(problem, facts),
        *_check_rules(problem, facts),
        *_check_budget(budget, facts),
        *_check_figures(promises, facts),
        *_check_bound(promises, facts),
        *_check_status(promises, facts),
        *_check_better_than_nothing(problem, facts),
    ]


def verify_infeasible(problem: Problem, budget: Budget) -> list[Violation]:
    """Is there really no plan? Looks for the simplest one: only what must move is moved."""
    alive = {i for i, state in enumerate(problem.node_state) if state == "alive"}
    if not alive:
        return []
    moves = n_bytes = 0
    pause_s = 0.0
    for k, here in enumerate(problem.current.tolist()):
        listed = _listed_nodes(problem, k)
        is_dead = problem.node_state[here] == "dead"
        if not is_dead and (listed is None or here in listed):
            continue
        is_pinned = problem.pinned is not None and bool(problem.pinned[k])
        if is_pinned or not (alive if listed is None else alive & listed):
            return []
        if not is_dead:
            moves += 1
            n_bytes += int(problem.state_bytes[k])
            pause_s += problem.pause_c0_s + problem.pause_s_per_byte * int(problem.state_bytes[k])
    limits = ((budget.moves, moves), (budget.bytes, n_bytes), (budget.pause_s, pause_s))
    if any(limit is not None and used > limit for limit, used in limits):
        return []
    return [Violation("status", "says infeasible, but a plan exists that moves only what it must")]


def _listed_nodes(problem: Problem, k: int) -> set[int] | None:
    allowed = problem.allowed
    if allowed is None or not allowed.restricted[k]:
        return None
    return set(allowed.nodes[allowed.indptr[k] : allowed.indptr[k + 1]].tolist())


def _columns(assignment: Assignment) -> tuple[list[Any], list[Any]]:
    if isinstance(assignment, Mapping):
        return list(assignment.keys()), list(assignment.values())
    ids, nodes = assignment
    return list(ids), list(nodes)


def _some(names: Sequence[Any]) -> str:
    shown = ", ".join(repr(name) for name in names[:MAX_NAMED])
    return shown + (f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else "")


def _check_rows(problem: Problem, ids: list[Any], nodes: list[Any]) -> Iterator[Violation]:
    """Each key group of the problem exactly once, and only nodes that exist."""
    if len(ids) != len(nodes):
        yield Violation("assignment", f"{len(ids)} key groups, but {len(nodes)} nodes")
        return
    known_groups, known_nodes = set(problem.key_group_ids), set(problem.node_ids)
    listed = set(ids)
    unknown = sorted({str(name) for name in listed - known_groups})
    if unknown:
        yield Violation("assignment.known_key_groups", f"unknown {_some(unknown)}")
    if len(listed) != len(ids):
        seen: set[Any] = set()
        twice = [name for name in ids if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
        yield Violation("assignment.exactly_once", f"more than once: {_some(twice)}")
    missing = [name for name in problem.key_group_ids if name not in listed]
    if missing:
        yield Violation("assignment.exactly_once", f"missing: {_some(missing)}")
    strange = sorted({str(name) for name in set(nodes) - known_nodes})
    if strange:
        yield Violation("assignment.known_nodes", f"unknown {_some(strange)}")


def _place(problem: Problem, ids: list[Any], nodes: list[Any]) -> npt.NDArray[np.int64]:
    """Node index of each key group, in the problem's order."""
    index_of = {name: i for i, name in enumerate(problem.node_ids)}
    node_of = dict(zip(ids, nodes, strict=True))
    return np.array([index_of[node_of[k]] for k in problem.key_group_ids], dtype=np.int64)


class _Facts:
    """Every figure of the plan, recomputed from the raw arrays."""

    def __init__(self, problem: Problem, plan: npt.NDArray[np.int64]) -> None:
        states = np.array(problem.node_state)
        before = np.asarray(problem.current)
        self.plan = plan
        self.before = before
        self.moved = plan != before
        self.was_dead = states[before] == "dead"
        self.forced = self.moved & self.was_dead
        self.chosen = self.moved & ~self.was_dead
        self.figures: dict[str, float | None] = {
            "load_distance_before": _distance(problem, before, relative=True),
            "load_distance": _distance(problem, plan, relative=True),
            "load_distance_points_before": _distance(problem, before, relative=False),
            "load_distance_points_after": _distance(problem, plan, relative=False),
            "moves": int(np.count_nonzero(self.chosen)),
            "bytes": _bytes(problem, self.chosen),
            "forced_moves": int(np.count_nonzero(self.forced)),
            "forced_bytes": _bytes(problem, self.forced),
            "pause_s": _pause(problem, self.moved),
            "forced_pause_s": _pause(problem, self.forced),
            "draining_load": _draining_share(problem, plan),
            "collocation_factor": _collocated(problem, plan),
            "collocation_factor_before": _collocated(problem, before),
        }
        self.chosen_pause_s = _pause(problem, self.chosen)

    def number(self, name: str) -> float:
        value = self.figures[name]
        return 0.0 if value is None else float(value)


def _sum_by_node(problem: Problem, plan: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """[N, R] by sorting and summing slices, pairwise and so with little rounding."""
    order = np.argsort(plan, kind="stable")
    cuts = np.searchsorted(plan[order], np.arange(len(problem.node_ids) + 1))
    rows = problem.load[order]
    return np.array([rows[a:b].sum(axis=0) for a, b in itertools.pairwise(cuts)])


def _distance(problem: Problem, plan: npt.NDArray[np.int64], *, relative: bool) -> float:
    """100 x the largest |load - m| of a staying node, over m where ``relative``."""
    stays = [i for i, state in enumerate(problem.node_state) if state == "alive"]
    if not stays:
        return 0.0
    by_node = _sum_by_node(problem, plan)[stays]
    worst = 0.0
    for r in range(len(problem.resources)):
        room = problem.capacity[stays, r]
        mean = float(np.sum(problem.load[:, r])) / float(np.sum(room))
        if mean == 0.0:
            continue
        away = float(np.max(np.abs(by_node[:, r] / room - mean)))
        worst = max(worst, away / mean if relative else away)
    return 100.0 * worst


def _bytes(problem: Problem, which: npt.NDArray[np.bool_]) -> int:
    return sum(problem.state_bytes[which].tolist())


def _pause(problem: Problem, which: npt.NDArray[np.bool_]) -> float:
    count = int(np.count_nonzero(which))
    return problem.pause_c0_s * count + problem.pause_s_per_byte * _bytes(problem, which)


def _draining_share(problem: Problem, plan: npt.NDArray[np.int64]) -> float:
    leaving = [i for i, state in enumerate(problem.node_state) if state == "draining"]
    left = _sum_by_node(problem, plan)[leaving].sum(axis=0)
    totals = problem.load.sum(axis=0)
    return 100.0 * max(
        (float(a / b) for a, b in zip(left, totals, strict=True) if b > 0), default=0.0
    )


def _collocated(problem: Problem, plan: npt.NDArray[np.int64]) -> float | None:
    if problem.traffic_rate is None or not float(np.sum(problem.traffic_rate)) > 0:
        return None
    apart = plan[problem.traffic_from] != plan[problem.traffic_to]
    crossing = float(np.sum(problem.traffic_rate, where=apart))
    return 100.0 * (1.0 - crossing / float(np.sum(problem.traffic_rate)))


def _named(problem: Problem, which: npt.NDArray[np.bool_]) -> str:
    return _some([problem.key_group_ids[k] for k in np.flatnonzero(which)])


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
    if problem.allowed is None:
        return
    outside = [
        problem.key_group_ids[k]
        for k in np.flatnonzero(problem.allowed.restricted).tolist()
        if int(facts.plan[k]) not in (_listed_nodes(problem, k) or ())
    ]
    if outside:
        yield Violation("allowed_nodes", f"on a node that is not allowed: {_some(outside)}")


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


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


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
        elif not _close(float(promised), float(actual)):
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


def _check_status(promises: Mapping[str, Any], facts: _Facts) -> Iterator[Violation]:
    status = promises.get("status")
    if status is None:
        return
    if status not in STATUSES:
        yield Violation("status", f"{status!r} is none of {', '.join(STATUSES)}")
    if status == "infeasible":
        yield Violation("status", "says infeasible, but there is an assignment")
    if status == "unchanged" and facts.moved.any():
        yield Violation(
            "status", f"says unchanged, but {np.count_nonzero(facts.moved)} key groups moved"
        )
    bound = promises.get("bound")
    distance = facts.number("load_distance")
    is_proven = bound is not None and _is_number(bound) and distance - bound <= OPTIMAL_GAP
    if status == "optimal" and not is_proven:
        yield Violation("status", f"says optimal at {distance:.9g}, but the bound is {bound!r}")


def _check_better_than_nothing(problem: Problem, facts: _Facts) -> Iterator[Violation]:
    """With dead nodes "nothing" is impossible: compare with the plan's necessary moves alone."""
    necessary = facts.was_dead.copy()
    if problem.allowed is not None:
        for k in np.flatnonzero(problem.allowed.restricted).tolist():
            if int(facts.before[k]) not in (_listed_nodes(problem, k) or ()):
                necessary[k] = True
    least = np.where(necessary, facts.plan, facts.before)
    without = _distance(problem, least, relative=True)
    distance = facts.number("load_distance")
    if distance > without and not _close(distance, without):
        yield Violation(
            "better_than_nothing",
            f"load distance {distance:.9g} % with the plan, {without:.9g} % without",
        )
