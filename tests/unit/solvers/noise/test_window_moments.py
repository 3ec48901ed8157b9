"""Means and variances of each key group from windows."""

from __future__ import annotations

import numpy as np
import pytest

from solvers.noise.noise_estimate import node_window_loads
from solvers.noise.window_moments import (
    EarlierLoads,
    KeyGroupMoments,
    MomentSums,
    WindowFactors,
    cosine_waves,
    key_group_moments,
    moment_sums,
    window_factors,
)
from tests.unit.solvers.noise.worlds import GROUPS, NODES, WINDOWS, placement_of, windows_of


def factors_of(loads: np.ndarray) -> WindowFactors:
    return window_factors(node_window_loads(loads, placement_of(len(loads)), NODES))


def moments_of(loads: np.ndarray, earlier: EarlierLoads | None = None) -> KeyGroupMoments:
    return key_group_moments(loads, factors_of(loads), earlier)


def earlier_of(mean: np.ndarray, window_sd: np.ndarray) -> EarlierLoads:
    return EarlierLoads(mean, mean, window_sd, window_sd, WINDOWS)


def test_what_all_key_groups_have_in_common_is_no_noise_of_theirs() -> None:
    loads = windows_of(1, own=0.0, common=0.5)
    assert moments_of(loads).variance == pytest.approx(np.zeros(GROUPS))


def test_residuals_sum_to_zero_over_key_groups_and_over_windows() -> None:
    loads = windows_of(2)
    residuals = factors_of(loads).residuals(loads)
    assert residuals.sum(axis=0) == pytest.approx(np.zeros(WINDOWS), abs=1e-9)
    assert residuals.sum(axis=1) == pytest.approx(np.zeros(GROUPS), abs=1e-9)


def test_variances_are_those_that_the_loads_were_drawn_with() -> None:
    ratios = []
    for seed in range(20):
        moments = moments_of(windows_of(seed, own=0.2, common=0.2))
        ratios.append((moments.variance / moments.mean**2).mean())
    # A load varies in proportion to the common factor too: 1 + 0.2 ** 2 more.
    assert np.mean(ratios) == pytest.approx(0.04 * 1.04, rel=0.05)


def test_a_window_without_records_adds_nothing() -> None:
    loads = windows_of(3)
    with_gap = np.insert(loads, 5, 0.0, axis=1)
    of_mean = moments_of(loads).variance / WINDOWS
    # The sums are those of the same records; the mean is over one window more.
    with_gap_of_mean = moments_of(with_gap).variance / (WINDOWS + 1)
    assert with_gap_of_mean * (WINDOWS + 1) ** 2 == pytest.approx(of_mean * WINDOWS**2)
    assert factors_of(with_gap).busy_windows == WINDOWS


def test_a_single_wild_window_counts_less() -> None:
    loads = windows_of(4, common=0.0)
    usual = moments_of(loads)
    wild = loads.copy()
    wild[::NODES, 7] *= 8.0
    found = moments_of(wild)
    assert factors_of(wild).wild_windows == 1
    assert factors_of(loads).wild_windows == 0
    assert found.full_variance[0] > 8 * usual.variance[0]
    assert found.variance.sum() < 0.5 * found.full_variance.sum()


def test_many_wild_windows_are_how_the_load_varies() -> None:
    loads = windows_of(5, common=0.0)
    loads[0, [1, 4, 7]] *= 500.0
    assert factors_of(loads).wild_windows == 0


def test_rounding_is_no_noise() -> None:
    loads = np.outer(np.array([1 / 3, 1e9, 1e-9]), np.ones(WINDOWS)) * (1 + 1e-13)
    assert moments_of(np.repeat(loads, NODES, axis=0)).variance.tolist() == [0.0] * 3 * NODES


def test_waves_are_orthonormal_and_have_no_mean() -> None:
    for windows in (2, 3, 12):
        waves = cosine_waves(windows)
        assert waves.sum(axis=1) == pytest.approx(np.zeros(len(waves)), abs=1e-12)
        assert waves @ waves.T == pytest.approx(np.eye(len(waves)), abs=1e-12)
    assert len(cosine_waves(1)) == 0


def test_independent_windows_have_the_same_power_in_slow_waves() -> None:
    found = [moments_of(windows_of(seed)) for seed in range(30)]
    slow = sum(each.slow_variance.sum() for each in found)
    assert slow / sum(each.variance.sum() for each in found) == pytest.approx(1.0, abs=0.06)


def test_sums_of_chunks_add_up_to_those_of_all() -> None:
    loads = windows_of(6)
    factors = factors_of(loads)
    earlier = earlier_of(loads.mean(axis=1) * 1.1, loads.std(axis=1))
    total = MomentSums()
    for part in (slice(0, 50), slice(50, GROUPS)):
        total += moment_sums(key_group_moments(loads[part], factors, earlier.rows(part)))
    wanted = moment_sums(key_group_moments(loads, factors, earlier))
    assert total.values == pytest.approx(wanted.values)
    assert wanted.change > 0


def test_key_groups_that_moved_say_nothing_of_changes() -> None:
    loads = windows_of(7)
    unknown = earlier_of(np.full(GROUPS, np.nan), loads.std(axis=1))
    sums = moment_sums(moments_of(loads, unknown))
    assert (sums.change, sums.change_variance) == (0.0, 0.0)


def test_a_load_that_really_moved_counts_for_at_most_three_standard_deviations() -> None:
    loads = windows_of(8)
    mean = loads.mean(axis=1)
    mean[3] *= 100.0
    own = np.sqrt(moments_of(loads).variance)
    sums = moment_sums(moments_of(loads, earlier_of(mean, own)))
    assert sums.change <= 9.0 * own[3] ** 2 + 1e-9
    assert sums.change > 8.0 * own[3] ** 2
