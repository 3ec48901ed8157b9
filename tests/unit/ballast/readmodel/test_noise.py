"""The noise of a job's newest snapshot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ballast.contracts.records import SnapshotNoise
from ballast.contracts.settings import load_settings
from ballast.readmodel.job_history import JobHistory
from ballast.readmodel.noise import NOT_ESTIMATED, job_noise, node_variation
from ballast.store.cache import TableCache
from bench.review_page.warehouse import SampleJob, job_policy, write_job

STEADY = SnapshotNoise(
    job="clicks", snapshot_id="s", resource="cpu", status="steady", reason="no trend", windows=12,
    wild_windows=0, common_sd_pct=4.0, node_variance_ratio=1.0, period_variance_ratio=1.0,
)  # fmt: skip


def of_version(home: Path, versions: int) -> JobHistory:
    settings = load_settings({"BALLAST_HOME": str(home), "BALLAST_POLICIES": str(home)})
    write_job(settings, SampleJob(job_policy("clicks", 2, 4, 2), 2, has_promises=True), versions)
    return JobHistory(TableCache(settings), "clicks")


def test_the_noise_is_that_of_the_newest_snapshot(tmp_path: Path) -> None:
    found = job_noise(of_version(tmp_path, 3))
    (cpu,) = found.resources
    assert (cpu.noise.status, cpu.noise.windows, found.reason) == ("steady", 12, "")
    assert cpu.nodes is not None
    assert found.text == f"cpu: {cpu.text}"
    for part in ("steady over 12 windows", "vary by 4.20 % from window", "from period to period"):
        assert part in cpu.text


def test_a_trend_is_said_with_its_reason(tmp_path: Path) -> None:
    (cpu,) = job_noise(of_version(tmp_path, 4)).resources
    assert cpu.text.startswith("trend over 12 windows")
    assert cpu.text.endswith("within the period")


def test_a_snapshot_of_an_earlier_version_says_that_nothing_is_known(tmp_path: Path) -> None:
    found = job_noise(of_version(tmp_path, 1))
    assert (found.resources, found.text) == ([], NOT_ESTIMATED)


def test_a_job_without_a_snapshot_says_so(tmp_path: Path) -> None:
    settings = load_settings({"BALLAST_HOME": str(tmp_path), "BALLAST_POLICIES": str(tmp_path)})
    assert (
        job_noise(JobHistory(TableCache(settings), "clicks")).text == "the job has no snapshot yet"
    )


def key_groups(nodes: list[str], load: list[float], sd: list[float | None]) -> pa.Table:
    return pa.table({"node_id": nodes, "load": load, "sd": pa.array(sd, pa.float64())})


def test_the_variation_of_a_node_is_that_of_the_mean_of_simulated_periods() -> None:
    """Independent key groups and windows: both ratios are 1."""
    random, windows, periods = np.random.default_rng(3), 12, 4000
    load, sd = np.array([0.2, 0.3, 0.1]), np.array([0.05, 0.02, 0.03])
    drawn = random.normal(load, sd, (periods, windows, 3)).mean(axis=1)
    by_node = np.stack([drawn[:, 0] + drawn[:, 1], drawn[:, 2]], axis=1)
    measured = 100 * by_node.std(axis=0) / by_node.mean(axis=0)
    found = node_variation(key_groups(["a", "a", "b"], list(load), list(sd)), STEADY)
    assert found is not None
    assert found.largest_node_id == "b"
    assert found.largest_pct == pytest.approx(measured[1], rel=0.05)
    assert found.typical_pct == pytest.approx(measured.mean(), rel=0.05)


def test_a_key_group_whose_noise_is_not_known_has_the_usual_one() -> None:
    known = node_variation(key_groups(["a", "b"], [0.2, 0.4], [0.02, 0.04]), STEADY)
    partly = node_variation(key_groups(["a", "b"], [0.2, 0.4], [0.02, None]), STEADY)
    assert partly == known
    assert node_variation(key_groups(["a"], [0.2], [None]), STEADY) is None
    assert node_variation(key_groups(["a"], [0.0], [0.0]), STEADY) is None
