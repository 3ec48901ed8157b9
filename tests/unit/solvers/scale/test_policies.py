"""Parallelism from load, true rates, several resources, forecasts: each on figures by hand."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.contracts.errors import InvalidInput
from solvers.scale import (
    METHODS,
    Boundaries,
    Edge,
    Observation,
    OperatorSample,
    PastRound,
    Policy,
    ScalingAction,
    ScalingHistory,
    SourceSample,
    decide,
)
from solvers.scale.forecast import back_test, forecast, last_level, time_of_day, trend
from solvers.scale.from_load import parallelism
from solvers.scale.sizing import nodes_for
from solvers.scale.true_rate import demands_of
from tests.unit.solvers.scale.world import INTERVAL_S, measured, observe

QUICK = settings(max_examples=100, deadline=None, derandomize=True)
EAGER = Policy(
    stabilisation_rounds=1,
    cool_down_s=0,
    launch_s=0,
    shutdown_s=0,
    min_benefit=0,
    max_step_out=10.0,
    max_step_in=1.0,
)


def eager(method: str, **rest: object) -> Policy:
    return dataclasses.replace(EAGER, method=method, **rest)  # type: ignore[arg-type]


# Sizes


@given(
    required=st.floats(0, 100),
    capacities=st.lists(st.floats(0.5, 4), min_size=1, max_size=10),
    new=st.floats(0.5, 4),
)
@QUICK
def test_as_many_nodes_as_the_load_needs_and_no_more(
    required: float, capacities: list[float], new: float
) -> None:
    n = nodes_for(required, capacities, new)
    together = sum(capacities)
    if n > len(capacities):
        added = n - len(capacities)
        assert together + added * new >= required * (1 - 1e-6)
        assert together + (added - 1) * new < required * (1 + 1e-6)
    else:
        left = sum(sorted(capacities)[:n])
        assert left >= required * (1 - 1e-6) or n == len(capacities)


# From load ([AUTODASP17])


@pytest.mark.parametrize(
    ("w", "u", "v", "expected"), [(10, 3, 2, 4), (12.5, 3, 2, 5), (12.6, 3, 2, 6), (0, 3, 2, 0)]
)
def test_parallelism_is_twice_the_load_over_the_bounds(
    w: float, u: float, v: float, expected: int
) -> None:
    assert parallelism(w, u, v) == expected


def test_from_load_sizes_for_the_middle_of_the_band() -> None:
    policy = eager("from_load", boundaries=Boundaries(0.4, 0.7, 0.8))
    decision = decide(observe(0, *[0.9] * 10), policy, ScalingHistory())
    assert decision.after == {"": 15}
    assert decision.after[""] == parallelism(9.0, 0.8, 0.4)


def test_bounds_of_load_that_cross_are_refused() -> None:
    with pytest.raises(InvalidInput, match="cross"):
        parallelism(1.0, 1.0, 2.0)
    with pytest.raises(InvalidInput, match="load w"):
        parallelism(-1.0, 2.0, 1.0)


# True rates (DS2, Flink's autoscaler)


def topology(
    arrival: float | None = 1000.0,
    backlog: float | None = 0.0,
    *,
    seen: float = 1000.0,
    nodes: int = 4,
    cpu: float = 0.5,
    **first: object,
) -> Observation:
    """parse (0.4 ms a record) -> two records each -> count (0.5 ms a record)."""
    parse = {"records_rate": seen, "busy": seen * 0.0004, **first}
    return observe(
        0,
        *[cpu] * nodes,
        sources=(SourceSample("orders", "parse", arrival, backlog),),
        operators=(
            OperatorSample("parse", **parse),  # type: ignore[arg-type]
            OperatorSample("count", 2 * seen, 2 * seen * 0.0005),
        ),
        edges=(Edge("parse", "count", 2 * seen),),
    )


def test_rates_follow_the_topology_by_selectivity() -> None:
    parse, count = demands_of(topology(arrival=3000.0), EAGER)
    assert parse.rate == 3000
    assert count.rate == 6000
    assert parse.steady == pytest.approx(1.2)
    assert count.steady == pytest.approx(3.0)


def test_a_starved_operator_is_sized_by_what_will_reach_it() -> None:
    """DS2: one step is enough, though only a third of what arrives got through so far."""
    policy = eager("true_rate", boundaries=Boundaries(0.3, 0.6, 0.8), restart_s=0)
    decision = decide(topology(arrival=3000.0, seen=1000.0, cpu=1.0), policy, ScalingHistory())
    assert decision.after == {"": 7}  # 4.2 lanes / 0.6
    assert decision.parallelism == {"parse": 2, "count": 5}
    assert "operator count" in decision.reason


def test_backlog_and_restart_need_extra_capacity() -> None:
    """target = backlog / catch_up + rate x restart / catch_up + rate / target (Flink)."""
    policy = eager(
        "true_rate", boundaries=Boundaries(0.3, 0.6, 0.8), catch_up_s=600.0, restart_s=60.0
    )
    lanes = (600_000 / 600 * 0.0014) + 1.4 * 60 / 600 + 1.4 / 0.6
    decision = decide(topology(backlog=600_000.0, nodes=2), policy, ScalingHistory())
    assert decision.needs == {"": math.ceil(lanes)}
    assert decision.action is ScalingAction.OUT


def test_nothing_shrinks_while_a_backlog_is_worked_off() -> None:
    policy = eager("true_rate", backlog_threshold_s=300.0, catch_up_s=36_000.0)
    calm = decide(topology(arrival=100.0, seen=100.0, nodes=8), policy, ScalingHistory())
    assert calm.action is ScalingAction.IN
    behind = decide(
        topology(arrival=100.0, seen=100.0, backlog=40_000.0, nodes=8), policy, ScalingHistory()
    )
    assert behind.action is ScalingAction.HOLD
    assert "backlog" in behind.reason


def test_a_source_without_backlog_metrics_stops_scaling_and_is_named() -> None:
    for method in METHODS:
        decision = decide(topology(backlog=None), eager(method), ScalingHistory())
        assert decision.action is ScalingAction.HOLD
        assert decision.missing == ("source orders",)
        assert "source orders" in decision.reason


def test_an_operator_that_worked_without_being_busy_has_no_true_rate() -> None:
    decision = decide(topology(busy=0.0), eager("true_rate"), ScalingHistory())
    assert decision.missing == ("busy time of operator parse",)


def test_an_operator_without_metrics_is_named() -> None:
    decision = decide(topology(busy=None), eager("true_rate"), ScalingHistory())
    assert decision.missing == ("operator parse",)


def test_a_topology_with_a_cycle_is_refused() -> None:
    seen = dataclasses.replace(
        topology(), edges=(Edge("parse", "count", 1.0), Edge("count", "parse", 1.0))
    )
    with pytest.raises(InvalidInput, match="cycle"):
        decide(seen, eager("true_rate"), ScalingHistory())


def test_an_operator_with_too_few_key_groups_is_to_be_split() -> None:
    decision = decide(
        topology(arrival=6000.0, max_parallelism=2), eager("true_rate"), ScalingHistory()
    )
    assert decision.parallelism["parse"] == 2
    assert "operator parse needs 2.4 lanes and has only 2 key groups" in decision.reason


def test_arrivals_of_exactly_zero_leave_the_minimum() -> None:
    decision = decide(topology(arrival=0.0, seen=0.0), eager("true_rate"), ScalingHistory())
    assert decision.after == {"": 1}


# Several resources


def two_resources(cpu: float, memory: float, nodes: int = 10) -> Observation:
    return Observation(
        0.0,
        INTERVAL_S / 12,
        tuple(measured(f"n{i}", cpu, memory=memory) for i in range(nodes)),
    )


def test_the_binding_resource_decides_and_is_named() -> None:
    decision = decide(two_resources(0.5, 0.95), eager("multi_resource"), ScalingHistory())
    assert decision.binding == "memory"
    assert decision.after == {"": 15}
    assert "memory is at 95 %" in decision.reason
    assert "cpu 0.50 needs 8" in decision.reason


def test_shrinking_needs_every_resource_below_its_boundary() -> None:
    assert decide(two_resources(0.1, 0.5), eager("multi_resource"), ScalingHistory()).after == {
        "": 10
    }
    assert decide(two_resources(0.1, 0.2), eager("multi_resource"), ScalingHistory()).after == {
        "": 4
    }


def test_a_resource_may_have_boundaries_of_its_own() -> None:
    policy = eager("multi_resource", limits={"memory": Boundaries(0.5, 0.9, 0.97)})
    assert decide(two_resources(0.5, 0.95), policy, ScalingHistory()).action is ScalingAction.HOLD


# Forecast


def day(hours: np.ndarray) -> np.ndarray:
    return 6 + 4 * np.sin(2 * np.pi * hours / 24)


def history_of(times: np.ndarray, values: np.ndarray) -> ScalingHistory:
    return ScalingHistory(
        tuple(
            PastRound(float(t), ScalingAction.HOLD, {"": 1}, {"": 0.5}, {"": {"cpu": float(v)}})
            for t, v in zip(times, values, strict=True)
        )
    )


def test_the_time_of_day_wins_on_a_daily_load() -> None:
    hours = np.arange(0, 24 * 4, 0.5)
    found = forecast(hours * 3600, day(hours), 2 * 3600.0, 86_400.0)
    assert found.name == "time of day"
    assert found.value == pytest.approx(float(day(np.array([hours[-1] + 2]))[0]), rel=0.05)


def test_the_trend_wins_on_a_steady_rise() -> None:
    times = np.arange(60) * 600.0
    found = forecast(times, 1 + times / 6000, 1200.0, 86_400.0)
    assert found.name == "trend"
    assert found.value == pytest.approx(1 + (times[-1] + 1200) / 6000)


def test_on_noise_the_last_level_is_good_enough() -> None:
    rng = np.random.default_rng(3)
    times = np.arange(80) * 600.0
    walk = 10 + np.cumsum(rng.normal(0, 0.3, 80))
    assert forecast(times, walk, 600.0, 86_400.0).name == "last level"


def test_without_history_the_last_level_is_the_forecast() -> None:
    found = forecast(np.array([0.0]), np.array([5.0]), 600.0, 86_400.0)
    assert found.value == 5.0
    assert math.isnan(trend(np.array([0.0]), np.array([5.0]), 600.0, 86_400.0))
    assert math.isnan(time_of_day(np.array([0.0]), np.array([5.0]), 600.0, 86_400.0))


def test_a_back_test_uses_nothing_from_after_the_forecast() -> None:
    times = np.arange(60) * 600.0
    values = np.ones(60)

    def spy(t: np.ndarray, v: np.ndarray, ahead: float, season: float) -> float:
        assert len(t) == len(v)
        assert t[-1] + ahead <= times[-1]
        return last_level(t, v, ahead, season)

    assert back_test(spy, times, values, 1200.0, 86_400.0) == 0


def test_nodes_are_added_before_the_morning() -> None:
    hours = np.arange(0, 24 * 4 + 0.5, 0.5)
    policy = eager("forecast", horizon_s=3 * 3600.0)
    now, past = hours[-1], hours[:-1]
    level = float(day(np.array([now]))[0])  # 6.0, and 8.8 in three hours
    n = 9
    nodes = tuple(measured(f"n{i}", level / n) for i in range(n))
    seen = Observation(float(now * 3600), 50.0, nodes)
    decision = decide(seen, policy, history_of(past * 3600, day(past)))
    assert decision.action is ScalingAction.OUT
    assert "forecast" in decision.reason
    assert decide(seen, eager("multi_resource"), ScalingHistory()).action is ScalingAction.HOLD


@given(
    seed=st.integers(0, 10**6),
    rounds=st.integers(0, 60),
    load=st.floats(0.01, 0.99),
    nodes=st.integers(1, 20),
)
@settings(QUICK, max_examples=40)
def test_a_forecast_is_never_below_what_the_present_needs(
    seed: int, rounds: int, load: float, nodes: int
) -> None:
    rng = np.random.default_rng(seed)
    times = np.arange(rounds) * INTERVAL_S
    past = history_of(times, rng.lognormal(1, 1, rounds))
    seen = observe(rounds * INTERVAL_S, *[load] * nodes)
    present = decide(seen, eager("multi_resource"), past)
    ahead = decide(seen, eager("forecast"), past)
    assert ahead.needs[""] >= present.needs[""]
    assert ahead.after[""] >= present.after[""]
