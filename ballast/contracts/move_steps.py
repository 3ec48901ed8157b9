"""Divides the moves of a plan into steps, so that a step is short and no state is worse (ADR 72).

A pure function of the moves, the loads and the limits. Whoever has the same input gets the same
steps. A step is within the limits, and after each step the load distance is at most the larger one
of the start and the end. Where both cannot be had, the load distance goes first, and the step says
so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ballast.contracts.problem_columns import Floats, Ints
from ballast.contracts.step_limits import StepLimits

Bools = npt.NDArray[np.bool_]

TOLERANCE = 1e-9
"""Relative tolerance of load distances and caps: sums in another order differ by less."""


@dataclass(frozen=True, eq=False)
class StepProblem:
    """The moves of a plan, and the loads that decide on their order. Nodes are indices."""

    source: Ints
    target: Ints
    """[M]: the node of each move before and after."""
    state_bytes: Ints
    """[M]: what each move has to copy."""
    load: Floats
    """[M, R]: the load of each moved key group."""
    node_load: Floats
    """[N, R]: the load of each node before the first step."""
    capacity: Floats
    """[N, R]: the capacity of each node; infinite where a resource is not limited."""
    staying: Bools
    """[N]: the node counts in the load distance."""
    dead: Bools
    """[N]: what is on the node is moved first."""
    weights: Floats
    """[R]: the weight of a resource in the load distance; 0 for a cap."""

    @property
    def n_moves(self) -> int:
        """Number of moves."""
        return len(self.source)

    @property
    def mean(self) -> Floats:
        """[R]: total load / total capacity of the nodes that stay; 0 where nothing stays."""
        capacity = self.capacity[self.staying].sum(axis=0)
        total: Floats = self.node_load.sum(axis=0)
        mean: Floats = np.zeros_like(total)
        np.divide(total, capacity, out=mean, where=(capacity > 0) & np.isfinite(capacity))
        return mean

    def after(self, moves: Sequence[int]) -> Floats:
        """[N, R]: the load of each node after some of the moves."""
        load = self.node_load.copy()
        for move in moves:
            load[self.source[move]] -= self.load[move]
            load[self.target[move]] += self.load[move]
        return load

    def deviation(self, node_load: Floats) -> Floats:
        """[N, R]: weight x (load / capacity - mean) / mean of the nodes that stay; 0 of others."""
        mean = self.mean
        counted = (mean > 0) & (self.weights > 0)
        found = np.zeros_like(node_load)
        relative = node_load[:, counted] / self.capacity[:, counted] / mean[counted] - 1.0
        found[:, counted] = relative * self.weights[counted]
        found[~self.staying] = 0.0
        return found

    def load_distance_pct(self, node_load: Floats) -> float:
        """100 x the largest deviation, as in docs/glossary.md."""
        return 100.0 * float(np.abs(self.deviation(node_load)).max(initial=0.0))


@dataclass(frozen=True)
class MoveStep:
    """Moves that are made between the same two micro-batches."""

    moves: tuple[int, ...]
    """Positions in the problem, in the order in which they were chosen."""
    exceeds: str = ""
    """Why the step is beyond the limits; empty if it is within them."""


def divide_into_steps(problem: StepProblem, limits: StepLimits) -> list[MoveStep]:
    """Divide all moves into steps; each move is in one of them.

    Moves off dead nodes are first, then moves off the node that is furthest above the mean.

    Args:
        problem: the moves and the loads.
        limits: what a step may move. A key group that is larger than the limit on bytes is moved
            alone. A step has more than the limit where every smaller one that was found would raise
            the load distance.
    """
    if problem.n_moves == 0:
        return []
    if not limits.is_limited:
        return [MoveStep(tuple(range(problem.n_moves)))]
    order = _Order(problem, limits)
    steps = []
    while order.remaining:
        steps.append(order.next_step())
    return steps


class _Order:
    """The moves that are left and the load of each node meanwhile."""

    def __init__(self, problem: StepProblem, limits: StepLimits) -> None:
        self.problem, self.limits = problem, limits
        self.load = problem.node_load.copy()
        self.remaining = set(range(problem.n_moves))
        self.leaving: list[set[int]] = [set() for _ in problem.node_load]
        self.arriving: list[set[int]] = [set() for _ in problem.node_load]
        for move in self.remaining:
            self.leaving[problem.source[move]].add(move)
            self.arriving[problem.target[move]].add(move)
        self.forced = {move for move in self.remaining if problem.dead[problem.source[move]]}
        end = problem.after(range(problem.n_moves))
        self.ceiling_pct = max(problem.load_distance_pct(each) for each in (self.load, end))
        self.cap = np.maximum(np.maximum(problem.capacity, self.load), end)
        self.capped = np.flatnonzero(problem.weights == 0)

    def next_step(self) -> MoveStep:
        """Take the moves of the next step out of those that are left."""
        chosen = self._longest_allowed(within_limits=True) or self._one_allowed_move()
        if chosen:
            return MoveStep(tuple(chosen), self._too_large(chosen))
        chosen = self._longest_allowed(within_limits=False, first_only=True)
        if not chosen:  # only by rounding: the end itself is allowed
            chosen = sorted(self.remaining)
            for move in chosen:
                self._take(move)
        return MoveStep(
            tuple(chosen),
            f"{len(chosen)} key groups moved at once, because the load distance after fewer of "
            f"them was above {self.ceiling_pct:.1f} %",
        )

    def _longest_allowed(self, *, within_limits: bool, first_only: bool = False) -> list[int]:
        """Take moves one after another; keep the longest part after which the state is allowed."""
        taken: list[int] = []
        kept = 0
        while (move := self._best_move(taken, within_limits=within_limits)) is not None:
            self._take(move)
            taken.append(move)
            if self._is_allowed():
                kept = len(taken)
                if first_only:
                    break
        for move in taken[kept:]:
            self._undo(move)
        return taken[:kept]

    def _one_allowed_move(self) -> list[int]:
        """Take the first move after which the state is allowed; none if there is none."""
        for move in sorted(self.remaining):
            self._take(move)
            if self._is_allowed():
                return [move]
            self._undo(move)
        return []

    def _best_move(self, taken: Sequence[int], *, within_limits: bool) -> int | None:
        """The next move; None if the limits or the moves are used up."""
        if within_limits and self.limits.moves is not None and len(taken) >= self.limits.moves:
            return None
        room = self._room(taken) if within_limits else None
        for candidates in self._candidates():
            fitting = sorted(m for m in candidates if room is None or self._bytes(m) <= room)
            if fitting:
                return self._least_deviation(fitting)
        return None

    def _candidates(self) -> Iterator[set[int]]:
        """Groups of moves, the most urgent group first."""
        if self.forced:
            yield self.forced
        deviation = self.problem.deviation(self.load)
        highest, lowest = deviation.max(axis=1), deviation.min(axis=1)
        if self._is_allowed():
            # What is on nodes that do not stay goes before what is on nodes below the mean.
            for node in np.argsort(-highest, kind="stable"):
                yield self.leaving[node]
            return
        # An exchange is under way: first what brings the worst node back.
        for node in np.argsort(-np.maximum(highest, -lowest), kind="stable"):
            yield self.leaving[node] if highest[node] >= -lowest[node] else self.arriving[node]
        yield self.remaining

    def _least_deviation(self, moves: Sequence[int]) -> int:
        """The move whose two nodes are nearest to the mean after it; the first of equal ones."""
        problem, chosen = self.problem, np.array(moves)
        source, target = problem.source[chosen], problem.target[chosen]
        worst = np.maximum(
            self._deviation_of(source, self.load[source] - problem.load[chosen]),
            self._deviation_of(target, self.load[target] + problem.load[chosen]),
        )
        return int(chosen[np.argmin(worst)])

    def _deviation_of(self, nodes: Ints, load: Floats) -> Floats:
        """[K]: the largest deviation of each of some nodes under a load."""
        problem, mean = self.problem, self.problem.mean
        counted = (mean > 0) & (problem.weights > 0)
        share = load[:, counted] / problem.capacity[nodes][:, counted] / mean[counted] - 1.0
        share[~problem.staying[nodes]] = 0.0
        worst: Floats = np.abs(share * problem.weights[counted]).max(axis=1, initial=0.0)
        return worst

    def _is_allowed(self) -> bool:
        """Whether the state is no worse than the worse one of start and end."""
        distance = self.problem.load_distance_pct(self.load)
        if distance > self.ceiling_pct * (1 + TOLERANCE) + TOLERANCE:
            return False
        over = self.load[:, self.capped] > self.cap[:, self.capped] * (1 + TOLERANCE)
        return not bool(over[self.problem.staying].any())

    def _bytes(self, move: int) -> int:
        """The bytes of a move; one that is larger than the limit takes the whole of a step."""
        size = int(self.problem.state_bytes[move])
        return size if self.limits.bytes is None else min(size, self.limits.bytes)

    def _room(self, taken: Sequence[int]) -> int | None:
        if self.limits.bytes is None:
            return None
        return self.limits.bytes - sum(self._bytes(move) for move in taken)

    def _too_large(self, chosen: Sequence[int]) -> str:
        size = sum(int(self.problem.state_bytes[move]) for move in chosen)
        if self.limits.bytes is None or size <= self.limits.bytes:
            return ""
        return (
            f"one key group has {size} bytes, more than the {self.limits.bytes} of a step; it was "
            "moved alone"
        )

    def _take(self, move: int) -> None:
        self._shift(move, 1.0)
        self.remaining.discard(move)
        self.forced.discard(move)
        self.leaving[self.problem.source[move]].discard(move)
        self.arriving[self.problem.target[move]].discard(move)

    def _undo(self, move: int) -> None:
        self._shift(move, -1.0)
        self.remaining.add(move)
        if self.problem.dead[self.problem.source[move]]:
            self.forced.add(move)
        self.leaving[self.problem.source[move]].add(move)
        self.arriving[self.problem.target[move]].add(move)

    def _shift(self, move: int, sign: float) -> None:
        self.load[self.problem.source[move]] -= sign * self.problem.load[move]
        self.load[self.problem.target[move]] += sign * self.problem.load[move]
