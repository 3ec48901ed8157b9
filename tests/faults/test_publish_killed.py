"""``publish`` is killed before and after the head moved and run again: one version, a full log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ballast.contracts.settings import load_settings
from ballast.store.plans import read_head, read_log
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import open_table
from tests.support.policies import small_policy
from tests.support.programs import KILLED, ROOT, submit
from tests.support.snapshots import uneven, write_draft

POLICY = small_policy("probe")
ARGUMENTS = ("--job", "probe", "--run-id", "run-1")


@pytest.fixture
def settings(tmp_path: Path):
    settings = load_settings({"BALLAST_HOME": str(tmp_path)})
    settings = replace(settings, jars=ROOT / ".ballast" / "jars")
    ensure_tables(settings)
    return settings


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("fault", "version_left"), [("publish.before_cas", None), ("publish.after_cas", 1)]
)
def test_a_killed_publish_that_is_retried_publishes_once(settings, fault, version_left):
    draft = write_draft(settings, POLICY, "run-1", placement=uneven(POLICY))
    killed = submit(settings, "publish", *ARGUMENTS, fault=fault)
    assert killed.returncode == KILLED, killed.stderr[-2000:]
    head = read_head(settings, "probe")
    assert (head.version if head else None) == version_left
    assert read_log(settings, "probe") == []

    retried = submit(settings, "publish", *ARGUMENTS)
    assert retried.returncode == 0, retried.stderr[-2000:]
    head = read_head(settings, "probe")
    assert (head.version, head.plan_id) == (1, draft.plan_id)
    (row,) = read_log(settings, "probe")
    assert (row.event, row.version, row.plan_id) == ("published", 1, draft.plan_id)
    writes = [e for e in open_table(settings, "plans.heads").history() if e["operation"] == "WRITE"]
    assert len(writes) == 1
