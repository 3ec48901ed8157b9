"""The words for a plan's figures say what is proven, and no more."""

from __future__ import annotations

from ballast.contracts import words


def test_a_gap_of_nothing_is_a_proof() -> None:
    assert words.quality(4.2, 0.0).startswith("proven optimal")


def test_a_gap_says_how_far_the_best_possible_can_be() -> None:
    said = words.quality(1.5, 0.5)
    assert said.startswith("at most 0.50 points from the best possible")
    assert "no plan within the budget is below 1.50 %" in said


def test_a_small_gap_is_not_rounded_away() -> None:
    assert "at most 0.0003 points" in words.quality(0.0, 0.0003)


def test_progress_names_the_steps_that_helped() -> None:
    trace = [[0.0, "start", 40.0], [0.5, "search", 2.0], [0.7, "milp", 9.0], [0.9, "milp", 1.0]]
    assert words.progress(trace) == (
        "40.00 % after 0.00 s (start), 2.00 % after 0.50 s (search), 1.00 % after 0.90 s (milp)"
    )
    assert words.progress([]) == ""


def test_small_steps_of_a_progress_can_be_told_apart() -> None:
    said = words.progress([[0.1, "search", 0.0042], [0.2, "search", 0.00067]])
    assert said == "0.0042 % after 0.10 s (search), 0.00067 % after 0.20 s (search)"


def test_a_long_progress_keeps_its_start_and_its_end() -> None:
    said = words.progress([[s, "search", 100.0 - s] for s in range(50)])
    assert said.startswith("100.00 % after 0.00 s")
    assert said.endswith("51.00 % after 49.00 s (search)")
    assert said.count(" % ") == 5
