"""Checks the weights that a plan gives the workers of ordered regions.

Like ``solvers.verify.assignment`` it shares no code with any solver: it takes what was known of a
region when the plan was made, and the plan's rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from solvers.verify.violation import Violation

Row = Mapping[str, Any]
ALL_UNITS = 1000


@dataclass(frozen=True)
class RegionRules:
    """What the policy lets a plan do with a region, and what was known of it."""

    region_id: str
    before: Mapping[str, int]
    """Units of every worker of the policy when the plan was made; they add up."""
    state: Mapping[str, str]
    """Of every worker: alive, dead or unmeasured."""
    must_be_weighed: bool
    """Whether there is something to go by: a measurement, or weights of the plan before."""
    min_units: int = 0
    max_change: int = ALL_UNITS


def weight_violations(
    regions: Sequence[RegionRules], rows: Sequence[Row], *, is_unchanged: bool = False
) -> list[Violation]:
    """Everything that the rows of plans.weights may not do; empty if they may be carried out.

    ``is_unchanged``: the plan says that it leaves everything as it is.
    """
    twice = [
        key for key, n in Counter((r["region_id"], r["worker_id"]) for r in rows).items() if n > 1
    ]
    if twice:
        return [Violation("weights.exactly_once", f"more than once: {twice[:3]}")]
    known = {rules.region_id for rules in regions}
    strange = sorted({str(row["region_id"]) for row in rows} - known)
    if strange:
        return [Violation("weights.regions", f"the policy has no region {', '.join(strange)}")]
    return [
        violation
        for rules in regions
        for violation in _of_region(
            rules, [r for r in rows if r["region_id"] == rules.region_id], is_unchanged
        )
    ]


def _of_region(rules: RegionRules, rows: Sequence[Row], is_unchanged: bool) -> Iterator[Violation]:
    name = f"region {rules.region_id}"
    if not rows:
        if rules.must_be_weighed:
            yield Violation("weights.complete", f"{name} has no weights")
        return
    by_worker = {row["worker_id"]: row for row in rows}
    unknown = sorted(by_worker.keys() - rules.before.keys())
    missing = sorted(rules.before.keys() - by_worker.keys())
    if unknown or missing:
        said = f"{name}: unknown workers {unknown[:3]}, workers without a weight {missing[:3]}"
        yield Violation("weights.workers", said)
        return
    total = sum(row["weight"] for row in rows)
    if total != ALL_UNITS or any(row["weight"] < 0 for row in rows):
        said = f"{name}: weights add up to {total}, allowed: units >= 0, {ALL_UNITS} in all"
        yield Violation("weights.sum", said)
    for worker, row in by_worker.items():
        yield from _of_worker(rules, f"{worker} of {name}", worker, row)
    moved = [worker for worker, row in by_worker.items() if row["weight"] != rules.before[worker]]
    if is_unchanged and moved:
        yield Violation("status", f"says unchanged, but weights of {name} change: {moved[:3]}")


def _of_worker(rules: RegionRules, name: str, worker: str, row: Row) -> Iterator[Violation]:
    before, state, weight = rules.before[worker], rules.state[worker], row["weight"]
    if (row["previous_weight"], row["state"]) != (before, state):
        said = f"{row['previous_weight']} units and {row['state']}, it is {before} and {state}"
        yield Violation("weights.before", f"{name}: the plan says {said}")
    rate = row["records_per_s"]
    if rate is not None and not (math.isfinite(rate) and rate > 0):
        yield Violation("weights.rate", f"{name} does {rate!r} records a second")
    if state == "dead":
        if weight:
            yield Violation("weights.dead", f"{name} is dead and gets {weight} units")
        return
    if weight < min(before, rules.min_units):
        least = rules.min_units
        yield Violation("weights.floor", f"{name} gets {weight} units, least {least}")
    if _dead_had_some(rules):
        # What the dead had goes to the others at once, whatever the bound on change.
        return
    if abs(weight - before) > rules.max_change:
        said = f"{name} goes from {before} to {weight} units, allowed {rules.max_change}"
        yield Violation("weights.change", said)
    if state == "unmeasured" and not before <= weight <= max(before, rules.min_units):
        said = f"{name} was not measured and goes from {before} to {weight} units"
        yield Violation("weights.unmeasured", said)


def _dead_had_some(rules: RegionRules) -> bool:
    return any(rules.before[worker] for worker, state in rules.state.items() if state == "dead")
