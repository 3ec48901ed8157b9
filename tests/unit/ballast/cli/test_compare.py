"""``ballast compare`` plans with every method that fits, verifies each, and draws the figures."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ballast.cli.compare_chart import MethodFigures, compare_picture
from ballast.cli.convert import to_folder
from ballast.cli.main import main
from ballast.problems import write_problem
from solvers.model.budget import Budget
from solvers.model.objective import Objective
from solvers.planner import registry
from tests.unit.solvers.instances import make

QUICK = ["--seconds", "0.2"]
JOINT = Objective("joint", max_load_distance=40.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """24 key groups on three nodes, of which every one sends to the next."""
    rng = np.random.default_rng(3)
    problem = make(
        rng.lognormal(0, 0.5, 24), rng.integers(0, 3, 24), nodes=3,
        state_bytes=rng.integers(1, 900, 24), capacity=[[20.0]] * 3,
        traffic_from=np.arange(23), traffic_to=np.arange(1, 24), traffic_rate=rng.random(23),
    )  # fmt: skip
    write_problem(tmp_path / "balance", to_folder(problem, Budget(moves=6)))
    write_problem(tmp_path / "joint", to_folder(problem, Budget(moves=6), JOINT))
    return tmp_path


@pytest.mark.parametrize("kind", ["balance", "joint"])
def test_every_method_that_fits_has_a_verified_plan_within_the_budget(
    folder: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(folder / kind), *QUICK, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["methods"]
    methods = registry.JOINT if kind == "joint" else registry.BALANCE
    names = {row["method"] for row in rows}
    assert names >= set(methods)
    run = [row for row in rows if row["verified"] is not None]
    assert all(row["verified"] and row["moves"] <= 6 for row in run)
    unfit = {row["method"]: row["note"] for row in rows if row["verified"] is None}
    assert all(unfit.values())
    if kind == "balance":
        assert set(unfit) == {
            "static_mapping", "dynamic_mapping", "static_mapping (first placement)",
            "components (first placement)",
        }  # fmt: skip


def test_the_table_says_what_was_undone_and_what_does_not_fit(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = folder / "compare.svg"
    command = ["compare", str(folder / "balance"), *QUICK, "--picture", str(picture)]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "24 key groups on 3 nodes, objective balance, budget 6 moves" in shown
    assert "were undone to keep the budget" in shown
    assert "static_mapping maps operators to clusters of nodes, and none are known" in shown
    assert "Nothing was changed." in shown
    root = ElementTree.fromstring(picture.read_text())
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert "load distance, %" in texts
    assert "clb [AUTODASP17]" in texts


def test_a_problem_without_a_plan_is_infeasible_for_every_method(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = make([1, 1], [0, 0], states=("dead",))
    write_problem(tmp_path / "lost", to_folder(problem, Budget()))
    assert main(["compare", str(tmp_path / "lost"), *QUICK]) == 3
    assert "no node is alive" in capsys.readouterr().out


def test_the_picture_marks_the_bound_and_leaves_out_figures_that_no_method_has() -> None:
    figures = [MethodFigures("elb", "AUTODASP17, ELB", 4.0, 2.0, None, 3, 2000, 0.1)]
    svg = compare_picture("title", figures)
    texts: list[Any] = [each.text for each in ElementTree.fromstring(svg).iter()]
    assert "traffic within nodes, %" not in texts
    assert "2k" in texts
    assert svg.count("stroke-width='2'") == 1
