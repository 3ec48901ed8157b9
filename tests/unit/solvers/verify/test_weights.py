"""The verifier, which shares no code with both methods, accepts the weights of both."""

from __future__ import annotations

import numpy as np
import pytest

from ballast.contracts.records import WorkerWeight
from solvers.verify.weights import RegionRules, weight_violations
from solvers.weights import (
    BlockingHistory,
    BlockingParams,
    ServiceHistory,
    ServiceParams,
    weights_from,
    weights_from_service,
)

NAMES = tuple("abcdefgh")


def rows_of(
    rules: RegionRules, units: dict[str, int], rate: float | None = None
) -> list[WorkerWeight]:
    return [
        WorkerWeight(
            job="j", plan_id="p", region_id=rules.region_id, worker_id=name, weight=weight,
            previous_weight=rules.before.get(name, 0), state=rules.state.get(name, "alive"),
            records_per_s=rate, reason="",
        )
        for name, weight in units.items()
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_both_methods_keep_every_rule(seed: int) -> None:
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 9))
    names = NAMES[:n]
    now = random.multinomial(1000, random.dirichlet([0.4] * n))
    alive = random.random(n) > 0.2
    alive[0] = True
    known = alive & (random.random(n) > 0.3)
    floor, change = int(random.integers(0, 1000 // n)), int(random.integers(1, 1001))
    state = ["unmeasured" if a and not k else "alive" if a else "dead" for a, k in
             zip(alive, known, strict=True)]  # fmt: skip
    rules = RegionRules(
        "r", dict(zip(names, now.tolist(), strict=True)), dict(zip(names, state, strict=True)),
        True, floor, change,
    )  # fmt: skip
    busy = np.where(known, 1.0, np.nan)[None]
    done = np.where(known, random.integers(1, 1000, n), 0)[None]
    service = weights_from_service(
        ServiceHistory(names, now, done, busy, alive),
        ServiceParams(probe_rounds=0, min_units=floor, max_change=change),
    )
    # A weight of 0 teaches nothing of blocking, so tried weights are not those of now.
    tried = random.multinomial(1000 - n, [1 / n] * n) + 1
    blocked = np.where(known, random.random(n), np.nan)
    blocking = weights_from(
        BlockingHistory(
            names, np.array([tried, now]), np.array([blocked, np.full(n, np.nan)]), alive
        ),
        BlockingParams(min_units=floor, max_change=change),
    )
    for units in (service.units, blocking.units):
        rows = rows_of(rules, dict(zip(names, units.tolist(), strict=True)))
        assert weight_violations([rules], rows) == [], (now, units, floor, change, state)


RULES = RegionRules(
    "r", {"a": 500, "b": 300, "c": 200}, {"a": "alive", "b": "unmeasured", "c": "alive"},
    True, min_units=10, max_change=100,
)  # fmt: skip


@pytest.mark.parametrize(
    ("units", "broken"),
    [
        ({"a": 500, "b": 300, "c": 200}, set()),
        ({"a": 400, "b": 300, "c": 300}, set()),
        ({"a": 399, "b": 300, "c": 301}, {"weights.change"}),
        ({"a": 450, "b": 350, "c": 200}, {"weights.unmeasured"}),
        ({"a": 400, "b": 300, "c": 200}, {"weights.sum"}),
        ({"a": 500, "b": 500}, {"weights.workers"}),
        ({"a": 500, "b": 300, "c": 100, "d": 100}, {"weights.workers"}),
        ({}, {"weights.complete"}),
    ],
)
def test_what_a_plan_may_not_do_is_named(units: dict[str, int], broken: set[str]) -> None:
    found = weight_violations([RULES], rows_of(RULES, units))
    assert {violation.promise for violation in found} == broken


def test_the_dead_get_nothing_and_what_they_had_may_go_beyond_the_bound() -> None:
    rules = RegionRules("r", {"a": 500, "b": 500}, {"a": "alive", "b": "dead"}, True, 0, 10)
    assert weight_violations([rules], rows_of(rules, {"a": 1000, "b": 0})) == []
    found = weight_violations([rules], rows_of(rules, {"a": 990, "b": 10}))
    assert {violation.promise for violation in found} == {"weights.dead"}


def test_a_plan_that_says_unchanged_changes_no_weight() -> None:
    rows = rows_of(RULES, {"a": 490, "b": 300, "c": 210})
    assert weight_violations([RULES], rows) == []
    (found,) = weight_violations([RULES], rows, is_unchanged=True)
    assert found.promise == "status"


def test_a_rate_must_be_one() -> None:
    rows = rows_of(RULES, {"a": 500, "b": 300, "c": 200}, rate=float("nan"))
    assert {violation.promise for violation in weight_violations([RULES], rows)} == {"weights.rate"}
