"""Several periods of statistics: true bounds, rates for any length, the best decay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.contracts.errors import InvalidInput
from solvers.key_routing.decayed_statistics import CANDIDATES
from solvers.key_routing.key_graph import LEFT
from solvers.key_routing.key_memory import KeyMemory
from solvers.key_routing.routed_plan import RoutingOptions, RoutingRequest
from solvers.key_routing.routing_effect import problem_after
from solvers.model import metrics
from solvers.model.amortisation import AmortisationGate
from solvers.model.budget import Budget
from solvers.model.key_statistics import EarlierPeriod, KeyStatistics, RoutedEdge
from solvers.model.objective import Objective
from solvers.model.stop import Stop
from solvers.planner.allocation import Allocation, allocate, route_keys
from tests.unit.solvers.key_routing.instances import EDGE as WORLD_EDGE
from tests.unit.solvers.key_routing.instances import world

EDGE = RoutedEdge(("a",), ("b",))
ENDS = ("a", "b")
Rates = dict[tuple[str, str], float]


def counted(pairs: Rates, keep: int | None = None, **own) -> KeyStatistics:
    """Statistics of a period that count only the heaviest pairs, with bounds for the others."""
    sides: tuple[dict[str, float], dict[str, float]] = ({}, {})
    for pair, rate in pairs.items():
        for side, key in zip(sides, pair, strict=True):
            side[key] = side.get(key, 0.0) + rate
    kept = [_cut(of_kind, keep) for of_kind in (pairs, *sides)]
    (of_pairs, missed), (left, left_missed), (right, right_missed) = kept
    return KeyStatistics(
        keys={"a": left, "b": right},
        pairs={ENDS: of_pairs},
        missed={ENDS: missed, "a": left_missed, "b": right_missed},
        totals={"a": sum(pairs.values()), "b": sum(pairs.values())},
        **own,
    )


def _cut(rates, keep):
    order = sorted(rates, key=rates.__getitem__, reverse=True)
    dropped = order[keep:] if keep is not None else []
    return {k: rates[k] for k in order[:keep]}, max((rates[k] for k in dropped), default=0.0)


def story(*periods: KeyStatistics, rounds: tuple[float, ...] | None = None) -> KeyStatistics:
    """The last period with earlier ones, one round apart by default."""
    *before, last = periods
    ages = rounds or tuple(range(len(before), 0, -1))
    earlier = tuple(EarlierPeriod(float(ago), c) for ago, c in zip(ages, before, strict=True))
    return KeyStatistics(
        last.keys, last.pairs, last.group_rate, last.errors, last.pair_errors, last.missed,
        last.totals, earlier,
    )  # fmt: skip


RATES = st.dictionaries(
    st.tuples(st.sampled_from("uvwxy"), st.sampled_from("klmno")),
    st.floats(0.01, 100.0), min_size=1, max_size=20,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(periods=st.lists(RATES, min_size=1, max_size=5), keep=st.integers(1, 6), gap=st.floats(1, 3))
def test_bounds_hold_under_every_decay_whatever_was_cut(periods, keep, gap) -> None:
    ages = tuple(gap * n for n in range(len(periods) - 1, 0, -1))
    statistics = story(*(counted(rates, keep) for rates in periods), rounds=ages)
    memory = KeyMemory.of(statistics, EDGE, 2).statistics
    for decay, remembered in memory.memories.items():
        weights = [decay**age if age else 1.0 for age in (*ages, 0.0)]
        pairs = remembered.statistics.pairs
        for pair in {pair for rates in periods for pair in rates}:
            true = sum(w * r.get(pair, 0.0) for w, r in zip(weights, periods, strict=True))
            found = pairs.estimate((pair[0].encode(), pair[1].encode()))
            assert found.count - found.error - 1e-9 <= true <= found.count + 1e-9
        assert remembered.periods == pytest.approx(sum(weights))


def test_one_period_is_what_was_counted() -> None:
    pairs = {("u", "k"): 3.0, ("v", "k"): 2.0}
    memory = KeyMemory.of(counted(pairs), EDGE, 2)
    graph = memory.graph()
    assert (memory.periods, memory.decay) == (1, 0.0)
    assert dict(zip(graph.keys, graph.weight.tolist(), strict=True)) == {
        b"u": 3.0,
        b"v": 2.0,
        b"k": 5.0,
    }
    assert memory.views(graph).tolist() == [[w] * len(CANDIDATES) for w in graph.weight.tolist()]


def partners(shift: int, rng: np.random.Generator, share: float) -> Rates:
    """40 keys with a partner each; a period has a part of them."""
    return {(f"u{i:02}", f"k{(i + shift) % 40:02}"): 1.0 + rng.random() for i in range(40)
            if rng.random() < share}  # fmt: skip


def with_noise(pairs: Rates, rng: np.random.Generator) -> Rates:
    """Each key also sends many records to another, random key."""
    chance = {(a, f"k{int(rng.integers(40)):02}"): 3.0 for a, _ in pairs}
    return chance | pairs


def test_what_lasts_is_remembered_and_what_shifts_is_forgotten() -> None:
    rng = np.random.default_rng(5)
    lasting = story(*(counted(with_noise(partners(0, rng, 1.0), rng)) for _ in range(12)))
    shifting = story(*(counted(partners(11 * (n // 2), rng, 1.0)) for n in range(8)))
    decays = [KeyMemory.of(statistics, EDGE, 4).decay for statistics in (lasting, shifting)]
    assert decays[0] >= 0.7 > decays[1]


def test_rates_are_a_second_under_any_decay_and_rounds_left_out_fade_as_others() -> None:
    rng = np.random.default_rng(5)
    always = partners(0, rng, 1.0)
    statistics = story(*([counted(always)] * 5), rounds=(9.0, 7.5, 2.0, 1.0))
    memory = KeyMemory.of(statistics, EDGE, 4)
    graph = memory.graph()
    rates = dict(zip(graph.keys[graph.stage(LEFT)], graph.weight.tolist(), strict=False))
    assert {k: pytest.approx(rates[k.encode()]) for k, _ in always} == {
        k: rate for (k, _), rate in always.items()
    }
    kept = memory.statistics.under(0.5).periods
    assert kept == pytest.approx(sum(0.5**age for age in (9.0, 7.5, 2.0, 1.0, 0.0)))


def test_a_key_that_is_quiet_counts_where_balance_is_kept_in_a_longer_memory() -> None:
    statistics = story(counted({("u", "k"): 9.0, ("v", "l"): 1.0}), counted({("v", "l"): 1.0}))
    memory = KeyMemory.of(statistics, EDGE, 2)
    graph, views = memory.balance_views
    quiet = graph.keys.index(b"u")
    assert graph.weight[quiet] == 0.0
    of_decay = dict(zip(CANDIDATES, views[quiet].tolist(), strict=True))
    assert of_decay == pytest.approx({d: 9.0 * d for d in CANDIDATES})


def test_periods_without_pairs_of_the_edge_say_nothing() -> None:
    statistics = story(KeyStatistics(), counted({("u", "k"): 9.0}))
    assert KeyMemory.of(statistics, EDGE, 2).periods == 1
    with pytest.raises(InvalidInput, match="no pairs of keys were counted from a to b"):
        KeyMemory.of(KeyStatistics(), EDGE, 2)


def test_periods_out_of_order_or_of_no_age_are_refused() -> None:
    one = counted({("u", "k"): 9.0})
    with pytest.raises(InvalidInput, match="oldest first"):
        story(one, one, one, rounds=(1.0, 2.0))
    with pytest.raises(InvalidInput, match=r"0\.0 rounds ago"):
        story(one, one, rounds=(0.0,))
    with pytest.raises(InvalidInput, match="earlier periods of its own"):
        EarlierPeriod(1.0, story(one, one))


def routed(statistics: KeyStatistics) -> tuple[Allocation, float]:
    """The plan, and the traffic that it makes local of all traffic."""
    problem, whole = world()
    objective = Objective("joint", 60.0, gate=AmortisationGate(records_per_byte=0.0))
    planned = allocate(objective, problem, Budget(moves=0), Stop(steps=5))
    options = RoutingOptions((WORLD_EDGE,), imbalance=1.3)
    made = route_keys(
        planned, RoutingRequest(objective, problem, statistics, {}, options, Budget())
    )
    after = problem_after(problem, whole, {}, made.routing)
    return made, metrics.collocation_factor(after, made.result.assignment)


def test_pairs_that_the_last_period_missed_are_brought_together_where_they_last() -> None:
    """Each period counts another third of the pairs."""
    _, whole = world()
    edge = WORLD_EDGE.ends
    pairs = list(whole.pairs[edge].items())
    thirds = [
        KeyStatistics(whole.keys, {**whole.pairs, edge: dict(pairs[n % 3 :: 3])}, whole.group_rate)
        for n in range(6)
    ]
    (alone, some), (together, more) = routed(thirds[-1]), routed(story(*thirds))
    assert more > some + 10.0
    assert "keys by 6 periods of statistics, decay 0." in together.result.reason
    assert "periods" not in alone.result.reason
