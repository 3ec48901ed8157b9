"""Counts are compared with visits: lost, doubled, and processed again without harm."""

from __future__ import annotations

from pathlib import Path

from examples.visits.check import VisitCounts, visit_counts


def counts(folder: Path, *logs: str) -> VisitCounts:
    for number, text in enumerate(logs):
        (folder / f"{number}.log").write_text(text)
    return visit_counts(folder)


def test_every_visit_once_is_exact(tmp_path: Path) -> None:
    found = counts(tmp_path, "7 1 0\n7 2 2\n", "8 1 1\n")
    assert found == VisitCounts(3, 0, 0, 0)
    assert found.is_exact


def test_visits_after_a_checkpoint_are_processed_again_and_counted_once(tmp_path: Path) -> None:
    assert counts(tmp_path, "7 1 0\n7 2 1\n", "7 2 1\n7 3 2\n") == VisitCounts(3, 0, 0, 1)


def test_a_state_that_went_back_without_its_source_loses(tmp_path: Path) -> None:
    assert counts(tmp_path, "7 1 0\n7 2 1\n", "7 2 2\n").lost == 1


def test_a_source_that_went_back_without_its_state_doubles(tmp_path: Path) -> None:
    assert counts(tmp_path, "7 1 0\n7 2 1\n", "7 3 1\n7 4 2\n").doubled == 1


def test_a_visit_that_nobody_saw_is_lost(tmp_path: Path) -> None:
    assert counts(tmp_path, "7 1 0\n7 2 2\n").lost == 1


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    assert counts(tmp_path, "7 1 0\n7 2").visits == 1
    assert counts(tmp_path).visits == 1


def test_no_log_is_no_visit(tmp_path: Path) -> None:
    assert counts(tmp_path) == VisitCounts(0, 0, 0, 0)
