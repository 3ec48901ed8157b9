"""Medians, tolerances and verdicts of the comparison, and the judgement of an answer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.rebalance.cells import TEN_CELLS, problem_of
from bench.rebalance.measure import BROKEN, NO_PLAN, OK, PeerOutcome, PeerTask, judge
from bench.rebalance.peers.exchange import Answer
from bench.rebalance.plots import curve
from bench.rebalance.table import (
    CellVerdict,
    figures_of,
    is_better,
    late_verdict,
    markdown,
    matched_often_enough,
    verdict,
)


def outcome(peer: str, distance: float, *, limit: float = 1, seconds: float = 1) -> PeerOutcome:
    status = NO_PLAN if math.isnan(distance) else OK
    return PeerOutcome(peer, "1", 0, 0, limit, status, distance, 50.0, seconds=seconds)


def test_a_run_without_a_plan_counts_as_the_worst_figure_of_the_median() -> None:
    rows = [outcome("cbc", 3.0), outcome("cbc", math.nan), outcome("cbc", 1.0)]
    assert figures_of(rows)["cbc", 1].median == 3.0
    rows.append(outcome("cbc", math.nan))
    assert math.isinf(figures_of(rows)["cbc", 1].median)
    assert "no plan (2/4)" in figures_of(rows)["cbc", 1].text()


@pytest.mark.parametrize(
    ("peer", "ours", "expected"),
    [
        (1.0, 1.0099, False),
        (1.0, 1.0101, True),
        (0.01, 0.0109, False),
        (0.01, 0.0111, True),
        (0.0, 0.0009, False),
        (math.inf, 5.0, False),
        (1.0, math.inf, True),
    ],
)
def test_better_means_by_more_than_a_percent_or_a_thousandth(
    peer: float, ours: float, expected: bool
) -> None:
    assert is_better(peer, ours) is expected


def test_a_verdict_names_the_peers_that_are_better_at_the_same_limit() -> None:
    rows = [
        outcome("ours", 1.0),
        outcome("meta", 0.5),
        outcome("cbc", 2.0),
        outcome("highs", 0.1, limit=20),
    ]
    found = verdict("1", figures_of(rows), 1)
    assert not found.holds
    assert found.better_peers == ("meta",)
    assert late_verdict("1", figures_of(rows), 1, 20).better_peers == ("meta", "highs")


def test_ours_taking_longer_than_it_may_fails_the_verdict() -> None:
    rows = [outcome("ours", 1.0, seconds=1.4), outcome("meta", 2.0)]
    found = verdict("1", figures_of(rows), 1)
    assert not found.holds
    assert "1.40 s" in found.text()


def test_nine_of_ten_cells_are_enough_against_the_long_limit() -> None:
    good, bad = CellVerdict("1", ()), CellVerdict("2", ("meta",))
    assert matched_often_enough([good] * 9 + [bad])
    assert not matched_often_enough([good] * 8 + [bad] * 2)


def test_the_table_has_a_line_a_cell_and_a_column_a_peer() -> None:
    rows = [outcome("ours", 1.0), outcome("meta", 2.0)]
    verdicts = [[verdict("1", figures_of(rows), 1)]]
    text = markdown(TEN_CELLS[:2], rows, [("ours", 1), ("meta", 1)], verdicts, ["verdict"])
    assert text.splitlines()[0].endswith("| ours 1 s | meta 1 s | verdict |")
    assert len(text.splitlines()) == 3
    assert text.endswith("| 1 | 2 | ok |")


def test_a_plan_over_the_budget_is_no_plan() -> None:
    instance, seed = TEN_CELLS[0].draw(1, 0)
    problem, budget = problem_of(instance)
    task = PeerTask("1", 0, seed, instance)
    scattered = (instance.current + 1) % problem.n_nodes
    found = judge("meta", task, 1, Answer(scattered, 1.0), problem, budget)
    assert found.status == BROKEN
    assert "budget.moves" in found.note
    assert math.isinf(found.figure)


def test_a_good_plan_is_judged_by_its_assignment_alone() -> None:
    instance, seed = TEN_CELLS[0].draw(1, 0)
    problem, budget = problem_of(instance)
    task = PeerTask("1", 0, seed, instance)
    one_move = instance.current.copy()
    one_move[0] = (one_move[0] + 1) % problem.n_nodes
    found = judge("meta", task, 1, Answer(one_move, 1.0, "0.0 %"), problem, budget)
    assert (found.status, found.moves) == (OK, 1)
    assert found.bytes == int(instance.state_bytes[0])
    assert found.load_distance > 1
    nowhere = np.full_like(one_move, 99)
    assert judge("meta", task, 1, Answer(nowhere, 1.0), problem, budget).status == BROKEN


def test_outcomes_survive_json() -> None:
    for row in (outcome("ours", 1.0), outcome("ours", math.nan)):
        again = PeerOutcome.from_dict(row.to_dict())
        assert again.status == row.status
        assert again.figure == row.figure


def test_a_curve_falls_and_ends_at_the_last_moment() -> None:
    row = PeerOutcome(
        "ours", "1", 0, 0, 1, OK, 0.5, 50.0, seconds=1.0, trace=((0.1, 3.0), (0.2, 4.0), (0.4, 1.0))
    )
    assert curve([row]) == [(0.1, 3.0), (0.4, 1.0), (1.0, 0.5), (1.0, 0.5)]


def test_an_instance_with_more_runs_weighs_no_more_in_the_bound() -> None:
    rows = [
        PeerOutcome("ours", "1", index, 0, limit, OK, bound, bound + 10, extra={"bound": bound})
        for index, limit, bound in (
            (0, 1, 9.0), (0, 5, 9.0), (0, 20, 9.0), (1, 1, 1.0), (2, 1, 2.0),
        )
    ]  # fmt: skip
    line = markdown(TEN_CELLS[:1], rows, [("ours", 1)], [], []).splitlines()[-1]
    assert [cell.strip() for cell in line.split("|")[3:5]] == ["12", "2"]
