"""The most likely reason of a missed promise is the one that the loads were generated with."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.outcome.likely_reason import (
    LOAD_SHIFTED,
    NOISE,
    SLOW_NODE,
    UNKNOWN,
    LikelyReason,
    likely_reason,
)
from tests.support.outcomes import outcome

NODES, GROUPS, WINDOWS = 4, 32, 12
SD = 0.12
"""Standard deviation of a key group's load from window to window, as a part of its mean."""


class Period:
    """Generated loads of key groups over some windows, with noise."""

    def __init__(self, seed: int, rates: np.ndarray, cost: np.ndarray, sd: float = SD) -> None:
        random = np.random.default_rng(seed)
        drawn = np.maximum(0.05, random.normal(1.0, sd, (GROUPS, WINDOWS)))
        records = rates[:, None] * drawn
        cpu = records * cost[:, None] * random.normal(1.0, 0.01, (GROUPS, WINDOWS))
        self.records, self.cpu = records.mean(axis=1), cpu.mean(axis=1)
        self.sd = cpu.std(axis=1, ddof=1)

    def table(self, **changed: pa.Array) -> pa.Table:
        """The period as rows of snapshots.key_groups."""
        groups = np.arange(GROUPS)
        columns = {
            "operator_id": pa.array(["work"] * GROUPS),
            "key_group": pa.array(groups),
            "node_id": pa.array([f"node-{group % NODES}" for group in groups]),
            "cpu_load_cores": pa.array(self.cpu),
            "records_per_s": pa.array(self.records),
            "cpu_window_sd_cores": pa.array(self.sd),
            "cpu_mean_error_cores": pa.array(self.sd / np.sqrt(WINDOWS)),
        }
        return pa.table({name: changed.get(name, values) for name, values in columns.items()})


def rates(seed: int = 1) -> np.ndarray:
    return 100.0 * np.random.default_rng(seed).zipf(2.0, GROUPS).clip(1, 8)


def on_node(number: int) -> np.ndarray:
    return np.arange(GROUPS) % NODES == number


COST = np.full(GROUPS, 0.001)


def found(before: Period, after: Period, missed_by: float = 10.0) -> LikelyReason:
    missed = outcome(3, "above", measured=6.0 + missed_by)
    return likely_reason(missed, before.table(), after.table())


def test_a_period_without_load_is_named() -> None:
    busy = Period(1, rates(), COST)
    idle = busy.table(cpu_load_cores=pa.array(np.zeros(GROUPS)))
    reason = likely_reason(outcome(3, "below", measured=0.0), busy.table(), idle)
    assert (reason.kind, "no load in one of the two periods" in reason.text) == (UNKNOWN, True)


@pytest.mark.parametrize("seed", range(20))
def test_a_shift_of_the_load_is_told_from_noise(seed: int) -> None:
    before, shifted = rates(), rates()
    shifted[on_node(2)] *= 1.6
    reason = found(Period(seed, before, COST), Period(seed + 100, shifted, COST))
    assert reason.kind == LOAD_SHIFTED
    assert "changes the load of node-2 by +" in reason.text


@pytest.mark.parametrize("seed", range(20))
def test_a_node_on_which_records_cost_more_is_slow(seed: int) -> None:
    slow = COST * np.where(on_node(1), 1.5, 1.0)
    reason = found(Period(seed, rates(), COST), Period(seed + 100, rates(), slow))
    assert reason.kind == SLOW_NODE
    assert reason.text.startswith("node node-1 is slower than its capacity says")
    assert "capacity.cpu_cores of node-1" in reason.text


@pytest.mark.parametrize("seed", range(20))
def test_records_that_cost_more_everywhere_make_no_node_slow(seed: int) -> None:
    reason = found(Period(seed, rates(), COST), Period(seed + 100, rates(), 2 * COST))
    assert reason.kind == UNKNOWN


@pytest.mark.parametrize("seed", range(20))
def test_twice_the_load_everywhere_is_no_shift(seed: int) -> None:
    reason = found(Period(seed, rates(), COST), Period(seed + 100, 2 * rates(), COST))
    assert reason.kind == UNKNOWN


@pytest.mark.parametrize("seed", range(20))
def test_windows_that_vary_more_than_estimated_are_noisier(seed: int) -> None:
    reason = found(Period(seed, rates(), COST), Period(seed + 100, rates(), COST, 3 * SD))
    assert reason.kind == NOISE
    assert "noisier than estimated" in reason.text
    assert "statistics_period_s" in reason.text


@pytest.mark.parametrize("seed", range(20))
def test_windows_that_vary_less_than_estimated_are_steadier(seed: int) -> None:
    reason = found(Period(seed, rates(), COST, 3 * SD), Period(seed + 100, rates(), COST))
    assert reason.kind == NOISE
    assert "steadier than estimated" in reason.text


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_has_no_reason(seed: int) -> None:
    reason = found(Period(seed, rates(), COST), Period(seed + 100, rates(), COST))
    assert reason.kind == UNKNOWN
    assert "10.0 points" in reason.text


def test_of_two_reasons_the_one_that_explains_more_is_told() -> None:
    shifted = rates() * np.where(on_node(2), 3.0, 1.0)
    slow = COST * np.where(on_node(1), 1.3, 1.0)
    assert found(Period(1, rates(), COST), Period(2, shifted, slow)).kind == LOAD_SHIFTED
    slower = COST * np.where(on_node(1), 6.0, 1.0)
    little = rates() * np.where(on_node(2), 1.5, 1.0)
    assert found(Period(1, rates(), COST), Period(2, little, slower)).kind == SLOW_NODE


def test_a_shift_too_small_to_explain_the_miss_is_not_the_reason() -> None:
    shifted = rates() * np.where(on_node(2), 1.6, 1.0)
    periods = Period(1, rates(), COST), Period(2, shifted, COST)
    assert found(*periods, missed_by=10.0).kind == LOAD_SHIFTED
    assert found(*periods, missed_by=500.0).kind == UNKNOWN


def test_without_noise_estimates_the_reason_is_not_known() -> None:
    after = Period(2, rates(), COST).table()
    old = Period(1, rates(), COST).table().drop_columns(
        ["cpu_window_sd_cores", "cpu_mean_error_cores"]
    )  # fmt: skip
    missed = outcome(3, "above")
    assert likely_reason(missed, old, after).text == (
        "unknown, because the noise of the loads is not known in both periods"
    )
    nulls = {"cpu_window_sd_cores": pa.nulls(GROUPS, pa.float64())}
    before = Period(1, rates(), COST).table(**nulls)
    assert likely_reason(missed, before, after).kind == UNKNOWN


def test_empty_and_idle_periods_have_a_defined_reason() -> None:
    table = Period(1, rates(), COST).table()
    missed = outcome(3, "above")
    assert likely_reason(missed, table.slice(0, 0), table).kind == UNKNOWN
    idle = Period(1, np.zeros(GROUPS), COST).table()
    assert likely_reason(missed, idle, table).kind == UNKNOWN
    assert likely_reason(missed, table, idle).kind == UNKNOWN


def test_constant_loads_that_begin_to_vary_are_noisier() -> None:
    constant = Period(1, rates(), COST, 0.0)
    constant.sd = np.zeros(GROUPS)
    assert found(constant, Period(2, rates(), COST)).kind == NOISE
    assert found(constant, constant).kind == UNKNOWN


def test_key_groups_that_only_one_period_has_are_left_out() -> None:
    before, after = Period(1, rates(), COST).table(), Period(2, rates(), COST).table()
    assert likely_reason(outcome(3, "above"), before.slice(3), after.slice(0, 30)).kind == UNKNOWN


def test_one_node_alone_is_not_slow() -> None:
    alone = {"node_id": pa.array(["node-0"] * GROUPS)}
    before = Period(1, rates(), COST).table(**alone)
    after = Period(2, rates(), 3 * COST).table(**alone)
    assert likely_reason(outcome(3, "above"), before, after).kind == UNKNOWN
