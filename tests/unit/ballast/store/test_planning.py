"""The planning state is read with the present policy, also from warehouses of earlier versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ballast.contracts.policy import policy_from_json
from ballast.contracts.settings import Settings, load_settings
from ballast.store.planning import read_planning_state, stop_after_of
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append
from tests.support.earlier import without_columns
from tests.support.outcomes import JOB, first_outcomes, write_outcomes
from tests.support.policies import small_policy, write_policy
from tests.support.rows import row_of


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings({"BALLAST_HOME": str(tmp_path), "BALLAST_POLICIES": str(tmp_path / "p")})


def policy(**thresholds: Any) -> Any:
    return small_policy(JOB, thresholds=thresholds)


def snapshot_with(settings: Settings, policy_json: str) -> None:
    ensure_tables(settings, ["snapshots.snapshots"])
    row = row_of("snapshots.snapshots", job=JOB, policy_json=policy_json)
    append(settings, "snapshots.snapshots", [row | {"remembered_snapshot_ids": None}])


def test_an_empty_warehouse_plans(settings: Settings) -> None:
    assert not read_planning_state(settings, JOB).is_stopped


def test_the_policy_file_decides_and_a_change_of_it_counts_at_once(settings: Settings) -> None:
    write_outcomes(settings, first_outcomes("above", "above", "above"))
    write_policy(settings.policies, policy())
    assert read_planning_state(settings, JOB).is_stopped
    write_policy(settings.policies, policy(stop_after_broken_promises=4))
    assert not read_planning_state(settings, JOB).is_stopped
    write_policy(settings.policies, policy(stop_after_broken_promises=None))
    assert stop_after_of(settings, JOB) is None
    assert not read_planning_state(settings, JOB).is_stopped


def test_without_a_readable_file_the_newest_snapshot_has_the_policy(settings: Settings) -> None:
    assert stop_after_of(settings, JOB) == 3
    snapshot_with(settings, policy(stop_after_broken_promises=2).to_json())
    assert stop_after_of(settings, JOB) == 2
    path = write_policy(settings.policies, policy(stop_after_broken_promises=7))
    assert stop_after_of(settings, JOB) == 7
    path.write_text("job: [")
    assert stop_after_of(settings, JOB) == 2


def test_a_policy_of_an_earlier_version_stops_after_three(settings: Settings) -> None:
    old = json.loads(policy().to_json())
    del old["thresholds"]["stop_after_broken_promises"]
    assert policy_from_json(json.dumps(old)).thresholds.stop_after_broken_promises == 3
    snapshot_with(settings, json.dumps(old))
    assert stop_after_of(settings, JOB) == 3


def test_a_warehouse_without_sides_stops_nothing(settings: Settings) -> None:
    write_policy(settings.policies, policy(stop_after_broken_promises=1))
    write_outcomes(settings, first_outcomes("above", "above"))
    assert read_planning_state(settings, JOB).is_stopped
    without_columns(settings, "plans.outcomes", ["low", "high", "side"])
    assert read_planning_state(settings, JOB).broken == ()
