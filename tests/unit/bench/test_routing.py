"""Streams as periods, the cost of moves, and the verdicts on routing by key."""

from __future__ import annotations

import numpy as np
import pytest

from bench.common.verdict import Verdict
from bench.routing import report
from bench.routing.methods import DECAYED, ONCE, OURS, PAPER, UNGATED, SeasonCourse
from bench.routing.season import ALL_PAIRS, FIRST_WEEK, SeasonOutcome, season
from bench.routing.streams import FLIGHTS, Stream, stream_of, synthetic
from bench.routing.synthetic import cell
from bench.routing.verdicts import gate_curve, verdicts
from bench.routing.world import NOWHERE, RoutedServers
from solvers.model.amortisation import RECORDS_PER_BYTE


@pytest.fixture
def stream() -> Stream:
    """Two periods: (a, x) twice and (b, y), then (a, y), (c, x) and (d, z)."""
    left = ["a", "b", "a", "a", "c", "d"]
    right = ["x", "y", "x", "y", "x", "z"]
    return stream_of("small", left, right, np.array([0, 0, 0, 1, 1, 1]))


def test_a_period_counts_its_pairs_in_the_order_of_time(stream: Stream) -> None:
    graph = stream.periods[0].graph
    assert graph.keys == (b"a", b"b", b"x", b"y")
    assert graph.edge_weight.tolist() == [2.0, 1.0]
    assert graph.weight.tolist() == [2.0, 1.0, 2.0, 1.0]
    for period in stream.periods:
        assert [stream.keys[i] for i in period.ids] == list(period.graph.keys)
        assert stream.ids_of(period.graph).tolist() == period.ids.tolist()


def test_statistics_are_the_same_record_by_record_while_all_pairs_fit(stream: Stream) -> None:
    period = stream.periods[0]
    assert dict(period.statistics(100).pairs.counts) == {(b"a", b"x"): 2.0, (b"b", b"y"): 1.0}
    few = period.statistics(1)
    assert len(few.pairs) == 1
    assert dict(few.left.counts) == {b"a": 2.0, b"b": 1.0}  # Keys have room of their own.


def test_a_new_key_goes_where_the_key_it_first_comes_with_is(stream: Stream) -> None:
    world = RoutedServers(stream, 4)
    number = {key: i for i, key in enumerate(stream.keys)}
    world.admit_by_table(stream.periods[0])
    world.place[number[b"x"]] = 3
    known = world.place.copy()
    world.admit_by_partner(stream.periods[1])
    assert world.place[number[b"c"]] == 3
    assert world.place[number[b"d"]] == world.hashed[number[b"d"]] == world.place[number[b"z"]]
    seen = known != NOWHERE
    assert world.place[seen].tolist() == known[seen].tolist()


def test_what_moves_is_counted_by_the_records_that_its_keys_have_seen(stream: Stream) -> None:
    world = RoutedServers(stream, 4)
    world.admit_by_table(stream.periods[0])
    world.serve(stream.periods[0])
    place = world.place.copy()
    place[0] = (place[0] + 1) % 4  # a has seen 2 of 3 records on its side, 6 on both
    assert world.follow(place) == pytest.approx(100 * 2 / 6)
    assert world.follow(place) == 0.0
    assert world.place[stream.keys.index(b"c")] == NOWHERE


def test_every_method_but_the_hash_begins_with_the_same_plan() -> None:
    rng = np.random.default_rng(3)
    # Enough records that one week alone gives the weight of a key: each keeps the balance.
    keys, weeks, records = 24, 8, 3_000
    left = rng.integers(0, keys, records * weeks)
    right = np.where(rng.random(len(left)) < 0.8, left, rng.integers(0, keys, len(left)))
    made = stream_of(
        "drawn",
        [f"a{i}" for i in left],
        [f"b{i}" for i in right],
        np.repeat(np.arange(weeks), records),
    )
    said: list[str] = []
    outcomes = season(made, ALL_PAIRS, (0.0, 0.1, 1e9), 1, said.append)
    firsts = {row.method: row.course.locality[0] for row in outcomes[1:]}
    assert len(set(firsts.values())) == 1
    assert all(len(row.course.locality) == weeks - FIRST_WEEK for row in outcomes)
    once, dear = outcomes[1], outcomes[-1]
    assert once.moved == 0.0
    # At any price the balance bound is kept, but nothing moves for locality.
    assert dear.locality == pytest.approx(once.locality, abs=10.0)
    assert outcomes[-3].locality > outcomes[0].locality + 30


def row(
    stream: str, method: str, locality: float, moved: float, price: float = 0.0
) -> SeasonOutcome:
    course = SeasonCourse([locality], [1.1], [moved])
    return SeasonOutcome(stream, ALL_PAIRS, method, price, course)


def rows(ours: float, moved: float) -> list[SeasonOutcome]:
    return [
        found
        for stream in FLIGHTS
        for found in (
            row(stream, ONCE, 50.0, 0.0),
            row(stream, PAPER, 55.0, 80.0),
            row(stream, DECAYED, 60.0, 30.0),
            row(stream, UNGATED, 70.0, 10.0),
            row(stream, OURS, ours, moved, RECORDS_PER_BYTE),
            row(stream, OURS, 51.0, 0.0, 10.0),
        )
    ]


def test_the_verdicts_are_on_ours_at_the_default_price() -> None:
    assert all(v.holds for v in verdicts(rows(62.0, 4.0), []))
    behind = [v.claim for v in verdicts(rows(61.0, 4.0), []) if not v.holds]
    assert len(behind) == 1
    assert "points above" in behind[0]
    # 5 % a week on the first two streams, a quarter of the paper's 80 % on the third.
    restless = [v.claim for v in verdicts(rows(62.0, 6.0), []) if not v.holds]
    assert [claim.split(":")[0] for claim in restless] == list(FLIGHTS)[:2]


def test_a_part_of_the_streams_is_judged_by_itself() -> None:
    some = [r for r in rows(62.0, 4.0) if r.stream == list(FLIGHTS)[2]]
    assert len(verdicts(some, [])) == 3
    fewer = [SeasonOutcome(r.stream, 1_000, r.method, r.price, r.course) for r in some]
    assert verdicts(fewer, []) == []


def test_the_gates_curve_is_in_shares_of_ours_without_it() -> None:
    free, default, dear = gate_curve(rows(65.0, 4.0), next(iter(FLIGHTS)))
    assert (free.gain_kept, free.state_moved) == (1.0, 1.0)
    assert (default.gain_kept, default.state_moved) == pytest.approx((0.75, 0.4))
    assert (dear.gain_kept, dear.state_moved) == pytest.approx((0.05, 0.0))


def test_a_verdict_is_named_with_figure_and_limit() -> None:
    found = [Verdict("x", 1.31, 1.3, at_least=False), Verdict("y", 2.0, 2.0, at_least=True)]
    lines = report.judged(found).splitlines()
    assert lines[2:] == [
        "| x | 1.31 | at most 1.30 | DOES NOT HOLD |",
        "| y | 2.00 | at least 2.00 | holds |",
    ]


def test_equal_integers_stay_together_in_the_synthetic_setting() -> None:
    found = cell(3, 100.0, seed=5)
    assert found.ours == found.printed == 100.0
    assert cell(1, 60.0, seed=5).printed == 100.0
    drawn = synthetic(4, 60.0, 4000, seed=5).periods[0]
    same = float(np.mean(drawn.left == drawn.right - 4))
    assert same == pytest.approx(0.6, abs=0.05)


def test_the_report_has_every_method_and_price() -> None:
    outcomes = rows(62.0, 4.0)
    text = report.page("Made.", outcomes, [cell(2, 80.0, 1)], verdicts(outcomes, []))
    assert f"| {OURS} | 62.0 / 4.0 / 1.10 / 1.10 |" in text
    assert f"{RECORDS_PER_BYTE:g} (default) | 60 / 40" in text
    assert "DOES NOT HOLD" not in text
