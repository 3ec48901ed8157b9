"""The claims about Ballast's method, each with its figure and its limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.collocation.methods import ALBIC_M, OURS, UNLEVELLED
from bench.collocation.rounds import (
    SLACK,
    TOGETHER,
    CollocationRun,
    at_the_end,
    best_within,
    over_bound,
    over_budget,
)
from bench.simulator.traffic import CHAINS, ONE_TO_ONE, PAIRS, Scenario

LATER_AT_MOST = 1
"""Rounds that Ballast may need in addition to those of ALBIC with M pairs a round."""
TIMES_THE_BOUND = {PAIRS: 1.1, CHAINS: 1.3}
"""Multiple of the proven lower bound, for level load and traffic that all flows one to one."""


OF_UNLEVELLED = 0.5
"""Load distance at the end, as a share of what it is without levelling at the same collocation."""


@dataclass(frozen=True, slots=True)
class WorstCaseVerdict:
    """A claim: ``figure`` is the worst of all runs, and ``where`` names that run."""

    what: str
    limit: str
    figure: str
    where: str
    holds: bool

    def text(self) -> str:
        outcome = "holds" if self.holds else "DOES NOT HOLD"
        return f"| {self.what} | {self.limit} | {self.figure} | {self.where} | {outcome} |"


Measure = Callable[[CollocationRun], float]


def verdicts(runs: Sequence[CollocationRun]) -> list[WorstCaseVerdict]:
    """Return the verdicts; every single run must keep the limits."""
    found = [
        _worst(
            "rounds more than ALBIC with M pairs",
            runs,
            rounds_later,
            f"at most {LATER_AT_MOST}",
            lambda x: x <= LATER_AT_MOST,
        ),
        _worst(
            "points that the best collocation stays below that of ALBIC with M pairs",
            runs,
            points_below,
            "0",
            lambda x: x <= SLACK,
        ),
    ]
    for shape, times in TIMES_THE_BOUND.items():
        plain = [run for run in runs if has_a_limit(run.setting.scenario, shape)]
        if plain:
            found.append(
                _worst(
                    f"times the lower bound on rounds, unskewed {shape}",
                    plain,
                    times_the_bound,
                    f"at most {times:g}",
                    lambda x, most=times: x <= most + SLACK,  # type: ignore[misc]
                )
            )
    pairs = [run for run in runs if is_together(run) and run.setting.scenario.shape == PAIRS]
    if pairs:
        found.append(
            _worst(
                "load distance at the end of pairs that are together, as a share of not levelled",
                pairs,
                share_of_unlevelled,
                f"at most {OF_UNLEVELLED:g}",
                lambda x: x <= OF_UNLEVELLED,
            )
        )
    found.append(_worst("rounds over the budget", runs, _over_budget, "0", lambda x: x == 0))
    found.append(_worst("rounds over the load bound", runs, _over_bound, "0", lambda x: x == 0))
    return found


def _worst(
    what: str,
    runs: Sequence[CollocationRun],
    measure: Measure,
    limit: str,
    keeps: Callable[[float], bool],
) -> WorstCaseVerdict:
    worst = max(runs, key=measure)
    figure = measure(worst)
    where = f"{worst.setting.name}, seed {worst.index + 1}"
    return WorstCaseVerdict(what, limit, f"{figure:.4g}", where, keeps(figure))


def rounds_later(run: CollocationRun) -> float:
    """Return the rounds that Ballast needs in addition; infinite if only ALBIC-M reaches the
    collocation."""
    ours, theirs = run.rounds_of(OURS), run.rounds_of(ALBIC_M)
    if ours is None:
        return float("inf") if theirs is not None else 0.0
    # ALBIC-M did not reach it in all its rounds: it would need at least one more.
    return float(ours - (theirs or len(run.histories[ALBIC_M]) + 1))


def points_below(run: CollocationRun) -> float:
    """Return by how many points the best round of Ballast is below the best one of ALBIC-M."""
    ours, theirs = run.histories[OURS], run.histories[ALBIC_M]
    bound = run.setting.bound
    return max(0.0, best_within(theirs, bound) - best_within(ours, bound))


def is_together(run: CollocationRun) -> bool:
    """Return whether both ways of Ballast end with all traffic within nodes.

    Only pairs are compared: a chain has half of the moves of a round or more, so that two chains
    cannot change places.
    """
    ends = (at_the_end(run.histories[method]) for method in (OURS, UNLEVELLED))
    return all(end.collocation >= TOGETHER for end in ends)


def share_of_unlevelled(run: CollocationRun) -> float:
    """Return the load distance at the end as a share of the one without levelling."""
    ours, without = (at_the_end(run.histories[method]) for method in (OURS, UNLEVELLED))
    return ours.load_distance / max(without.load_distance, SLACK)


def has_a_limit(scenario: Scenario, shape: str) -> bool:
    """Return whether the lower bound is tight: plain scenarios of this shape without skew."""
    is_plain = scenario.pattern == ONE_TO_ONE and scenario.collocatable == 1.0
    return is_plain and scenario.shape == shape and not scenario.skew


def times_the_bound(run: CollocationRun) -> float:
    ours = run.rounds_of(OURS)
    return float("inf") if ours is None else ours / run.fewest


def _over_budget(run: CollocationRun) -> float:
    return float(over_budget(run.histories[OURS], run.setting.moves))


def _over_bound(run: CollocationRun) -> float:
    return float(over_bound(run.histories[OURS], run.setting.bound))
