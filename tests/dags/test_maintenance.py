"""The two DAGs of maintenance exist with any policies."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LoadDags = Callable[[Path], Any]


def test_maintenance_looks_before_it_removes_anything(load_dags: LoadDags, tmp_path: Path) -> None:
    dag = load_dags(tmp_path).dags["maintenance"]
    assert [task.task_id for task in dag.topological_sort()] == ["check_invariants", "maintain"]
    assert dag.get_task("maintain").upstream_task_ids == {"check_invariants"}
    assert Path(dag.get_task("maintain").application) == ROOT / "spark_jobs" / "maintain.py"


@pytest.mark.parametrize("dag_id", ["maintenance", "check_invariants"])
def test_runs_do_not_overlap_and_can_be_left_to_people(
    load_dags: LoadDags, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dag_id: str
) -> None:
    dag = load_dags(tmp_path).dags[dag_id]
    assert (dag.max_active_runs, dag.catchup, dag.timetable.can_be_scheduled) == (1, False, True)
    assert "docs/runbook.md" in dag.doc_md
    monkeypatch.setenv("BALLAST_SCHEDULES", "off")
    assert load_dags(tmp_path).dags[dag_id].timetable.can_be_scheduled is False


def test_the_printed_command_of_the_check_runs(load_dags: LoadDags, tmp_path: Path) -> None:
    command = load_dags(tmp_path).dags["check_invariants"].get_task("check_invariants").bash_command
    done = subprocess.run(
        [*shlex.split(command), "--warehouse", str(tmp_path / "none")],
        cwd=tmp_path, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert "all invariants hold in 0 jobs" in done.stdout
