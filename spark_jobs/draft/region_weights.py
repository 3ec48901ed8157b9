"""Weights of ordered regions in a round: what was measured, what a plan makes of it. Pure.

A region that says nothing stops nobody: it keeps the weights it has, and the report names it
(docs/adr/0050).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np

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
from spark_jobs.draft.problem import Row

MOST_NAMED = 6
UNKNOWN: Row = {"state": DEAD, "weight": 0, "sent": 0, "done": 0, "blocked_ms": 0.0, "busy_ms": 0.0}
"""Stands for a row that is not there: nothing of it is used."""


@dataclass(frozen=True)
class RegionGiven:
    """A region as the snapshot has it."""

    policy: RegionPolicy
    window_s: float
    windows: Mapping[datetime, Mapping[str, Row]]
    """Rows of snapshots.connections by end of window, oldest first, and by worker."""
    planned: Mapping[str, int]
    """Weights of the plan in force, if it weighs these workers; else empty."""

    @property
    def workers(self) -> tuple[str, ...]:
        return self.policy.worker_ids

    @cached_property
    def complete(self) -> list[Mapping[str, Row]]:
        """Windows in which every worker has a row and the weights add up."""
        return [
            rows
            for rows in self.windows.values()
            if len(rows) == len(self.workers) and sum(r["weight"] for r in rows.values()) == UNITS
        ]

    @cached_property
    def used(self) -> list[Mapping[str, Row]]:
        """Windows that the method can learn from: blocking rates need the weights of all."""
        return self.complete if self.policy.method == BLOCKING else list(self.windows.values())

    @cached_property
    def before(self) -> Mapping[str, int]:
        """Weights that a plan starts from: the plan's in force, those last seen, or even ones."""
        if self.planned:
            return self.planned
        if self.complete:
            return {worker: self.complete[-1][worker]["weight"] for worker in self.workers}
        return even_units(self.workers)

    @cached_property
    def state(self) -> Mapping[str, str]:
        """What is known of each worker; its newest row says whether it lives."""
        newest = {w: row for rows in self.windows.values() for w, row in rows.items()}
        dead = {w: DEAD for w, row in newest.items() if row["state"] == DEAD}
        alive = {w: ALIVE for rows in self.used for w, row in rows.items() if self._tells(row)}
        return {**dict.fromkeys(self.workers, UNMEASURED), **alive, **dead}

    @property
    def is_silent(self) -> bool:
        """Whether nothing was heard of it in the period."""
        return not self.windows

    @property
    def is_lost(self) -> bool:
        """Whether no worker lives that could get anything."""
        return all(state == DEAD for state in self.state.values())

    @property
    def dead_had_some(self) -> bool:
        """Whether a dead worker has weight that must go elsewhere."""
        return any(self.before[w] for w, state in self.state.items() if state == DEAD)

    @property
    def rules(self) -> RegionRules:
        """What a plan is verified by."""
        return RegionRules(
            self.policy.id,
            self.before,
            self.state,
            must_be_weighed=not self.is_lost and (bool(self.planned) or not self.is_silent),
            min_units=self.policy.min_units,
            max_change=self.policy.max_change_units,
        )

    def _tells(self, row: Row) -> bool:
        """Whether a row says something of its worker, by the region's method."""
        if row["state"] == DEAD:
            return False
        if self.policy.method == BLOCKING:
            return bool(row["weight"] and (row["sent"] or row["blocked_ms"]))
        return bool(row["busy_ms"] > 0)

    def figures(self, column: str) -> FloatArray:
        """[windows, workers] of a column; NaN where a row says nothing of its worker."""
        rows_of_windows = np.array(
            [
                [
                    row[column] if self._tells(row := rows.get(worker, UNKNOWN)) else math.nan
                    for worker in self.workers
                ]
                for rows in self.used
            ]
        )
        return rows_of_windows.reshape(len(self.used), len(self.workers))


@dataclass(frozen=True)
class Weighed:
    """What a plan does with a region."""

    given: RegionGiven
    units: Mapping[str, int]
    """Empty: the plan says nothing, and the region keeps what it has."""
    words: str
    is_change: bool = False
    rates: Mapping[str, float] | None = None
    """Records a second of the workers whose rate is known (method service)."""
    blocked_pct: Mapping[str, float] | None = None
    """Percent of the time that workers are expected to block at these weights (blocking)."""


def regions_of(
    regions: Sequence[RegionPolicy],
    window_s: float,
    connections: Iterable[Row],
    in_force: Iterable[Row],
) -> list[RegionGiven]:
    """The policy's regions with the rows of snapshots.connections and plans.weights of each.

    Workers that the policy does not have are left out: a rollback stands on a snapshot of earlier
    days, and on the policy of today.
    """
    known = {(region.id, worker) for region in regions for worker in region.worker_ids}
    by_region: dict[str, dict[datetime, dict[str, Row]]] = {}
    for row in sorted(connections, key=lambda row: row["window_end_at"]):
        if (row["region_id"], row["worker_id"]) not in known:
            continue
        windows = by_region.setdefault(row["region_id"], {})
        windows.setdefault(row["window_end_at"], {})[row["worker_id"]] = row
    plan = weighted(in_force)
    found = []
    for region in regions:
        planned = weights_of(plan, region.id)
        is_same = planned.keys() == set(region.worker_ids)
        windows = by_region.get(region.id, {})
        found.append(RegionGiven(region, window_s, windows, planned if is_same else {}))
    return found


def weigh(given: RegionGiven) -> Weighed:
    """The weights that a plan gives a region, or those it has where others are not worth it."""
    name = f"region {given.policy.id}"
    if given.is_lost:
        # No weights could be right, and the plan for the rest of the job must not fail by them.
        return Weighed(given, {}, f"{name} has no weights, because no worker of it lives")
    if given.is_silent:
        why = "nothing was heard of it in the period"
        return Weighed(given, given.planned, f"{name}: the weights stay as they are, because {why}")
    found = _by_blocking(given) if given.policy.method == BLOCKING else _by_service(given)
    let_in = [
        w
        for w, units in found.units.items()
        if given.before[w] < units and given.before[w] < given.policy.min_units
    ]
    is_worth_it = found.gain_pct >= given.policy.min_gain_pct and found.units != given.before
    if given.dead_had_some or let_in or is_worth_it:
        words = f"{name}: {found.words}; {_changes(given, found.units)}"
        return Weighed(given, found.units, words, True, found.rates, found.blocked_pct)
    words = (
        f"{name}: the weights stay, because {found.words}, and that is less than min_gain_pct "
        f"({given.policy.min_gain_pct:g})"
    )
    silent = [w for w, state in given.state.items() if state == UNMEASURED]
    if silent:
        words += f"; not measured: {_some(silent)}"
    return Weighed(given, given.before, words, False, found.rates, found.blocked_at_before)


def weight_rows(weighed: Sequence[Weighed], job: str, plan_id: str) -> list[Row]:
    """The rows of plans.weights."""
    return [
        {
            "job": job,
            "plan_id": plan_id,
            "region_id": region.given.policy.id,
            "worker_id": worker,
            "weight": units,
            "previous_weight": region.given.before[worker],
            "state": region.given.state[worker],
            "records_per_s": (region.rates or {}).get(worker),
            "blocked_pct": (region.blocked_pct or {}).get(worker),
            "reason": _why(region, worker),
        }
        for region in weighed
        for worker, units in region.units.items()
    ]


def in_words(weighed: Sequence[Weighed]) -> str | None:
    """What becomes of all regions; None where there are none."""
    return "; ".join(region.words for region in weighed) or None


def as_it_was(given: RegionGiven, units: Mapping[str, int], why: str) -> Weighed:
    """Weights that a person chose, with what is known today of the workers."""
    words = f"region {given.policy.id}: {why}"
    if given.is_silent or given.is_lost or given.policy.method == BLOCKING:
        return Weighed(given, units, words, True)
    return Weighed(given, units, words, True, _by_service(given).rates)


def capacity(weights: Mapping[str, int], rates: Mapping[str, float]) -> float | None:
    """Records a second that a region can take: the worker that is full first bounds them."""
    bounds = [rates[w] * UNITS / units for w, units in weights.items() if units and w in rates]
    return min(bounds, default=None)


@dataclass(frozen=True)
class _Found:
    units: Mapping[str, int]
    gain_pct: float
    words: str
    rates: Mapping[str, float] | None = None
    blocked_pct: Mapping[str, float] | None = None
    blocked_at_before: Mapping[str, float] | None = None


def _by_service(given: RegionGiven) -> _Found:
    policy = given.policy
    found = weights_from_service(
        ServiceHistory(
            given.workers,
            _array(given, given.before),
            np.nan_to_num(given.figures("done")),
            given.figures("busy_ms") / 1000,
            _alive(given),
        ),
        # A unit to find out costs a whole round here, not a second: min_units is for that.
        ServiceParams(
            probe_rounds=0, min_units=policy.min_units, max_change=policy.max_change_units
        ),
    )
    units = dict(zip(given.workers, found.units.tolist(), strict=True))
    known = zip(given.workers, found.rates.tolist(), strict=True)
    rates = {worker: rate for worker, rate in known if math.isfinite(rate)}
    was, will_be = capacity(given.before, rates), capacity(units, rates)
    if was is None or will_be is None:
        return _Found(units, 0.0, "no worker of it was measured", rates)
    gain = 100 * (will_be / was - 1)
    words = f"with the best weights it can take {will_be:.6g} records/s ({gain:+.1f} %)"
    return _Found(units, gain, words, rates)


def _by_blocking(given: RegionGiven) -> _Found:
    policy = given.policy
    weights = [[rows[w]["weight"] for w in given.workers] for rows in given.used]
    blocked = given.figures("blocked_ms") / (1000 * given.window_s)
    # The last row is the present: nothing was measured at the weights that are now in force.
    history = BlockingHistory(
        given.workers,
        np.array([*weights, _array(given, given.before)]),
        np.vstack([blocked, np.full(len(given.workers), math.nan)]),
        _alive(given),
    )
    found = weights_from(
        history, BlockingParams(min_units=policy.min_units, max_change=policy.max_change_units)
    )
    units = dict(zip(given.workers, found.units.tolist(), strict=True))
    now, then = (_expected(given, found.functions, w) for w in (units, given.before))
    most_now, most_then = max(now.values()), max(then.values())
    words = (
        f"with the best weights the connection that blocks most does so for {most_now:.2f} % of "
        f"the time instead of {most_then:.2f} %"
    )
    if not given.used:
        words = "no window has the weights of all its workers"
    return _Found(units, most_then - most_now, words, None, now, then)


def _expected(
    given: RegionGiven, functions: FloatArray, units: Mapping[str, int]
) -> dict[str, float]:
    return {w: 100.0 * float(functions[j, units[w]]) for j, w in enumerate(given.workers)}


def _array(given: RegionGiven, units: Mapping[str, int]) -> IntArray:
    return np.array([units[worker] for worker in given.workers], dtype=np.int64)


def _alive(given: RegionGiven) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array([given.state[worker] != DEAD for worker in given.workers])


def _changes(given: RegionGiven, units: Mapping[str, int]) -> str:
    """Whose weight changes, largest change first, and who is dead or was not measured."""
    moved = sorted(
        (w for w in units if units[w] != given.before[w]),
        key=lambda w: (-abs(units[w] - given.before[w]), w),
    )
    parts = [_some([f"{w} from {given.before[w]} to {units[w]}" for w in moved])]
    for word, state in (("dead", DEAD), ("not measured", UNMEASURED)):
        names = [w for w, of in given.state.items() if of == state]
        if names:
            parts.append(f"{word}: {_some(names)}")
    return "; ".join(part for part in parts if part)


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _why(region: Weighed, worker: str) -> str:
    given = region.given
    if given.is_silent:
        return "nothing was heard of the region, so it keeps its weight"
    if given.state[worker] == DEAD:
        return "is dead, so it gets nothing"
    if given.state[worker] == UNMEASURED:
        return "was not measured, so it keeps its weight"
    if region.rates is not None and worker in region.rates:
        share = 100 * region.rates[worker] / sum(region.rates.values())
        return f"does {region.rates[worker]:.6g} records/s, {share:.1f} % of what all do"
    if region.blocked_pct is not None:
        return f"is expected to block for {region.blocked_pct[worker]:.2f} % of the time"
    return "was measured"
