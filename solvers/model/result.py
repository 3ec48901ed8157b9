"""The result of a solver: assignment, status, and every promised figure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from solvers.model import metrics
from solvers.model.pause import total_pause_s
from solvers.model.problem import IntArray, Problem

PROOF_TOLERANCE = 1e-5
"""Percentage points of load distance. A plan this close to a proven bound counts as optimal. This
is ten times the feasibility tolerance of HiGHS, and too small to be measured."""

TraceStep = tuple[float, str, float]
"""(seconds since the start, method or step, load distance at that time)."""


class Status(StrEnum):
    """Status of a result; each method maps its solver's status to it."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    UNCHANGED = "unchanged"
    INFEASIBLE = "infeasible"


@dataclass(frozen=True, eq=False, slots=True)
class Result:
    """The result of a solver. Load distances are in percent of the mean, or in points if named so.

    ``bound`` is a proven lower bound on the load distance of every assignment within the budget;
    ``gap`` = load_distance - bound in percentage points, 0 if optimality is proven.
    ``collocation_bound`` is a proven upper bound on the collocation factor of every assignment
    within the budget; None for methods that do not look at traffic. ``moves`` and
    ``bytes`` are limited by the budget; forced moves are counted separately. ``pause_s`` is the
    pause of the whole plan, of which ``forced_pause_s`` is due to forced moves. ``load_index`` is
    the total load under the plan in percent of the total now, for the resource that it lowers
    least: below 100 if records that stay on a node need no serialisation.
    An infeasible result has the current assignment, neither bound nor gap, and the reason.
    """

    method: str
    status: Status
    assignment: IntArray
    load_distance_before: float
    load_distance: float
    load_distance_points_before: float
    load_distance_points_after: float
    bound: float | None
    gap: float | None
    moves: int
    bytes: int
    forced_moves: int
    forced_bytes: int
    pause_s: float
    forced_pause_s: float
    draining_load: float
    collocation_factor_before: float | None
    collocation_factor: float | None
    load_index: float
    collocation_bound: float | None
    seconds: float
    trace: tuple[TraceStep, ...] = ()
    reason: str = ""

    @property
    def is_solved(self) -> bool:
        return self.status is not Status.INFEASIBLE

    def to_dict(self) -> dict[str, Any]:
        """Return the figures for result.json, without the assignment."""
        return {
            "method": self.method,
            "status": self.status.value,
            "reason": self.reason,
            "load_distance_before": self.load_distance_before,
            "load_distance": self.load_distance,
            "load_distance_points_before": self.load_distance_points_before,
            "load_distance_points_after": self.load_distance_points_after,
            "bound": self.bound,
            "gap": self.gap,
            "moves": self.moves,
            "bytes": self.bytes,
            "forced_moves": self.forced_moves,
            "forced_bytes": self.forced_bytes,
            "pause_s": self.pause_s,
            "forced_pause_s": self.forced_pause_s,
            "draining_load": self.draining_load,
            "collocation_factor_before": self.collocation_factor_before,
            "collocation_factor": self.collocation_factor,
            "load_index": self.load_index,
            "collocation_bound": self.collocation_bound,
            "seconds": round(self.seconds, 3),
            "trace": [[round(s, 3), step, objective] for s, step, objective in self.trace],
        }


@dataclass(frozen=True, slots=True)
class SolverRun:
    """The report of a method on its run, without the assignment."""

    method: str
    bound: float
    """A lower bound on the load distance that the method has proven; 0 if none."""
    seconds: float
    trace: tuple[TraceStep, ...] = ()
    reason: str = ""
    collocation_bound: float | None = None
    """An upper bound on the collocation factor in percent; None if none is claimed."""


def make_result(
    problem: Problem,
    assignment: IntArray,
    run: SolverRun,
    *,
    after: Problem | None = None,
    is_changed: bool = False,
) -> Result:
    """Compute every figure of a result from the assignment, not from values of the solver.

    Args:
        problem: The problem as it was measured.
        assignment: The node index of each key group. The result keeps it, read-only.
        run: The report of the method on its run.
        after: The problem with loads and traffic under the plan, if they depend on the plan.
        is_changed: Whether the plan changes something other than the assignment.
    """
    after = after or problem
    distance = metrics.load_distance(after, assignment)
    proven = min(max(0.0, run.bound), distance)
    gap = distance - proven
    is_optimal = gap <= PROOF_TOLERANCE
    any_move = is_changed or bool(metrics.moved_mask(problem, assignment).any())
    proof = _Proof(
        _status(any_move=any_move, is_optimal=is_optimal), proven, 0.0 if is_optimal else gap
    )
    return _result(problem, assignment, after, proof, run)


def with_bound_of(result: Result, other: Result) -> Result:
    """Return a result with the bound of another one, and the gap and status that follow from it.

    Args:
        result: A result of a problem whose plans are some of those of the other problem, so that
            its own bound may be too high for the other problem.
        other: The result of the other problem.
    """
    bound = min(other.bound or 0.0, result.load_distance)
    gap = result.load_distance - bound
    is_optimal = gap <= PROOF_TOLERANCE
    is_any_move = result.status is not Status.UNCHANGED
    status = _status(any_move=is_any_move, is_optimal=is_optimal)
    return replace(result, bound=bound, gap=0.0 if is_optimal else gap, status=status)


def infeasible_result(problem: Problem, *, method: str, reason: str, seconds: float) -> Result:
    """Make the result for a problem without a plan that keeps all rules.

    Args:
        problem: The problem; the result has its current assignment.
        method: The name of the method.
        reason: Why there is no plan, with a remedy.
        seconds: The time that the method took.
    """
    run = SolverRun(method, 0.0, seconds, reason=reason)
    proof = _Proof(Status.INFEASIBLE, None, None)
    return _result(problem, problem.current.copy(), problem, proof, run)


@dataclass(frozen=True, slots=True)
class _Proof:
    """The status, and the bound and the gap that it is derived from."""

    status: Status
    bound: float | None
    gap: float | None


def _status(*, any_move: bool, is_optimal: bool) -> Status:
    if not any_move:
        return Status.UNCHANGED
    return Status.OPTIMAL if is_optimal else Status.FEASIBLE


def _result(
    problem: Problem, assignment: IntArray, after: Problem, proof: _Proof, run: SolverRun
) -> Result:
    current = problem.current
    moved = metrics.moved_mask(problem, assignment)
    forced = moved & metrics.forced_mask(problem)
    voluntary = moved & ~forced
    assignment.setflags(write=False)
    return Result(
        method=run.method,
        status=proof.status,
        assignment=assignment,
        load_distance_before=metrics.load_distance(problem, current),
        load_distance=metrics.load_distance(after, assignment),
        load_distance_points_before=metrics.load_distance_points(problem, current),
        load_distance_points_after=metrics.load_distance_points(after, assignment),
        bound=proof.bound,
        gap=proof.gap,
        moves=int(voluntary.sum()),
        bytes=int(problem.state_bytes[voluntary].sum()),
        forced_moves=int(forced.sum()),
        forced_bytes=int(problem.state_bytes[forced].sum()),
        pause_s=total_pause_s(problem, moved),
        forced_pause_s=total_pause_s(problem, forced),
        draining_load=metrics.draining_load(after, assignment),
        collocation_factor_before=metrics.collocation_factor(problem, current),
        collocation_factor=metrics.collocation_factor(after, assignment),
        load_index=metrics.load_index(problem.load, after.load),
        collocation_bound=run.collocation_bound,
        seconds=run.seconds if math.isfinite(run.seconds) else 0.0,
        trace=run.trace,
        reason=run.reason,
    )
