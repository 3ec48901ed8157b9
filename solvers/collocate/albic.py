"""ALBIC, Algorithm 2 of [ICDE17, 4.3.2]: collocate one pair a round, then rebalance.

Two lines of the print are corrected. In line 22 uncolGrps means toBeColGrps. The recursion would
divide by maxPL = 0 after five steps; here it solves the plain rebalance then, as the text says.
``pairs`` > 1 is not in the paper: up to that many pairs a round, with node loads updated between
them, and half as many first when the load distance is over maxLD.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from ballast.contracts.methods import MethodNeed
from solvers.collocate.clusters import connected_sets, heavy_mask
from solvers.collocate.contraction import contract
from solvers.collocate.partition import partition
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.method import Parameter, RebalanceMethod, check_parameters
from solvers.model.pause import move_pause_s
from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem
from solvers.model.result import Result, SolverRun, infeasible_result, make_result
from solvers.model.stop import Stop
from solvers.model.traffic_graph import TrafficGraph
from solvers.rebalance import METHODS
from solvers.rebalance.bound import counting_bound
from solvers.rebalance.start import Cost, why_infeasible

NAME = "albic"


@dataclass(frozen=True, slots=True)
class AlbicParams:
    """Parameters of ALBIC; the defaults are the paper's."""

    max_ld: Annotated[
        float,
        Parameter(
            "largest load distance that a collocation may cause, in points of load (maxLD)",
            above=0,
        ),
    ] = 10.0
    max_pl: Annotated[
        float, Parameter("largest load of a partition, in points of load (maxPL)", above=0)
    ] = 25.0
    step_pl: Annotated[
        float,
        Parameter("step by which `max_pl` falls when the load distance is too large", above=0),
    ] = 5.0
    score_factor: Annotated[
        float, Parameter("a pair is heavy above this multiple of the average (sF)", at_least=0)
    ] = 1.5
    pairs: Annotated[int, Parameter("most pairs that one round collocates", at_least=1)] = 1
    rebalance: Annotated[
        str, Parameter("method that places the partitions", choices=tuple(METHODS))
    ] = "auto"

    def __post_init__(self) -> None:
        check_parameters(NAME, self)


def solve(problem: Problem, budget: Budget, stop: Stop, seed: int, params: AlbicParams) -> Result:
    """Run one invocation of ALBIC.

    Returns:
        The plan; infeasible, with the reason, if no placement keeps every rule.
    """
    clock = stop.start()
    reason = why_infeasible(problem, budget)
    if reason is not None:
        return infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
    assignment, how = _Albic(problem, budget, stop, seed, params).run()
    return make_result(
        problem,
        assignment,
        SolverRun(
            method=NAME, bound=counting_bound(problem, budget), seconds=clock.elapsed(), reason=how
        ),
    )


@dataclass(slots=True)
class _Ties:
    """Key groups that a round ties to a node, while pairs are added.

    Attributes:
        partitions: Sets of key groups that move as a unit.
        load: [nodes] Load in points, with the ties made so far.
        moved: [key groups] Whether the key group moves.
        node_of: Node of each tied key group.
        part_of: Partition of each key group that is in one.
    """

    partitions: list[IntArray]
    load: FloatArray
    moved: BoolArray
    node_of: dict[int, int] = field(default_factory=dict)
    part_of: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        parts = enumerate(self.partitions)
        self.part_of = {int(k): i for i, part in parts for k in part}

    def unit(self, k: int) -> IntArray:
        """Return the key groups that move with ``k``."""
        if k in self.part_of:
            return self.partitions[self.part_of[k]]
        return np.array([k], dtype=np.int64)


class _Albic:
    """One invocation. ``sender``, ``receiver`` and ``rate`` are the heavy pairs."""

    def __init__(
        self, problem: Problem, budget: Budget, stop: Stop, seed: int, params: AlbicParams
    ) -> None:
        self.problem, self.budget, self.stop, self.seed = problem, budget, stop, seed
        self.params = params
        self.graph = TrafficGraph.of(problem)
        self.random = np.random.default_rng(seed)
        heavy = heavy_mask(problem, self.graph, params.score_factor)
        self.sender = self.graph.rows()[heavy]
        self.receiver = self.graph.partner[heavy]
        self.rate = self.graph.rate_out[heavy]
        self.together: BoolArray = np.asarray(
            problem.current[self.sender] == problem.current[self.receiver]
        )
        # gLoad: points of an average staying node, for the bottleneck resource [ICDE17, 3].
        share = problem.load / problem.capacity[problem.staying].mean(axis=0)
        self.points: FloatArray = 100.0 * share[:, int(np.argmax(share.sum(axis=0)))]

    def run(self) -> tuple[IntArray, str]:
        """Run lines 33-37 with the recursion as a loop; return the plan and how it was made."""
        params = self.params
        max_pl, pairs = params.max_pl, params.pairs
        while max_pl > 0:
            plan, tied = self._attempt(max_pl, pairs)
            if plan is not None and self._points_after(plan) <= params.max_ld:
                return plan, f"{tied} pair(s) collocated at maxPL {max_pl:g}"
            if pairs > 1:
                pairs //= 2
            else:
                max_pl -= params.step_pl
        return self._plain_rebalance(), "the plain rebalance: no collocation kept maxLD"

    def _points_after(self, plan: IntArray) -> float:
        return metrics.load_distance_points(self.problem, plan)

    def _attempt(self, max_pl: float, pairs: int) -> tuple[IntArray | None, int]:
        partitions = self.partitions(max_pl)
        ties, tied = self.ties(partitions, pairs)
        return self._rebalanced(partitions, ties), tied

    def _plain_rebalance(self) -> IntArray:
        plan = self._rebalanced([], {})
        if plan is not None:
            return plan
        # The problem is feasible, so only the rounding of several budgets into one fails here.
        result = METHODS["unchanged"].solve_with_defaults(
            self.problem, self.budget, self.stop, self.seed
        )
        return result.assignment.copy()

    def _rebalanced(self, partitions: list[IntArray], ties: dict[int, int]) -> IntArray | None:
        """Rebalance with partitions as units; None if no plan keeps the ties and the budget."""
        contraction = contract(self.problem, self.budget, partitions, ties)
        result = METHODS[self.params.rebalance].solve_with_defaults(
            contraction.problem, contraction.budget, self.stop, self.seed
        )
        return contraction.expand(result.assignment) if result.is_solved else None

    def partitions(self, max_pl: float) -> list[IntArray]:
        """Return the collocated sets, split into parts that can move (step 2, lines 13-20)."""
        sets = connected_sets(
            self.problem.n_key_groups, self.sender[self.together], self.receiver[self.together]
        )
        parts: list[IntArray] = []
        for members in sets:
            parts.extend(self._split(members, max_pl))
        return [part for part in parts if len(part) > 1]

    def _split(self, members: IntArray, max_pl: float) -> list[IntArray]:
        cost, load = self._cost_share(members), self.points[members]
        p_cost, p_load = int(np.ceil(cost.sum() - 1e-9)), int(np.ceil(load.sum() / max_pl - 1e-9))
        n_parts = min(len(members), max(p_cost, p_load))
        if n_parts <= 1:
            return [members]
        by_cost = cost.sum() > load.sum() / max_pl
        parts = partition(
            self.graph.subgraph(members), cost if by_cost else load, n_parts, seed=self.seed
        )
        pieces = [members[parts == part] for part in np.unique(parts)]
        # "It may need to be applied again on some partitions if they still violate."
        return [part for piece in pieces for part in self._split(piece, max_pl)]

    def _cost_share(self, members: IntArray) -> FloatArray:
        """Return [members]: mc_k / maxMigrCost, for the scarcest unit of the budget."""
        zeros = np.zeros(len(members))
        shares = [zeros]
        if self.budget.moves:
            shares.append(zeros + 1.0 / self.budget.moves)
        if self.budget.bytes:
            shares.append(self.problem.state_bytes[members] / self.budget.bytes)
        if self.budget.pause_s:
            shares.append(move_pause_s(self.problem)[members] / self.budget.pause_s)
        worst: FloatArray = np.max(shares, axis=0)
        return worst

    def ties(self, partitions: list[IntArray], pairs: int) -> tuple[dict[int, int], int]:
        """Tie the heaviest pairs to nodes (step 3, lines 21-32; equal rates at random, line 22).

        Returns:
            The node of each tied key group, and the number of pairs.
        """
        wanted = np.flatnonzero(~self.together)
        order = wanted[np.lexsort((self.random.random(len(wanted)), -self.rate[wanted]))]
        ties = _Ties(
            partitions,
            100.0 * metrics.node_loads(self.problem, self.problem.current).max(axis=1),
            np.zeros(self.problem.n_key_groups, dtype=bool),
        )
        count = 0
        for entry in order.tolist():
            if count >= pairs:
                break
            if self._tie((int(self.sender[entry]), int(self.receiver[entry])), ties):
                count += 1
        return ties.node_of, count

    def _tie(self, pair: tuple[int, int], ties: _Ties) -> bool:
        """Tie a pair to a node by the three cases of step 3.

        Returns:
            False if a rule, another tie or the budget forbids it.
        """
        homes = tuple(int(self.problem.current[k]) for k in pair)
        units = tuple(ties.unit(k) for k in pair)
        in_part = tuple(k in ties.part_of for k in pair)
        if in_part[0] != in_part[1]:
            node = homes[0] if in_part[0] else homes[1]
        else:
            node = homes[0] if ties.load[homes[0]] <= ties.load[homes[1]] else homes[1]
        coming = units[1] if node == homes[0] else units[0]
        if any(int(k) in ties.node_of for unit in units for k in unit):
            return False  # A heavier pair of this round tied it already.
        if not self._may_come(coming, node):
            return False
        ties.moved[coming] = True
        if not Cost.of(self.problem, ties.moved).fits(self.budget):
            ties.moved[coming] = False
            return False
        for unit in units:
            ties.node_of.update({int(k): node for k in unit})
        share = float(self.points[coming].sum())
        ties.load[node] += share
        ties.load[int(self.problem.current[coming[0]])] -= share
        return True

    def _may_come(self, unit: IntArray, node: int) -> bool:
        problem = self.problem
        permitted = problem.permits(unit, np.full(len(unit), node))
        is_free = not problem.pinned_mask[unit].any()
        return bool(problem.staying[node]) and is_free and bool(permitted.all())


METHOD = RebalanceMethod(
    name=NAME,
    summary="ties the heaviest pairs of key groups to one node, then rebalances the rest",
    paper="ICDE17, 4.3.2",
    params=AlbicParams,
    needs=(MethodNeed.TRAFFIC,),
    solve=solve,
)
