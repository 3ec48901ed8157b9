"""Costs, lifetime and trust come from outcomes; without outcomes, from the policy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Outcome
from solvers.model.amortisation import FIRST_PROMISE, LEAST_TRUST, RECORDS_PER_BYTE
from spark_jobs.draft.calibration import LONGEST_LIFETIME_S, calibrate
from tests.support.policies import small_policy

START = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def policy(**changes):
    return JobPolicy.model_validate({**small_policy().model_dump(by_alias=True), **changes})


def outcome(figure, version, minute, before, promised, measured):
    at = START + timedelta(minutes=minute)
    return Outcome(
        job="probe", version=version, plan_id="plan", run_id="run", figure=figure, unit="",
        before=before, promised=promised, measured=measured, windows=1, period_start_at=at,
        period_end_at=at, measured_at=at,
    )  # fmt: skip


def collocation(*row):
    return outcome("collocation_factor_pct", *row)


def serialise(version, minute, measured):
    return outcome("serialise_us", version, minute, None, 2.0, measured)


def test_before_any_outcome_the_first_values_of_the_policy_hold():
    given = policy(
        traffic={"send_cpu_s": 3e-6, "receive_cpu_s": 1e-6}, gate={"first_life_s": 700.0}
    )
    learned = calibrate(given, [])
    assert (learned.send_cpu_s, learned.receive_cpu_s) == (3e-6, 1e-6)
    assert (learned.lifetime_s, learned.trust) == (700.0, 1.0)


def test_a_measured_cost_is_shared_out_as_the_first_values_are():
    given = policy(traffic={"send_cpu_s": 3e-6, "receive_cpu_s": 1e-6})
    learned = calibrate(given, [serialise(1, 0, 8.0)])
    assert learned.send_cpu_s == pytest.approx(6e-6)
    assert learned.receive_cpu_s == pytest.approx(2e-6)
    assert learned.serialise_us == pytest.approx(8.0)


def test_before_any_outcome_a_record_costs_what_it_did_in_the_snapshot():
    given = policy(traffic={"send_cpu_s": 3e-6, "receive_cpu_s": 1e-6})
    learned = calibrate(given, [], 8.0)
    assert (learned.send_cpu_s, learned.receive_cpu_s) == pytest.approx((6e-6, 2e-6))
    assert calibrate(given, [serialise(1, 0, 2.0)], 8.0).serialise_us == pytest.approx(2.0)
    assert calibrate(given, [], 0.0).serialise_us == pytest.approx(4.0)  # nothing was measured


def test_of_many_measured_costs_the_median_of_the_newest_counts():
    measured = [50.0, 60.0, 2.0, 9.0, 3.0, 1.0, 4.0]
    rows = [serialise(v, v, cost) for v, cost in enumerate(measured)]
    assert calibrate(policy(), rows[::-1]).serialise_us == pytest.approx(3.0)


def test_trust_is_realised_over_promised_gain_of_first_measurements():
    rows = [
        collocation(1, 0, 20.0, 60.0, 50.0),
        collocation(1, 10, 20.0, 60.0, 20.0),  # later: for its duration, not for its realisation
        collocation(2, 20, 50.0, 60.0, 60.0),
        collocation(3, 30, 60.0, 60.0, 10.0),  # promised no gain
    ]
    kept = FIRST_PROMISE
    assert calibrate(policy(), rows).trust == pytest.approx((kept + 30 + 10) / (kept + 40 + 10))


@pytest.mark.parametrize("measured", [19.5, 20.0, 22.0])
def test_one_outcome_of_a_tiny_promise_leaves_trust_near_what_it_was(measured):
    trust = calibrate(policy(), [collocation(1, 0, 20.0, 20.05, measured)]).trust
    assert trust == pytest.approx((1.0 + measured - 20.0) / 1.05)
    assert 0.4 < trust < 3.0


def test_promises_that_never_came_leave_a_little_trust_or_none_could_come_back():
    rows = [collocation(v, 10 * v, 20.0, 60.0, 20.0) for v in range(5)]
    assert calibrate(policy(), rows).trust == LEAST_TRUST > 0


def test_life_is_how_long_the_gain_lasts_in_seconds():
    """A gain of 40 points that loses a quarter in ten minutes lasts four times as long."""
    rows = [collocation(1, 0, 20.0, 60.0, 60.0), collocation(1, 10, 20.0, 60.0, 50.0)]
    assert calibrate(policy(), rows).lifetime_s == pytest.approx(4 * 600.0, rel=0.02)


@pytest.mark.parametrize("gain", [10.0, 10.1, 9.9])
def test_two_measurements_that_hardly_differ_leave_the_first_life(gain):
    rows = [collocation(1, 0, 20.0, 30.0, 30.0), collocation(1, 10, 20.0, 30.0, 20.0 + gain)]
    assert calibrate(policy(), rows).lifetime_s == pytest.approx(policy().gate.first_life_s)


def test_the_end_of_a_gain_that_was_hardly_there_says_little_of_the_life():
    rows = [collocation(1, 0, 20.0, 20.05, 20.05), collocation(1, 10, 20.0, 20.05, 20.0)]
    assert calibrate(policy(), rows).lifetime_s > 0.7 * policy().gate.first_life_s


def test_a_gain_that_never_fell_lasts_as_long_as_plans_were_watched():
    rows = [collocation(1, m, 20.0, 60.0, 60.0) for m in range(0, 201, 10)]
    assert calibrate(policy(), rows).lifetime_s == pytest.approx(20 * 600.0)


def test_no_gain_is_taken_to_last_longer_than_a_month():
    day = 24 * 60
    rows = [collocation(1, m, 20.0, 60.0, 60.0) for m in range(0, 61 * day, day)]
    assert calibrate(policy(), rows).lifetime_s == LONGEST_LIFETIME_S


def test_one_measurement_a_version_says_nothing_of_its_life():
    rows = [collocation(v, 10 * v, 20.0, 60.0, 55.0) for v in range(5)]
    assert calibrate(policy(), rows).lifetime_s == policy().gate.first_life_s


def test_the_price_of_a_byte_is_the_one_that_was_fixed_for_all():
    assert policy().gate.records_per_byte == RECORDS_PER_BYTE
