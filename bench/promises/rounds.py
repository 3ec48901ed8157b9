"""Rounds: estimate, plan, promise, measure, calibrate, by the functions that the programs use."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ballast.contracts.policy import JobPolicy, load_policy
from ballast.contracts.tables import EXACT, MEASURED
from bench.common.seeds import ROOT
from bench.promises.load_sources import LoadSource
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.objective import objective_of_policy
from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.model.result import Status
from solvers.model.stop import Stop
from solvers.noise.calibration import PastOutcome
from solvers.noise.load_noise import load_noise
from solvers.noise.noise_estimate import EarlierEstimate, LoadEstimate, estimate_loads
from solvers.noise.promise import (
    LOAD_DISTANCE,
    FigurePromise,
    PlanPromiseRequest,
    load_distance_promise,
)
from solvers.planner.plan import Plan, PlanRequest, plan
from solvers.rebalance import fewest_moves, search

STEPS = 3
"""Steps of the search: the same seeds give the same plans on any machine."""
METHODS = {EXACT: search.NAME, MEASURED: fewest_moves.NAME}
"""The methods that ``auto`` runs for plans of this size, without the MILP, which cannot stop by
steps."""


def policy_with(precision: str) -> JobPolicy:
    """The policy of the flights job with this precision."""
    policy = load_policy(Path(ROOT) / "policies" / "flights.yaml")
    solver = policy.solver.model_copy(update={"precision": precision})
    return policy.model_copy(update={"solver": solver})


@dataclass(frozen=True, slots=True)
class PromiseRound:
    """What one round promised and measured, as a load distance in percent of the mean."""

    is_plan: bool
    moves: int
    bytes: int
    before: float
    """Estimated under the placement in force."""
    expected: float
    low: float | None
    high: float | None
    measured: float
    oracle_low: float | None
    oracle_high: float | None
    reason: str

    @property
    def is_inside(self) -> bool:
        return self.low is not None and self.high is not None and (
            self.low <= self.measured <= self.high
        )  # fmt: skip


@dataclass(eq=False)
class SimulatedJob:
    """A job that plans round by round: its placement and the outcomes of its promises."""

    source: LoadSource
    precision: str = MEASURED
    seed: int = 0
    placement: IntArray = field(init=False)
    outcomes: list[PastOutcome] = field(default_factory=list)
    shift: FloatArray = field(init=False)
    """Factors on the loads of key groups, for a lasting shift."""

    def __post_init__(self) -> None:
        self.placement = self.source.start.copy()
        self.shift = np.ones(len(self.placement))
        self.policy = policy_with(self.precision)
        self.rng = np.random.default_rng([self.seed, 18])
        self.earlier: EarlierEstimate | None = None

    @property
    def nodes(self) -> int:
        return len(self.source.capacity)

    def round(self, *, with_oracle: bool = False) -> PromiseRound:
        """One round: the past period, a plan, the next period."""
        past, following = (loads * self.shift[:, None] for loads in self.source.next_round())
        problem = self.problem(past)
        found = plan(self._request(problem))
        assignment = found.result.assignment
        promise = self._promise(found)
        after = replace(problem, load=following.mean(axis=1)[:, None], noise=None)
        measured = metrics.load_distance(after, assignment)
        low, high = self._oracle(after, assignment) if with_oracle else (None, None)
        is_plan = found.result.status is not Status.UNCHANGED
        if is_plan:
            self._learn(promise, measured)
        self.placement = assignment.copy()
        return PromiseRound(
            is_plan=is_plan,
            moves=found.result.moves,
            bytes=found.result.bytes,
            before=found.result.load_distance_before,
            expected=promise.expected,
            low=promise.low,
            high=promise.high,
            measured=measured,
            oracle_low=low,
            oracle_high=high,
            reason=promise.reason or found.result.reason,
        )

    def problem(self, past: FloatArray) -> Problem:
        """The problem of a period, with the noise of its loads."""
        estimate = estimate_loads("cpu", past, self.placement, self.nodes, self.earlier)
        self.earlier = EarlierEstimate(estimate, self.placement)
        return problem_of(self.source, self.placement, estimate, self.precision)

    def level(self) -> None:
        """Place key groups level for the true means."""
        mean = self.source.true_mean() * self.shift
        estimate = estimate_loads("cpu", mean[:, None], self.placement, len(self.source.capacity))
        problem = problem_of(self.source, self.placement, estimate, EXACT)
        request = replace(
            self._request(problem), budget=Budget(), policy=policy_with(EXACT),
            method=METHODS[EXACT], precision=EXACT,
        )  # fmt: skip
        self.placement = plan(request).result.assignment.copy()

    def disturb(self, moves: int) -> None:
        """Put some key groups on nodes at random."""
        groups = self.rng.choice(len(self.placement), moves, replace=False)
        self.placement = self.placement.copy()
        self.placement[groups] = self.rng.integers(0, len(self.source.capacity), moves)

    def _request(self, problem: Problem) -> PlanRequest:
        budgets = self.policy.budgets
        return PlanRequest(
            problem=problem,
            objective=objective_of_policy(self.policy.objective),
            policy=self.policy,
            budget=Budget(moves=budgets.moves),
            stop=Stop(steps=STEPS),
            seed=self.seed,
            method=METHODS[self.precision],
            precision=self.precision,
        )

    def _promise(self, found: Plan) -> FigurePromise:
        request = PlanPromiseRequest(
            problem=found.problem,
            assignment=found.result.assignment,
            after=found.rerouted,
            outcomes={LOAD_DISTANCE: self.outcomes},
        )
        return load_distance_promise(request)

    def _oracle(self, problem: Problem, assignment: IntArray) -> tuple[float, float]:
        """The 90 % interval of someone who knows the generating process."""
        means = self.source.oracle_means() * self.shift
        distances = load_distances(means, assignment, problem.capacity[:, 0])
        low, high = np.quantile(distances, (0.05, 0.95))
        return float(low), float(high)

    def _learn(self, promise: FigurePromise, measured: float) -> None:
        """Add an outcome of a new version; as in a real job, a round without a plan has none."""
        if promise.low is None or promise.high is None:
            return
        self.outcomes.append(
            PastOutcome(
                expected=promise.expected,
                low=promise.low,
                high=promise.high,
                below=promise.calibration_below or 1.0,
                above=promise.calibration_above or 1.0,
                measured=measured,
            )
        )


def problem_of(
    source: LoadSource, placement: IntArray, estimate: LoadEstimate, precision: str
) -> Problem:
    """The problem of a job; with precision ``exact`` it has no noise."""
    groups, nodes = len(placement), len(source.capacity)
    found, load, noise = estimate.key_groups, estimate.mean, None
    if precision == MEASURED and estimate.resource.is_known:
        load = found.level
        noise = load_noise(
            ("cpu",),
            found.window_sd[:, None],
            found.mean_error[:, None],
            (estimate.resource,),
            level_error=found.level_error[:, None],
        )
    return Problem(
        node_ids=tuple(f"node-{i}" for i in range(nodes)),
        resources=("cpu",),
        capacity=source.capacity[:, None],
        node_state=("alive",) * nodes,
        key_group_ids=tuple(f"kg/{k}" for k in range(groups)),
        operator_ids=("kg",) * groups,
        load=load[:, None],
        state_bytes=source.state_bytes,
        current=placement,
        noise=noise,
    )


def load_distances(means: FloatArray, assignment: IntArray, capacity: FloatArray) -> FloatArray:
    """[S]: the load distance of each sample of loads."""
    on_node = np.zeros((means.shape[1], len(capacity)))
    on_node[np.arange(means.shape[1]), assignment] = 1.0
    loads = means @ on_node / capacity
    mean = means.sum(axis=1) / capacity.sum()
    return np.asarray(100 * np.abs(loads / mean[:, None] - 1).max(axis=1))
