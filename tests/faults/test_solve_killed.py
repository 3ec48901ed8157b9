"""``solve`` is killed at several points and run again: one draft, a full log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ballast.contracts.settings import load_settings
from ballast.store.plans import read_assignment, read_log, read_plans, read_promises
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import read_rows
from tests.support.policies import small_policy
from tests.support.programs import KILLED, ROOT, submit
from tests.support.snapshots import uneven, write_snapshot

POLICY = small_policy("probe")
ARGUMENTS = ("--job", "probe", "--run-id", "run-1", "--solver-seconds", "2")


@pytest.fixture
def settings(tmp_path: Path):
    settings = load_settings({"BALLAST_HOME": str(tmp_path)})
    settings = replace(settings, jars=ROOT / ".ballast" / "jars")
    ensure_tables(settings)
    write_snapshot(settings, POLICY, "run-1", placement=uneven(POLICY), noise_pct=20.0)
    return settings


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("fault", "drafts_left"),
    [("solve.after_assignments", 0), ("solve.after_promises", 0), ("solve.after_plan", 1)],
)
def test_a_killed_solve_that_is_retried_leaves_one_draft(settings, fault, drafts_left):
    killed = submit(settings, "solve", *ARGUMENTS, fault=fault)
    assert killed.returncode == KILLED, killed.stderr[-2000:]
    assert len(read_plans(settings, "probe")) == drafts_left
    assert read_log(settings, "probe") == []

    retried = submit(settings, "solve", *ARGUMENTS)
    assert retried.returncode == 0, retried.stderr[-2000:]
    (plan,) = read_plans(settings, "probe")
    assert plan.plan_id in retried.stdout
    assert len(read_assignment(settings, "probe", plan.plan_id)) == 8
    assert [(row.event, row.plan_id) for row in read_log(settings, "probe")] == [
        ("drafted", plan.plan_id)
    ]
    promises = read_promises(settings, "probe", plan.plan_id)
    assert len({row.figure for row in promises}) == len(promises)
    (load_distance,) = (row for row in promises if row.figure == "load_distance_pct")
    assert load_distance.low < load_distance.high
    # The first attempt's content is that of the draft, or rows without a draft.
    left = read_rows(settings, "plans.assignments", job="probe").num_rows
    assert left % 8 == 0
