"""Bad input to ``ballast solve``: one clear line and no result, or infeasible with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ballast.cli.main import main
from solvers.model.budget import Budget
from solvers.model.stop import Stop
from solvers.rebalance import METHODS as REBALANCE_METHODS
from solvers.rebalance.solve import solve
from solvers.verify.assignment import verify
from solvers.verify.infeasible import verify_infeasible
from tests.unit.solvers.instances import make, names

Spoil = Callable[[Path], None]
NODES = {"node_id": ["a", "b"], "cap_cpu": [1.0, 1.0], "state": ["alive", "alive"]}
GROUPS: dict[str, Any] = {
    "key_group_id": ["x", "y", "z"],
    "operator_id": ["o", "o", "o"],
    "node_id": ["a", "a", "a"],
    "load_cpu": [1.0, 1.0, 1.0],
    "state_bytes": [5, 5, 5],
    "pinned": [False, False, False],
}


def write(folder: Path, nodes: dict[str, Any], groups: dict[str, Any], **settings: Any) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "problem.json").write_text(json.dumps(settings))
    pq.write_table(pa.table(nodes), folder / "nodes.parquet")
    pq.write_table(pa.table(groups), folder / "key_groups.parquet")


def nodes(**columns: Any) -> Spoil:
    return lambda folder: write(folder, {**NODES, **columns}, GROUPS)


def groups(**columns: Any) -> Spoil:
    return lambda folder: write(folder, NODES, {**GROUPS, **columns})


def settings(**fields: Any) -> Spoil:
    return lambda folder: write(folder, NODES, GROUPS, **fields)


def cut(file: str) -> Spoil:
    def spoil(folder: Path) -> None:
        write(folder, NODES, GROUPS)
        content = (folder / file).read_bytes()
        (folder / file).write_bytes(content[: len(content) - 20])

    return spoil


def empty(folder: Path) -> None:
    columns = {
        "node_id": pa.array([], pa.string()),
        "cap_cpu": pa.array([], pa.float64()),
        "state": pa.array([], pa.string()),
    }
    write(folder, columns, GROUPS)


NAN = float("nan")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (empty, "there are no nodes"),
        (nodes(cap_cpu=[1.0, 0.0]), "cap_cpu is 0.0 in row 1"),
        (nodes(cap_cpu=[-1.0, 1.0]), "cap_cpu is -1.0 in row 0"),
        (nodes(cap_cpu=[1.0, NAN]), "cap_cpu is nan in row 1"),
        (groups(load_cpu=[1.0, -2.0, 1.0]), "load_cpu is -2.0 in row 1"),
        (groups(load_cpu=[1.0, 1.0, NAN]), "load_cpu is nan in row 2"),
        (groups(load_cpu=[1.0, 1.0, float("inf")]), "load_cpu is inf in row 2"),
        (groups(load_cpu=[1e308, 1e308, 1e308]), "overflows"),
        (groups(node_id=["a", "a", "nowhere"]), "'nowhere' is not a node"),
        (groups(key_group_id=["x", "x", "z"]), "'x' occurs more than once"),
        (nodes(node_id=["a", "a"]), "'a' occurs more than once"),
        (settings(budget={"moves": -1}), "budget.moves is -1"),
        (settings(budget={"moves": "ten"}), "budget.moves is 'ten'"),
        (settings(budget={"bytes": 1.5}), "budget.bytes is 1.5"),
        (settings(budget={"pause_s": NAN}), "budget.pause_s is nan"),
        (settings(budget={"pause_s": True}), "budget.pause_s is True"),
        (groups(load_memory=[1.0, 1.0, 1.0]), "capacities for ['cpu']"),
        (nodes(cap_memory=[1.0, 1.0]), "loads for ['cpu']"),
        (settings(weights={"memory": 2}), "weights has ['memory']"),
        (settings(caps=["cpu"]), "nothing to balance"),
        (cut("nodes.parquet"), "cannot be read as Parquet"),
        (cut("key_groups.parquet"), "cannot be read as Parquet"),
    ],
)
def test_it_is_refused_in_one_line_and_nothing_is_written(
    spoil: Spoil, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(tmp_path / "p")
    assert main(["solve", str(tmp_path / "p"), "--seconds", "1", "--out", str(tmp_path / "r")]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (nodes(state=["draining", "dead"]), "no node is alive"),
        (
            lambda folder: write(
                folder,
                {**NODES, "state": ["dead", "alive"]},
                {**GROUPS, "pinned": [False, True, False]},
            ),
            "pinned key group(s) cannot stay, first 'y' on 'a', which is dead",
        ),
        (
            lambda folder: write(
                folder,
                NODES,
                {**GROUPS, "pinned": [True] * 3, "allowed_nodes": [["b"], None, None]},
                budget={"moves": 1},
            ),
            "pinned key group(s) cannot stay, first 'x'",
        ),
        (
            lambda folder: write(
                folder,
                NODES,
                {**GROUPS, "allowed_nodes": [["b"], ["b"], None]},
                budget={"moves": 1},
            ),
            "is over the budget",
        ),
        (
            lambda folder: write(
                folder,
                {**NODES, "cap_mem": [9.0, 2.0], "state": ["dead", "alive"]},
                {**GROUPS, "load_mem": [1.0, 1.0, 1.0]},
                caps=["mem"],
            ),
            "keeps every node under its cap on 'mem'",
        ),
    ],
)
def test_what_cannot_be_met_is_infeasible_with_the_reason(
    spoil: Spoil, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(tmp_path / "p")
    out = tmp_path / "r"
    assert main(["solve", str(tmp_path / "p"), "--seconds", "1", "--out", str(out)]) == 3
    assert reason in json.loads((out / "result.json").read_text())["reason"]
    assert not (out / "assignment.parquet").exists()
    assert main(["verify", str(tmp_path / "p"), str(out)]) == 0
    capsys.readouterr()


@pytest.mark.parametrize("method", list(REBALANCE_METHODS))
@pytest.mark.parametrize("seed", range(3))
def test_loads_of_thirty_orders_of_magnitude_are_solved(method: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = make(10.0 ** rng.uniform(-12, 18, 60), rng.integers(0, 5, 60))
    budget = Budget(moves=6)
    result = solve(problem, budget, Stop(seconds=0.5), method=method)
    assert verify(problem, budget, names(problem, result.assignment), result.to_dict()) == []
    assert result.load_distance <= result.load_distance_before


@pytest.mark.parametrize("method", list(REBALANCE_METHODS))
def test_a_cluster_without_key_groups_stays_as_it_is(method: str) -> None:
    problem = make([], [], nodes=2)
    result = solve(problem, Budget(), Stop(seconds=0.5), method=method)
    assert (result.status.value, result.load_distance, result.moves) == ("unchanged", 0.0, 0)


@pytest.mark.parametrize("method", list(REBALANCE_METHODS))
def test_room_under_a_cap_is_made_where_the_budget_lets_it(method: str) -> None:
    """Node 2 is dead; its key group fits on node 0 only after another one has left it."""
    problem = make(
        [[1, 3], [1, 3], [1, 4]],
        [0, 1, 2],
        states=["alive", "alive", "dead"],
        capacity=[[1, 6], [1, 6.5], [1, 9]],
        balanced=[True, False],
    )
    with_a_move = solve(problem, Budget(moves=1), Stop(seconds=0.5), method=method)
    assert with_a_move.is_solved
    plan = names(problem, with_a_move.assignment)
    assert verify(problem, Budget(moves=1), plan, with_a_move.to_dict()) == []
    without = solve(problem, Budget(moves=0), Stop(seconds=0.5), method=method)
    assert not without.is_solved
    assert "no plan within the budget" in without.reason
    assert verify_infeasible(problem, Budget(moves=0)) == []
