"""The noise of loads, from few windows."""

from __future__ import annotations

import numpy as np
import pytest

from solvers.model.problem import FloatArray, IntArray
from solvers.noise.noise_estimate import (
    EarlierEstimate,
    LoadEstimate,
    ResourceNoise,
    estimate_loads,
    node_window_loads,
)
from tests.unit.solvers.noise.worlds import GROUPS, NODES, WINDOWS, placement_of, windows_of


def estimate(loads: FloatArray, earlier: EarlierEstimate | None = None) -> LoadEstimate:
    return estimate_loads("cpu", loads, placement_of(len(loads)), NODES, earlier)


def earlier_of(found: LoadEstimate, node_of: IntArray | None = None) -> EarlierEstimate:
    home = placement_of(len(found.mean)) if node_of is None else node_of
    return EarlierEstimate(found, home)


def after_many(make: list[FloatArray]) -> LoadEstimate:
    """The estimate of the last of many consecutive periods."""
    found = estimate(make[0])
    for loads in make[1:]:
        found = estimate(loads, earlier_of(found))
    return found


def node_errors(seed: int, own: float) -> tuple[FloatArray, FloatArray]:
    """Return the changes of nodes from period to period, and the changes that the first one
    expects."""
    loads = windows_of(seed, windows=2 * WINDOWS, own=own)
    past, following = loads[:, :WINDOWS], loads[:, WINDOWS:]
    found = estimate(past)
    nodes = [
        node_window_loads(part, placement_of(), NODES).mean(axis=1) for part in (past, following)
    ]
    change = nodes[1] / nodes[1].sum() - nodes[0] / nodes[0].sum()
    variance = np.bincount(placement_of(), 2 * found.key_groups.window_sd**2 / WINDOWS)
    return change, np.sqrt(variance * found.resource.node_variance_ratio) / nodes[0].sum()


def test_the_change_of_a_node_is_as_large_as_expected() -> None:
    scores = np.concatenate([np.divide(*node_errors(seed, 0.3)) for seed in range(60)])
    assert np.mean(scores**2) == pytest.approx(1.0, abs=0.15)


def test_constant_loads_have_no_noise() -> None:
    found = estimate(np.outer(np.arange(1.0, GROUPS + 1), np.ones(WINDOWS)))
    assert found.key_groups.window_sd.max() == 0.0
    assert found.key_groups.mean_error.max() == 0.0
    assert found.resource.status == "steady"


def test_constant_loads_after_a_period_of_noisy_loads_have_a_finite_estimate() -> None:
    constant = np.outer(np.arange(1.0, GROUPS + 1), np.ones(WINDOWS))
    found = estimate(constant, earlier_of(estimate(windows_of(1, own=0.3))))
    assert np.isfinite(found.key_groups.window_sd).all()
    assert np.isfinite(found.key_groups.mean_error).all()
    assert np.isfinite(found.resource.period_variance_ratio)


def test_loads_that_only_burst_together_have_no_noise() -> None:
    found = estimate(windows_of(1, own=0.0, common=0.4))
    assert found.key_groups.window_sd == pytest.approx(np.zeros(GROUPS), abs=1e-9)
    assert found.resource.common_sd_pct > 20


def test_nothing_is_known_of_one_window() -> None:
    found = estimate(windows_of(2, windows=1))
    assert found.resource.status == "too_few_windows"
    assert "1 of 1 windows have a load" in found.resource.reason
    assert np.isnan(found.key_groups.window_sd).all()
    assert found.mean == pytest.approx(windows_of(2, windows=1)[:, 0])


def test_silent_windows_are_too_few_windows() -> None:
    loads = windows_of(3)
    loads[:, 3:] = 0.0
    assert estimate(loads).resource.status == "too_few_windows"


def test_a_key_group_seen_in_one_window_of_twelve_is_known_to_half_of_its_load() -> None:
    loads = windows_of(4)
    loads[5] = 0.0
    loads[5, 7] = 10.0
    found = estimate(loads)
    assert found.key_groups.busy_windows[5] == 1
    assert found.key_groups.mean_error[5] > 0.5 * found.mean[5]


@pytest.mark.parametrize("seed", range(3))
def test_loads_from_1e_minus_9_to_1e9_have_a_finite_noise(seed: int) -> None:
    rng = np.random.default_rng(seed)
    loads = np.geomspace(1e-9, 1e9, GROUPS)[:, None] * rng.gamma(9.0, 1 / 9, (GROUPS, WINDOWS))
    found = estimate(loads)
    for values in (found.key_groups.window_sd, found.key_groups.mean_error):
        assert np.isfinite(values).all()
        assert (values > 0).all()
    relative = found.key_groups.window_sd / found.mean
    assert np.median(relative) == pytest.approx(1 / 3, rel=0.5)


@pytest.mark.parametrize("small", [1e-6, 1e-12, 1e-16, 1e-18])
def test_one_node_that_has_almost_all_of_the_load_leaves_a_finite_ratio(small: float) -> None:
    rng = np.random.default_rng(1)
    node_of = np.repeat([0, 1], 10)
    loads = np.where(node_of == 0, 1e9, 1e9 * small)[:, None] * rng.gamma(9.0, 1 / 9, (20, WINDOWS))
    ratio = estimate_loads("cpu", loads, node_of, 2).resource.node_variance_ratio
    assert np.isfinite(ratio)
    assert ratio > 0


def test_variances_of_few_windows_are_shrunk_towards_those_of_equal_loads() -> None:
    found = estimate(windows_of(5, own=0.2, common=0.0))
    relative = found.key_groups.window_sd / found.mean
    raw = windows_of(5, own=0.2, common=0.0).std(axis=1, ddof=1) / found.mean
    assert relative.std() < 0.5 * raw.std()


def test_key_groups_that_differ_in_noise_keep_their_own() -> None:
    loads = windows_of(6, own=0.05)
    wild = np.random.default_rng(6).gamma(1.0, 1.0, (GROUPS // 2, WINDOWS))
    loads[: GROUPS // 2] *= wild
    sd = estimate(loads).key_groups.window_sd
    mean = loads.mean(axis=1)
    calm_share = np.median(sd[GROUPS // 2 :] / mean[GROUPS // 2 :])
    assert np.median(sd[: GROUPS // 2] / mean[: GROUPS // 2]) > 3 * calm_share


def test_key_groups_of_a_node_that_vary_together_raise_the_ratio_of_nodes() -> None:
    rng = np.random.default_rng(7)
    alone = estimate(windows_of(7)).resource
    slow = rng.lognormal(0.0, 0.1, (NODES, WINDOWS))[placement_of()]
    together = estimate(windows_of(7) * slow).resource
    assert alone.node_variance_ratio == pytest.approx(1 - 1 / NODES, abs=0.3)
    assert together.node_variance_ratio > 2 * alone.node_variance_ratio


def test_windows_that_resemble_the_one_before_raise_the_ratio_of_periods() -> None:
    rng = np.random.default_rng(8)
    level = np.zeros((GROUPS, 200 + WINDOWS))
    for w in range(1, level.shape[1]):
        level[:, w] = 0.8 * level[:, w - 1] + 0.1 * rng.standard_normal(GROUPS)
    loads = windows_of(8, own=0.0, common=0.0) * np.exp(level[:, -WINDOWS:])
    assert estimate(loads).resource.period_variance_ratio > 2.0


def test_a_season_shorter_than_the_period_lowers_the_ratio_of_periods() -> None:
    phase = np.random.default_rng(9).uniform(0, 2 * np.pi, (GROUPS, 1))
    season = 1 + 0.5 * np.sin(2 * np.pi * np.arange(WINDOWS) * 10 / 12 + phase)
    loads = windows_of(9, own=0.05) * season
    assert estimate(loads).resource.period_variance_ratio < 0.5


def test_drift_from_period_to_period_is_counted_after_some_periods() -> None:
    rng = np.random.default_rng(10)
    steady = [windows_of(10, own=0.0) * rng.gamma(25, 0.04, (GROUPS, WINDOWS)) for _ in range(12)]
    level = np.cumsum(0.2 * rng.standard_normal((12, GROUPS, 1)), axis=0)
    moving = [loads * np.exp(level[n]) for n, loads in enumerate(steady)]
    assert after_many(steady).resource.period_variance_ratio == pytest.approx(1.0, abs=0.25)
    assert after_many(moving).resource.period_variance_ratio > 2.0


def test_key_groups_that_moved_do_not_count_as_drift() -> None:
    first = estimate(windows_of(11))
    elsewhere = np.roll(placement_of(), 1)
    now = windows_of(11) * np.random.default_rng(11).uniform(0.5, 2.0, (GROUPS, 1))
    with_moves = estimate(now, earlier_of(first, elsewhere)).resource
    as_drift = estimate(now, earlier_of(first)).resource
    assert with_moves.period_variance_ratio < as_drift.period_variance_ratio


def test_several_periods_give_a_steadier_estimate_than_one() -> None:
    def total(periods: int, seed: int) -> float:
        rng = np.random.default_rng(seed)
        make = [
            windows_of(0, own=0.0) * rng.gamma(2, 0.5, (GROUPS, WINDOWS)) for _ in range(periods)
        ]
        found = after_many(make)
        return float((found.key_groups.window_sd**2).sum() * found.resource.node_variance_ratio)

    one, many = ([total(count, seed) for seed in range(12)] for count in (1, 8))
    assert np.std(many) < 0.7 * np.std(one)
    assert np.mean(many) == pytest.approx(np.mean(one), rel=0.15)


def test_an_estimate_after_one_of_too_few_windows_starts_anew() -> None:
    unknown = estimate(windows_of(12, windows=1))
    now = windows_of(13)
    alone, after = estimate(now), estimate(now, earlier_of(unknown))
    assert after.key_groups.window_sd == pytest.approx(alone.key_groups.window_sd)
    assert after.resource == alone.resource


def test_a_load_that_grows_brings_the_earlier_noise_to_its_size() -> None:
    first = estimate(windows_of(14))
    grown = estimate(10.0 * windows_of(15), earlier_of(first))
    usual = estimate(windows_of(15), earlier_of(first))
    assert grown.key_groups.window_sd == pytest.approx(10.0 * usual.key_groups.window_sd)


def moved_half_way(factor: float, seed: int) -> ResourceNoise:
    loads = windows_of(seed, own=0.1)
    loads[placement_of() == 2, WINDOWS // 2 :] *= factor
    return estimate(loads).resource


def test_a_node_whose_speed_changes_half_way_is_a_trend() -> None:
    found = moved_half_way(1.5, 16)
    assert found.status == "trend"
    assert found.trend_pct is not None
    assert 30 < found.trend_pct < 60
    assert "changed by" in found.reason


def test_steady_loads_are_hardly_ever_called_a_trend() -> None:
    called = [moved_half_way(1.0, seed).status == "trend" for seed in range(100, 400)]
    assert sum(called) <= 3


def test_a_load_that_rises_all_the_time_is_a_trend() -> None:
    loads = windows_of(17, own=0.05)
    loads[placement_of() == 1] *= np.linspace(1.0, 2.0, WINDOWS)
    assert estimate(loads).resource.status == "trend"


@pytest.mark.parametrize("to", [1.6, 2.0, 0.4])
def test_a_total_that_rises_or_falls_all_the_time_is_said_and_widens_what_it_changes(
    to: float,
) -> None:
    """Shares of nodes do not change, so the load distance has its interval."""
    ramp = np.linspace(1.0, to, 2 * WINDOWS)
    loads = windows_of(17, own=0.1, windows=2 * WINDOWS, common=0.02) * ramp
    found = estimate(loads[:, :WINDOWS]).resource
    now, following = loads[:, :WINDOWS].sum(), loads[:, WINDOWS:].sum()
    sd_of_change = found.common_sd_pct / 100.0 * np.sqrt(2.0 / WINDOWS)
    assert found.status == "steady"
    assert "the total load changed by" in found.reason
    assert abs(following / now - 1.0) < 1.8 * sd_of_change


def test_a_steady_total_is_hardly_ever_said_to_change() -> None:
    said = [
        "total load" in estimate(windows_of(seed, common=0.3, own=0.1)).resource.reason
        for seed in range(300)
    ]
    assert sum(said) <= 3


def test_a_single_node_has_no_trend_and_no_ratio() -> None:
    found = estimate_loads("cpu", windows_of(18), np.zeros(GROUPS, dtype=np.int64), 1).resource
    assert (found.status, found.node_variance_ratio) == ("steady", 1.0)


def test_a_job_without_load_has_no_noise() -> None:
    found = estimate(np.zeros((GROUPS, WINDOWS)))
    assert found.resource.status == "too_few_windows"
    assert found.mean.max() == 0.0
