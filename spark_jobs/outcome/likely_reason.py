"""The most likely reason why the promises of a job do not hold: one sentence with figures. Pure.

Three reasons are looked for, in the loads of the newest plan's snapshot and those measured since:
a node that is slower than its capacity, a load that has shifted between key groups, and windows
that vary more or less than was estimated. The first two must explain at least half of the distance
by which the promise was missed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ballast.contracts.records import Outcome
from solvers.model.problem import FloatArray, IntArray

SLOW_NODE, LOAD_SHIFTED, NOISE, UNKNOWN = "slow_node", "load_shifted", "noise", "unknown"
KEYS = ["operator_id", "key_group"]
FIGURES = ("cpu_load_cores", "records_per_s", "cpu_window_sd_cores", "cpu_mean_error_cores")
EXPLAINED = 0.5
"""Part of the missed distance that a reason must explain."""
SURE = 4.0
"""Standard deviations above what noise alone would be."""
SLOWER = 1.15
"""Least CPU time per record of a slow node, in multiples of that of the other nodes."""
SHIFTED = 1.5
"""Least shift of the load, in multiples of the shift that noise alone would show."""
NOISIER = 2.0
"""Least ratio of the variances of two periods that is not put down to chance."""
MEAN_ABSOLUTE = math.sqrt(2.0 / math.pi)
"""Mean of the absolute value of a standard normal variable."""


@dataclass(frozen=True)
class LikelyReason:
    """The most likely reason of a missed promise."""

    kind: str
    text: str
    """What was found, and what to do; part of a sentence."""


@dataclass(frozen=True)
class _Finding:
    """A possible reason, and how much of a load distance it explains, in percent of the mean."""

    reason: LikelyReason
    explained_pct: float


@dataclass(frozen=True, eq=False)
class _ComparedLoads:
    """CPU loads of the key groups that both periods have, [G] each; NaN where unknown."""

    node_ids: Sequence[str]
    node: IntArray
    """Index of the node that each key group is on now."""
    before: FloatArray
    after: FloatArray
    expected: FloatArray
    """Load at the cost of a record before and the rate of records now."""
    sd_before: FloatArray
    sd_after: FloatArray
    error_before: FloatArray
    error_after: FloatArray

    @property
    def has_noise(self) -> bool:
        """Whether the noise of both periods is known."""
        known = (self.sd_before, self.sd_after, self.error_before, self.error_after)
        return bool(len(self.before)) and all(np.isfinite(values).all() for values in known)

    def by_node(self, values: FloatArray) -> FloatArray:
        """Sums over the key groups of each node, [N]."""
        sums = np.bincount(self.node, weights=values, minlength=len(self.node_ids))
        return np.asarray(sums, dtype=np.float64)


def likely_reason(missed: Outcome, before: pa.Table, after: pa.Table) -> LikelyReason:
    """The most likely reason of a missed promise.

    Args:
        missed: the load distance that was outside of its interval.
        before: rows of snapshots.key_groups of the plan's snapshot.
        after: the same columns, measured since the plan was applied.
    """
    loads = _compared(before, after)
    if loads.before.sum() <= 0 or loads.after.sum() <= 0:
        return LikelyReason(UNKNOWN, "unknown, because there was no load in one of the two periods")
    if not loads.has_noise:
        return LikelyReason(
            UNKNOWN, "unknown, because the noise of the loads is not known in both periods"
        )
    slow, cleaned = _slow_node(loads)
    shift = _shift(loads, cleaned)
    least = EXPLAINED * _missed_pct(missed)
    found = [each for each in (slow, shift) if each is not None and each.explained_pct >= least]
    if found:
        return max(found, key=lambda each: each.explained_pct).reason
    return _noise(loads) or LikelyReason(UNKNOWN, _unknown_text(loads, missed))


def _missed_pct(missed: Outcome) -> float:
    """How far outside of its interval the figure was measured."""
    if missed.low is None or missed.high is None:
        return 0.0
    return max(missed.measured - missed.high, missed.low - missed.measured, 0.0)


def _slow_node(loads: _ComparedLoads) -> tuple[_Finding | None, FloatArray]:
    """The slowest node if it is too slow, and the loads now without what its slowness adds."""
    actual, expected = loads.by_node(loads.after), loads.by_node(loads.expected)
    others = (actual.sum() - actual) / np.maximum(expected.sum() - expected, 1e-300)
    if len(actual) < 2 or not (expected > 0).any():
        return None, loads.after
    factor = np.divide(actual, expected, out=np.ones_like(actual), where=expected > 0)
    excess = actual - others * expected
    error = np.sqrt(loads.by_node(loads.error_after**2 + loads.error_before**2))
    worst = int(np.argmax(excess))
    is_slow = factor[worst] >= SLOWER and factor[worst] >= SLOWER * others[worst]
    if not is_slow or excess[worst] <= SURE * error[worst]:
        return None, loads.after
    cleaned = loads.after.copy()
    cleaned[loads.node == worst] *= others[worst] / factor[worst]
    name = loads.node_ids[worst]
    text = (
        f"node {name} is slower than its capacity says: a record takes {factor[worst]:.2f} times "
        f"as much CPU time there as in the plan's snapshot, on the other nodes {others[worst]:.2f} "
        f"times; look at its machine, or lower capacity.cpu_cores of {name} in the policy"
    )
    explained = 100.0 * float(excess[worst]) / float(actual.mean())
    return _Finding(LikelyReason(SLOW_NODE, text), explained), cleaned


def _shift(loads: _ComparedLoads, after: FloatArray) -> _Finding | None:
    """A shift of load between key groups that is more than noise."""
    total_before, total_after = loads.before.sum(), after.sum()
    change = after / total_after - loads.before / total_before
    error = np.hypot(loads.error_before / total_before, loads.error_after / total_after)
    shifted = 0.5 * float(np.abs(change).sum())
    by_chance = 0.5 * MEAN_ABSOLUTE * float(error.sum())
    spread = 0.5 * math.sqrt((1.0 - MEAN_ABSOLUTE**2) * float((error**2).sum()))
    if shifted <= SHIFTED * by_chance + SURE * spread:
        return None
    of_node = loads.by_node(change)
    most = int(np.argmax(np.abs(of_node)))
    explained = 100.0 * float(abs(of_node[most])) * len(of_node)
    text = (
        f"the load has shifted since the plan was made: {100 * shifted:.1f} % of it is on other "
        f"key groups than in the plan's snapshot (noise alone would show {100 * by_chance:.1f} %), "
        f"which changes the load of {loads.node_ids[most]} by "
        f"{100.0 * of_node[most] * len(of_node):+.1f} % of the mean; resume planning, the next "
        "plan uses the load of today"
    )
    return _Finding(LikelyReason(LOAD_SHIFTED, text), explained)


def _noise(loads: _ComparedLoads) -> LikelyReason | None:
    """Windows that vary much more, or much less, than in the snapshot."""
    ratio = _variance_ratio(loads)
    if 1.0 / NOISIER < ratio < NOISIER:
        return None
    sd_before = 100.0 * float(loads.sd_before.sum() / loads.before.sum())
    sd_after = 100.0 * float(loads.sd_after.sum() / loads.after.sum())
    what = "noisier" if ratio >= NOISIER else "steadier"
    text = (
        f"the measurement is {what} than estimated: from window to window the load of a key group "
        f"varies by {sd_after:.1f} % (by {sd_before:.1f} % in the plan's snapshot); "
    )
    advice = (
        "raise statistics_period_s in the policy, or resume planning when the load is steady again"
        if ratio >= NOISIER
        else "resume planning, the next plan uses the noise of today"
    )
    return LikelyReason(NOISE, text + advice)


def _variance_ratio(loads: _ComparedLoads) -> float:
    """Median over key groups of the variance now over the variance then, at the same total load."""
    varies = (loads.sd_before > 0) | (loads.sd_after > 0)
    if not varies.any():
        return 1.0
    level = loads.before.sum() / loads.after.sum()
    with np.errstate(divide="ignore"):
        return float(np.median((level * loads.sd_after[varies] / loads.sd_before[varies]) ** 2))


def _unknown_text(loads: _ComparedLoads, missed: Outcome) -> str:
    return (
        f"unknown: no node is slow, the load has not shifted by enough to explain "
        f"{_missed_pct(missed):.1f} points, and the variance from window to window is "
        f"{_variance_ratio(loads):.2f} times that of the plan's snapshot; compare the figures in "
        "plans.outcomes, then resume planning"
    )


def _compared(before: pa.Table, after: pa.Table) -> _ComparedLoads:
    joined = _figures(before).join(
        _figures(after, "node_id"), keys=KEYS, join_type="inner", right_suffix="_after"
    )
    nodes = joined["node_id"].combine_chunks().dictionary_encode()
    columns = {
        name: joined[name].to_numpy().astype(np.float64)
        for figure in FIGURES
        for name in (figure, f"{figure}_after")
    }
    cpu, cpu_after = columns["cpu_load_cores"], columns["cpu_load_cores_after"]
    records, records_after = columns["records_per_s"], columns["records_per_s_after"]
    # A key group without records or CPU in one of the periods says nothing about its node.
    comparable = (records > 0) & (records_after > 0) & (cpu > 0)
    rate = np.divide(records_after, records, out=np.zeros_like(records), where=comparable)
    return _ComparedLoads(
        node_ids=nodes.dictionary.to_pylist(),
        node=nodes.indices.to_numpy().astype(np.int64),
        before=cpu,
        after=cpu_after,
        expected=np.where(comparable, cpu * rate, cpu_after),
        sd_before=columns["cpu_window_sd_cores"],
        sd_after=columns["cpu_window_sd_cores_after"],
        error_before=columns["cpu_mean_error_cores"],
        error_after=columns["cpu_mean_error_cores_after"],
    )


def _figures(rows: pa.Table, *more: str) -> pa.Table:
    """The columns that are compared; those that an earlier version did not write are NULL."""
    columns = {name: rows[name] for name in (*KEYS, *more)}
    for name in FIGURES:
        has = name in rows.column_names
        columns[name] = rows[name] if has else pa.nulls(rows.num_rows, pa.float64())
    return pa.table(columns)
