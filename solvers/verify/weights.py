"""Checks the weights that a plan gives the workers of ordered regions.

Like ``solvers.verify.assignment`` it shares no code with any solver: it uses the measurements that
the plan was made from, and the plan's rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ballast.contracts.records import WorkerWeight
from solvers.verify.violation import Violation

ALL_UNITS = 1000


@dataclass(frozen=True)
class RegionRules:
    """Limits of the policy on a region's weights, and the measurements of the region."""

    region_id: str
    before: Mapping[str, int]
    """Units of every worker of the policy before the plan; their sum is ALL_UNITS."""
    state: Mapping[str, str]
    """State of every worker: alive, dead or unmeasured."""
    must_be_weighed: bool
    """Whether there is a measurement or a weight to start from."""
    min_units: int = 0
    max_change: int = ALL_UNITS


def weight_violations(
    regions: Sequence[RegionRules], rows: Sequence[WorkerWeight], *, is_unchanged: bool = False
) -> list[Violation]:
    """Return every rule that the rows of plans.weights break.

    ``is_unchanged``: the status of the plan is "unchanged".
    """
    twice = [key for key, n in Counter((r.region_id, r.worker_id) for r in rows).items() if n > 1]
    if twice:
        return [Violation("weights.exactly_once", f"more than once: {twice[:3]}")]
    known = {rules.region_id for rules in regions}
    unknown = sorted({str(row.region_id) for row in rows} - known)
    if unknown:
        return [Violation("weights.regions", f"the policy has no region {', '.join(unknown)}")]
    return [
        violation
        for rules in regions
        for violation in _of_region(
            rules, [r for r in rows if r.region_id == rules.region_id], is_unchanged
        )
    ]


def _of_region(
    rules: RegionRules, rows: Sequence[WorkerWeight], is_unchanged: bool
) -> Iterator[Violation]:
    name = f"region {rules.region_id}"
    if not rows:
        if rules.must_be_weighed:
            yield Violation("weights.complete", f"{name} has no weights")
        return
    by_worker = {row.worker_id: row for row in rows}
    unknown = sorted(by_worker.keys() - rules.before.keys())
    missing = sorted(rules.before.keys() - by_worker.keys())
    if unknown or missing:
        message = f"{name}: unknown workers {unknown[:3]}, workers without a weight {missing[:3]}"
        yield Violation("weights.workers", message)
        return
    total = sum(row.weight for row in rows)
    if total != ALL_UNITS or any(row.weight < 0 for row in rows):
        message = f"{name}: the weights have the sum {total}, allowed: units >= 0, sum {ALL_UNITS}"
        yield Violation("weights.sum", message)
    for worker, row in by_worker.items():
        yield from _of_worker(rules, f"{worker} of {name}", worker, row)
    moved = [worker for worker, row in by_worker.items() if row.weight != rules.before[worker]]
    if is_unchanged and moved:
        yield Violation("status", f"says unchanged, but weights of {name} change: {moved[:3]}")


def _of_worker(
    rules: RegionRules, name: str, worker: str, row: WorkerWeight
) -> Iterator[Violation]:
    before, state, weight = rules.before[worker], rules.state[worker], row.weight
    if (row.previous_weight, row.state) != (before, state):
        promised = f"{row.previous_weight} units and {row.state}"
        yield Violation(
            "weights.before", f"{name}: promised {promised}, is {before} units and {state}"
        )
    rate = row.records_per_s
    if rate is not None and not (math.isfinite(rate) and rate > 0):
        yield Violation(
            "weights.rate", f"{name} has the rate {rate!r}, allowed: records a second > 0"
        )
    if state == "dead":
        if weight:
            yield Violation("weights.dead", f"{name} is dead, but gets {weight} units")
        return
    if weight < min(before, rules.min_units):
        least = rules.min_units
        yield Violation("weights.floor", f"{name} gets {weight} units, least {least}")
    if _dead_workers_had_units(rules):
        # The weights of dead workers go to the others without a limit on the change.
        return
    if abs(weight - before) > rules.max_change:
        message = f"{name} goes from {before} to {weight} units, allowed {rules.max_change}"
        yield Violation("weights.change", message)
    if state == "unmeasured" and not before <= weight <= max(before, rules.min_units):
        message = f"{name} was not measured, but goes from {before} to {weight} units"
        yield Violation("weights.unmeasured", message)


def _dead_workers_had_units(rules: RegionRules) -> bool:
    return any(rules.before[worker] for worker, state in rules.state.items() if state == "dead")
