"""Plan the weights of ordered regions from the connections of a snapshot. Pure.

A region that reported nothing keeps its weights, and the report names it. It does not stop the
plan of the rest of the job (ADR 50).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np

from ballast.contracts.records import ConnectionWindow, WorkerWeight
from ballast.contracts.regions import (
    ALIVE,
    BLOCKING,
    DEAD,
    UNITS,
    UNMEASURED,
    RegionPolicy,
    even_units,
    weighted,
    weights_of,
)
from solvers.model.problem import FloatArray, IntArray
from solvers.verify.weights import RegionRules
from solvers.weights import (
    BlockingHistory,
    BlockingParams,
    ServiceHistory,
    ServiceParams,
    weights_from,
    weights_from_service,
)

MOST_NAMED = 6
Window = Mapping[str, ConnectionWindow]
"""The connections of one window by worker."""


@dataclass(frozen=True)
class RegionStatistics:
    """What a snapshot has of an ordered region."""

    policy: RegionPolicy
    window_s: float
    windows: Mapping[datetime, Window]
    """Windows by their end, oldest first."""
    planned: Mapping[str, int]
    """Weights of the plan in force; empty if it has no weights for these workers."""

    @property
    def workers(self) -> tuple[str, ...]:
        """Names of the workers, in the order of all arrays."""
        return self.policy.worker_ids

    @cached_property
    def complete(self) -> list[Window]:
        """Windows in which every worker has a row and the weights add up."""
        return [
            rows
            for rows in self.windows.values()
            if len(rows) == len(self.workers) and sum(r.weight for r in rows.values()) == UNITS
        ]

    @cached_property
    def used(self) -> list[Window]:
        """Windows that the method uses. Blocking rates need the weights of all workers."""
        return self.complete if self.policy.method == BLOCKING else list(self.windows.values())

    @cached_property
    def before(self) -> Mapping[str, int]:
        """Weights before the plan: of the plan in force, those last measured, or even ones."""
        if self.planned:
            return self.planned
        if self.complete:
            return {worker: self.complete[-1][worker].weight for worker in self.workers}
        return even_units(self.workers)

    @cached_property
    def state(self) -> Mapping[str, str]:
        """State of each worker: dead by its newest row, alive if measured, or unmeasured."""
        newest = {w: row for rows in self.windows.values() for w, row in rows.items()}
        dead = {w: DEAD for w, row in newest.items() if row.state == DEAD}
        alive = {
            w: ALIVE for rows in self.used for w, row in rows.items() if self._is_measured(row)
        }
        return {**dict.fromkeys(self.workers, UNMEASURED), **alive, **dead}

    @property
    def is_silent(self) -> bool:
        """Whether the period has no row of the region."""
        return not self.windows

    @property
    def all_workers_dead(self) -> bool:
        """Whether every worker is dead."""
        return all(state == DEAD for state in self.state.values())

    @property
    def has_weight_on_dead_worker(self) -> bool:
        """Whether a dead worker has a weight, which other workers must get."""
        return any(self.before[w] for w, state in self.state.items() if state == DEAD)

    @property
    def rules(self) -> RegionRules:
        """The rules that the verifier checks a plan with."""
        return RegionRules(
            self.policy.id,
            self.before,
            self.state,
            must_be_weighed=not self.all_workers_dead
            and (bool(self.planned) or not self.is_silent),
            min_units=self.policy.min_units,
            max_change=self.policy.max_change_units,
        )

    def _is_measured(self, row: ConnectionWindow) -> bool:
        """Whether the region's method can use a row."""
        if row.state == DEAD:
            return False
        if self.policy.method == BLOCKING:
            return bool(row.weight and (row.sent or row.blocked_ms))
        return bool(row.busy_ms > 0)

    def figures(self, column: str) -> FloatArray:
        """[windows, workers] of a column; NaN if the method cannot use a row."""
        values = np.full((len(self.used), len(self.workers)), math.nan)
        for i, rows in enumerate(self.used):
            for j, worker in enumerate(self.workers):
                row = rows.get(worker)
                if row is not None and self._is_measured(row):
                    values[i, j] = getattr(row, column)
        return values


@dataclass(frozen=True)
class RegionPlan:
    """The weights that a plan gives a region."""

    region: RegionStatistics
    units: Mapping[str, int]
    """Units of each worker; empty if the plan has no weights for the region."""
    reason: str
    is_change: bool = False
    rates: Mapping[str, float] | None = None
    """Records a second of the workers with a known rate (method ``service``)."""
    blocked_pct: Mapping[str, float] | None = None
    """Percent of the time that workers are expected to block (method ``blocking``)."""


def regions_of(
    regions: Sequence[RegionPolicy],
    window_s: float,
    connections: Iterable[ConnectionWindow],
    in_force: Iterable[WorkerWeight],
) -> list[RegionStatistics]:
    """The statistics of each region of the policy.

    Rows of workers that the policy does not have are left out: a rollback uses an older snapshot
    with the policy of today.

    Args:
        regions: the regions of the policy.
        window_s: seconds of a window.
        connections: rows of snapshots.connections.
        in_force: weights of the plan in force.
    """
    known = {(region.id, worker) for region in regions for worker in region.worker_ids}
    by_region: dict[str, dict[datetime, dict[str, ConnectionWindow]]] = {}
    for row in sorted(connections, key=lambda row: row.window_end_at):
        if (row.region_id, row.worker_id) not in known:
            continue
        windows = by_region.setdefault(row.region_id, {})
        windows.setdefault(row.window_end_at, {})[row.worker_id] = row
    weights = weighted(in_force)
    found = []
    for policy in regions:
        planned = weights_of(weights, policy.id)
        is_same = planned.keys() == set(policy.worker_ids)
        windows = by_region.get(policy.id, {})
        found.append(RegionStatistics(policy, window_s, windows, planned if is_same else {}))
    return found


def plan_region(region: RegionStatistics) -> RegionPlan:
    """Plan the weights of a region. Weights that gain too little stay as they are."""
    name = f"region {region.policy.id}"
    if region.all_workers_dead:
        # The plan for the rest of the job must not fail because of this region.
        return RegionPlan(
            region, {}, f"{name} has no weights, because none of its workers is alive"
        )
    if region.is_silent:
        why = "the period has no measurement of it"
        return RegionPlan(
            region, region.planned, f"{name}: the weights stay as they are, because {why}"
        )
    found = _by_blocking(region) if region.policy.method == BLOCKING else _by_service(region)
    let_in = [
        w
        for w, units in found.units.items()
        if region.before[w] < units and region.before[w] < region.policy.min_units
    ]
    is_worth_it = found.gain_pct >= region.policy.min_gain_pct and found.units != region.before
    if region.has_weight_on_dead_worker or let_in or is_worth_it:
        reason = f"{name}: {found.reason}; {_changes(region, found.units)}"
        return RegionPlan(region, found.units, reason, True, found.rates, found.blocked_pct)
    reason = (
        f"{name}: the weights stay, because {found.reason}, and that is less than min_gain_pct "
        f"({region.policy.min_gain_pct:g})"
    )
    silent = [w for w, state in region.state.items() if state == UNMEASURED]
    if silent:
        reason += f"; not measured: {_some(silent)}"
    return RegionPlan(region, region.before, reason, False, found.rates, found.blocked_at_before)


def weight_rows(plans: Sequence[RegionPlan], job: str, plan_id: str) -> list[WorkerWeight]:
    """The rows of plans.weights."""
    return [
        WorkerWeight(
            job=job,
            plan_id=plan_id,
            region_id=plan.region.policy.id,
            worker_id=worker,
            weight=units,
            previous_weight=plan.region.before[worker],
            state=plan.region.state[worker],
            records_per_s=(plan.rates or {}).get(worker),
            blocked_pct=(plan.blocked_pct or {}).get(worker),
            reason=_worker_reason(plan, worker),
        )
        for plan in plans
        for worker, units in plan.units.items()
    ]


def reason_of_regions(plans: Sequence[RegionPlan]) -> str | None:
    """Why each region gets its weights; None without regions."""
    return "; ".join(plan.reason for plan in plans) or None


def restored_region(region: RegionStatistics, units: Mapping[str, int], why: str) -> RegionPlan:
    """Weights that a person chose, with today's rates of the workers."""
    reason = f"region {region.policy.id}: {why}"
    if region.is_silent or region.all_workers_dead or region.policy.method == BLOCKING:
        return RegionPlan(region, units, reason, True)
    return RegionPlan(region, units, reason, True, _by_service(region).rates)


def capacity(weights: Mapping[str, int], rates: Mapping[str, float]) -> float | None:
    """Records a second that a region can process, bounded by the worker that is full first."""
    bounds = [rates[w] * UNITS / units for w, units in weights.items() if units and w in rates]
    return min(bounds, default=None)


@dataclass(frozen=True)
class _ProposedWeights:
    units: Mapping[str, int]
    gain_pct: float
    reason: str
    rates: Mapping[str, float] | None = None
    blocked_pct: Mapping[str, float] | None = None
    blocked_at_before: Mapping[str, float] | None = None


def _by_service(region: RegionStatistics) -> _ProposedWeights:
    policy = region.policy
    found = weights_from_service(
        ServiceHistory(
            region.workers,
            _array(region, region.before),
            np.nan_to_num(region.figures("done")),
            region.figures("busy_ms") / 1000,
            _alive(region),
        ),
        # No probing: a probe would last a whole round here, not a second. min_units replaces it.
        ServiceParams(
            probe_rounds=0, min_units=policy.min_units, max_change=policy.max_change_units
        ),
    )
    units = dict(zip(region.workers, found.units.tolist(), strict=True))
    known = zip(region.workers, found.rates.tolist(), strict=True)
    rates = {worker: rate for worker, rate in known if math.isfinite(rate)}
    was, will_be = capacity(region.before, rates), capacity(units, rates)
    if was is None or will_be is None:
        return _ProposedWeights(units, 0.0, "no worker of it was measured", rates)
    gain = 100 * (will_be / was - 1)
    reason = f"with the best weights it can take {will_be:.6g} records/s ({gain:+.1f} %)"
    return _ProposedWeights(units, gain, reason, rates)


def _by_blocking(region: RegionStatistics) -> _ProposedWeights:
    policy = region.policy
    weights = [[rows[w].weight for w in region.workers] for rows in region.used]
    blocked = region.figures("blocked_ms") / (1000 * region.window_s)
    # The last row is the present: nothing was measured yet at the weights in force.
    history = BlockingHistory(
        region.workers,
        np.array([*weights, _array(region, region.before)]),
        np.vstack([blocked, np.full(len(region.workers), math.nan)]),
        _alive(region),
    )
    found = weights_from(
        history, BlockingParams(min_units=policy.min_units, max_change=policy.max_change_units)
    )
    units = dict(zip(region.workers, found.units.tolist(), strict=True))
    now, then = (_expected(region, found.functions, w) for w in (units, region.before))
    most_now, most_then = max(now.values()), max(then.values())
    reason = (
        f"with the best weights the connection that blocks most does so for {most_now:.2f} % of "
        f"the time instead of {most_then:.2f} %"
    )
    if not region.used:
        reason = "no window has the weights of all its workers"
    return _ProposedWeights(units, most_then - most_now, reason, None, now, then)


def _expected(
    region: RegionStatistics, functions: FloatArray, units: Mapping[str, int]
) -> dict[str, float]:
    return {w: 100.0 * float(functions[j, units[w]]) for j, w in enumerate(region.workers)}


def _array(region: RegionStatistics, units: Mapping[str, int]) -> IntArray:
    return np.array([units[worker] for worker in region.workers], dtype=np.int64)


def _alive(region: RegionStatistics) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array([region.state[worker] != DEAD for worker in region.workers])


def _changes(region: RegionStatistics, units: Mapping[str, int]) -> str:
    """Changes of weights, the largest first, and workers that are dead or were not measured."""
    moved = sorted(
        (w for w in units if units[w] != region.before[w]),
        key=lambda w: (-abs(units[w] - region.before[w]), w),
    )
    parts = [_some([f"{w} from {region.before[w]} to {units[w]}" for w in moved])]
    for word, state in (("dead", DEAD), ("not measured", UNMEASURED)):
        names = [w for w, of in region.state.items() if of == state]
        if names:
            parts.append(f"{word}: {_some(names)}")
    return "; ".join(part for part in parts if part)


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _worker_reason(plan: RegionPlan, worker: str) -> str:
    region = plan.region
    if region.is_silent:
        return "the region was not measured, so it keeps its weight"
    if region.state[worker] == DEAD:
        return "is dead, so it gets nothing"
    if region.state[worker] == UNMEASURED:
        return "was not measured, so it keeps its weight"
    if plan.rates is not None and worker in plan.rates:
        share = 100 * plan.rates[worker] / sum(plan.rates.values())
        return f"does {plan.rates[worker]:.6g} records/s, {share:.1f} % of what all do"
    if plan.blocked_pct is not None:
        return f"is expected to block for {plan.blocked_pct[worker]:.2f} % of the time"
    return "was measured"
