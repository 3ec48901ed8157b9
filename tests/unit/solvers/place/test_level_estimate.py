"""The level without the noise of counts, and the load components that loads share."""

from __future__ import annotations

import numpy as np
import pytest

from solvers.place import estimate_level, with_load_components
from solvers.place.level_estimate import relative_change
from solvers.place.load_components import FEWEST, main_components


def walk(seed: int, change: float, windows: int = 40, start: float = 100.0) -> np.ndarray:
    """[p, m]: levels that follow a random walk with this relative deviation."""
    rng = np.random.default_rng(seed)
    steps = change * rng.standard_normal((200, windows))
    return np.asarray(start * np.exp(np.cumsum(steps, axis=1)))


def test_of_a_steady_load_the_level_is_nearer_than_the_last_count() -> None:
    levels = np.full((200, 20), 50.0)
    counts = np.random.default_rng(0).poisson(levels)
    found = estimate_level(counts)
    assert np.abs(found - 50).mean() < 0.5 * np.abs(counts[:, -1] - 50).mean()


@pytest.mark.parametrize("change", [0.02, 0.1, 0.5])
def test_the_level_predicts_no_worse_than_the_last_count(change: float) -> None:
    levels = walk(3, change)
    counts = np.random.default_rng(1).poisson(levels)
    ours, last = estimate_level(counts[:, :-1]), counts[:, -2]
    miss = [float(((x - levels[:, -1]) ** 2).sum()) for x in (ours, last)]
    assert miss[0] <= 1.02 * miss[1]


def test_the_change_of_levels_is_distinguished_from_noise() -> None:
    counts = np.random.default_rng(2).poisson(walk(4, 0.1))
    assert relative_change(counts.astype(float)) == pytest.approx(0.01, rel=0.3)
    steady = np.random.default_rng(2).poisson(np.full((200, 40), 100.0))
    assert relative_change(steady.astype(float)) < 0.001


def test_few_windows_and_no_load_teach_nothing() -> None:
    assert estimate_level([[3.0, 5.0], [1.0, 0.0]]).tolist() == [5.0, 0.0]
    assert estimate_level(np.zeros((3, 6))).tolist() == [0.0, 0.0, 0.0]
    level = np.array([1.0, 2.0])
    assert with_load_components(level, np.ones((2, FEWEST - 1))).tolist() == [[1.0], [2.0]]


def two_waves() -> tuple[np.ndarray, np.ndarray]:
    """Half of 100 substreams follow one wave, the other half another one."""
    t, member = np.arange(60), np.arange(100) % 2
    waves = np.array([np.sin(t / 4), np.cos(t / 7)])
    levels = 200 * (1 + 0.3 * waves[member])
    return np.random.default_rng(0).poisson(levels).astype(float), member


def test_what_swings_together_is_found_together() -> None:
    series, member = two_waves()
    swings = main_components(series, 2)
    # Shares add up to one, so that two waves are one swing: some up while the others are down.
    first = swings[:, 0]
    assert np.sign(first[member == 0].mean()) != np.sign(first[member == 1].mean())
    assert np.abs(first).sum() > np.abs(swings[:, 1]).sum()


def test_a_swing_is_a_window_with_the_same_load_and_none_below_zero() -> None:
    series, _ = two_waves()
    windows = with_load_components(series[:, -1], series)
    assert windows.shape == (100, 4)
    assert windows.min() >= 0
    assert windows.sum(axis=0) == pytest.approx(np.full(4, series[:, -1].sum()), rel=0.05)
