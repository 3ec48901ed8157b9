"""Scale for the next period by trend and time of day, never below the present need.

There are three forecasts: the last level, the last level with a robust trend (Theil-Sen), and the
level at this time of day one season ago, scaled by how today compares with it. A back-test on the
job's own history picks the one with the smallest error at the horizon. Without enough history the
last level is the forecast, and the policy equals multi_resource.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from solvers.model.problem import FloatArray
from solvers.scale.decision import Need, ScalingHistory
from solvers.scale.multi_resource import binding_need, need_of
from solvers.scale.observation import Observation
from solvers.scale.policy import Policy
from solvers.scale.sizing import ClusterView, cluster_views

NAME = "forecast"
TREND_ROUNDS = 12
BACK_TEST_ROUNDS = 24
COMPARE_ROUNDS = 3
"""Number of rounds in which today is compared with the season before."""
STEADY = 0.5
"""Share of the mean load that is added to both sides of that comparison."""
PREFER_SIMPLE = 0.9
"""A forecast replaces a simpler one only if its back-tested error is below this share of it."""

_EARLIER, _LATER = np.triu_indices(TREND_ROUNDS, k=1)

Forecaster = Callable[[FloatArray, FloatArray, float, float], float]
"""(times, values, seconds ahead, season in seconds) -> the value then; NaN if not computable."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """A forecast value, the name of the forecast, and its mean absolute error in the back-test."""

    value: float
    name: str
    error: float


def last_level(times: FloatArray, values: FloatArray, ahead_s: float, season_s: float) -> float:  # noqa: ARG001
    return float(values[-1])


def trend(times: FloatArray, values: FloatArray, ahead_s: float, season_s: float) -> float:  # noqa: ARG001
    """The last level plus the median slope of the last rounds; never below zero."""
    if len(values) < TREND_ROUNDS:
        return math.nan
    since_s, recent = times[-TREND_ROUNDS:] - times[-1], values[-TREND_ROUNDS:]
    slope = float(
        np.median((recent[_LATER] - recent[_EARLIER]) / (since_s[_LATER] - since_s[_EARLIER]))
    )
    level = float(np.median(recent - slope * since_s))
    return max(0.0, level + slope * ahead_s)


def time_of_day(times: FloatArray, values: FloatArray, ahead_s: float, season_s: float) -> float:
    """The value one season before that time, scaled by today over the season before."""
    then = times[-1] + ahead_s - season_s
    compared = times[-COMPARE_ROUNDS:] - season_s
    if compared[0] < times[0] or then > times[-1]:
        return math.nan
    # Added to both, so that a ratio of two nearly empty nights does not scale the morning.
    usual = COMPARE_ROUNDS * STEADY * float(values.mean())
    before = usual + float(np.interp(compared, times, values).sum())
    if before <= 0:
        return 0.0
    ratio = (usual + float(values[-COMPARE_ROUNDS:].sum())) / before
    return ratio * float(np.interp(then, times, values))


FORECASTERS: tuple[tuple[str, Forecaster], ...] = (
    ("last level", last_level),
    ("trend", trend),
    ("time of day", time_of_day),
)


def forecast(times: FloatArray, values: FloatArray, ahead_s: float, season_s: float) -> Forecast:
    """The forecast with the smallest error on recent rounds; a simpler one if the gain is small."""
    best = Forecast(float(values[-1]), FORECASTERS[0][0], math.inf)
    for name, forecaster in FORECASTERS:
        error = back_test(forecaster, times, values, ahead_s, season_s)
        value = forecaster(times, values, ahead_s, season_s)
        is_first = math.isinf(best.error) and name == best.name
        if math.isfinite(value) and (is_first or error < PREFER_SIMPLE * best.error):
            best = Forecast(value, name, error)
    return best


def back_test(
    forecaster: Forecaster, times: FloatArray, values: FloatArray, ahead_s: float, season_s: float
) -> float:
    """Mean absolute error of forecasts over the last season; infinite if not computable.

    It takes a whole season, because every forecast is good at night. A forecaster must give a
    value in each round: otherwise it could win with the easy rounds alone.
    """
    errors = []
    known = np.flatnonzero(times + ahead_s <= times[-1])
    recent = known[times[known] >= times[-1] - ahead_s - season_s]
    recent = recent[recent >= TREND_ROUNDS]
    if len(recent) < BACK_TEST_ROUNDS:
        return math.inf
    for i in recent[np.linspace(0, len(recent) - 1, BACK_TEST_ROUNDS).astype(int)]:
        predicted = forecaster(times[: i + 1], values[: i + 1], ahead_s, season_s)
        actual = float(np.interp(times[i] + ahead_s, times, values))
        errors.append(abs(predicted - actual))
    return float(np.mean(errors)) if np.isfinite(errors).all() else math.inf


def needs(observation: Observation, policy: Policy, history: ScalingHistory) -> tuple[Need, ...]:
    """For each cluster, the present need or the need of the next period, whichever is larger."""
    return tuple(
        _with_forecast(binding_need(view, policy), view, observation, policy, history)
        for view in cluster_views(observation, policy)
    )


def _with_forecast(
    present: Need,
    view: ClusterView,
    observation: Observation,
    policy: Policy,
    history: ScalingHistory,
) -> Need:
    ahead = present
    chosen: Forecast | None = None
    for resource, load in present.load.items():
        times, values = _series(history, view.name, resource, observation.at_s, load)
        coming = forecast(times, values, policy.ahead_s, policy.season_s)
        need = need_of(view, resource, max(load, coming.value), policy)
        if need.nodes > ahead.nodes:
            ahead, chosen = need, coming
    if chosen is None:
        return present
    return dataclasses.replace(
        present,
        nodes=ahead.nodes,
        ahead=ahead.utilisation / ahead.boundaries.upper * present.boundaries.upper,
        metric=ahead.metric,
        note=(
            f"{ahead.metric} is forecast at {ahead.utilisation:.2f} in "
            f"{policy.ahead_s / 60:.0f} min by {chosen.name}"
        ),
    )


def _series(
    history: ScalingHistory, cluster: str, resource: str, now_s: float, load: float
) -> tuple[FloatArray, FloatArray]:
    past = [
        (r.at_s, r.loads[cluster][resource])
        for r in history.rounds
        if r.at_s < now_s and resource in r.loads.get(cluster, {})
    ]
    times = np.array([t for t, _ in past] + [now_s], dtype=np.float64)
    values = np.array([v for _, v in past] + [load], dtype=np.float64)
    return times, values
