"""``ballast frontier`` sweeps a folder or a job, and draws the points."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ballast.cli.chart import Chart, Series, nice_ticks, short_number, to_svg
from ballast.cli.convert import to_folder
from ballast.cli.main import main
from ballast.contracts.settings import load_settings
from ballast.problems import write_problem
from ballast.store.table_schema import ensure_tables
from solvers.model.budget import Budget
from solvers.model.objective import Objective
from tests.support.policies import small_policy
from tests.support.snapshots import uneven, write_snapshot
from tests.unit.solvers.instances import make

QUICK = ["--seconds", "1", "--points", "4"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    problem = make(
        rng.lognormal(0, 0.8, 40), rng.integers(0, 4, 40), state_bytes=rng.integers(1, 900, 40)
    )
    write_problem(tmp_path / "problem", to_folder(problem, Budget(moves=20)))
    return tmp_path / "problem"


def test_a_folder_gives_a_table_and_a_picture(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "front.svg"
    assert main(["frontier", str(folder), *QUICK, "--picture", str(picture)]) == 0
    shown = capsys.readouterr()
    assert "moves allowed" in shown.out
    assert "bytes allowed" in shown.out
    assert "95 % or more of what any budget here buys" in shown.out
    assert shown.err == f"picture: {picture}\n"
    root = ElementTree.fromstring(picture.read_text())
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert "Load distance against moves" in texts
    assert "Load distance against bytes" in texts


def test_json_and_csv_hold_the_same_points(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["frontier", str(folder), *QUICK, "--by", "moves", "--no-picture"]
    assert main([*common, "--json"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert points[0]["limit"] == 0
    assert points[0]["moves"] == 0
    assert points[-1]["limit"] is None
    assert main([*common, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert list(rows[0]) == list(points[0])


def test_a_job_is_swept_from_its_newest_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BALLAST_HOME", str(tmp_path))
    monkeypatch.delenv("BALLAST_WAREHOUSE", raising=False)
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    ensure_tables(settings)
    policy = small_policy("probe")
    write_snapshot(settings, policy, "run-1", placement=uneven(policy))
    assert main(["frontier", "probe", *QUICK, "--by", "moves", "--json"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert points[0]["load_distance_pct"] == pytest.approx(100.0)
    assert points[-1]["load_distance_pct"] == pytest.approx(0.0)
    assert (tmp_path / "frontier-probe.svg").exists()


def changed(folder: Path, **values: Any) -> Path:
    """The folder with other values in its problem.json."""
    file = folder / "problem.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))
    return folder


def test_the_objective_of_a_folder_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = {"traffic_from": [0, 1, 2], "traffic_to": [3, 4, 5], "traffic_rate": [5.0, 5.0, 5.0]}
    problem = make(np.ones(6), [0, 0, 0, 1, 1, 1], **ends)
    write_problem(tmp_path / "p", to_folder(problem, Budget(), Objective("joint", 50.0)))
    common = ["frontier", str(tmp_path / "p"), *QUICK, "--by", "moves", "--no-picture"]
    assert main([*common, "--json"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert {point["method"] for point in points} == {"joint"}
    assert points[0]["traffic_within_nodes_pct"] == 0
    assert points[-1]["traffic_within_nodes_pct"] > 50
    assert points[-1]["on_front"]
    assert main(common) == 0
    assert "traffic within nodes, %" in capsys.readouterr().out


def test_the_parameters_of_a_folder_reach_the_methods(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed(folder, params={"search": {"no_such_thing": 1}})
    assert main(["frontier", str(folder), *QUICK, "--no-picture"]) == 2
    assert "no_such_thing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere/at/all"], "is not a folder"),
        (["No Job"], "No Job"),
        (["probe"], "has no snapshot"),
    ],
)
def test_a_target_that_is_not_there_is_named(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("BALLAST_HOME", str(tmp_path))
    monkeypatch.delenv("BALLAST_WAREHOUSE", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(["frontier", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_bad_numbers_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["frontier", str(folder), "--points", "1", "--no-picture"]) == 2
    assert "points is 1" in capsys.readouterr().err
    assert main(["frontier", str(folder), "--seconds", "0", "--no-picture"]) == 2


def test_an_infeasible_problem_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_problem(tmp_path / "p", to_folder(make([1.0], [0], states=["draining"]), Budget(moves=1)))
    assert main(["frontier", str(tmp_path / "p"), *QUICK, "--no-picture"]) == 3
    assert "no node is alive" in capsys.readouterr().err


def test_a_sweep_that_the_other_limit_makes_infeasible_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two key groups have to move, and one move is allowed: no budget of bytes helps."""
    lists = np.array([[False, True], [False, True], [True, True]])
    problem = make([1.0, 2.0, 3.0], [0, 0, 0], nodes=2, allowed=lists)
    write_problem(tmp_path / "p", to_folder(problem, Budget(moves=1)))
    assert main(["frontier", str(tmp_path / "p"), *QUICK, "--no-picture"]) == 0
    assert "no limit of bytes: 2 key group(s)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("largest", "ticks"),
    [(0.0, [0.0, 1.0]), (7.0, [0, 2, 4, 6, 8]), (50.0, [0, 10, 20, 30, 40, 50])],
)
def test_ticks_are_round_numbers(largest: float, ticks: list[float]) -> None:
    assert nice_ticks(largest) == ticks


def test_a_chart_without_points_is_still_a_picture() -> None:
    chart = Chart("a < b", "x", "y", [Series("none", [])])
    assert "a &lt; b" in to_svg([chart])
    assert short_number(1_500_000) == "1.5M"
