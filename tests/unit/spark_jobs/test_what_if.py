"""``what_if`` plans for the question and for today from the newest snapshot, and writes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from ballast.contracts.settings import Settings
from ballast.contracts.tables import TABLES
from ballast.contracts.task_result import RESULT_FILE_VARIABLE, read_task_result
from ballast.store.plans import read_head
from ballast.store.tables import open_table
from spark_jobs.publication.publisher import publish_plan
from spark_jobs.what_if import main
from tests.support.policies import small_policy
from tests.support.snapshots import uneven, write_draft, write_snapshot

JOB = "probe"
POLICY = small_policy(JOB, operators={"parse": 12, "count": 12}, nodes=10)


@pytest.fixture
def result_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(RESULT_FILE_VARIABLE, str(tmp_path / "task-result.json"))
    return tmp_path / "task-result.json"


def ask(settings: Settings, *question: str) -> int:
    common = ["--job", JOB, "--run-id", "asked", "--warehouse", settings.warehouse]
    return main([*common, "--seconds", "0.2", *question])


def test_two_of_ten_nodes_gone_and_no_table_has_changed(settings, result_file):
    write_draft(settings, POLICY, "run-1", placement=uneven(POLICY), seconds=0.2)
    head = publish_plan(settings, JOB, "run-1")
    before = {name: open_table(settings, name).history() for name in TABLES}
    assert ask(settings, "--without", "node-0,node-1", "--hold-pct", "70", "--frontier=true") == 0
    handed = read_task_result(result_file)
    assert (handed["today"]["nodes"], handed["asked"]["nodes"]) == (10, 8)
    assert handed["asked"]["forced_moves"] > 0
    assert handed["asked"]["load_distance_pct"] is not None
    assert [len(handed[f"{side}_nodes"]) for side in ("today", "asked")] == [10, 10]
    assert handed["asked_moves"][0]["from_node_id"] in [node.id for node in POLICY.nodes]
    assert handed["hold"]["fullest_node_pct"] <= handed["hold"]["below_pct"] == 70
    assert handed["frontier"][0]["limit"] == 0
    for said in ("| node-0 | dead |", "### Moves", "nodes** hold the load", "Plans for other",
                 "Nothing was changed"):  # fmt: skip
        assert said in handed["report"], said
    assert read_head(settings, JOB) == head
    assert {name: open_table(settings, name).history() for name in TABLES} == before


def test_an_unknown_node_an_empty_warehouse_and_a_question_without_a_plan_are_refused(
    settings, result_file
):
    assert ask(settings) == 2
    assert "no snapshot" in read_task_result(result_file)["refusal"]["message"]
    write_snapshot(settings, POLICY, "run-1")
    assert ask(settings, "--without", "node-99") == 2
    assert "there is no node 'node-99'" in read_task_result(result_file)["refusal"]["message"]
    everyone = ",".join(node.id for node in POLICY.nodes)
    assert ask(settings, "--without", everyone) == 3
    assert "has no plan" in read_task_result(result_file)["refusal"]["message"]


@pytest.mark.parametrize(
    "wrong", [["--without", "node-1\n"], ["--moves", "-1"], ["--add", "1.5"], ["--method", "magic"]]
)
def test_params_are_checked_again(settings, wrong):
    with pytest.raises(SystemExit):
        ask(settings, *wrong)
