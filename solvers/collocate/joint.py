"""Traffic and load searched together under one budget, with a target that is kept over rounds.

Two searches start from the same placement: one walks toward a target placement of clusters
(target.py), one looks for gain alone; the better plan wins. Lexicographic: the load bound first,
then the most traffic saved; weighted: the best weighted sum over a ladder of load bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from solvers.collocate.cluster_target import NOWHERE, ClusterTarget, propose_target
from solvers.collocate.cola import place_from_scratch
from solvers.collocate.joint_params import JointParams
from solvers.collocate.move_objective import MoveObjective, make_move_objective
from solvers.collocate.move_search import MoveSearch
from solvers.collocate.placement_state import TINY, PlacementState
from solvers.collocate.target_memory import TargetMemory
from solvers.model import metrics
from solvers.model.amortisation import KEY_GROUP, PLAN, HeldBack
from solvers.model.budget import Budget
from solvers.model.objective import WEIGHTED
from solvers.model.parameter_checks import options_of
from solvers.model.predicted_load import predicted_load
from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem
from solvers.model.result import Result, SolverRun, TraceStep, infeasible_result, make_result
from solvers.model.stop import SolverClock, Stop
from solvers.model.traffic_graph import TrafficGraph
from solvers.rebalance import flux
from solvers.rebalance.bound import counting_bound
from solvers.rebalance.start import (
    must_move_mask,
    place_must_moves,
    why_infeasible,
    within_budget,
)

NAME = "joint"
LADDER = (1.0, 0.5, 0.25, 0.1, 2.0, 4.0)
"""Load bounds that a weighted search tries, as multiples of the one it is given."""
ROUNDING = 1e-9
"""Relative: sums of the same numbers in another order differ by less."""


@dataclass(frozen=True, eq=False, slots=True)
class JointPlan:
    """The plan, the target to hand to the next round, and what the gate held back.

    The figures of ``result`` are those of the loads that the new placement would have.
    """

    result: Result
    target: TargetMemory | None
    saved_rate: float  # priced records per unit of time, against doing only what must be done
    held_back: tuple[HeldBack, ...]
    winner: str


def solve(
    problem: Problem, budget: Budget, stop: Stop, seed: int, params: Mapping[str, Any]
) -> Result:
    """The shape of every solver; ``plan`` also hands back the target for the next round."""
    options = options_of(JointParams, NAME, params)
    return plan(problem, budget, stop, seed, options).result


def plan(
    problem: Problem, budget: Budget, stop: Stop, seed: int, options: JointParams
) -> JointPlan:
    """Plan one round."""
    clock = stop.start()
    reason = why_infeasible(problem, budget)
    if reason is not None:
        result = infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
        return JointPlan(result, options.target, 0.0, (), "nothing")
    return _Round(problem, budget, stop, clock, seed, options).run()


@dataclass(frozen=True, eq=False, slots=True)
class _Candidate:
    name: str
    assignment: IntArray
    distance: float  # share of the mean, serialisation known
    saved: float
    score: float  # worth of its moves by the round's objective


class _Round:
    """One call of ``plan``: what its steps share."""

    def __init__(
        self,
        problem: Problem,
        budget: Budget,
        stop: Stop,
        clock: SolverClock,
        seed: int,
        options: JointParams,
    ) -> None:
        self.problem, self.budget, self.stop, self.clock = problem, budget, stop, clock
        self.seed, self.options = seed, options
        self.graph = TrafficGraph.of(problem)
        self.bound = options.max_load_distance / 100.0
        self.is_weighted = options.objective == WEIGHTED
        self.start = place_must_moves(problem, budget)
        self.must_move = set(np.flatnonzero(must_move_mask(problem)).tolist())
        self.trace: list[TraceStep] = []
        self.scratch_fits = False

    def run(self) -> JointPlan:
        target, memory = self._target()
        objective, held = make_move_objective(
            self.problem, self.graph, self.budget, self.options, target
        )
        myopic, held_myopic = make_move_objective(
            self.problem, self.graph, self.budget, self.options, None
        )
        nothing = self._nothing()
        candidates = [nothing]
        for bound in self._ladder(nothing):
            if len(candidates) > 1 and self.clock.is_over():
                break
            if target is not None:
                candidates.append(self._searched("target", objective, objective, bound, self.start))
                candidates += self._arrived(target, objective, bound)
            candidates.append(self._searched("myopic", myopic, objective, bound, self.start))
            candidates += self._from_scratch(objective, bound)
            if nothing.distance > bound + TINY:
                candidates.append(
                    self._searched("flux", objective, objective, bound, self.rebalanced)
                )
        fitting = [c for c in candidates if not self._over_cap(c.assignment).any()]
        if not fitting:
            return self._nothing_fits(nothing)
        is_stalled = memory is not None and memory.is_stalled
        if self.is_weighted:
            best = self._best_weighted(fitting, nothing, objective, is_stalled=is_stalled)
        else:
            best = self._best(fitting, nothing, is_stalled=is_stalled)
        held = held if target is not None else held_myopic
        return self._finish(best, nothing, memory, held, must_act=nothing not in fitting)

    def _over_cap(self, assignment: IntArray) -> BoolArray:
        return metrics.over_cap(self.problem, assignment, self._load_under(assignment))

    def _nothing_fits(self, nothing: _Candidate) -> JointPlan:
        """What must move brings records between nodes, and those may be what is over the cap."""
        over = self._over_cap(nothing.assignment)
        i, r = (int(index) for index in np.argwhere(over)[0])
        reason = (
            f"no plan was found that keeps every node under its cap on "
            f"{self.problem.resources[r]!r} once records between nodes are counted, first "
            f"{self.problem.node_ids[i]!r}; add a node, raise the capacity or the budget, or "
            "balance the resource instead of capping it"
        )
        seconds = self.clock.elapsed()
        result = infeasible_result(self.problem, method=NAME, reason=reason, seconds=seconds)
        return JointPlan(result, self.options.target, 0.0, (), "nothing")

    def _load_under(self, assignment: IntArray) -> FloatArray:
        return predicted_load(self.problem, self.graph, self.options.costs, assignment)

    def _ladder(self, nothing: _Candidate) -> list[float]:
        """Load bounds to search within; none beyond what all the traffic left could pay for."""
        if not self.is_weighted:
            return [self.bound]
        left = 1.0 - self._saved_pct(nothing.saved) / 100.0
        worth, price = self.options.traffic_weight * left, self.options.load_weight
        # The load of all nodes on one of them is as far from the mean as can be.
        most = float(self.problem.n_nodes)
        if worth < most * price:
            most = min(most, nothing.distance + worth / price)
        rungs = [self.bound * rung for rung in LADDER]
        return [rung for rung in (*rungs, most) if rung <= most] or rungs[:1]

    def _target(self) -> tuple[ClusterTarget | None, TargetMemory | None]:
        """The kept target, or a new one when it is due, gone or clearly cheaper to reach."""
        kept = self.options.target
        known = None if kept is None else kept.resolve(self.problem)
        due = kept is None or kept.is_stalled or kept.age >= self.options.propose_every
        if known is not None and not due and kept is not None:
            return known, kept
        seed = self.seed + (0 if kept is None else kept.proposals)
        fresh = propose_target(
            self.problem,
            self.graph,
            self.options.costs,
            self.budget,
            self.start,
            bound=self.bound,
            score_factor=self.options.score_factor,
            seed=seed,
        )
        if fresh is None:
            return None, None
        if known is not None and kept is not None and not kept.is_stalled:
            # Changing one's mind costs what was walked already: only for clearly fewer moves.
            saves = known.migrations(self.start) - fresh.migrations(self.start)
            if saves <= 0 and fresh.excess >= known.excess - TINY:
                return known, replace(kept, age=0)
        proposals = 1 if kept is None else kept.proposals + 1
        return fresh, TargetMemory.of(self.problem, fresh, proposals, kept)

    def _nothing(self) -> _Candidate:
        place = self._placement(self.start)
        return _Candidate("nothing", self.start, place.distance(), place.saved, 0.0)

    def _placement(self, assignment: IntArray) -> PlacementState:
        return PlacementState(self.problem, self.graph, self.options.costs, self.budget, assignment)

    def _searched(
        self,
        name: str,
        objective: MoveObjective,
        judge: MoveObjective,
        bound: float,
        start: IntArray,
    ) -> _Candidate:
        """Repair the load if it must be, fill the budget, then undo and refill."""
        place = self._placement(start)
        search = MoveSearch(place, objective, bound, self.seed)
        if place.distance() > bound + TINY:
            search.repair(bound)
        search.limit = max(bound, place.distance())
        search.fill()
        for _ in range(self._passes()):
            if self.clock.is_over():
                break
            search.undo_and_refill(self.must_move)
        found = self._rated(name, place.assignment(), judge, bound)
        self.trace.append((self.clock.elapsed(), name, 100.0 * found.distance))
        return found

    def _rated(
        self, name: str, assignment: IntArray, judge: MoveObjective, bound: float
    ) -> _Candidate:
        """The candidate with its figures, counted from the start whatever way led to it."""
        rated = MoveSearch(self._placement(self.start), judge, bound, self.seed)
        for k in np.flatnonzero(assignment != self.start).tolist():
            rated.apply(k, int(assignment[k]))
        return _Candidate(name, assignment, rated.place.distance(), rated.place.saved, rated.score)

    def _arrived(
        self, target: ClusterTarget, objective: MoveObjective, bound: float
    ) -> list[_Candidate]:
        """The target itself, where the budget reaches it: coarse loads can bar the way there."""
        wanted = np.array(objective.target, dtype=np.int64)
        goal = np.where(wanted == NOWHERE, self.start, target.node_of)
        # A target of an earlier round knows nothing of pins and lists that came since.
        may = self.problem.permits(np.arange(len(goal)), goal) & ~self.problem.pinned_mask
        goal = np.where(may, goal, self.start)
        if not within_budget(self.problem, self.budget, goal):
            return []
        return [self._searched("target", objective, objective, bound, goal)]

    def _from_scratch(self, objective: MoveObjective, bound: float) -> list[_Candidate]:
        """COLA's placement where the budget lets everything be placed anew, and that searched on:
        before the first plan nothing has grown where it is, so moving is as cheap as ever."""
        if not self.options.from_scratch:
            return []
        cola = place_from_scratch(self.problem, 100.0 * bound, self.seed, self.clock.is_over)
        self.scratch_fits = within_budget(self.problem, self.budget, cola)
        if not self.scratch_fits:
            return []
        plain = self._rated("cola", cola, objective, bound)
        return [plain, self._searched("cola", objective, objective, bound, cola)]

    def _reason(self, best: _Candidate) -> str:
        won = f"the {best.name} plan won"
        if not self.options.from_scratch:
            return won
        tried = "was a candidate" if self.scratch_fits else "is over the budget"
        return f"{won}; a first plan: a placement from nothing (COLA) {tried}"

    def _passes(self) -> int:
        passes = self.options.passes
        return passes if self.stop.steps is None else min(passes, self.stop.steps)

    @cached_property
    def rebalanced(self) -> IntArray:
        """Another start where the load is out of bounds: [ICDE17]'s baseline, within the budget."""
        result = flux.solve(self.problem, self.budget, Stop(steps=50), self.seed, flux.FluxParams())
        return result.assignment.copy()

    def _best(
        self, candidates: list[_Candidate], nothing: _Candidate, *, is_stalled: bool
    ) -> _Candidate:
        """Within the bound, never less saved than by doing nothing, then the best score."""
        is_free = nothing in candidates and not self._is_needed(nothing)
        # Rounding aside, "never lower" is exact: a plan that saves less is no candidate.
        slack = 1e-9 * max(1.0, abs(nothing.saved))
        allowed = [
            c
            for c in candidates
            if not is_free
            or (c.distance <= self.bound + 2 * TINY and c.saved >= nothing.saved - slack)
        ]
        return min(allowed, key=lambda c: self._rank(c, is_stalled))

    def _is_needed(self, nothing: _Candidate) -> bool:
        """A plan that does more than it must: the load is out of bounds, or a node drains."""
        is_out = not self.is_weighted and nothing.distance > self.bound + TINY
        return is_out or bool(self.problem.draining.any())

    def _rank(self, c: _Candidate, is_stalled: bool) -> tuple[float, float, int]:
        over = max(0.0, c.distance - self.bound)
        moves = int(np.count_nonzero(c.assignment != self.start))
        # A target that leads nowhere must not outvote a plan that saves more now.
        value = c.saved if is_stalled else c.score
        return round(over, 9), -value, moves

    def _best_weighted(
        self,
        candidates: list[_Candidate],
        nothing: _Candidate,
        judge: MoveObjective,
        *,
        is_stalled: bool,
    ) -> _Candidate:
        """The best score by weights; a plan that loses by weights alone is no candidate."""
        least = [self._necessary(c, nothing, judge) for c in candidates]
        pairs = [*zip(candidates, least, strict=True), *((c, c) for c in least)]
        allowed = [
            c
            for c, without in pairs
            if not self._over_cap(c.assignment).any() and not self._is_loss(c, without)
        ]

        def rank(c: _Candidate) -> tuple[float, int]:
            gain = c.saved - nothing.saved if is_stalled else c.score
            moves = int(np.count_nonzero(c.assignment != self.start))
            return -round(self._score(gain, c.distance), 9), moves

        return min(allowed, key=rank)

    def _necessary(self, c: _Candidate, nothing: _Candidate, judge: MoveObjective) -> _Candidate:
        """What of a candidate has to be done, and nothing else."""
        if not self.must_move:
            return nothing
        must = sorted(self.must_move)
        assignment = self.problem.current.copy()
        assignment[must] = c.assignment[must]
        return self._rated("nothing", assignment, judge, self.bound)

    def _is_loss(self, c: _Candidate, without: _Candidate) -> bool:
        """Worse by weights than only what has to be done, and no drain excuses it.

        A drain may cost traffic, but not level load: else it would wait for a plan that pays.
        """
        if self._over_cap(without.assignment).any():
            return False
        score, least = (self._score(x.saved, x.distance) for x in (c, without))
        # Rounding aside, "never lower" is exact.
        if score >= least - ROUNDING * max(1.0, abs(least)):
            return False
        draining = self.problem.draining
        frees = np.count_nonzero(draining[c.assignment]) < np.count_nonzero(
            draining[without.assignment]
        )
        return not (frees and c.distance <= without.distance + TINY)

    def _score(self, saved: float, distance: float) -> float:
        options = self.options
        load = options.load_weight * 100.0 * distance
        return options.traffic_weight * self._saved_pct(saved) - load

    def _saved_pct(self, saved: float) -> float:
        total = self._most_saved()
        return 100.0 * saved / total if total > 0 else 0.0

    def _most_saved(self) -> float:
        """What would be saved if no record left its node."""
        return self.options.costs.saved_by_node * self.graph.total_rate

    def _finish(
        self,
        best: _Candidate,
        nothing: _Candidate,
        memory: TargetMemory | None,
        held: tuple[HeldBack, ...],
        *,
        must_act: bool,
    ) -> JointPlan:
        if not must_act:
            best, held = self._gated(best, nothing, held)
        held = (*held, *self._held_alone(best, held))
        result = make_result(
            self.problem,
            best.assignment.copy(),
            SolverRun(
                method=NAME,
                bound=self._bound(),
                seconds=self.clock.elapsed(),
                trace=tuple(self.trace),
                reason=self._reason(best),
            ),
            after=replace(self.problem, load=self._load_under(best.assignment)),
        )
        kept = None if memory is None else memory.after(best.saved, self.graph.total_rate)
        return JointPlan(result, kept, best.saved - nothing.saved, held, best.name)

    def _bound(self) -> float:
        """Of the load distance; none is known where the load depends on the placement."""
        costs = self.options.costs
        if any(costs.send) or any(costs.receive):
            return 0.0
        return counting_bound(self.problem, self.budget)

    def _gated(
        self, best: _Candidate, nothing: _Candidate, held: tuple[HeldBack, ...]
    ) -> tuple[_Candidate, tuple[HeldBack, ...]]:
        """The whole plan must pay as well, unless load or a drain made it necessary."""
        gate = self.options.gate
        if gate is None or self._is_needed(nothing) or best is nothing:
            return best, held
        moved = best.assignment != self.start
        n_bytes = int(self.problem.state_bytes[moved].sum())
        saved = self._worth(best, nothing)
        if gate.pays(saved, n_bytes, metrics.pause_s(self.problem, moved)):
            return best, held
        names = tuple(self.problem.key_group_ids[k] for k in np.flatnonzero(moved).tolist())
        whole = HeldBack(names, saved, n_bytes, "the plan as a whole does not pay", PLAN)
        return nothing, (*held, whole)

    def _held_alone(self, best: _Candidate, held: tuple[HeldBack, ...]) -> tuple[HeldBack, ...]:
        """Key groups that stay, would save records beside partners elsewhere, and do not pay for
        it by themselves, nor were held back with others."""
        gate = self.options.gate
        if gate is None:
            return ()
        problem, place = self.problem, self._placement(best.assignment)
        named = {name for one in held for name in one.what}
        n_bytes, pause_s = problem.state_bytes.tolist(), metrics.move_pause_s(problem).tolist()
        found = []
        for k in np.flatnonzero(best.assignment == problem.current).tolist():
            nodes = [node for node in place.to_node[k] if place.may_be_on(k, node)]
            gain = max((place.gain(k, node) for node in nodes), default=0.0)
            name = problem.key_group_ids[k]
            if gain <= TINY or name in named or gate.pays(gain, n_bytes[k], pause_s[k]):
                continue
            why = gate.in_words(gain, n_bytes[k], pause_s[k])
            found.append(HeldBack((name,), gain, n_bytes[k], why, KEY_GROUP))
        return tuple(found)

    def _worth(self, best: _Candidate, nothing: _Candidate) -> float:
        """Records a unit of time that the plan is worth: those it saves, and by weights also the
        load that it levels, which is worth as many records as the weights say."""
        saved = best.saved - nothing.saved
        if not self.is_weighted or self.options.traffic_weight == 0:
            return saved
        rate = self.options.load_weight / self.options.traffic_weight
        return saved + rate * (nothing.distance - best.distance) * self._most_saved()
