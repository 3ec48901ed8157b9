"""The requirements on promises and on plans from noise, each with its limit."""

from __future__ import annotations

from collections.abc import Mapping

from ballast.contracts.tables import EXACT, MEASURED
from bench.common.verdict import Verdict
from bench.promises.experiments import CoverageFigures, PlanCosts

LEAST_INSIDE, MOST_INSIDE = 85.0, 95.0
MOST_WITHOUT = 20.0
MOST_WIDTH = 1.5
MOST_PLANS = 0.5
"""Percent of the rounds: 1 in 200."""
LEAST_ANSWERED = 95.0
MOST_MOVES = 0.5
MOST_DISTANCE = 0.5

PlansByRule = Mapping[str, PlanCosts]


def of_coverage(found: Mapping[str, CoverageFigures]) -> list[Verdict]:
    """Verdicts on the intervals of each source."""
    verdicts = []
    for source, each in found.items():
        inside = f"{source}: rounds inside the 90 % interval, %"
        verdicts += [
            Verdict(inside, each.inside_pct, LEAST_INSIDE, at_least=True),
            Verdict(inside, each.inside_pct, MOST_INSIDE, at_least=False),
            Verdict(
                f"{source}: rounds without a promise, %",
                each.without_pct,
                MOST_WITHOUT,
                at_least=False,
            ),
            Verdict(
                f"{source}: width over the oracle's", each.width_ratio, MOST_WIDTH, at_least=False
            ),
        ]
    return verdicts


def of_level(found: Mapping[str, PlansByRule]) -> list[Verdict]:
    """Verdicts on plans from noise."""
    return [
        Verdict(
            f"{source}: rounds with a plan from a level placement, %",
            rules[MEASURED].plans_pct,
            MOST_PLANS,
            at_least=False,
        )
        for source, rules in found.items()
    ]


def of_shift(answered_pct: float) -> list[Verdict]:
    """Verdict on lasting shifts."""
    claim = "quiet: lasting shifts of 5 points answered within two rounds, %"
    return [Verdict(claim, answered_pct, LEAST_ANSWERED, at_least=True)]


def of_saving(found: Mapping[str, PlansByRule]) -> list[Verdict]:
    """Verdicts on moves and bytes compared with those of thresholds alone."""
    verdicts = []
    for source, rules in found.items():
        ours, theirs = rules[MEASURED], rules[EXACT]
        for what, mine, other in (
            ("moves", ours.moves, theirs.moves),
            ("bytes", ours.bytes, theirs.bytes),
        ):
            claim = f"{source}: {what} over those of thresholds alone"
            verdicts.append(Verdict(claim, mine / max(1, other), MOST_MOVES, at_least=False))
        verdicts.append(
            Verdict(
                f"{source}: measured load distance above that of thresholds alone, points",
                ours.measured - theirs.measured,
                MOST_DISTANCE,
                at_least=False,
            )
        )
    return verdicts
