"""Problem folders are unchanged by writing and reading, and errors name what is wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ballast.contracts.errors import ProblemError
from ballast.problems import read_problem, write_problem


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A valid problem folder with every optional part."""
    root = tmp_path / "problem"
    root.mkdir()
    settings = {
        "objective": "balance",
        "budget": {"moves": 2, "bytes": 1000, "pause_s": 3.5},
        "pause_c0_s": 0.2,
        "pause_s_per_byte": 1e-9,
        "weights": {"cpu": 2},
        "caps": ["mem"],
        "params": {"flux": {"patience": 3}},
    }
    (root / "problem.json").write_text(json.dumps(settings))
    nodes = {
        "node_id": ["a", "b"],
        "cap_cpu": [1.0, 2.0],
        "cap_mem": [3, 4],
        "state": ["alive", "draining"],
        "rack": ["r1", None],
    }
    pq.write_table(pa.table(nodes), root / "nodes.parquet")
    groups = {
        "key_group_id": ["x", "y", "z"],
        "operator_id": ["o", "o", "p"],
        "node_id": ["a", "b", "a"],
        "load_mem": [1, 2, 3],
        "load_cpu": [0.5, 0.25, 0.0],
        "state_bytes": [10, 0, 5],
        "pinned": [False, True, False],
        "allowed_nodes": [["a", "b"], None, []],
    }
    pq.write_table(pa.table(groups), root / "key_groups.parquet")
    traffic = {"from_id": ["x", "y"], "to_id": ["y", "z"], "rate": [1.5, 2.0]}
    pq.write_table(pa.table(traffic), root / "traffic.parquet")
    return root


def change(path: Path, name: str, values: Any) -> None:
    table = pq.read_table(path)
    if values is None:
        pq.write_table(table.drop_columns([name]), path)
        return
    column = values if isinstance(values, pa.Array) else pa.array(values)
    if name in table.column_names:
        table = table.set_column(table.column_names.index(name), name, column)
    else:
        table = table.append_column(name, column)
    pq.write_table(table, path)


def test_a_folder_is_read_as_columns(folder: Path) -> None:
    problem = read_problem(folder)
    assert problem.resources == ("cpu", "mem")
    assert problem.budget.moves == 2
    assert problem.budget.pause_s == 3.5
    assert problem.nodes.rack.to_pylist() == ["r1", ""]
    assert problem.key_groups.current.tolist() == [0, 1, 0]
    assert problem.key_groups.load.tolist() == [[0.5, 1], [0.25, 2], [0, 3]]
    allowed = problem.key_groups.allowed
    assert allowed is not None
    assert allowed.restricted.tolist() == [True, False, True]
    assert allowed.indptr.tolist() == [0, 2, 2, 2]
    assert problem.traffic is not None
    assert problem.traffic.to_index.tolist() == [1, 2]
    assert problem.extra == {"params": {"flux": {"patience": 3}}}


def test_a_folder_survives_a_round_trip(folder: Path, tmp_path: Path) -> None:
    once = read_problem(folder)
    write_problem(tmp_path / "copy", once)
    again = read_problem(tmp_path / "copy")
    assert again.budget == once.budget
    assert np.array_equal(again.key_groups.load, once.key_groups.load)
    assert again.key_groups.allowed is not None
    assert once.key_groups.allowed is not None
    assert np.array_equal(again.key_groups.allowed.restricted, once.key_groups.allowed.restricted)
    assert (again.pause_c0_s, again.extra) == (once.pause_c0_s, once.extra)
    assert (again.weights, again.caps) == ({"cpu": 2.0}, ("mem",)) == (once.weights, once.caps)


def test_traffic_rack_pins_allowed_nodes_and_budget_may_be_absent(folder: Path) -> None:
    (folder / "traffic.parquet").unlink()
    (folder / "problem.json").write_text("{}")
    change(folder / "nodes.parquet", "rack", None)
    change(folder / "key_groups.parquet", "pinned", None)
    change(folder / "key_groups.parquet", "allowed_nodes", None)
    problem = read_problem(folder)
    assert problem.traffic is None
    assert problem.key_groups.allowed is None
    assert not problem.key_groups.pinned.any()
    assert problem.budget.moves is None
    assert problem.objective == "balance"


def test_whole_numbers_are_names_too(folder: Path) -> None:
    (folder / "traffic.parquet").unlink()
    change(folder / "key_groups.parquet", "key_group_id", [7, 8, 9])
    problem = read_problem(folder)
    assert problem.key_groups.key_group_ids.to_pylist() == ["7", "8", "9"]
    assert pa.types.is_integer(problem.key_groups.id_type)


def set_json(**settings: Any) -> Callable[[Path], None]:
    return lambda folder: (folder / "problem.json").write_text(json.dumps(settings)) and None


def set_column(file: str, name: str, values: Any) -> Callable[[Path], None]:
    return lambda folder: change(folder / f"{file}.parquet", name, values)


def set_text(file: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / file).write_text(text) and None


def cut(file: str, length: int | None = None) -> Callable[[Path], None]:
    """Keep the first bytes of a file only, half of them by default."""

    def shorten(folder: Path) -> None:
        content = (folder / file).read_bytes()
        (folder / file).write_bytes(content[: len(content) // 2 if length is None else length])

    return shorten


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "nodes.parquet").unlink(), "nodes.parquet is missing"),
        (set_text("problem.json", "{"), "cannot be read as JSON"),
        (set_text("problem.json", "[]"), "a JSON object"),
        (set_text("key_groups.parquet", "PAR1 not"), "cannot be read as Parquet"),
        (set_json(objective="speed"), "objective"),
        (set_json(budget={"move": 3}), "move"),
        (set_json(budget={"moves": -1}), "budget.moves"),
        (set_json(budget={"moves": 1.5}), "budget.moves"),
        (set_json(budget={"bytes": "1"}), "budget.bytes"),
        (set_json(budget={"pause_s": -1}), "budget.pause_s"),
        (set_json(budget=3), "budget"),
        (set_json(budget={"moves": 10**400}), "budget.moves is 1000.*401 characters"),
        (set_json(budget={"bytes": 2**63}), "budget.bytes"),
        (set_json(budget={"pause_s": 10**400}), "budget.pause_s"),
        (set_json(budgett={"moves": 0}), "budgett"),
        (set_json(pause_c0=99), "pause_c0"),
        (set_text("problem.json", '{"budget": {"moves": 0}, "budget": {}}'), "more than once"),
        (set_text("problem.json", '{"pause_c0_s": ' + "9" * 5000 + "}"), "cannot be read as JSON"),
        (set_json(pause_c0_s="x"), "pause_c0_s"),
        (set_json(weights=3), "weights is 3"),
        (set_json(weights={"gpu": 1}), "weights has .*'gpu'"),
        (set_json(weights={"cpu": 0}), "weights.cpu is 0.*name it in caps"),
        (set_json(weights={"cpu": "much"}), "weights.cpu is 'much'"),
        (set_json(caps="mem"), "caps is 'mem'"),
        (set_json(caps=["gpu"]), "caps has .*'gpu'"),
        (set_json(caps=["cpu", "mem"]), "nothing to balance"),
        (set_json(trade="fair"), "trade is 'fair'"),
        (set_json(trade=["weighted"]), "trade is"),
        (set_json(trade="weighted"), "if the objective is joint"),
        (set_json(objective="joint", traffic_weight=2), "traffic_weight is given"),
        (set_json(objective="joint", trade="weighted", load_weight=0), "load_weight is 0"),
        (set_json(objective="joint", trade="weighted", load_weight="x"), "load_weight is 'x'"),
        (
            set_json(objective="joint", trade="weighted", max_load_distance=5),
            "max_load_distance is 5 .* has no bound",
        ),
        (cut("key_groups.parquet"), "cannot be read as Parquet"),
        (cut("nodes.parquet", 4), "cannot be read as Parquet"),
        (cut("nodes.parquet", 0), "cannot be read as Parquet"),
        (set_column("nodes", "node_id", ["a", "a"]), "'a' occurs more than once"),
        (set_column("nodes", "node_id", ["a", None]), "node_id is missing in row 1"),
        (set_column("nodes", "node_id", ["a", ""]), "node_id is empty in row 1"),
        (set_column("nodes", "state", ["alive", "ill"]), "'ill'"),
        (set_column("nodes", "cap_cpu", [1.0, 0.0]), "cap_cpu is 0.0 in row 1"),
        (set_column("nodes", "cap_cpu", ["1", "2"]), "cap_cpu.*numbers"),
        (set_column("nodes", "cap_net", [1.0, 1.0]), "capacities for.*net"),
        (set_column("key_groups", "load_cpu", [1.0, float("nan"), 1.0]), "load_cpu is nan in row"),
        (set_column("key_groups", "load_cpu", [1.0, None, 1.0]), "a missing value is not zero"),
        (set_column("key_groups", "load_cpu", [1.0, -1.0, 1.0]), "load_cpu is -1.0"),
        (set_column("key_groups", "node_id", ["a", "q", "a"]), "'q' is not a node"),
        (set_column("key_groups", "key_group_id", ["x", "x", "z"]), "'x' occurs more than once"),
        (set_column("key_groups", "state_bytes", [1, 2, -3]), "state_bytes is -3 in row 2"),
        (set_column("key_groups", "state_bytes", [1.5, 2.0, 3.0]), "state_bytes is 1.5"),
        (set_column("key_groups", "state_bytes", None), "'state_bytes' is missing"),
        (set_column("key_groups", "pinned", ["no", "no", "no"]), "pinned"),
        (set_column("key_groups", "allowed_nodes", [["q"], None, None]), "'q' is not a node"),
        (set_column("key_groups", "allowed_nodes", ["a", "a", "a"]), "lists of node ids"),
        (set_column("key_groups", "allowed_nodes", [[1.0], None, None]), "allowed_nodes.*text"),
        (
            set_column("key_groups", "allowed_nodes", [[{"a": 1}], None, None]),
            "allowed_nodes.*text",
        ),
        (set_column("nodes", "rack", [["a"], None]), "rack.*text"),
        (set_column("traffic", "to_id", ["y", "w"]), "'w' is not a key group"),
        (set_column("traffic", "rate", [1.0, float("inf")]), "rate is inf"),
    ],
)
def test_what_is_wrong_with_a_folder_is_named(
    folder: Path, spoil: Callable[[Path], None], message: str
) -> None:
    spoil(folder)
    with pytest.raises(ProblemError, match=message) as caught:
        read_problem(folder)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_two_hundred_thousand_key_groups_are_read_in_seconds(tmp_path: Path) -> None:
    count, nodes = 200_000, 1_000
    node_ids = [f"n{i}" for i in range(nodes)]
    tables = {
        "nodes": {"node_id": node_ids, "cap_cpu": [1.0] * nodes, "state": ["alive"] * nodes},
        "key_groups": {
            "key_group_id": [f"k{i}" for i in range(count)],
            "operator_id": ["o"] * count,
            "node_id": [node_ids[i % nodes] for i in range(count)],
            "load_cpu": np.ones(count),
            "state_bytes": np.ones(count, dtype=np.int64),
        },
    }
    (tmp_path / "problem.json").write_text("{}")
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    began = time.process_time()
    assert len(read_problem(tmp_path).key_groups.current) == count
    assert time.process_time() - began < 2.0
