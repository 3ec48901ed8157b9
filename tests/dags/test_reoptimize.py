"""Each policy file makes one DAG, wired by the policy; a broken policy affects its own DAG only."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment

from ballast.contracts.policy import load_policy

ROOT = Path(__file__).parents[2]
POLICIES = ROOT / "policies"
LoadDags = Callable[[Path], Any]
STAGES = ["measure", "condense", "solve", "publish"]
TASKS = [*STAGES, "ask"]
KINDS = ("reoptimize", "review", "rollback", "what_if")


def rendered(dag: Any, task_id: str, *, user: str | None = None, **params: Any) -> list[str]:
    """The arguments of a task as its program gets them."""
    values = {key: dag.params[key] for key in dag.params} | params
    environment = Environment(autoescape=False)
    return [
        environment.from_string(argument).render(
            run_id="manual__1", params=values, dag_run={"triggering_user_name": user}
        )
        for argument in dag.get_task(task_id).application_args
    ]


def of_jobs(bag: Any) -> set[str]:
    """The DAGs that are made from policy files."""
    return {dag_id for dag_id in bag.dags if "__" in dag_id}


def option(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


def test_no_dag_has_an_import_error_and_each_policy_has_its_dag(load_dags: LoadDags) -> None:
    bag = load_dags(POLICIES)
    assert bag.import_errors == {}
    jobs = [file.stem for file in POLICIES.glob("*.yaml")]
    assert of_jobs(bag) == {f"{kind}__{job}" for kind in KINDS for job in jobs}


def test_the_stages_run_one_after_the_other(load_dags: LoadDags) -> None:
    dag = load_dags(POLICIES).dags["reoptimize__flights"]
    assert [task.task_id for task in dag.topological_sort()] == TASKS
    for before, after in pairwise(TASKS):
        assert dag.get_task(after).upstream_task_ids == {before}


def test_each_task_submits_the_program_of_its_name(load_dags: LoadDags) -> None:
    dag = load_dags(POLICIES).dags["reoptimize__flights"]
    for stage in STAGES:
        program = Path(dag.get_task(stage).application)
        assert program == ROOT / "spark_jobs" / f"{stage}.py"
        assert program.is_file()
        arguments = rendered(dag, stage)
        assert (option(arguments, "--job"), option(arguments, "--run-id")) == (
            "flights", "manual__1")  # fmt: skip


def test_runs_of_a_job_do_not_overlap_and_nothing_is_caught_up(load_dags: LoadDags) -> None:
    dag = load_dags(POLICIES).dags["reoptimize__flights"]
    assert (dag.max_active_runs, dag.catchup) == (1, False)


def test_params_and_schedule_come_from_the_policy(load_dags: LoadDags) -> None:
    dag = load_dags(POLICIES).dags["reoptimize__flights"]
    policy = load_policy(POLICIES / "flights.yaml")
    assert dag.params["budget_moves"] == policy.budgets.moves
    assert dag.params["solver_seconds"] == policy.solver.seconds
    assert dag.params["dry_run"] is False
    assert dag.timetable.expression == policy.schedule
    arguments = rendered(dag, "solve")
    assert option(arguments, "--budget-moves") == str(policy.budgets.moves)
    assert option(rendered(dag, "publish"), "--dry-run") == "false"


@pytest.mark.parametrize(("value", "said"), [(None, "none"), (0, "0"), (7, "7")])
def test_a_budget_may_be_absent_or_zero(load_dags: LoadDags, value: Any, said: str) -> None:
    dag = load_dags(POLICIES).dags["reoptimize__flights"]
    arguments = rendered(dag, "solve", budget_moves=value, budget_pause_s=value)
    assert option(arguments, "--budget-moves") == said
    assert option(arguments, "--budget-pause-s") == said


def test_a_dry_run_reaches_publish(load_dags: LoadDags) -> None:
    dag = load_dags(POLICIES).dags["reoptimize__flights"]
    assert option(rendered(dag, "publish", dry_run=True), "--dry-run") == "true"


def test_the_resume_of_a_person_is_passed_to_measure(load_dags: LoadDags) -> None:
    dag = load_dags(POLICIES).dags["reoptimize__flights"]
    assert dag.params["resume"] is None
    assert {"--resume=", "--by="} <= set(rendered(dag, "measure"))
    said = rendered(dag, "measure", user="ada", resume="node-2's disk is new")
    assert {"--resume=node-2's disk is new", "--by=ada"} <= set(said)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("resume", ""),
        ("resume", "x" * 2001),
        ("resume", True),
        ("budget_moves", -1),
        ("budget_moves", "many"),
        ("budget_bytes", 1.5),
        ("budget_pause_s", "long"),
        ("solver_seconds", 0),
        ("solver_seconds", None),
        ("dry_run", "perhaps"),
    ],
)
def test_a_param_that_makes_no_sense_is_refused(load_dags: LoadDags, name: str, value: Any) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    params = load_dags(POLICIES).dags["reoptimize__flights"].params
    with pytest.raises(ParamValidationError):
        params[name] = value


def test_schedules_can_be_left_to_people(
    load_dags: LoadDags, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BALLAST_SCHEDULES", "off")
    dag = load_dags(POLICIES).dags["reoptimize__flights"]
    assert dag.timetable.can_be_scheduled is False


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("window_s: 10", "window_s: 0"), "window_s"),
        (("kind: balance", "kind: collocate"), "'balance' or 'joint'"),
        (('schedule: "*/10 * * * *"', 'schedule: "61 * * * *"'), "schedule"),
    ],
)
def test_a_broken_policy_says_so_in_its_dag_and_spares_the_others(
    load_dags: LoadDags, tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    shutil.copy(POLICIES / "flights.yaml", tmp_path)
    text = (POLICIES / "flights.yaml").read_text().replace("job: flights", "job: orders")
    assert change[0] in text
    (tmp_path / "orders.yaml").write_text(text.replace(*change))
    bag = load_dags(tmp_path)
    assert bag.import_errors == {}
    assert [task.task_id for task in bag.dags["reoptimize__flights"].topological_sort()] == TASKS
    assert of_jobs(bag) == {f"{kind}__flights" for kind in KINDS} | {"reoptimize__orders"}
    broken = bag.dags["reoptimize__orders"]
    assert broken.task_ids == ["policy_check"]
    assert said in broken.doc_md
    assert "broken policy" in broken.tags


def test_a_policy_file_with_an_impossible_name_still_shows(
    load_dags: LoadDags, tmp_path: Path
) -> None:
    shutil.copy(POLICIES / "flights.yaml", tmp_path / "My Flights.yaml")
    assert of_jobs(load_dags(tmp_path)) == {"broken_policy__My_Flights"}


def test_an_empty_folder_of_policies_has_no_dags(load_dags: LoadDags, tmp_path: Path) -> None:
    bag = load_dags(tmp_path)
    assert (of_jobs(bag), bag.import_errors) == (set(), {})


def test_the_dag_page_tells_an_engineer_on_call_what_to_do(load_dags: LoadDags) -> None:
    text = load_dags(POLICIES).dags["reoptimize__flights"].doc_md
    for stage in STAGES:
        assert f"`{stage}`" in text
    assert "docs/runbook.md" in text


def test_a_run_may_start_by_fresh_metrics_and_has_a_notice_when_late(
    load_dags: LoadDags, tmp_path: Path
) -> None:
    text = (POLICIES / "flights.yaml").read_text()
    (tmp_path / "flights.yaml").write_text(f"{text}\nschedule_on_metrics: true\nlate_run_s: 900\n")
    dag = load_dags(tmp_path).dags["reoptimize__flights"]
    assert "ballast://metrics/flights" in str(dag.timetable.asset_condition)
    assert dag.timetable.timetable.expression == "*/10 * * * *"
    alert = dag.deadline[0] if isinstance(dag.deadline, list) else dag.deadline
    assert alert.interval.total_seconds() == 900
    assert alert.callback.path == "orchestration.notices.late_run"


def test_parsing_the_dags_imports_nothing_heavy(run_python: Callable[[str], str]) -> None:
    program = (
        "import sys, runpy, pathlib\n"
        "sys.path.insert(0, '.')\n"
        "for file in pathlib.Path('dags').glob('*.py'): runpy.run_path(str(file))\n"
        "heavy = ['pyspark', 'delta', 'great_expectations', 'pulp', 'solvers', 'deltalake']\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    assert run_python(program).strip().splitlines()[-1] == "[]"
