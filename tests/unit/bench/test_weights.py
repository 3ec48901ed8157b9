"""Service by timer, settings, and the figures of a run of the weights' benchmark."""

from __future__ import annotations

import numpy as np
import pytest

from bench.weights import report
from bench.weights.figures import by_method, mixed, settled
from bench.weights.methods import METHODS, ORACLE, OURS, ROUND_ROBIN
from bench.weights.run import RegionRound, RegionRun, work_of
from bench.weights.service import finish
from bench.weights.settings import (
    FULL_S,
    LIFTED,
    best_weights,
    settings,
    static_best,
    throughput,
)
from bench.weights.verdicts import verdicts

BY_NAME = {s.name: s for s in settings()}
HALF = BY_NAME["2, half 10x"]


def test_a_record_takes_its_time_and_the_rest_of_it_is_fast_once_the_load_is_lifted() -> None:
    assert finish(5.0, 0.1, 10.0, 0.0) == 6.0
    assert finish(5.0, 0.1, 10.0, 4.0) == 5.1
    assert finish(5.0, 0.1, 10.0, 5.5) == pytest.approx(5.55)
    assert finish(5.0, 0.1, 10.0, 7.0) == 6.0


def test_the_settings_are_those_of_the_issue() -> None:
    assert len(settings()) == 13
    assert BY_NAME["64, three classes"].factors.count(100.0) == 20
    assert BY_NAME["64, three classes"].factors.count(5.0) == 20
    assert BY_NAME["16, half 100x"].factors.count(100.0) == 8
    assert HALF.records == int(200 * FULL_S)


def test_the_oracles_weights_are_the_best_whole_units() -> None:
    hosts = BY_NAME["fast and slow host"]
    assert best_weights(hosts.final_capacities).tolist() == [650, 350]
    capacities = BY_NAME["64, half 100x"].capacities(is_loaded=True)
    weights = best_weights(capacities)
    assert weights[:32].sum() == 0
    assert throughput(capacities, weights) > 0.95 * capacities.sum()


def test_the_static_best_is_done_no_later_than_either_phases_weights() -> None:
    for setting in settings():
        if setting.is_lifted:
            loaded, free = (setting.capacities(x) for x in (True, False))
            seconds = [
                LIFTED / throughput(loaded, w) + (1 - LIFTED) / throughput(free, w)
                for w in (static_best(setting), best_weights(loaded), best_weights(free))
            ]
            assert seconds[0] <= min(seconds) + 1e-12


def run_of(method: str, seconds: float, rate: int = 200) -> RegionRun:
    """A run with an even rate, with the load lifted after a second."""
    rounds = [
        RegionRound(t + 1.0, [500, 500], [rate // 2] * 2, [rate // 2] * 2, [0.0, 0.0], [])
        for t in range(int(seconds))
    ]
    records = work_of(HALF, method)
    return RegionRun(HALF.name, method, records, records, seconds, 1.0, 0.1, rounds)


def test_time_of_a_part_of_the_work_is_given_for_all_of_it() -> None:
    found = by_method(HALF, [run_of(ROUND_ROBIN, 10.0)])[ROUND_ROBIN]
    assert found.seconds == 40.0


def test_a_run_that_was_cut_off_counts_at_the_rate_it_had() -> None:
    cut = run_of(OURS, 10.0)
    cut.merged = cut.records // 2
    assert not cut.is_done
    assert by_method(HALF, [cut])[OURS].seconds == pytest.approx(20.0)


def test_settled_is_the_first_of_seconds_in_a_row_that_do_enough() -> None:
    rates = np.array([10, 90, 10, 10, 85, 85, 85, 20.0])
    assert settled(rates, 100.0) == 4
    assert settled(rates[:4], 100.0) is None


def test_done_a_second_spreads_windows_over_their_seconds() -> None:
    found = run_of(OURS, 4.0)
    found.rounds = [RegionRound(2.0, [500, 500], [], [20, 20], [], [])]
    assert found.done_a_second().tolist() == [20.0, 20.0]


def test_final_weights_are_compared_with_the_capacities() -> None:
    found = by_method(HALF, [run_of(OURS, 8.0)])[OURS]
    assert found.weights.tolist() == [0.5, 0.5]
    assert found.weights_off == 0
    assert found.final_share == pytest.approx(1.0)
    assert found.settled_again_s == 0


def test_clusters_of_two_classes_are_counted() -> None:
    setting = BY_NAME["4, half 10x"]
    assert mixed(setting, [0, 0, 1, 1]) == 0
    assert mixed(setting, [0, 1, 1, 2]) == 50


def test_verdicts_and_page_of_a_setting() -> None:
    runs = [run_of(m, 8.0 if m in (OURS, ORACLE) else 40.0) for m in METHODS]
    found = verdicts([HALF], runs)
    claims = {v.claim: v for v in found}
    assert claims["2, half 10x: our loop, times round robin"].figure == pytest.approx(20.0)
    assert claims["2, half 10x: our loop's time over the oracle's"].holds
    about = {"commit": "abc", "cores": 2, "python": "3", "minutes": 1.0}
    text = report.page(report.words(about, runs), [HALF], runs, found)
    assert "2, half 10x (6.3)" in text
    assert "1.5-4 times RR" in text
