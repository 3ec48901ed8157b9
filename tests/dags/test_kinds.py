"""The DAGs of review, rollback and what-if: their programs get the arguments that they parse."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment

ROOT = Path(__file__).parents[2]
POLICIES = ROOT / "policies"
LoadDags = Callable[[Path], Any]
HEX = "0123456789abcdef"


class FinishedTasks:
    """A task instance with the XCom values of the tasks before it."""

    def __init__(self, handed: dict[str, Any]) -> None:
        self._handed = handed

    def xcom_pull(self, task_ids: str) -> Any:
        return self._handed[task_ids]


def rendered(dag: Any, task_id: str, handed: Any = None, **params: Any) -> list[str]:
    values = {key: dag.params[key] for key in dag.params} | params
    environment = Environment(autoescape=False)
    run = {"triggering_user_name": "ada"}
    return [
        environment.from_string(argument).render(
            run_id="manual__1", params=values, ti=FinishedTasks(handed or {}), dag_run=run
        )
        for argument in dag.get_task(task_id).application_args
    ]


def parsed(program: str, arguments: list[str]) -> Any:
    parser = ArgumentParser()
    import_module(f"spark_jobs.{program}").add_arguments(parser)
    return parser.parse_args(arguments)


@pytest.fixture(scope="module")
def dags() -> dict[str, Any]:
    from airflow.dag_processing.dagbag import DagBag

    found = DagBag(str(ROOT / "dags")).dags
    return {dag_id: dag for dag_id, dag in found.items() if dag_id.endswith("__flights")}


def test_a_review_prepares_asks_and_publishes_what_was_approved(dags: dict[str, Any]) -> None:
    from airflow.providers.standard.operators.hitl import ApprovalOperator

    dag = dags["review__flights"]
    assert [task.task_id for task in dag.topological_sort()] == ["prepare", "approve", "publish"]
    draft = {"plan_id": HEX, "content_hash": HEX * 4, "draft_run_id": "scheduled__x"}
    asked = parsed("prepare", rendered(dag, "prepare", **draft))
    assert (asked.run_id, asked.plan_id, asked.page) == ("scheduled__x", HEX, "/ballast/")
    approve = dag.get_task("approve")
    assert isinstance(approve, ApprovalOperator)
    assert (approve.options, approve.defaults) == (["Approve", "Reject"], ["Reject"])
    assert approve.response_timeout.total_seconds() == 86_400
    handed = {"approve": {"answer": "approved", "by": "Ada", "at": "2026-11-16T12:00:00+00:00",
                          "reason": "--dry-run true"}}  # fmt: skip
    said = parsed("publish", rendered(dag, "publish", handed, **draft))
    assert (said.answer, said.answered_by, said.content_hash) == ("approved", "Ada", HEX * 4)
    assert (said.review_run_id, said.reason) == ("manual__1", "--dry-run true")
    assert (dag.max_active_runs, dag.is_paused_upon_creation) == (100, False)


def test_a_rollback_takes_version_reason_and_force_nodes(dags: dict[str, Any]) -> None:
    dag = dags["rollback__flights"]
    arguments = rendered(dag, "rollback", version=3, reason="--by=eve", force_nodes=True)
    said = parsed("rollback", arguments)
    assert (said.version, said.reason, said.force_nodes) == (3, "--by=eve", "true")
    assert (said.by, said.run_id) == ("ada", "manual__1")


def test_a_question_reaches_its_program_and_an_empty_one_asks_for_today(
    dags: dict[str, Any],
) -> None:
    from spark_jobs.scenario.request import request_of

    dag = dags["what_if__flights"]
    nothing = request_of(parsed("what_if", rendered(dag, "what_if")))
    assert (nothing.moves, nothing.load_of, nothing.hold_pct, nothing.frontier) == (
        None, None, None, False)  # fmt: skip
    params = {"without": "node-1,node-2", "add": 2, "resize": "node-0=2", "racks": "node-0=r9",
              "scale": "*=1.3", "moves": "none", "hold_pct": 70.0, "frontier": True,
              "objective": "joint", "load_of": "run-1"}  # fmt: skip
    asked = request_of(parsed("what_if", rendered(dag, "what_if", **params)))
    assert asked.question.gone == ("node-1", "node-2")
    assert asked.question.racks == {"node-0": "r9"}
    assert (asked.question.added, asked.question.scaled) == (2, {"*": 1.3})
    assert (asked.moves, asked.hold_pct, asked.frontier) == ("none", 70.0, True)
    assert (asked.objective, asked.load_of) == ("joint", "run-1")


@pytest.mark.parametrize(
    ("dag_id", "name", "value"),
    [
        ("rollback__flights", "version", 0),
        ("rollback__flights", "version", "1; drop"),
        ("rollback__flights", "reason", ""),
        ("review__flights", "plan_id", "x"),
        ("what_if__flights", "without", "node-1;rm"),
        ("what_if__flights", "moves", "many"),
        ("what_if__flights", "method", "magic"),
    ],
)
def test_a_param_that_makes_no_sense_is_refused(
    dags: dict[str, Any], dag_id: str, name: str, value: Any
) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        dags[dag_id].params[name] = value


def test_only_what_may_publish_has_plans_for_outlet(dags: dict[str, Any]) -> None:
    outlets = {
        f"{dag_id}.{task.task_id}"
        for dag_id, dag in dags.items()
        for task in dag.tasks
        if task.outlets
    }
    assert outlets == {
        "reoptimize__flights.publish", "review__flights.publish", "rollback__flights.rollback",
    }  # fmt: skip


def test_each_page_tells_an_engineer_on_call_what_to_do(dags: dict[str, Any]) -> None:
    for dag in dags.values():
        for task in dag.tasks:
            assert f"`{task.task_id}`" in dag.doc_md


def test_every_program_tells_openlineage_which_tables_it_reads_and_writes(
    dags: dict[str, Any],
) -> None:
    from ballast.contracts.settings import load_settings
    from ballast.contracts.tables import TABLES as KNOWN
    from orchestration.lineage import TABLES, dataset_name
    from orchestration.program_operator import ProgramOperator

    tasks = [task for dag in dags.values() for task in dag.tasks]
    programs = {task.program for task in tasks if isinstance(task, ProgramOperator)}
    assert programs == set(TABLES)
    # No program reads how a streaming job ran: people do, by `ballast status`.
    for_people = {"metrics.jobs"}
    used = {name for sides in TABLES.values() for side in sides for name in side}
    assert used == set(KNOWN) - for_people
    assert TABLES["what_if"][1] == ()
    bucket = load_settings({"BALLAST_WAREHOUSE": "s3a://bucket/warehouse"})
    assert dataset_name(bucket, "plans.heads") == ("s3://bucket", "warehouse/plans/heads")
    folder = load_settings({"BALLAST_WAREHOUSE": "/data/warehouse"})
    assert dataset_name(folder, "plans.heads") == ("file", "/data/warehouse/plans/heads")
