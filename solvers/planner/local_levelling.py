"""Plans that level single operators and edges of a job whose whole load is level. Pure.

The load of each skewed operator becomes a further balanced resource, weighted so that its threshold
counts as much as the load distance of the whole job. The plan must keep that load distance within
what the policy calls good enough, or at what it is without the plan where that is more. No other
operator may become skewed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.concentration import fair_shares, reachable_distance_pct
from solvers.model.problem import LARGEST_WEIGHT, SMALLEST_WEIGHT, FloatArray, IntArray, Problem
from solvers.model.result import Result
from solvers.model.stop import Stop
from solvers.planner.local_loads import LocalLoad, LocalLoadKind, operator_skew_pct
from solvers.planner.local_skew import (
    Expected,
    LocalSkew,
    SkewFinding,
    SkewRules,
    SkewScope,
    SkewStatus,
    local_skew,
)
from solvers.rebalance import search
from solvers.rebalance.solve import solve

MOST_PARTS = 8
"""Operators and edges that are balanced beside the whole job: the skewed ones and then those that
are closest to it."""
AIM = 0.5
"""A plan aims at this share of the threshold, so that noise does not bring the alarm back."""
LEVELLED = 0.75
"""Below this share of the threshold an operator counts as levelled."""
LEAST_GAIN = 0.2
"""A plan that cannot level an operator must at least lower its skew by this share."""
FEW_MOVES_ATTEMPTS = 4
"""Attempts with few moves before the one with the whole budget."""
PARTIAL_AIMS = (0.3, 0.55, 0.8)
"""Where the whole budget does not level an operator, aims of further attempts, as shares of how far
it is above its fair share."""
ATTEMPTS = FEW_MOVES_ATTEMPTS + 1 + len(PARTIAL_AIMS)
"""The time limit is divided by this number."""
MORE_MOVES = 1.5
"""Moves of an attempt, as a multiple of those of the attempt before."""
MARGIN = 1.1
"""How much worse than its greedy placement an operator may be."""
SMALLEST_LIMIT_PCT = 0.01
"""Load distances are not distinguished below this, so that weights stay within their range."""
ROUNDING_PCT = 1e-7


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class LevellingRequest:
    """A job whose whole load stays as it is, and the skew in it."""

    problem: Problem
    skew: LocalSkew
    """Under ``problem.current``."""
    rules: SkewRules
    expected: Expected
    budget: Budget
    stop: Stop
    seed: int = 0
    levelling_limit_pct: float = 0.0
    """Load distance of the job up to which a plan may level an operator, if that is more than the
    load distance without the plan."""

    @property
    def limit_pct(self) -> float:
        """The load distance that a plan may have."""
        before = metrics.load_distance(self.problem, self.problem.current)
        is_for_operator = _levelled_operator(self.skew) is not None
        return max(before, self.levelling_limit_pct if is_for_operator else 0.0)


@dataclass(frozen=True, slots=True)
class LevelledOperator:
    """The operator that a plan is made for."""

    operator_id: str
    before_pct: float
    """How far a node is above its fair share of the operator's load, in percent of it."""
    after_pct: float
    """The same with the plan."""


@dataclass(frozen=True, eq=False, slots=True)
class LevelledPlan:
    """An assignment that lowers the skew, and the skew that is left."""

    assignment: IntArray
    skew: LocalSkew
    excess_pct: float
    """The largest skew that is left of the operators and edges that were skewed."""
    seconds: float
    """Time of all searches until it was found."""
    operator: LevelledOperator | None
    """None if the plan levels edges alone."""


def levelled_plan(request: LevellingRequest) -> LevelledPlan | None:
    """Search for a plan that levels the skewed operators and edges.

    Args:
        request: the job, its skew, budget and time limit.

    Returns:
        The plan with the fewest moves that was found; None if no plan within the budget lowers
        the skew by much and keeps the load distance of the job.
    """
    targets = _targets(request.skew)
    if not targets or request.budget.moves == 0:
        return None
    clock = request.stop.start()
    before = max(finding.excess_pct for finding in targets)
    best: LevelledPlan | None = None
    for attempt in _attempts(request, targets):
        found = _accepted(request, _solved(request, targets, attempt))
        if found is None or found.excess_pct > (1.0 - LEAST_GAIN) * before:
            continue
        if found.excess_pct <= LEVELLED * request.rules.threshold_pct:
            best = found
            break
        if best is None or found.excess_pct < best.excess_pct:
            best = found
        if attempt.aim_share is not None:
            break  # Later attempts aim at less.
    return None if best is None else replace(best, seconds=clock.elapsed())


def _levelled_operator(skew: LocalSkew) -> str | None:
    """The worst operator that moves between nodes can level."""
    kind = LocalLoadKind.OPERATOR
    return next((f.name for f in _targets(skew) if f.kind == kind), None)


def _targets(skew: LocalSkew) -> list[SkewFinding]:
    """What moves between nodes can level."""
    found = [f for f in skew.skewed if f.scope is SkewScope.NODE and f.load is not None]
    return found[:MOST_PARTS]


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What one search may move, and what it aims at."""

    budget: Budget
    aim_share: float | None = None
    """Share of today's distance above the fair share; None aims at level parts."""


def _attempts(request: LevellingRequest, targets: list[SkewFinding]) -> Iterator[_Attempt]:
    """From few moves to all that the policy allows, and then from high aims to low ones."""
    most = request.budget.moves
    moves = 2 * max(1, sum(_departures(request, finding) for finding in targets))
    for _ in range(FEW_MOVES_ATTEMPTS):
        if moves >= (request.problem.n_key_groups if most is None else most):
            break
        yield _Attempt(replace(request.budget, moves=moves))
        moves = int(np.ceil(MORE_MOVES * moves))
    yield _Attempt(request.budget)
    for aim_share in PARTIAL_AIMS:
        yield _Attempt(request.budget, aim_share)


def _departures(request: LevellingRequest, finding: SkewFinding) -> int:
    """The fewest key groups that have to leave nodes until the finding is at the aim."""
    load = finding.load
    if load is None:
        return 0
    problem = request.problem
    fair = fair_shares(problem.capacity[:, load.resource], problem.staying)
    aim = 1.0 + _aim_pct(request.rules, finding) / 100.0
    nodes, total = problem.current[load.key_groups], float(load.amount.sum())
    share = np.bincount(nodes, weights=load.amount, minlength=problem.n_nodes) / total
    count = 0
    for node in np.flatnonzero((fair > 0) & (share > aim * fair)).tolist():
        largest = -np.sort(-load.amount[nodes == node]) / total
        count += 1 + int(np.searchsorted(np.cumsum(largest), share[node] - aim * fair[node]))
    return count


def _aim_pct(rules: SkewRules, finding: SkewFinding) -> float:
    return finding.least_pct + AIM * rules.threshold_pct


def _solved(request: LevellingRequest, targets: list[SkewFinding], attempt: _Attempt) -> Result:
    seconds = request.stop.seconds
    stop = Stop(None if seconds is None else seconds / ATTEMPTS, request.stop.steps)
    limit = max(request.limit_pct, SMALLEST_LIMIT_PCT)
    parts = [*targets, *_watched(request.skew)][:MOST_PARTS]
    problem = _with_parts(request, parts, limit, attempt.aim_share or 0.0)
    # Together they leave the load distance within the limit.
    params = {"tolerance": (1.0 - AIM) * limit, "enough": AIM * limit}
    return solve(problem, attempt.budget, stop, request.seed, search.NAME, params)


def _watched(skew: LocalSkew) -> list[SkewFinding]:
    """Parts that are level and must stay so, those with the largest excess first."""
    level = [f for f in skew.of_status(SkewStatus.LEVEL) if f.scope is SkewScope.NODE and f.load]
    return sorted(level, key=lambda finding: -finding.excess_pct)


def _with_parts(
    request: LevellingRequest, parts: list[SkewFinding], limit: float, aim_share: float
) -> Problem:
    """The problem with the load of each part as a resource.

    A deviation of a part by what it should reach counts as much as ``limit`` of the whole job.
    """
    problem = request.problem
    loads = [finding.load for finding in parts if finding.load is not None]
    weights = [
        limit / max(aim_share * finding.above_pct, _reachable_pct(request, finding, finding.load))
        for finding in parts
        if finding.load is not None
    ]
    columns = [_column(problem, load) for load in loads]
    return replace(
        problem,
        resources=(*problem.resources, *(f"part {number}" for number in range(len(loads)))),
        capacity=np.column_stack(
            [problem.capacity, *(problem.capacity[:, load.resource] for load in loads)]
        ),
        load=np.column_stack([problem.load, *columns]),
        weight=np.concatenate([problem.weights, np.clip(weights, SMALLEST_WEIGHT, LARGEST_WEIGHT)]),
        balanced=np.concatenate([problem.balanced_mask, np.ones(len(loads), dtype=bool)]),
        noise=None,
    )


def _column(problem: Problem, load: LocalLoad) -> FloatArray:
    column = np.zeros(problem.n_key_groups)
    column[load.key_groups] = load.amount
    return column


def _reachable_pct(request: LevellingRequest, finding: SkewFinding, load: LocalLoad) -> float:
    """The distance from level, above or below, that a part should reach."""
    problem = request.problem
    fair = fair_shares(problem.capacity[:, load.resource], problem.staying)
    reachable = MARGIN * reachable_distance_pct(load.amount, fair)
    return max(reachable, _aim_pct(request.rules, finding), SMALLEST_LIMIT_PCT)


def _accepted(request: LevellingRequest, result: Result) -> LevelledPlan | None:
    """The plan, if the whole job is no further from level and nothing else becomes skewed."""
    if not result.is_solved or not result.moves:
        return None
    problem, assignment = request.problem, result.assignment
    if metrics.load_distance(problem, assignment) > request.limit_pct + ROUNDING_PCT:
        return None
    operator = _with_figures(request, assignment)
    if operator is not None and operator.after_pct >= operator.before_pct - ROUNDING_PCT:
        return None
    after = local_skew(problem, assignment, request.rules, request.expected)
    was_skewed = {_identity(finding) for finding in request.skew.skewed}
    if any(_identity(finding) not in was_skewed for finding in after.skewed):
        return None
    wanted = {_identity(finding) for finding in _targets(request.skew)}
    left = [f.excess_pct for f in after.findings if _identity(f) in wanted]
    excess = max(left, default=0.0)
    return LevelledPlan(assignment.copy(), after, excess, result.seconds, operator)


def _with_figures(request: LevellingRequest, assignment: IntArray) -> LevelledOperator | None:
    """The operator that the plan is made for, with its skew before and after."""
    name, problem = _levelled_operator(request.skew), request.problem
    if name is None:
        return None
    plans = problem.current, assignment
    before, after = (operator_skew_pct(problem, plan, name) for plan in plans)
    return LevelledOperator(name, before, after)


def _identity(finding: SkewFinding) -> tuple[str, str, str, str]:
    return finding.kind, finding.name, finding.scope, finding.resource
