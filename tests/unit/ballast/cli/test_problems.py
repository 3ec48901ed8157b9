"""`ballast solve` and `ballast verify` as commands."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ballast.cli import problems
from ballast.cli.convert import to_folder, to_objective, to_problem
from ballast.contracts.errors import BallastError, InvalidInput, ProblemError
from ballast.problems import read_problem, write_problem
from bench.make_problem import main as make_problem


def ballast(*words: object) -> int:
    parser = argparse.ArgumentParser()
    problems.register(parser.add_subparsers(required=True))
    args = parser.parse_args([str(word) for word in words])
    return int(args.run(args))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "problem"
    make_problem(
        [
            "--key-groups",
            "40",
            "--nodes",
            "4",
            "--moves",
            "6",
            "--traffic",
            "2",
            "--seed",
            "1",
            "--resources",
            "2",
            "--capacities",
            "1,2",
            "--draining",
            "1",
            "--out",
            str(root),
        ]
    )
    return root


def test_solve_writes_what_verify_accepts(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert ballast("solve", folder, "--seconds", 2, "--seed", 3, "--out", out) == 0
    assert "load distance" in capsys.readouterr().out
    assert pq.read_schema(out / "assignment.parquet").names == ["key_group_id", "node_id"]
    figures = json.loads((out / "result.json").read_text())
    assert figures["moves"] <= 6
    assert figures["load_distance"] < figures["load_distance_before"]
    assert ballast("verify", folder, out) == 0


@pytest.mark.parametrize("method", ["auto", "milp", "flux", "unchanged"])
def test_every_method_can_be_asked_for(folder: Path, tmp_path: Path, method: str) -> None:
    out = tmp_path / "out"
    assert ballast("solve", folder, "--method", method, "--steps", 20, "--out", out) == 0
    assert ballast("verify", folder, out) == 0


def test_verify_names_every_broken_promise(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    ballast("solve", folder, "--method", "flux", "--out", out)
    table = pq.read_table(out / "assignment.parquet")
    everything_on_one = pa.array(["node-3"] * len(table))
    pq.write_table(table.set_column(1, "node_id", everything_on_one), out / "assignment.parquet")
    capsys.readouterr()
    assert ballast("verify", folder, out) == 5
    said = capsys.readouterr().err
    assert "budget.moves: " in said
    assert "allowed 6" in said
    assert "load_distance: promised" in said
    assert ballast("verify", folder, out, "--json") == 5
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert "moves" in [v["promise"] for v in found["violations"]]


def test_verify_wants_the_figures_said(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    ballast("solve", folder, "--method", "flux", "--out", out)
    (out / "result.json").write_text("{}")
    capsys.readouterr()
    assert ballast("verify", folder, out) == 5
    assert "bound: result.json does not say it" in capsys.readouterr().err


def test_verify_takes_no_number_that_is_beyond_all_measure(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    ballast("solve", folder, "--method", "flux", "--out", out)
    figures = json.loads((out / "result.json").read_text())
    (out / "result.json").write_text(json.dumps({**figures, "load_distance": 10**400}))
    capsys.readouterr()
    assert ballast("verify", folder, out) == 5
    assert "load_distance: promised 1000" in capsys.readouterr().err


def test_verify_misses_no_assignment(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    ballast("solve", folder, "--method", "flux", "--out", out)
    (out / "assignment.parquet").unlink()
    assert ballast("verify", folder, out) == 5
    assert "assignment.parquet is missing" in capsys.readouterr().err


def test_an_infeasible_problem_ends_with_3_and_result_json_alone(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = pq.read_table(folder / "nodes.parquet")
    at = nodes.column_names.index("state")
    dead = nodes.set_column(at, "state", pa.array(["dead"] * len(nodes)))
    pq.write_table(dead, folder / "nodes.parquet")
    out = tmp_path / "out"
    assert ballast("solve", folder, "--out", out) == 3
    assert [p.name for p in out.iterdir()] == ["result.json"]
    figures = json.loads((out / "result.json").read_text())
    assert figures["status"] == "infeasible"
    assert "no node is alive" in figures["reason"]
    assert "infeasible" in capsys.readouterr().out
    assert ballast("verify", folder, out) == 0


@pytest.mark.parametrize("words", [["--seconds", "0"], ["--method", "magic"], ["--seconds", "nan"]])
def test_bad_arguments_end_with_2_and_leave_no_out(
    folder: Path, tmp_path: Path, words: list[str]
) -> None:
    with pytest.raises(InvalidInput) as caught:
        ballast("solve", folder, *words, "--out", tmp_path / "out")
    assert caught.value.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_a_bad_folder_ends_with_2_and_leaves_no_out(folder: Path, tmp_path: Path) -> None:
    (folder / "problem.json").write_text('{"objective": "collocate"}')
    with pytest.raises(ProblemError, match="collocate"):
        ballast("solve", folder, "--out", tmp_path / "out")
    with pytest.raises(ProblemError, match="is not a folder"):
        ballast("solve", tmp_path / "nowhere", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_out_that_holds_something_else_is_refused_before_solving(folder: Path) -> None:
    with pytest.raises(BallastError, match="other than a result"):
        ballast("solve", folder, "--out", folder)


def test_parameters_of_a_method_come_from_problem_json(folder: Path, tmp_path: Path) -> None:
    settings = json.loads((folder / "problem.json").read_text())
    (folder / "problem.json").write_text(json.dumps({**settings, "params": {"flux": {"x": 1}}}))
    with pytest.raises(InvalidInput, match="x"):
        ballast("solve", folder, "--method", "flux", "--out", tmp_path / "out")


def test_json_prints_the_figures(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ballast("solve", folder, "--method", "flux", "--out", tmp_path / "out", "--json")
    assert json.loads(capsys.readouterr().out)["method"] == "flux"


def test_names_keep_the_type_they_have_in_the_problem(folder: Path, tmp_path: Path) -> None:
    (folder / "traffic.parquet").unlink()
    groups = pq.read_table(folder / "key_groups.parquet")
    numbered = groups.set_column(0, "key_group_id", pa.array(range(len(groups))))
    pq.write_table(numbered, folder / "key_groups.parquet")
    assert ballast("solve", folder, "--method", "flux", "--out", tmp_path / "out") == 0
    schema = pq.read_schema(tmp_path / "out" / "assignment.parquet")
    assert schema.field("key_group_id").type == pa.int64()
    assert ballast("verify", folder, tmp_path / "out") == 0


def test_a_joint_folder_is_solved_and_verified_as_one(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = json.loads((folder / "problem.json").read_text())
    joint = {**settings, "objective": "joint", "max_load_distance": 60.0}
    (folder / "problem.json").write_text(json.dumps(joint))
    out = tmp_path / "out"
    assert ballast("solve", folder, "--seed", "1", "--steps", "5", "--out", out) == 0
    assert "traffic within nodes" in capsys.readouterr().out
    figures = json.loads((out / "result.json").read_text())
    assert figures["method"] == "joint"
    assert figures["collocation_factor"] > figures["collocation_factor_before"]
    assert ballast("verify", folder, out) == 0
    with pytest.raises(InvalidInput, match="there is no method 'flux' for joint plans"):
        ballast("solve", folder, "--method", "flux", "--out", tmp_path / "other")


def test_a_load_bound_without_a_joint_objective_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "problem.json").write_text('{"max_load_distance": 5}')
    with pytest.raises(ProblemError, match="if the objective is joint"):
        ballast("solve", folder, "--out", tmp_path / "out")


def test_a_weighted_folder_is_solved_and_verified_by_its_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "level"
    size = ["--key-groups", "40", "--nodes", "4", "--moves", "3", "--traffic", "2"]
    make_problem([*size, "--seed", "1", "--out", str(folder)])
    groups = pq.read_table(folder / "key_groups.parquet").to_pydict()
    nodes = pq.read_table(folder / "nodes.parquet")["node_id"].to_pylist()
    groups |= {"load_cpu": [1.0] * 40, "node_id": [nodes[k % 4] for k in range(40)]}
    pq.write_table(pa.table(groups), folder / "key_groups.parquet")
    settings = json.loads((folder / "problem.json").read_text())

    def weigh(**weights: float) -> None:
        given = {**settings, "objective": "joint", "trade": "weighted", **weights}
        (folder / "problem.json").write_text(json.dumps(given))

    weigh(traffic_weight=50.0)
    out = tmp_path / "out"
    assert ballast("solve", folder, "--seed", "1", "--steps", "5", "--out", out) == 0
    figures = json.loads((out / "result.json").read_text())
    assert figures["collocation_factor"] > figures["collocation_factor_before"]
    assert figures["load_distance"] > figures["load_distance_before"]
    assert ballast("verify", folder, out) == 0
    weigh(traffic_weight=0.001)
    capsys.readouterr()
    assert ballast("verify", folder, out) == problems.EXIT_BROKEN_PROMISE
    assert "better_than_nothing: by weights" in capsys.readouterr().err


def test_the_weights_of_a_folder_survive_a_round_trip(folder: Path, tmp_path: Path) -> None:
    given = {"objective": "joint", "trade": "weighted", "traffic_weight": 3.0, "load_weight": 0.5}
    (folder / "problem.json").write_text(json.dumps(given))
    read = read_problem(folder)
    problem, budget = to_problem(read)
    write_problem(tmp_path / "again", to_folder(problem, budget, to_objective(read)))
    assert read_problem(tmp_path / "again").trade_weights == read.trade_weights
    assert json.loads((tmp_path / "again" / "problem.json").read_text())["load_weight"] == 0.5
