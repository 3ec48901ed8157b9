"""The loads that decide on the order of steps are those that the plan was made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from ballast.contracts.settings import Settings, load_settings
from ballast.store.plan_loads import read_plan_loads
from ballast.store.table_schema import ensure_tables
from tests.support.policies import small_policy
from tests.support.snapshots import uneven, write_draft

JOB = "probe"
POLICY = small_policy(JOB, nodes=3)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = load_settings({"BALLAST_HOME": str(tmp_path)})
    ensure_tables(found)
    return found


def test_loads_and_dead_nodes_are_those_of_the_plans_snapshot(settings: Settings) -> None:
    loads = {("parse", 1): 0.3, ("count", 2): 0.2}
    draft = write_draft(settings, POLICY, "run-1", placement=uneven(POLICY), loads=loads,
                        states={"node-2": "dead"}, seconds=0.1)  # fmt: skip
    found = read_plan_loads(settings, JOB, draft.plan_id, ("cpu", "network"))
    assert found is not None
    assert found.dead == {"node-2"}
    assert len(found.key_groups) == sum(o.key_groups for o in POLICY.operators)
    assert found.key_groups["parse", 1][0] == 0.3
    assert all(len(load) == 2 for load in found.key_groups.values())


def test_a_plan_whose_snapshot_is_gone_has_no_loads(settings: Settings) -> None:
    assert read_plan_loads(settings, JOB, "nobody", ("cpu",)) is None
