"""Check a decided plan for skew that the load of the whole job hides (ADR 61). Pure.

If nothing is to move because the whole job is level, but an operator or edge is skewed, another
plan is searched for. If there is none, the reason says what is skewed and why it stays so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ballast.contracts.identity import hashed_key_group, split_key_group_name
from ballast.contracts.policy import JobPolicy
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.key_statistics import KeyStatistics, Routing
from solvers.model.objective import Objective
from solvers.model.problem import Problem
from solvers.model.result import Result, SolverRun, make_result
from solvers.model.stop import Stop
from solvers.planner.local_levelling import (
    LevelledOperator,
    LevelledPlan,
    LevellingRequest,
    levelled_plan,
)
from solvers.planner.local_skew import Expected, LocalSkew, SkewRules, SkewScope, local_skew
from solvers.planner.skew_text import (
    change_text,
    heavy_key_group_text,
    progress_lines,
    skew_sentences,
    unknown_sentences,
)
from solvers.rebalance import unchanged
from solvers.rebalance.search import NAME as SEARCH


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class SkewCheckRequest:
    """A decided plan, and what is needed to search for another one."""

    problem: Problem
    result: Result
    """The plan, as decided by the load of the whole job."""
    objective: Objective
    policy: JobPolicy
    budget: Budget
    stop: Stop
    seed: int = 0
    method: str = SEARCH
    changes_nodes: bool = False
    """Whether the plan adds, drains or takes back nodes; it is then carried out as it is."""
    statistics: KeyStatistics = field(default_factory=KeyStatistics)
    routing: Routing = field(default_factory=dict)
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    """Operators that were measured for too few windows, and why."""


@dataclass(frozen=True, eq=False, slots=True)
class SkewCheck:
    """The plan after the check."""

    result: Result
    """The plan that was given, or one that levels single operators as well."""
    skew: LocalSkew = field(default_factory=LocalSkew)
    """Under the plan that was given."""
    levelled: LevelledOperator | None = None
    """The operator that the plan is made for; None for other plans."""
    reason: str = ""
    """The skew and how the plan changes it, in sentences; empty if there is none."""

    @property
    def progress(self) -> list[str]:
        """Lines for the log of the run."""
        return progress_lines(self.skew)


def check_local_skew(request: SkewCheckRequest) -> SkewCheck:
    """Check operators, edges, racks and key groups by themselves.

    Args:
        request: the plan that was decided by the load of the whole job.

    Returns:
        The plan, or a plan that levels skewed operators where nothing was to move, with the
        reason in words.
    """
    rules = SkewRules.of(request.policy)
    expected = Expected.of(request.policy, request.unmeasured)
    problem, result = request.problem, request.result
    skew = local_skew(problem, result.assignment, rules, expected)
    levelled = None
    why_not = _why_not(request, skew)
    if skew.skewed and why_not is None:
        levelled = levelled_plan(
            LevellingRequest(
                problem=problem,
                skew=skew,
                rules=rules,
                expected=expected,
                budget=request.budget,
                stop=request.stop,
                seed=request.seed,
                levelling_limit_pct=request.objective.levelling_limit,
            )
        )
    if levelled is not None:
        result = _levelled_result(request, skew, levelled)
    operator = None if levelled is None else levelled.operator
    return SkewCheck(result, skew, operator, _reason(request, skew, levelled, why_not))


def _why_not(request: SkewCheckRequest, skew: LocalSkew) -> str | None:
    """Why no plan is searched for; None if one is."""
    if (
        request.changes_nodes
        or metrics.moved_mask(request.problem, request.result.assignment).any()
    ):
        return "so it is with this plan; a later plan may level it"
    if request.objective.is_joint:
        return "joint plans do not level single operators, because that costs traffic"
    if request.method == unchanged.NAME:
        return f"method {unchanged.NAME!r} moves nothing by choice"
    if all(finding.scope is not SkewScope.NODE for finding in skew.skewed):
        return "plans level nodes and not racks"
    return None


def _levelled_result(request: SkewCheckRequest, skew: LocalSkew, levelled: LevelledPlan) -> Result:
    before = request.result
    return make_result(
        request.problem,
        levelled.assignment,
        SolverRun(
            method=SEARCH,
            bound=before.bound or 0.0,
            seconds=before.seconds + levelled.seconds,
            reason=f"levels {change_text(skew.skewed, levelled.skew)}; without that: "
            f"{before.reason}",
        ),
    )


def _reason(
    request: SkewCheckRequest,
    skew: LocalSkew,
    levelled: LevelledPlan | None,
    why_not: str | None,
) -> str:
    """All sentences about skew; empty if there are none."""
    found = skew_sentences(skew)
    if found and levelled is not None:
        found.append(f"this plan brings {change_text(skew.skewed, levelled.skew)}")
    elif found:
        before = metrics.load_distance(request.problem, request.problem.current)
        allowed = max(before, request.objective.levelling_limit)
        found.append(
            why_not
            or "no plan was found within the budget that levels it and keeps the load distance of "
            f"the job at or below {allowed:.2f} %"
        )
    heavy = skew.heavy_key_group
    if heavy is not None:
        key = _heaviest_key(request, heavy.key_group)
        found.append(heavy_key_group_text(request.problem, heavy, key))
    return "; ".join([*found, *unknown_sentences(skew)])


def _heaviest_key(request: SkewCheckRequest, key_group: int) -> str | None:
    """The heaviest key of a key group, if keys were counted."""
    operator_id = request.problem.operator_ids[key_group]
    rates = request.statistics.keys.get(operator_id, {})
    sizes = {operator.id: operator.key_groups for operator in request.policy.operators}
    if not rates or operator_id not in sizes:
        return None
    _, number = split_key_group_name(request.problem.key_group_ids[key_group])
    routes = request.routing.get(operator_id, {})
    inside = {
        key: rate
        for key, rate in rates.items()
        if routes.get(key, hashed_key_group(key, sizes[operator_id])) == number
    }
    return max(inside, key=lambda key: inside[key], default=None)
