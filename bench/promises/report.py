"""From what was measured to Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ballast.contracts.tables import EXACT, MEASURED
from bench.common.markdown import table
from bench.common.verdict import Verdict, judged
from bench.promises.experiments import RULES, CoverageFigures, PlanCosts

PlansBySource = Mapping[str, Mapping[str, PlanCosts]]


def coverage_table(found: Mapping[str, CoverageFigures]) -> str:
    """A row a source."""
    heads = [
        "loads", "rounds", "plans", "inside, %", "below, %", "above, %", "without promise, %",
        "inside with a plan, %", "width, points", "oracle's width", "ratio", "expected, %",
        "measured, %",
    ]  # fmt: skip
    rows = [
        [
            source,
            str(each.rounds),
            str(each.plans),
            f"{each.inside_pct:.1f}",
            f"{each.below_pct:.1f}",
            f"{each.above_pct:.1f}",
            f"{each.without_pct:.1f}",
            f"{each.plans_inside_pct:.1f}",
            f"{each.width:.2f}",
            f"{each.oracle_width:.2f}",
            f"{each.width_ratio:.2f}",
            f"{each.expected:.2f}",
            f"{each.measured:.2f}",
        ]
        for source, each in found.items()
    ]
    return table(heads, rows)


def level_table(found: PlansBySource) -> str:
    """Plans from noise, by rule."""
    heads = ["loads", *(f"plans / rounds, {RULES[rule]}" for rule in (MEASURED, EXACT))]
    rows = [
        [
            source,
            *(f"{rules[rule].plans} / {rules[rule].rounds}" for rule in (MEASURED, EXACT)),
        ]
        for source, rules in found.items()
    ]
    return table(heads, rows)


def saving_table(found: PlansBySource) -> str:
    """Plans, moves, bytes and load distance, by rule."""
    heads = ["loads", "rule", "rounds", "plans", "moves", "MB", "measured load distance, %"]
    rows = [
        [
            source,
            RULES[rule],
            str(rules[rule].rounds),
            str(rules[rule].plans),
            str(rules[rule].moves),
            f"{rules[rule].bytes / 1e6:.1f}",
            f"{rules[rule].measured:.2f}",
        ]
        for source, rules in found.items()
        for rule in (MEASURED, EXACT)
    ]
    return table(heads, rows)


def page(
    words: str,
    coverage: Mapping[str, CoverageFigures],
    level: PlansBySource,
    saving: PlansBySource,
    verdicts: Sequence[Verdict],
) -> str:
    """The page in Markdown, without its heading."""
    parts = [words]
    if coverage:
        parts += ["## Intervals of the load distance", COVERAGE, coverage_table(coverage)]
    if level:
        parts += ["## Plans from noise", LEVEL, level_table(level)]
    if saving:
        parts += ["## Moves saved", SAVING, saving_table(saving)]
    parts += ["## Verdicts", judged(verdicts)]
    return "\n\n".join(parts) + "\n"


COVERAGE = (
    "Every other round begins with six key groups on nodes at random, so that there is a plan to "
    "make. *inside* is of the rounds with a promise; a job measures only those with a plan. "
    "The oracle knows the generating process and where it is at the end of the period, "
    "and not its draws: its interval is that of 400 periods that it draws under the same "
    "placement. Of a recording it knows the means of the whole and the means of all its periods."
)
LEVEL = (
    "The placement is level for the true means, so every plan is one from noise. *thresholds "
    "alone* is `precision: exact` without a noise model, the rule before plans knew their noise."
)
SAVING = "From the placement by hash on, nothing is disturbed; both rules have the same loads."
