"""ALBIC, Algorithm 2 of [ICDE17] (4.3.2): collocate one pair a round, balance by the rebalance.

Where the print needs care: line 22's uncolGrps is toBeColGrps; the recursion would divide by
maxPL = 0 after five steps, and then solves the plain rebalance, as the text says. ``pairs`` > 1 is
not in print: the same with up to so many pairs a round, nodes' loads kept up to date between them,
and half as many tried first when the load distance is over maxLD.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.collocate.clusters import connected_sets, heavy_mask
from solvers.collocate.contraction import contract
from solvers.collocate.partition import partition
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.metrics import move_pause_s
from solvers.model.parameter_checks import options_of
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
    """``max_ld`` and ``max_pl`` are in points of load, as in [ICDE17]. Defaults are the paper's."""

    max_ld: float = 10.0
    max_pl: float = 25.0
    step_pl: float = 5.0
    score_factor: float = 1.5
    pairs: int = 1
    rebalance: str = "auto"

    def __post_init__(self) -> None:
        numbers = (self.max_ld, self.max_pl, self.step_pl)
        if not all(np.isfinite(v) and v > 0 for v in numbers) or not self.score_factor >= 0:
            raise InvalidInput("albic's parameters need finite numbers > 0")
        if self.pairs < 1:
            raise InvalidInput(f"albic.pairs is {self.pairs}", allowed="a number >= 1")
        if self.rebalance not in METHODS:
            raise InvalidInput(f"albic.rebalance is {self.rebalance!r}", allowed=", ".join(METHODS))


def solve(
    problem: Problem, budget: Budget, stop: Stop, seed: int, params: Mapping[str, Any]
) -> Result:
    """One invocation of ALBIC."""
    clock = stop.start()
    options = options_of(AlbicParams, NAME, params)
    reason = why_infeasible(problem, budget)
    if reason is not None:
        return infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
    assignment, how = _Albic(problem, budget, stop, seed, options).run()
    return make_result(
        problem,
        assignment,
        SolverRun(
            method=NAME, bound=counting_bound(problem, budget), seconds=clock.elapsed(), reason=how
        ),
    )


class _Albic:
    def __init__(
        self, problem: Problem, budget: Budget, stop: Stop, seed: int, options: AlbicParams
    ) -> None:
        self.problem, self.budget, self.stop, self.seed = problem, budget, stop, seed
        self.options = options
        self.graph = TrafficGraph.of(problem)
        self.random = np.random.default_rng(seed)
        heavy = heavy_mask(problem, self.graph, options.score_factor)
        self.sender = self.graph.rows()[heavy]
        self.receiver = self.graph.partner[heavy]
        self.rate = self.graph.rate_out[heavy]
        self.together: BoolArray = np.asarray(
            problem.current[self.sender] == problem.current[self.receiver]
        )
        # gLoad in points of an average staying node, of the bottleneck resource (section 3).
        share = problem.load / problem.capacity[problem.staying].mean(axis=0)
        self.points: FloatArray = 100.0 * share[:, int(np.argmax(share.sum(axis=0)))]

    def run(self) -> tuple[IntArray, str]:
        """Lines 33-37, the recursion as a loop."""
        options = self.options
        max_pl, pairs = options.max_pl, options.pairs
        while max_pl > 0:
            plan, tied = self._attempt(max_pl, pairs)
            if plan is not None and self._points_after(plan) <= options.max_ld:
                return plan, f"{tied} pair(s) collocated at maxPL {max_pl:g}"
            if pairs > 1:
                pairs //= 2
            else:
                max_pl -= options.step_pl
        return self._rebalanced([], {}), "the plain rebalance: no collocation kept maxLD"

    def _points_after(self, plan: IntArray) -> float:
        return metrics.load_distance_points(self.problem, plan)

    def _attempt(self, max_pl: float, pairs: int) -> tuple[IntArray | None, int]:
        partitions = self.partitions(max_pl)
        ties, tied = self.ties(partitions, pairs)
        contraction = contract(self.problem, self.budget, partitions, ties)
        result = METHODS[self.options.rebalance].solve_with_defaults(
            contraction.problem, contraction.budget, self.stop, self.seed
        )
        return (contraction.expand(result.assignment) if result.is_solved else None), tied

    def _rebalanced(self, partitions: list[IntArray], ties: dict[int, int]) -> IntArray:
        contraction = contract(self.problem, self.budget, partitions, ties)
        result = METHODS[self.options.rebalance].solve_with_defaults(
            contraction.problem, contraction.budget, self.stop, self.seed
        )
        if result.is_solved:
            return contraction.expand(result.assignment)
        # Feasibility was checked; only the rounding of a joint budget can end here.
        return (
            METHODS["unchanged"]
            .solve_with_defaults(self.problem, self.budget, self.stop, self.seed)
            .assignment.copy()
        )

    def partitions(self, max_pl: float) -> list[IntArray]:
        """Step 2, lines 13-20: what is collocated stays so, in parts that can be moved."""
        sets = connected_sets(
            self.problem.n_key_groups, self.sender[self.together], self.receiver[self.together]
        )
        found: list[IntArray] = []
        for members in sets:
            found.extend(self._split(members, max_pl))
        return [part for part in found if len(part) > 1]

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
        """[members]: mc_k / maxMigrCost, for the scarcest unit of the budget."""
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
        """Step 3, lines 21-32: heaviest pairs first, ties broken at random (line 22)."""
        wanted = np.flatnonzero(~self.together)
        order = wanted[np.lexsort((self.random.random(len(wanted)), -self.rate[wanted]))]
        part_of = {int(k): i for i, part in enumerate(partitions) for k in part}
        load = 100.0 * metrics.node_loads(self.problem, self.problem.current).max(axis=1)
        ties: dict[int, int] = {}
        moved = np.zeros(self.problem.n_key_groups, dtype=bool)
        count = 0
        for entry in order.tolist():
            if count >= pairs:
                break
            pair = (int(self.sender[entry]), int(self.receiver[entry]))
            if self._tie(pair, partitions, part_of, load, ties, moved):
                count += 1
        return ties, count

    def _tie(
        self,
        pair: tuple[int, int],
        partitions: list[IntArray],
        part_of: dict[int, int],
        load: FloatArray,
        ties: dict[int, int],
        moved: BoolArray,
    ) -> bool:
        """The three cases of step 3. False if a rule, a tie or the budget stands against it."""
        homes = tuple(int(self.problem.current[k]) for k in pair)
        units = tuple(self._unit(k, partitions, part_of) for k in pair)
        in_part = tuple(k in part_of for k in pair)
        if in_part[0] != in_part[1]:
            node = homes[0] if in_part[0] else homes[1]
        else:
            node = homes[0] if load[homes[0]] <= load[homes[1]] else homes[1]
        coming = units[1] if node == homes[0] else units[0]
        if any(int(k) in ties for unit in units for k in unit):
            return False  # Already spoken for by a heavier pair of this round.
        if not self._may_come(coming, node):
            return False
        moved[coming] = True
        if not Cost.of(self.problem, moved).fits(self.budget):
            moved[coming] = False
            return False
        for unit in units:
            ties.update({int(k): node for k in unit})
        share = float(self.points[coming].sum())
        load[node] += share
        load[int(self.problem.current[coming[0]])] -= share
        return True

    def _unit(self, k: int, partitions: list[IntArray], part_of: dict[int, int]) -> IntArray:
        return partitions[part_of[k]] if k in part_of else np.array([k], dtype=np.int64)

    def _may_come(self, unit: IntArray, node: int) -> bool:
        problem = self.problem
        permitted = problem.permits(unit, np.full(len(unit), node))
        is_free = not problem.pinned_mask[unit].any()
        return bool(problem.staying[node]) and is_free and bool(permitted.all())
