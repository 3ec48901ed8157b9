"""The MILP of [ICDE17, 4.3.1], built with PuLP and solved by HiGHS in this process.

Corrections of the paper are in docs/papers.md: d_u and d_l are >= 0, constraint (5) is dropped,
moves into draining nodes have no variables, and "w1 >> w2" is two solves, first of d alone and
then of the rest with d fixed, so that no weight can make d worse and the bound of the first solve
is a bound on load distance itself. Status and bound are HiGHS's own (ADR 4).
A weight per resource scales its rows; a resource that is a cap has rows of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.method import Parameter, RebalanceMethod, check_parameters
from solvers.model.pause import move_pause_s
from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem
from solvers.model.result import Result, SolverRun, TraceStep, infeasible_result, make_result
from solvers.model.stop import SolverClock, Stop
from solvers.rebalance.bound import counting_bound, most_moves
from solvers.rebalance.caps import keep_caps
from solvers.rebalance.compare import best_plan, without_useless_moves
from solvers.rebalance.highs import MipOutcome, ModelRefused, run, task_of
from solvers.rebalance.start import (
    misplaced_mask,
    movable_mask,
    must_move_mask,
    place_must_moves,
    why_infeasible,
    within_budget,
)

NAME = "milp"

FEASIBILITY = 1e-9
"""HiGHS's tolerance for rows, in units of the mean load."""
BOUND_MARGIN = 1e-8
"""Subtracted from HiGHS's bound because of its tolerances, in units of the mean load."""
BUILD_S_PER_TERM = 6e-6
"""Seconds to build one coefficient with PuLP on a slow core (measured, bench machine)."""
BUILD_SHARE = 0.5
"""A model that would take more than this share of the time to build is not built."""
PART_COLUMNS = 8_000
"""Models with more choices than this are first solved on a part of the nodes of this size."""
PART_SHARE = 0.4
"""Share of the remaining time for that."""
SECOND_SOLVE_SHARE = 0.15
"""Share of the time reserved for the second solve (spread, drain, fewer moves)."""
SECOND_SOLVE_NODES = 200
"""Most nodes of HiGHS's tree in the second solve: it only breaks ties, so no long proof."""
SECOND_SOLVE_GAP = 1e-4
SECOND_SOLVE_SCALE = 1e3
"""Factor of the costs in the second solve: HiGHS treats very small costs as zero."""


@dataclass(frozen=True, slots=True)
class MilpParams:
    """Parameters of the MILP."""

    threads: Annotated[int, Parameter("threads of HiGHS", at_least=1)] = 1
    max_terms: Annotated[
        int, Parameter("a model with more coefficients than this is not built", at_least=1)
    ] = 5_000_000
    start: IntArray | None = field(default=None, compare=False)
    """An assignment to start from. It has to keep the budget and the caps."""

    def __post_init__(self) -> None:
        check_parameters(NAME, self)


def solve(problem: Problem, budget: Budget, stop: Stop, seed: int, params: MilpParams) -> Result:
    """Minimise load distance exactly, as far as the time allows.

    Arguments and result are described in ``RebalanceMethod``.
    """
    clock = stop.start()
    reason = why_infeasible(problem, budget)
    if reason is not None:
        return infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
    start = _start(problem, budget, params)
    try:
        run = _MilpRun(problem, budget, seed, params)
        answer = _solve_feasible(run, stop, clock, start)
    except ModelRefused as error:
        answer = _Answer(reason=str(error))
    # HiGHS keeps rows within a tolerance, so the budget and the caps are checked exactly here.
    plans = [plan for plan in answer.plans if _keeps_limits(problem, budget, plan)]
    best = best_plan(problem, [start, *plans])
    return make_result(
        problem,
        keep_caps(problem, best, without_useless_moves(problem, best)),
        SolverRun(
            method=NAME,
            bound=max(answer.bound, counting_bound(problem, budget)),
            seconds=clock.elapsed(),
            trace=answer.trace,
            reason=answer.reason,
        ),
    )


def _start(problem: Problem, budget: Budget, options: MilpParams) -> IntArray:
    """Return the better of ``params.start`` and the plan with only the necessary moves."""
    necessary = place_must_moves(problem, budget)
    if options.start is None:
        return necessary
    given = np.array(options.start, dtype=np.int64)
    if given.shape != problem.current.shape or not _keeps_limits(problem, budget, given):
        raise InvalidInput("milp.start is not an assignment within the budget and the caps")
    return best_plan(problem, [necessary, given])


def _keeps_limits(problem: Problem, budget: Budget, plan: IntArray) -> bool:
    return within_budget(problem, budget, plan) and not metrics.over_cap(problem, plan).any()


@dataclass(frozen=True, slots=True)
class _Answer:
    """The plans found, and the proven bound on load distance in percent."""

    plans: tuple[IntArray, ...] = ()
    bound: float = 0.0
    reason: str = ""
    trace: tuple[TraceStep, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class _MilpRun:
    """What is solved, and with which parameters."""

    problem: Problem
    budget: Budget
    seed: int
    params: MilpParams

    def solve(self, choices: _Choices, stop: Stop, clock: SolverClock, start: IntArray) -> _Answer:
        """Solve the model of these choices from a start."""
        model = _Model(self.problem, self.budget, choices)
        return _TwoSolves(self, model, stop, clock).run(start)


def _solve_feasible(run: _MilpRun, stop: Stop, clock: SolverClock, start: IntArray) -> _Answer:
    """Solve a problem that has a plan; a large model first on its most extreme nodes."""
    problem, budget = run.problem, run.budget
    skipped = _too_large(_count_terms(problem, budget), clock, run.params)
    if skipped:
        return _Answer(reason=skipped)
    choices = _Choices.of(problem, budget)
    if not len(choices.group):
        return _Answer(bound=np.inf, reason="nothing may be moved")
    if len(choices.group) > PART_COLUMNS:
        start = _solve_extreme_nodes(run, stop, clock, start)
    answer = run.solve(choices, stop, clock, start)
    return replace(answer, plans=(start, *answer.plans))


def _solve_extreme_nodes(
    run: _MilpRun, stop: Stop, clock: SolverClock, start: IntArray
) -> IntArray:
    """Solve the model on the fullest and emptiest nodes alone, as a start for the whole model.

    With few moves only these nodes matter, and HiGHS improves the whole model little in seconds.
    The bound does not hold for the whole problem and is not used.
    """
    problem, budget = run.problem, run.budget
    choices = _Choices.of(problem, budget, among=_extreme_nodes(problem, budget))
    if not len(choices.group):
        return start
    remaining = clock.remaining()
    part = Stop(None if remaining is None else max(0.01, PART_SHARE * remaining), stop.steps)
    answer = run.solve(choices, part, part.start(), place_must_moves(problem, budget))
    plans = [plan for plan in answer.plans if _keeps_limits(problem, budget, plan)]
    return best_plan(problem, [start, *plans])


def _extreme_nodes(problem: Problem, budget: Budget) -> BoolArray:
    """[N]: the fullest and the emptiest nodes in turn, as many as a small model can have."""
    deviation = metrics.weighted_deviation(problem, problem.current).max(axis=1)
    # All load of a draining node is surplus. It counts half, so that many draining nodes do not
    # displace the overloaded ones that decide the load distance.
    loads = metrics.node_loads(problem, problem.current)
    mean = metrics.mean_load(problem)
    share = np.divide(loads, mean, out=np.zeros_like(loads), where=mean > 0).max(axis=1)
    deviation = np.where(problem.draining, 0.5 * share, deviation)
    live = np.flatnonzero(~problem.dead)
    order = live[np.argsort(-deviation[live], kind="stable")]
    in_turn = np.stack((order, order[::-1]), axis=1).ravel()[: len(order)]
    movable = movable_mask(problem, budget)
    groups = np.bincount(problem.current[movable], minlength=problem.n_nodes)[in_turn]
    columns = np.cumsum(groups) * np.arange(1, len(in_turn) + 1)
    chosen = np.zeros(problem.n_nodes, dtype=bool)
    chosen[in_turn[: max(2, int(np.searchsorted(columns, PART_COLUMNS, "right")))]] = True
    return chosen


def _count_terms(problem: Problem, budget: Budget) -> int:
    """Return the number of coefficients of the model without building it."""
    movable = movable_mask(problem, budget)
    n_movable, n_targets = int(movable.sum()), int(problem.staying.sum())
    pairs = n_movable * (n_targets + 1)
    if problem.allowed is not None:
        listed = np.diff(problem.allowed.indptr)[movable & problem.allowed.restricted]
        pairs += int((listed + 1).sum()) - len(listed) * (n_targets + 1)
    return pairs * (2 + 2 * problem.n_resources)


def is_too_large(problem: Problem, budget: Budget, stop: Stop) -> bool:
    """Return whether the model is too large to be built in the time limit."""
    return bool(_too_large(_count_terms(problem, budget), stop.start(), MilpParams()))


def _too_large(n_terms: int, clock: SolverClock, options: MilpParams) -> str:
    """Return why the model is not built; empty if it is.

    Building must leave enough of the time for the solve.
    """
    if n_terms > options.max_terms:
        return f"milp skipped: {n_terms} coefficients, at most {options.max_terms} are built"
    remaining = clock.remaining()
    estimate = n_terms * BUILD_S_PER_TERM
    if remaining is not None and estimate > BUILD_SHARE * remaining:
        return (
            f"milp skipped: building {n_terms} coefficients takes about {estimate:.1f} s "
            f"of the {remaining:.1f} s left"
        )
    return ""


@dataclass(frozen=True, slots=True)
class _Choices:
    """The pairs (key group, node) that have a variable: the x_{i,k} of the paper.

    Key groups that no plan can move have no variables. Moves into draining, dead or forbidden
    nodes have none either.
    """

    group: IntArray
    node: IntArray
    is_variable_group: BoolArray

    @classmethod
    def of(cls, problem: Problem, budget: Budget, among: BoolArray | None = None) -> _Choices:
        """Return the pairs; with ``among`` only necessary moves and moves between these nodes."""
        is_variable = movable_mask(problem, budget)
        must_move = must_move_mask(problem)
        if among is not None:
            is_variable &= among[problem.current] | must_move
        stays_possible = is_variable & ~must_move
        groups, nodes = _targets(problem, np.flatnonzero(is_variable))
        if among is not None:
            kept = among[nodes] | must_move[groups]
            groups, nodes = groups[kept], nodes[kept]
        elsewhere = nodes != problem.current[groups]
        at_home = np.flatnonzero(stays_possible)
        group = np.concatenate((groups[elsewhere], at_home))
        node = np.concatenate((nodes[elsewhere], problem.current[at_home]))
        order = np.lexsort((node, group))
        return cls(group[order], node[order], is_variable)


def _targets(problem: Problem, groups: IntArray) -> tuple[IntArray, IntArray]:
    """Return all pairs of these key groups and the nodes that they may move to."""
    staying = np.flatnonzero(problem.staying)
    restricted = (
        np.zeros(len(groups), dtype=bool)
        if problem.allowed is None
        else problem.allowed.restricted[groups]
    )
    free = groups[~restricted]
    pairs = [(np.repeat(free, len(staying)), np.tile(staying, len(free)))]
    for k in groups[restricted]:
        targets = problem.targets_of(int(k))
        pairs.append((np.full(len(targets), k), targets))
    return np.concatenate([g for g, _ in pairs]), np.concatenate([n for _, n in pairs])


class _Model:
    """The PuLP model. Loads are in units of the mean, so that its numbers are near 1."""

    def __init__(self, problem: Problem, budget: Budget, choices: _Choices) -> None:
        import pulp

        self.problem = problem
        self.choices = choices
        self.most_moves = most_moves(problem, budget)
        self.lp = pulp.LpProblem("rebalance", pulp.LpMinimize)
        self.d = self.lp.add_variable("d", lowBound=0)
        self.d_u = self.lp.add_variable("d_u", lowBound=0)
        self.d_l = self.lp.add_variable("d_l", lowBound=0)
        self.x = [
            self.lp.add_variable(f"x_{k}_{i}", lowBound=0, upBound=1, cat=pulp.LpInteger)
            for k, i in zip(choices.group.tolist(), choices.node.tolist(), strict=True)
        ]
        self.lp.setObjective(pulp.LpAffineExpression([(self.d, 1.0)]))
        self._add_each_group_once()
        self._add_load_limits()
        self._add_caps()
        self._add_budget(budget)

    def _row(self, terms: list[tuple[Any, float]], sense: int, right: float, name: str) -> None:
        import pulp

        if not (math.isfinite(right) and all(math.isfinite(factor) for _, factor in terms)):
            raise ModelRefused(f"the row {name} of the model has a number that is not finite")
        self.lp.addConstraint(pulp.LpConstraint(pulp.LpAffineExpression(terms), sense, name, right))

    def _add_each_group_once(self) -> None:
        """Add (1): the choices of a key group, which are sorted by it, sum to one."""
        import pulp

        groups, begins = np.unique(self.choices.group, return_index=True)
        ends = [*begins[1:].tolist(), len(self.choices.group)]
        for k, begin, end in zip(groups.tolist(), begins.tolist(), ends, strict=True):
            terms = [(x, 1.0) for x in self.x[begin:end]]
            self._row(terms, pulp.LpConstraintEQ, 1.0, f"once_{k}")

    def _add_load_limits(self) -> None:
        """Add (3) and (4) for every balanced resource in use and every node that stays.

        With a weight w, d is the largest w x |share - 1|, and both sides are multiplied by w.
        """
        import pulp

        weights = self.problem.weights
        # Implied by the rows below, but there are none of those if no resource is in use.
        self._row(
            [(self.d_u, 1.0), (self.d, -1.0)], pulp.LpConstraintLE, float(weights.max()), "d_u"
        )
        self._row([(self.d_l, 1.0), (self.d, -1.0)], pulp.LpConstraintLE, 0.0, "d_l")
        mean = metrics.mean_load(self.problem)
        fair = self.problem.capacity * np.where(mean > 0, mean, 1.0)
        used = np.flatnonzero((mean > 0) & self.problem.balanced_mask)
        for i, r, terms, fixed in self._shares(used, fair / weights):
            w = float(weights[r])
            above = [*terms, (self.d, -1.0), (self.d_u, 1.0)]
            below = [*terms, (self.d, 1.0), (self.d_l, -1.0)]
            self._row(above, pulp.LpConstraintLE, w - fixed, f"above_{i}_{r}")
            self._row(below, pulp.LpConstraintGE, w - fixed, f"below_{i}_{r}")

    def _add_caps(self) -> None:
        """Add a row for each capped resource and staying node: its limit [ICDE17, 4.3.1]."""
        import pulp

        capped = np.flatnonzero(~self.problem.balanced_mask)
        for i, r, terms, fixed in self._shares(capped, self.problem.cap_limit):
            right = 1.0 + metrics.CAP_TOLERANCE - fixed
            if terms and sum(share for _, share in terms) > right:
                self._row(terms, pulp.LpConstraintLE, right, f"cap_{i}_{r}")

    def _shares(
        self, resources: IntArray, unit: FloatArray
    ) -> Iterator[tuple[int, int, list[tuple[Any, float]], float]]:
        """Yield node, resource, terms (choice, load) and fixed load; loads in the node's unit."""
        by_node = np.argsort(self.choices.node, kind="stable")
        ends = np.cumsum(np.bincount(self.choices.node, minlength=self.problem.n_nodes))
        fixed = self._fixed_loads()
        for i in np.flatnonzero(self.problem.staying).tolist():
            here = by_node[ends[i - 1] if i else 0 : ends[i]]
            for r in resources.tolist():
                shares = self.problem.load[self.choices.group[here], r] / unit[i, r]
                terms = [
                    (self.x[j], s)
                    for j, s in zip(here.tolist(), shares.tolist(), strict=True)
                    if s > 0
                ]
                yield i, r, terms, float(fixed[i, r] / unit[i, r])

    def _fixed_loads(self) -> FloatArray:
        """[N, R]: load of the key groups without variables."""
        fixed = ~self.choices.is_variable_group
        sums = np.zeros((self.problem.n_nodes, self.problem.n_resources))
        np.add.at(sums, self.problem.current[fixed], self.problem.load[fixed])
        return sums

    def _add_budget(self, budget: Budget) -> None:
        """Add (2), once for each unit of the budget; forced moves are free.

        A key group that does not stay has moved, so the row needs the x of the current nodes
        only. Over all other x, as in the paper, the row has N times the terms, and HiGHS's
        rounding heuristic overran its time limit by a minute at 60 nodes.
        """
        import pulp

        problem, choices = self.problem, self.choices
        at_home = np.flatnonzero(choices.node == problem.current[choices.group])
        costs = (
            ("moves", budget.moves, np.ones(problem.n_key_groups)),
            ("bytes", budget.bytes, problem.state_bytes.astype(np.float64)),
            ("pause_s", budget.pause_s, move_pause_s(problem)),
        )
        necessary = misplaced_mask(problem)
        for name, limit, cost in costs:
            stay_costs = cost[choices.group[at_home]]
            if limit is None or stay_costs.sum() + cost[necessary].sum() <= limit:
                continue
            # In units of the limit, so that terabytes are as exact as moves.
            unit = float(limit) if limit > 0 and name != "moves" else 1.0
            to_save = stay_costs.sum() + cost[necessary].sum() - limit
            terms = [
                (self.x[j], c / unit)
                for j, c in zip(at_home.tolist(), stay_costs.tolist(), strict=True)
                if c > 0
            ]
            self._row(terms, pulp.LpConstraintGE, to_save / unit, f"budget_{name}")

    def values_of(self, assignment: IntArray) -> FloatArray:
        """[X]: the values of the variables x for an assignment."""
        chosen = assignment[self.choices.group] == self.choices.node
        return np.asarray(chosen, dtype=np.float64)

    def assignment_of(self, values: FloatArray) -> IntArray:
        """Round the values: each key group takes its choice with the largest value."""
        order = np.lexsort((values, self.choices.group))
        last = np.flatnonzero(np.diff(self.choices.group[order], append=-1))
        assignment = self.problem.current.copy()
        assignment[self.choices.group[order[last]]] = self.choices.node[order[last]]
        return assignment

    def tie_break_costs(self) -> FloatArray:
        """[X]: costs of the second solve: load on draining nodes, then moves.

        Loads are in units of the mean, as d_u and d_l are. All moves together cost a thousandth of
        the mean, and a key group on a draining node costs two moves more than its load, so that
        key groups without load leave as well.
        """
        problem, choices = self.problem, self.choices
        left = problem.draining[choices.node]
        mean_node = metrics.mean_load(problem) * problem.capacity[problem.staying].mean(axis=0)
        used = mean_node > 0
        weight = (problem.load[:, used] / mean_node[used]).max(axis=1, initial=0.0)
        per_move = 1e-3 / max(1, self.most_moves)
        stays = choices.node == problem.current[choices.group]
        # A negative cost for staying: the same optimum as a cost for all other x, with fewer terms.
        costs = left * (weight[choices.group] + 2 * per_move) - stays * per_move
        return np.asarray(costs, dtype=np.float64)


class _TwoSolves:
    """First minimises d alone, then the rest with d fixed; status and bound are HiGHS's own."""

    def __init__(self, run: _MilpRun, model: _Model, stop: Stop, clock: SolverClock) -> None:
        self.problem = run.problem
        self.model = model
        self.stop = stop
        self.clock = clock
        self.task = task_of(model.lp)
        self.columns = np.array([x.index for x in model.x], dtype=np.int64)
        self.options: dict[str, Any] = {
            "threads": run.params.threads,
            "random_seed": run.seed % 2**31,
            "primal_feasibility_tolerance": FEASIBILITY,
            "dual_feasibility_tolerance": FEASIBILITY,
            "mip_feasibility_tolerance": FEASIBILITY,
        }

    def run(self, start: IntArray) -> _Answer:
        began = self.clock.elapsed()
        outcome = self._first_solve(start)
        first_seconds = self.clock.elapsed() - began
        found = self._plan_in(outcome)
        best = start if found is None else best_plan(self.problem, [start, found])
        second = self._second_solve(best, first_seconds)
        return _Answer(
            plans=tuple(plan for plan in (found, second) if plan is not None),
            bound=_percent_bound(outcome),
            reason=f"HiGHS: {outcome.status}",
            trace=tuple((began + s, NAME, 100.0 * d) for s, d in outcome.trace),
        )

    def _first_solve(self, start: IntArray) -> MipOutcome:
        remaining = self.clock.remaining()
        limits = _limits(
            None if remaining is None else remaining * (1 - SECOND_SOLVE_SHARE), self.stop.steps
        )
        gaps = {"mip_rel_gap": 0.0, "mip_abs_gap": BOUND_MARGIN}
        options = {**self.options, **gaps, **limits}
        return run(replace(self.task, start=self._point(start), options=options))

    def _second_solve(self, best: IntArray, first_seconds: float) -> IntArray | None:
        """Fix d, and search for a smaller spread, less load on draining nodes and fewer moves."""
        if self.clock.is_over():
            return None
        d, d_u, d_l = (v.index for v in self._distances())
        cost = np.zeros_like(self.task.cost)
        cost[[d_u, d_l]] = -1.0
        cost[self.columns] = self.model.tie_break_costs()
        upper = self.task.upper.copy()
        upper[d] = metrics.load_distance(self.problem, best) / 100.0 + FEASIBILITY
        remaining = self.clock.remaining()
        seconds = None if remaining is None else min(remaining, max(1.0, first_seconds))
        nodes = min(SECOND_SOLVE_NODES, self.stop.steps or SECOND_SOLVE_NODES)
        gaps = {
            "mip_rel_gap": SECOND_SOLVE_GAP,
            "mip_abs_gap": SECOND_SOLVE_GAP * SECOND_SOLVE_SCALE,
        }
        task = replace(
            self.task,
            cost=cost * SECOND_SOLVE_SCALE,
            upper=upper,
            start=self._point(best),
            options={**self.options, **gaps, **_limits(seconds, nodes)},
        )
        return self._plan_in(run(task))

    def _point(self, assignment: IntArray) -> FloatArray:
        """Return a start for HiGHS: the x of the assignment, and the least d for them."""
        deviation = metrics.weighted_deviation(self.problem, assignment)
        point = np.zeros(len(self.task.cost))
        point[self.columns] = self.model.values_of(assignment)
        point[self.model.d.index] = np.abs(deviation).max(initial=0.0)
        return point

    def _plan_in(self, outcome: MipOutcome) -> IntArray | None:
        if outcome.values is None:
            return None
        return self.model.assignment_of(outcome.values[self.columns])

    def _distances(self) -> tuple[Any, Any, Any]:
        return self.model.d, self.model.d_u, self.model.d_l


def _limits(seconds: float | None, nodes: int | None) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if seconds is not None:
        limits["time_limit"] = max(0.01, seconds)
    if nodes is not None:
        limits["mip_max_nodes"] = nodes
    return limits


def _percent_bound(outcome: MipOutcome) -> float:
    """Return the bound on load distance: the objective of the first solve is d alone."""
    if not np.isfinite(outcome.dual_bound):
        return 0.0
    return 100.0 * max(0.0, outcome.dual_bound - BOUND_MARGIN)


METHOD = RebalanceMethod(
    name=NAME,
    summary="solves the exact model with PuLP and HiGHS",
    paper="ICDE17, 4.3.1",
    params=MilpParams,
    solve=solve,
)
