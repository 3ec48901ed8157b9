"""Rounds, the obtainable collocation, verdicts, tables, and the claims of the paper."""

from __future__ import annotations

import math

import pytest

from bench.collocation import paper, table
from bench.collocation.__main__ import tasks_of
from bench.collocation.methods import (
    ALBIC,
    ALBIC_M,
    COLA,
    METHODS,
    OURS,
    UNLEVELLED,
    CollocationSetting,
    step_of,
)
from bench.collocation.plots import panels
from bench.collocation.rounds import (
    HELD,
    PATIENCE,
    CollocationRound,
    CollocationRun,
    History,
    best_within,
    is_held,
    is_stuck,
    obtainable,
    over_bound,
    over_budget,
    rounds_to,
    run_of,
    simulate,
)
from bench.collocation.settings import ONE_SIZE, SHAPES, SIZES, setting_of, settings_of
from bench.collocation.verdicts import points_below, rounds_later, times_the_bound, verdicts
from bench.common.seeds import seed_of
from bench.simulator.traffic import CHAINS, Scenario


def climb(*collocation: float, distance: float = 5.0, moves: int = 10) -> list[CollocationRound]:
    return [CollocationRound(c, distance, moves) for c in collocation]


def run(
    ours: History, albic_m: History, *, shape: str = "pairs", wanted: float = 80.0, fewest: int = 3
) -> CollocationRun:
    histories = {
        OURS: ours,
        UNLEVELLED: ours,
        ALBIC_M: albic_m,
        ALBIC: climb(1.0),
        COLA: climb(90.0, moves=300),
    }
    return CollocationRun(setting_of(20, shape), 7, 0, wanted, fewest, histories)


def verdict_on(what: str, runs: list[CollocationRun]) -> bool:
    return next(v.holds for v in verdicts(runs) if v.what.startswith(what))


def test_levelling_is_judged_where_both_ways_end_with_everything_together() -> None:
    together = run(climb(*[100.0] * 12, distance=2.0), climb(1.0))
    claim = "load distance at the end of pairs"
    for without, holds in ((8.0, True), (3.0, False)):
        histories = {**together.histories, UNLEVELLED: climb(*[100.0] * 12, distance=without)}
        one = CollocationRun(together.setting, 7, 0, 80.0, 3, histories)
        assert verdict_on(claim, [one]) is holds
    apart = run(climb(*[60.0] * 12), climb(1.0))
    assert not any(v.what.startswith(claim) for v in verdicts([apart]))


def test_the_table_of_the_end_has_means_of_the_last_rounds_and_their_bounds() -> None:
    history = [*climb(*[50.0] * 5), *[CollocationRound(99.0, 3.0, 4, 100.0, 1.0)] * HELD]
    text = table.end_table([run(history, climb(1.0))])
    assert text.splitlines()[-1] == ("| 20 nodes, pairs | 99.0 | 100.0 | 99.0 | 3.0 | 1.0 | 3.0 |")


# ------------------------------------------------------------------ rounds


def test_rounds_are_counted_from_one_and_a_goal_not_reached_has_none() -> None:
    assert rounds_to(climb(10, 50, 90), 50) == 2
    assert rounds_to(climb(10, 50, 90), 91) is None


def test_obtainable_counts_only_rounds_within_the_load_bound() -> None:
    histories = [climb(40, 60), climb(99, distance=10.5), climb(70, distance=10.0)]
    assert obtainable(histories, 10.0) == 70
    assert best_within(histories[1], 10.0) == 0


def test_rounds_over_the_budget_are_counted() -> None:
    assert over_budget([CollocationRound(1, 1, 10), CollocationRound(1, 1, 11)], 10) == 1


def test_a_start_beyond_the_load_bound_may_be_repaired_but_never_left_again() -> None:
    distances = [30.0, 15.0, 9.0, 10.0, 10.1, 9.0]
    assert over_bound([CollocationRound(1, d, 1) for d in distances], 10.0) == 1
    assert over_bound([CollocationRound(1, 30.0, 1)] * 3, 10.0) == 3


def test_a_method_is_stuck_after_many_rounds_without_a_higher_collocation() -> None:
    assert not is_stuck(climb(5, *[4.0] * (PATIENCE - 1)))
    assert is_stuck(climb(5, *[4.0] * PATIENCE))
    assert is_stuck(climb(5, *[5.05] * PATIENCE))
    assert not is_stuck(climb(5, *[4.0] * (PATIENCE - 1), 6))


def test_a_history_goes_on_for_a_while_once_all_is_together() -> None:
    """The last rounds show what a method keeps, not how it got there."""
    met = climb(50, *[100] * HELD)
    assert not is_held(met)
    assert is_held([*met, *climb(100)])
    assert is_held([*climb(100), *climb(*[90] * HELD)]), "loads that drift may part some again"


def test_a_simulated_history_repeats_and_keeps_its_budget() -> None:
    setting = CollocationSetting("small", Scenario(4, CHAINS), moves=3)
    one, two = (simulate(step_of(OURS, setting), setting, 5, 3) for _ in range(2))
    assert one == two
    assert all(r.moves <= 3 for r in one)
    assert one[2].collocation > one[0].collocation


def test_the_lower_bound_is_of_the_wanted_share_of_what_was_obtained() -> None:
    setting = setting_of(20, "pairs")
    found = run_of(setting, 3, 0, {method: climb(80.0) for method in METHODS})
    assert found.wanted == pytest.approx(72.0)
    # 200 pairs, of which about 10 are together at random: 134 moves, 10 a round.
    assert 12 <= found.fewest <= 15


# ------------------------------------------------------------------ verdicts


def test_one_round_later_than_albic_with_m_pairs_holds_and_two_do_not() -> None:
    early = climb(10, 85)
    assert verdict_on("rounds more", [run(climb(10, 20, 85), early)])
    assert not verdict_on("rounds more", [run(climb(10, 20, 30, 85), early)])


def test_never_arriving_is_later_than_any_round_unless_no_method_arrives() -> None:
    assert rounds_later(run(climb(10, 20), climb(10, 85))) == math.inf
    assert rounds_later(run(climb(10, 20), climb(10, 30))) == 0
    assert rounds_later(run(climb(10, 85), climb(10, 30))) == -1


def test_stuck_below_the_baseline_is_by_the_best_that_each_had_within_the_load_bound() -> None:
    assert points_below(run(climb(10, 85), climb(10, 80, 86))) == pytest.approx(1)
    assert points_below(run(climb(10, 85), climb(10, 99, distance=11))) == 0
    assert not verdict_on("points that", [run(climb(10, 85), climb(10, 86))])


def test_the_limit_over_the_lower_bound_is_for_unskewed_settings_alone() -> None:
    slow = climb(*[10] * 19, 85)
    assert times_the_bound(run(slow, slow, fewest=18)) == pytest.approx(20 / 18)
    assert not verdict_on("times the lower", [run(slow, slow, fewest=18)])
    assert verdict_on("times the lower", [run(slow, slow, shape="chains", fewest=18)])
    skewed = verdicts([run(slow, slow, shape="pairs-skewed", fewest=1)])
    assert not [v for v in skewed if v.what.startswith("times")]


def test_the_worst_run_decides_and_is_named() -> None:
    good, bad = run(climb(85), climb(85)), run(climb(85, moves=11), climb(85), shape="chains")
    found = next(v for v in verdicts([good, bad]) if "budget" in v.what)
    assert (found.holds, found.where, found.figure) == (False, "20 nodes, chains, seed 1", "1")
    over = run([CollocationRound(85, 4.0, 1), CollocationRound(86, 11.0, 1)], climb(85))
    assert not verdict_on("rounds over the load bound", [good, over])


# ------------------------------------------------------------------ tables, settings, the print


def test_the_table_has_a_line_a_setting_and_a_figure_a_seed() -> None:
    runs = [run(climb(10, 85), climb(10)), run(climb(85), climb(85))]
    line = table.rounds_table(runs).splitlines()[-1]
    assert line.startswith(
        "| 20 nodes, pairs | 80.0 / 80.0 | 3 / 3 | 2 / 1 | 2 / 1 | not in 1 (10 %) / 1 |"
    )
    assert "| 1 | 10.0 / 5.0 / 10 |" in table.progress_table(runs[0])


def test_every_shape_runs_somewhere_and_named_ones_where_asked() -> None:
    names = [setting.name for setting in settings_of(None, None)]
    assert len(names) == len(set(names))
    assert {name.split(", ")[1] for name in names} == set(SHAPES)
    assert [s.name for s in settings_of([20], ["pairs-25"])] == ["20 nodes, pairs-25"]
    assert not [s for s in settings_of([60], None) if s.name.endswith("pairs-merge")]
    assert set(ONE_SIZE.values()) <= set(SIZES)


def test_seeds_differ_by_base_setting_and_index_and_repeat() -> None:
    seeds = {seed_of(b, n, i) for b in (1, 2) for n in ("a", "b") for i in (0, 1)}
    assert len(seeds) == 8
    assert seed_of(1, "a", 0) == seed_of(1, "a", 0)
    assert len(tasks_of([setting_of(20, "pairs")], 3, 1)) == 3 * len(METHODS)


def test_panels_have_the_first_seed_of_each_size_and_shape() -> None:
    runs = [
        run(climb(1), climb(1)),
        run(climb(2), climb(2)),
        run(climb(3), climb(3), shape="chains"),
    ]
    assert [[r.histories[OURS][0].collocation for r in row if r] for row in panels(runs)] == [
        [1, 3]
    ]


def with_ends(albic: tuple[float, float], cola: tuple[float, float]) -> CollocationRun:
    histories = {
        OURS: climb(1.0),
        ALBIC_M: climb(1.0),
        ALBIC: [CollocationRound(*albic, 1)] * 20,
        COLA: [CollocationRound(*cola, 300)] * 3,
    }
    return CollocationRun(setting_of(40, "pairs-50"), 7, 0, 1.0, 1, histories)


@pytest.mark.parametrize(
    ("albic", "cola", "agree"),
    [
        ((50.0, 1.0), (45.0, 9.0), [True, True, True, True]),
        ((50.0, 9.5), (45.0, 9.0), [False, True, False, True]),
        ((45.0, 1.0), (50.0, 9.0), [True, False, True, False]),
        ((90.0, 1.0), (50.0, 9.0), [True, False, True, True]),
    ],
)
def test_the_printed_sentences_are_tested_literally(
    albic: tuple[float, float], cola: tuple[float, float], agree: list[bool]
) -> None:
    assert [claim.agrees for claim in paper.claims([with_ends(albic, cola)])] == agree


def test_without_the_papers_settings_nothing_is_said_of_it() -> None:
    assert paper.section([run(climb(1), climb(1))]) == ""
    assert "a curve" in paper.section([with_ends((1, 1), (1, 1))])
