"""The experiments: coverage of intervals, plans from noise, lasting shifts, and moves saved."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ballast.contracts.tables import EXACT, MEASURED
from bench.common.seeds import seed_of
from bench.promises.load_sources import load_source
from bench.promises.rounds import PromiseRound, SimulatedJob
from solvers.model.problem import FloatArray, IntArray

ROUNDS = 50
"""Rounds of a job."""
DISTURBED = 6
"""Number of key groups that are placed at random before every other round, so that a plan is needed
and a promise can be tested."""
ORACLE_EVERY = 5
"""The oracle's interval is computed in every fifth round: an odd number, so that half of these
rounds begin with a disturbance."""
SHIFT_POINTS = 5.0
"""How far the load of a node rises above the mean, in percent of the mean."""
ROUNDS_BEFORE, ROUNDS_AFTER = 3, 2


@dataclass(frozen=True, slots=True)
class ExperimentTask:
    """One job of one experiment."""

    experiment: str
    source: str
    precision: str
    index: int
    seed_base: int

    @property
    def part(self) -> tuple[str, str, str]:
        """Experiment, source and rule: jobs whose figures are added up."""
        return self.experiment, self.source, self.precision

    @property
    def seed(self) -> int:
        """Both rules have the same loads: the seed does not depend on the precision."""
        return seed_of(self.seed_base, f"{self.experiment} {self.source}", self.index)

    def job(self) -> SimulatedJob:
        """A new job."""
        return SimulatedJob(load_source(self.source, self.seed), self.precision, self.seed)


@dataclass(frozen=True, slots=True)
class JobRounds:
    """The rounds of one job."""

    task: ExperimentTask
    rounds: tuple[PromiseRound, ...]
    is_answered: bool = False
    """For a shift: whether a plan was made within the rounds after it."""


def coverage(task: ExperimentTask) -> JobRounds:
    """Rounds from the placement by hash on; in every other round key groups are misplaced first."""
    job = task.job()
    rounds = []
    for number in range(ROUNDS):
        if number % 2 and number > 1:
            job.disturb(DISTURBED)
        rounds.append(job.round(with_oracle=number % ORACLE_EVERY == 0))
    return JobRounds(task, tuple(rounds))


def level(task: ExperimentTask) -> JobRounds:
    """Rounds from a level placement on; every plan in them is made from noise."""
    job = task.job()
    job.level()
    return JobRounds(task, tuple(job.round() for _ in range(ROUNDS)))


def shift(task: ExperimentTask) -> JobRounds:
    """Rounds before and after the load of one node rises permanently."""
    job = task.job()
    job.level()
    rounds = [job.round() for _ in range(ROUNDS_BEFORE)]
    before = job.shift.copy()
    groups = shifted_groups(job, whole=task.index % 2 == 0)
    job.shift = before * shift_factors(job.source.true_mean() * before, groups, job.nodes)
    after = [job.round() for _ in range(ROUNDS_AFTER)]
    return JobRounds(task, (*rounds, *after), any(each.is_plan for each in after))


def shifted_groups(job: SimulatedJob, *, whole: bool) -> IntArray:
    """The key groups of a random node whose load rises: all of them, or the largest one."""
    node = int(job.rng.integers(job.nodes))
    groups = np.flatnonzero(job.placement == node)
    return groups if whole else groups[[np.argmax(job.source.true_mean()[groups])]]


def shift_factors(mean: FloatArray, groups: IntArray, nodes: int) -> FloatArray:
    """Factors on loads with which their node is ``SHIFT_POINTS`` further above the mean.

    The mean of all nodes rises with it, so the load has to rise by a little more.
    """
    more = SHIFT_POINTS / 100.0 * mean.sum() / nodes * nodes / (nodes - 1)
    factors = np.ones(len(mean))
    factors[groups] += more / mean[groups].sum()
    return factors


def saving(task: ExperimentTask) -> JobRounds:
    """Rounds from the placement by hash on, without any disturbance."""
    job = task.job()
    return JobRounds(task, tuple(job.round() for _ in range(ROUNDS)))


EXPERIMENTS = {"coverage": coverage, "level": level, "shift": shift, "saving": saving}


@dataclass(frozen=True, slots=True)
class CoverageFigures:
    """How often and how narrowly the 90 % intervals of a source held."""

    rounds: int
    inside_pct: float
    """Of the rounds with a promise."""
    below_pct: float
    above_pct: float
    without_pct: float
    """Rounds without a promise."""
    plans: int
    plans_inside_pct: float
    """Of the rounds with a promise and a plan: a job measures new versions alone."""
    width: float
    oracle_width: float
    """Means over the rounds with an oracle, in percent of the mean load."""
    expected: float
    measured: float

    @property
    def width_ratio(self) -> float:
        return self.width / self.oracle_width


def coverage_figures(runs: Sequence[JobRounds]) -> CoverageFigures:
    """Add up the intervals of all jobs of one source."""
    rounds = [each for run in runs for each in run.rounds]
    promised = [each for each in rounds if each.low is not None and each.high is not None]
    widths = [
        ((each.high or 0.0) - (each.low or 0.0), each.oracle_high - each.oracle_low)
        for each in promised
        if each.oracle_high is not None and each.oracle_low is not None
    ]
    count = max(1, len(promised))
    planned = [each.is_inside for each in promised if each.is_plan]
    below = sum(each.measured < (each.low or 0.0) for each in promised)
    above = sum(each.measured > (each.high or 0.0) for each in promised)
    return CoverageFigures(
        rounds=len(rounds),
        inside_pct=100.0 * (len(promised) - below - above) / count,
        below_pct=100.0 * below / count,
        above_pct=100.0 * above / count,
        without_pct=100.0 * (len(rounds) - len(promised)) / len(rounds),
        plans=sum(each.is_plan for each in rounds),
        plans_inside_pct=100.0 * sum(planned) / max(1, len(planned)),
        width=statistics.mean(width for width, _ in widths),
        oracle_width=statistics.mean(width for _, width in widths),
        expected=statistics.mean(each.expected for each in promised),
        measured=statistics.mean(each.measured for each in promised),
    )


@dataclass(frozen=True, slots=True)
class PlanCosts:
    """Number, moves and bytes of a rule's plans, and the load distance that was measured under
    them."""

    rounds: int
    plans: int
    moves: int
    bytes: int
    measured: float
    """Mean measured load distance, in percent of the mean load."""

    @property
    def plans_pct(self) -> float:
        return 100.0 * self.plans / self.rounds


def plan_costs(runs: Sequence[JobRounds]) -> PlanCosts:
    """Add up the plans of all jobs of one source and rule."""
    rounds = [each for run in runs for each in run.rounds]
    return PlanCosts(
        rounds=len(rounds),
        plans=sum(each.is_plan for each in rounds),
        moves=sum(each.moves for each in rounds),
        bytes=sum(each.bytes for each in rounds),
        measured=statistics.mean(each.measured for each in rounds),
    )


RULES = {MEASURED: "with noise", EXACT: "thresholds alone"}
"""Names of the rules in the tables."""
