"""Result folders are written as a whole or not at all, and replace no other folder."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from ballast.contracts.errors import ProblemError
from ballast.problems import read_result, write_result

ROWS = (pa.array(["x", "y"]), pa.array(["a", "b"]))


def test_a_result_survives_a_round_trip(tmp_path: Path) -> None:
    write_result(tmp_path / "deep" / "out", {"moves": 1}, ROWS)
    result = read_result(tmp_path / "deep" / "out")
    assert result.figures == {"moves": 1}
    assert result.assignment == (["x", "y"], ["a", "b"])
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["out"]


def test_an_infeasible_result_is_result_json_alone_and_replaces_an_older_one(
    tmp_path: Path,
) -> None:
    write_result(tmp_path / "out", {"moves": 1}, ROWS)
    write_result(tmp_path / "out", {"status": "infeasible"}, None)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["result.json"]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert read_result(tmp_path / "out").assignment is None


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write_result(tmp_path / "out", {}, ROWS)
    assert read_result(tmp_path / "out").figures == {}


def test_a_folder_with_anything_else_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(ProblemError, match="other than a result"):
        write_result(tmp_path, {}, ROWS)
    assert [p.name for p in tmp_path.iterdir()] == ["precious.txt"]


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ProblemError, match="not a folder"):
        write_result(tmp_path / "out", {}, ROWS)
    assert (tmp_path / "out").read_text() == "mine"


def test_figures_that_json_cannot_hold_leave_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_result(tmp_path / "out", {"bound": float("nan")}, ROWS)
    assert list(tmp_path.iterdir()) == []


def test_result_json_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("{,}")
    with pytest.raises(ProblemError, match=r"result\.json"):
        read_result(tmp_path)
    (tmp_path / "result.json").write_text(json.dumps([1]))
    with pytest.raises(ProblemError, match="JSON object"):
        read_result(tmp_path)
