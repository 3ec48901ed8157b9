"""``ballast what-if`` prints the plan of the question beside that of today and changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ballast.cli.main import main
from ballast.contracts.settings import Settings, load_settings
from ballast.contracts.tables import TABLES
from ballast.store.plans import read_head
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import open_table
from bench.make_problem import main as make_problem
from spark_jobs.publication.publisher import publish_plan
from tests.support.policies import small_policy
from tests.support.snapshots import uneven, write_draft, write_snapshot

QUICK = ["--seconds", "0.3"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    size = [
        "--key-groups",
        "100",
        "--nodes",
        "10",
        "--moves",
        "10",
        "--traffic",
        "2",
        "--seed",
        "1",
    ]
    make_problem([*size, "--out", str(tmp_path / "p")])
    return tmp_path / "p"


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("BALLAST_HOME", str(tmp_path))
    monkeypatch.delenv("BALLAST_WAREHOUSE", raising=False)
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    ensure_tables(settings)
    return settings


def test_two_of_ten_nodes_gone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = "node-0,node-1"
    assert main(["what-if", str(folder), "--without", nodes, *QUICK]) == 0
    shown = capsys.readouterr()
    said = shown.out
    assert shown.err == ""
    assert "forced moves" in said
    assert "node-0  dead" in said
    assert said.rstrip().endswith("Nothing was changed.")
    assert main(["what-if", str(folder), "--without", nodes, *QUICK, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["today"]["nodes"], answer["asked"]["nodes"]) == (10, 8)
    assert answer["asked"]["forced_moves"] > 0
    assert answer["asked"]["load_distance_pct"] < answer["asked"]["load_distance_before_pct"]
    gone = [node for node in answer["asked_nodes"] if node["state"] == "dead"]
    assert [node["load_pct"] for node in gone] == [0.0, 0.0]
    moved = answer["asked"]["moves"] + answer["asked"]["forced_moves"]
    assert len(answer["asked_moves"]) == moved
    sizes = [move["state_bytes"] for move in answer["asked_moves"]]
    assert sizes == sorted(sizes, reverse=True)


def test_the_frontier_and_a_picture_of_both_sides(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "both.svg"
    asked = ["what-if", str(folder), "--drain", "node-0", "--add", "1", "--resize", "new-1=2"]
    assert main([*asked, "--frontier", "--picture", str(picture), *QUICK]) == 0
    shown = capsys.readouterr()
    assert "What each budget of moves buys" in shown.out
    assert "new-1" in shown.out
    drawn = ElementTree.parse(picture).getroot()
    texts = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert any(text.startswith("Today") for text in texts)
    assert any(text.startswith("Asked") for text in texts)
    assert {"node-0 (draining)", "new-1"} <= set(texts)
    # Two bars of each node, a white ground, and two marks of the legend a side.
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}rect"))) == 2 * (10 + 11) + 1 + 4
    assert main([*asked, "--picture", str(tmp_path), *QUICK]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_method_with_parameters_of_its_own_has_a_frontier_too(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "problem.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps(settings | {"params": {"flux": {"patience": 3}}}))
    asked = ["what-if", str(folder), "--method", "flux", "--frontier", "--json", *QUICK]
    assert main(asked) == 0
    assert json.loads(capsys.readouterr().out)["frontier"][0]["limit"] == 0


def test_the_load_of_a_time_is_that_of_the_last_snapshot_up_to_it(
    warehouse: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = small_policy("probe")
    first = write_snapshot(warehouse, policy, "run-1", loads={("parse", 0): 0.5})
    before_all_years = "0001-01-01T00:00+14:00"
    assert main(["what-if", "probe", "--load-of", before_all_years, *QUICK]) == 2
    assert f"run {before_all_years} of job probe has no snapshot" in capsys.readouterr().err
    assert main(["what-if", "probe", "--load-of", "2020-01-01", *QUICK]) == 2
    assert "no snapshot up to 2020-01-01 00:00:00 UTC" in capsys.readouterr().err
    at = first.period_end_at.isoformat()
    assert main(["what-if", "probe", "--load-of", at, "--json", *QUICK]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["asked"]["fullest_node_before_pct"] == answer["today"]["fullest_node_before_pct"]


def test_a_job_is_asked_about_and_its_head_stays(
    warehouse: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = small_policy("probe")
    write_snapshot(warehouse, policy, "run-1", loads={("parse", 0): 0.3})
    write_snapshot(warehouse, policy, "run-2", placement=uneven(policy))
    version = open_table(warehouse, "plans.heads").version()
    asked = ["what-if", "probe", "--load-of", "run-1", "--scale", "parse=2", "--add", "1"]
    assert main([*asked, "--hold", "70", "--json", *QUICK]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["asked"]["nodes"] == 3
    assert answer["hold"]["nodes"] >= 2
    assert answer["hold"]["fullest_node_pct"] <= 70
    assert read_head(warehouse, "probe") is None
    assert open_table(warehouse, "plans.heads").version() == version


def test_two_of_ten_nodes_of_a_job_gone_and_its_head_and_its_history_stay(
    warehouse: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = small_policy("probe", operators={"parse": 20, "count": 20}, nodes=10)
    write_draft(warehouse, policy, "run-1", placement=uneven(policy), seconds=0.3)
    head = publish_plan(warehouse, "probe", "run-1")
    before = {name: open_table(warehouse, name).history() for name in TABLES}
    asked = ["what-if", "probe", "--without", "node-0,node-1", *QUICK]
    assert main(asked) == 0
    said = capsys.readouterr().out
    table = {name.strip(): rest.split() for name, _, rest in
             (line.partition("  ") for line in said.splitlines())}  # fmt: skip
    assert table["nodes"] == ["10", "8"]
    assert float(table["load distance, %"][1]) < float(table["load distance before, %"][1])
    assert int(table["forced moves"][1]) > 0
    assert main([*asked, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)["asked"]
    assert answer["load_distance_pct"] < answer["load_distance_before_pct"]
    assert read_head(warehouse, "probe") == head
    assert head is not None
    assert head.version == 1
    assert {name: open_table(warehouse, name).history() for name in TABLES} == before


def test_another_objective_and_budget(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["what-if", str(folder), "--objective", "joint", "--moves", "none", *QUICK]
    assert main([*asked, "--bytes", "100000000", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)["asked"]
    assert answer["method"] == "joint"
    assert answer["bytes"] <= 100_000_000


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--without", "node-77"], 2, "there is no node 'node-77'"),
        (["--scale", "1.5"], 2, "NAME=FACTOR"),
        (["--resize", "node-1=much"], 2, "NAME=FACTOR"),
        (["--moves", "few"], 2, "a number or none"),
        (["--moves", "-1"], 2, "budget.moves is -1"),
        (["--load-of", "run-1"], 2, "which has no runs"),
        (["--method", "magic"], 2, "there is no method 'magic'"),
        (["--hold", "0"], 2, "utilisation is 0"),
    ],
)
def test_what_cannot_be_asked_is_named(
    folder: Path, words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["what-if", str(folder), *words, *QUICK]) == code
    assert message in capsys.readouterr().err


def test_all_nodes_gone_has_no_plan(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    everyone = ",".join(f"node-{i}" for i in range(10))
    assert main(["what-if", str(folder), "--without", everyone, *QUICK]) == 3
    assert "what is asked has no plan: no node is alive" in capsys.readouterr().out
