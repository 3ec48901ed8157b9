"""The noise of a snapshot is read if it is known, else the reason."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Snapshot
from ballast.contracts.settings import Settings, load_settings
from ballast.contracts.tables import TOO_FEW, TREND
from ballast.store.snapshots import SnapshotProblem, read_snapshot
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import address, append
from solvers.noise.load_noise import noise_of_snapshot
from tests.support.earlier import without_columns
from tests.support.policies import small_policy
from tests.support.snapshots import snapshot_rows, write_snapshot

JOB = "probe"
NOISE_COLUMNS = (
    "cpu_window_sd_cores", "cpu_mean_error_cores", "network_window_sd_bytes_per_s",
    "network_mean_error_bytes_per_s", "busy_windows",
)  # fmt: skip


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = load_settings({"BALLAST_HOME": str(tmp_path)})
    ensure_tables(settings)
    return settings


def of_resources(*resources: str, **objective: Any) -> JobPolicy:
    capacity = {"cpu_cores": 2, "memory_bytes": 1e6, "network_bytes_per_s": 1e6}
    nodes = [{"id": name, "capacity": capacity} for name in ("a", "b")]
    return small_policy(JOB, nodes=nodes, objective={"resources": list(resources), **objective})


def read_back(settings: Settings, policy: JobPolicy, **rows: Any) -> SnapshotProblem:
    return read_snapshot(settings, write_snapshot(settings, policy, "run-1", **rows))


def written_with(
    settings: Settings, policy: JobPolicy, changes: dict[str, dict[str, Any]]
) -> SnapshotProblem:
    """A snapshot with noise of 20 percent, of which some columns are changed, by table."""
    rows = snapshot_rows(policy, "run-1", noise_pct=20.0)
    for table, of_table in rows.items():
        if of_table:
            append(settings, table, [row | changes.get(table, {}) for row in of_table])
    snapshot = Snapshot.from_row(rows["snapshots.snapshots"][0])
    return read_snapshot(settings, snapshot)


def test_noise_has_the_order_of_the_problem_and_a_column_for_each_resource(
    settings: Settings,
) -> None:
    loads = {("parse", 3): 0.4, ("count", 1): 0.2}
    found = read_back(settings, of_resources("network", "cpu"), loads=loads, noise_pct=20.0)
    assert found.noise_reason == ""
    assert found.noise is not None
    assert found.noise.window_sd == pytest.approx(0.2 * found.problem.load)
    assert found.noise.mean_error == pytest.approx(0.2 * found.problem.load / np.sqrt(6))
    noise = noise_of_snapshot(found.problem.resources, found.noise)
    assert noise is not None
    assert noise.windows == 6


def test_memory_has_no_noise_and_does_not_hide_that_of_others(settings: Settings) -> None:
    found = read_back(settings, of_resources("memory", "cpu"), noise_pct=20.0)
    noise = noise_of_snapshot(found.problem.resources, found.noise)
    assert noise is not None
    assert noise.variance[:, 0].tolist() == [0.0] * 8
    assert (noise.variance[:, 1] > 0).all()


def test_a_job_that_balances_memory_alone_has_no_noise_and_says_so(settings: Settings) -> None:
    found = read_back(settings, of_resources("memory"), noise_pct=20.0)
    assert (found.noise, found.noise_reason) == (None, "the noise of memory is not estimated")


@pytest.mark.parametrize("lacks", ["columns", "table", "rows"])
def test_a_snapshot_of_an_earlier_version_is_read_without_noise(
    settings: Settings, lacks: str
) -> None:
    policy = of_resources("cpu")
    snapshot = write_snapshot(settings, policy, "run-1", noise_pct=None if lacks == "rows" else 9.0)
    if lacks == "columns":
        without_columns(settings, "snapshots.key_groups", NOISE_COLUMNS)
        without_columns(
            settings, "snapshots.traffic", ["records_window_sd_per_s", "records_mean_error_per_s"]
        )
    if lacks == "table":
        shutil.rmtree(address(settings, "snapshots.noise"))
    found = read_snapshot(settings, snapshot)
    assert found.noise is None
    assert "taken by an earlier version" in found.noise_reason
    assert found.problem.load.shape == (8, 1)


def test_too_few_windows_are_the_reason(settings: Settings) -> None:
    change = {"status": TOO_FEW, "reason": "1 of 1 windows have a load"}
    found = written_with(settings, of_resources("cpu"), {"snapshots.noise": change})
    assert (found.noise, found.noise_reason) == (None, "1 of 1 windows have a load")


def test_a_trend_is_known_noise_with_a_warning(settings: Settings) -> None:
    change = {"status": TREND, "reason": "loads moved by 12 %", "trend_pct": 12.0}
    found = written_with(settings, of_resources("cpu"), {"snapshots.noise": change})
    noise = noise_of_snapshot(found.problem.resources, found.noise)
    assert found.noise_reason == ""
    assert noise is not None
    assert "loads moved by 12 %" in noise.trend


def test_without_a_single_known_key_group_the_noise_is_not_known(settings: Settings) -> None:
    nothing = dict.fromkeys(NOISE_COLUMNS)
    found = written_with(settings, of_resources("cpu"), {"snapshots.key_groups": nothing})
    assert found.noise is None
    assert found.noise_reason == "no key group of the snapshot has a known noise of its cpu load"
