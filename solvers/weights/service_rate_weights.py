"""Weights of connections by the service rates of their workers, instead of by blocking (ADR 38).

One connection blocks at a time, and late [MW16-REGIONS, 4.2 and 4.4], so blocking rates measure
one connection a period. The service rate is the records that came back over the time in which the
worker had any (DS2, OSDI 2018). It is known for all connections at once, also below their limit.
The allocation is the paper's (5.2): minimise the largest F_j(w_j), here F_j(w) = w / rate_j.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy  # type: ignore[import-untyped]

from ballast.contracts.errors import InvalidInput
from ballast.contracts.regions import UNITS
from solvers.model.problem import BoolArray, FloatArray, IntArray
from solvers.weights.blocking_rate_weights import check_sums
from solvers.weights.minimax_allocation import minimax_allocation
from solvers.weights.weight_bounds import weight_bounds


@dataclass(frozen=True, eq=False)
class ServiceHistory:
    """Records that came back and busy seconds of each connection, oldest round first.

    A round in which a connection was not measured has NaN for its ``busy_s``.
    """

    connection_ids: tuple[str, ...]
    weights: IntArray  # [N] units, in force now
    done: FloatArray  # [T, N]
    busy_s: FloatArray  # [T, N]
    alive: BoolArray
    units: int = UNITS

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.int64)
        done, busy = (np.array(a, dtype=np.float64) for a in (self.done, self.busy_s))
        alive = np.array(self.alive, dtype=bool)
        n = len(self.connection_ids)
        if n == 0 or weights.shape != (n,) or alive.shape != (n,):
            raise InvalidInput(
                f"weights {weights.shape} or alive {alive.shape} do not fit {n} connections",
                allowed="one figure a connection, one connection at least",
            )
        if done.ndim != 2 or done.shape != busy.shape or done.shape[1] != n or len(done) == 0:
            raise InvalidInput(
                f"done {done.shape} and busy_s {busy.shape} do not fit {n} connections",
                allowed="[rounds, connections] both, one round at least",
            )
        if bool((done < 0).any() or (busy < 0).any() or np.isinf(busy).any()):
            raise InvalidInput("done or busy_s is < 0 or infinite", allowed=">= 0; NaN for unknown")
        if not alive.any():
            raise InvalidInput("no connection is alive", remedy="start a worker")
        check_sums(weights[None], self.units)
        arrays = {"weights": weights, "done": done, "busy_s": busy, "alive": alive}
        for name, value in arrays.items():
            value.setflags(write=False)
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True)
class ServiceParams:
    """How the weights follow the service rates.

    A rate has changed if twice the logarithm of the likelihood ratio is above ``change``; 9 is
    three standard deviations. ``enough`` completions give a rate to a few percent; older rounds are
    not used. A connection of weight 0 is probed after it was idle for as long as a probe takes, at
    the latest after ``probe_rounds`` rounds (0: never), and at once if its last records were fast
    enough for a unit. The weights will be in force for ``in_force_rounds`` rounds: one in a local
    loop, many in a plan; a probe lasts as long. ``min_units`` and
    ``max_change`` are as in ``BlockingParams``.
    """

    change: float = 9.0
    enough: float = 400.0
    probe_rounds: int = 10
    in_force_rounds: float = 1.0
    min_units: int = 0
    max_change: int | None = None

    def __post_init__(self) -> None:
        if not (self.change > 0 and self.enough >= 1 and self.probe_rounds >= 0):
            raise InvalidInput(
                f"change {self.change}, enough {self.enough}, probe_rounds {self.probe_rounds}",
                allowed="above 0, 1 or more, 0 or more",
            )
        if not self.in_force_rounds > 0:
            raise InvalidInput(f"in_force_rounds {self.in_force_rounds}", allowed="above 0")
        if self.min_units < 0 or (self.max_change is not None and self.max_change < 1):
            raise InvalidInput("min_units or max_change is too small", allowed=">= 0 and >= 1")


@dataclass(frozen=True, eq=False, slots=True)
class ServiceWeights:
    """New weights in units, the rates behind them (NaN: never measured), and the reason."""

    units: IntArray
    rates: FloatArray
    """Records a second of each connection."""
    probed: BoolArray
    """Connections that get records only to measure their rate."""
    reason: str


def weights_from_service(
    history: ServiceHistory, params: ServiceParams | None = None
) -> ServiceWeights:
    """The weights for the next period, with the largest throughput that whole units allow."""
    params = params or ServiceParams()
    n = len(history.connection_ids)
    rates = np.array(
        [newest_rate(history.done[:, j], history.busy_s[:, j], params) for j in range(n)]
    )
    lowest, highest = weight_bounds(
        history.weights, history.alive, np.isfinite(rates), history.units,
        params.min_units, params.max_change,
    )  # fmt: skip
    units = minimax_allocation(_functions(rates, history.units), lowest, highest, history.units)
    probes = _probes(history, units, rates, params)
    probed = probes > 0
    units = _with_probes(units, probes, rates)
    return ServiceWeights(units, rates, probed, _reason(history, rates, probed, units))


def newest_rate(done: FloatArray, busy_s: FloatArray, params: ServiceParams) -> float:
    """Completions over busy seconds since the rate last changed; NaN if never measured."""
    used = busy_s[::-1] > 0
    counts, seconds = np.cumsum(done[::-1][used]), np.cumsum(busy_s[::-1][used])
    if not len(seconds):
        return math.nan
    n = min(len(counts), 1 + int(np.searchsorted(counts, params.enough)))
    # Cut where newer and older rounds differ most; repeat in the newer part until none differ.
    while n > 1:
        cut = _differs(counts[: n - 1], seconds[: n - 1], counts[n - 1], seconds[n - 1])
        best = int(np.argmax(cut))
        if cut[best] <= params.change:
            break
        n = best + 1
    # If nothing came back yet, the first record takes at least the time so far.
    return max(float(counts[n - 1]), 1.0) / float(seconds[n - 1])


def _differs(newer: FloatArray, newer_s: FloatArray, all_: float, all_s: float) -> FloatArray:
    """Twice the log likelihood ratio of a newer and an older Poisson rate against one for all.

    All older rounds are compared together: a single round has too few records of a slow worker to
    distinguish it from a fast one. One fast record does not make a worker faster: it may have been
    small, or the worker may have started it long before.
    """
    common = all_ / all_s
    ratio = _gain(newer, common * newer_s) + _gain(all_ - newer, common * (all_s - newer_s))
    is_one_fast = (newer < 2) & (newer > common * newer_s)
    return np.where(is_one_fast, 0.0, 2.0 * ratio)


def _gain(seen: FloatArray, expected: FloatArray) -> FloatArray:
    return np.asarray(expected - seen + xlogy(seen, seen) - xlogy(seen, expected))


def _functions(rates: FloatArray, units: int) -> FloatArray:
    """[N, units + 1]: time of a worker for its share of one record of the region."""
    known = np.where(np.isfinite(rates), rates, 1.0)
    return np.arange(units + 1, dtype=np.float64)[None, :] / known[:, None]


def _probes(
    history: ServiceHistory, units: IntArray, rates: FloatArray, params: ServiceParams
) -> IntArray:
    """[N]: units of the probe of each connection of weight 0; 0 if it is not probed.

    A connection is probed if it was idle for long, or if its last records were fast. One fast
    record after many slow ones is no proof, and waiting for another probe would take long; a fast
    worker may get more than one record.
    """
    if params.probe_rounds == 0:
        return np.zeros(len(units), dtype=np.int64)
    is_idle = _idle_rounds(history.busy_s) >= _patience(history, rates, params)
    a_unit = float(np.nansum(np.where(history.alive, rates, 0.0))) / history.units
    is_fast = np.array(
        [
            _recent_rate(history.done[:, j], history.busy_s[:, j]) >= a_unit
            for j in range(len(units))
        ]
    )
    each = _units_of_a_record(history)
    wanted = np.where(is_fast, each + 1, np.where(is_idle, each, 0))
    return np.where(history.alive & (units == 0), wanted, 0)


def _idle_rounds(busy_s: FloatArray) -> IntArray:
    """[N]: number of newest rounds in a row without a record."""
    is_used = busy_s[::-1] > 0
    return np.where(is_used.any(axis=0), is_used.argmax(axis=0), len(busy_s))


def _patience(history: ServiceHistory, rates: FloatArray, params: ServiceParams) -> FloatArray:
    """[N]: rounds of idleness before a probe.

    A probe delays the merge for as long as the worker takes. A worker that was idle for as long
    before delays the merge for at most half of the time, however slow it is. A faster worker is
    probed earlier, so its recovery is noticed earlier.
    """
    # The busiest connection was busy for most of a round.
    round_s = float(np.nanmax(history.busy_s, initial=0.0))
    if not round_s > 0:
        return np.full(len(rates), float(params.probe_rounds))
    a_round = _units_of_a_record(history) * float(history.done[-1].sum()) / history.units
    records = max(1.0, a_round * params.in_force_rounds)
    takes = np.nan_to_num(np.ceil(records / (rates * round_s)), nan=params.probe_rounds)
    return np.asarray(np.clip(takes, 1, params.probe_rounds))


def _units_of_a_record(history: ServiceHistory) -> int:
    """Units that get about one record in a round like the last; at most a hundredth of all."""
    records = float(history.done[-1].sum())
    most = max(1, history.units // 100)
    return max(1, min(most, int(history.units / records))) if records > 0 else 1


def _recent_rate(done: FloatArray, busy_s: FloatArray) -> float:
    """The rate over the newest rounds in a row with records; 0 if none came back."""
    used = np.flatnonzero(busy_s > 0)
    if not len(used):
        return 0.0
    unused = np.flatnonzero(~(busy_s[: used[-1]] > 0))
    stretch = slice(unused[-1] + 1 if len(unused) else 0, used[-1] + 1)
    return float(done[stretch].sum() / busy_s[stretch].sum())


def _with_probes(units: IntArray, probes: IntArray, rates: FloatArray) -> IntArray:
    """The weights with probes; each unit is taken from the worker whose share takes longest."""
    units = np.array(units)
    for j in np.repeat(np.arange(len(units)), probes):
        can_give = (units > 1) & (probes == 0)
        share = np.where(can_give, units / np.nan_to_num(rates, nan=1.0), -1.0)
        giver = int(np.argmax(share))
        if share[giver] > 0:
            units[giver] -= 1
            units[j] += 1
    return units


def _reason(history: ServiceHistory, rates: FloatArray, probed: BoolArray, units: IntArray) -> str:
    named = {
        "dead, so they get nothing": ~history.alive,
        "never measured, so they keep their weight": history.alive & np.isnan(rates),
        "tried again": probed,
    }
    parts = [
        f"{words}: {', '.join(history.connection_ids[j] for j in np.flatnonzero(mask))}"
        for words, mask in named.items()
        if mask.any()
    ]
    moved = int(np.abs(units - history.weights).sum()) // 2
    return "; ".join([*parts, f"{moved} of {history.units} units move"])
