"""``condense`` is killed at several points and run again: one snapshot, no row twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from ballast.contracts.settings import Settings, load_settings
from ballast.store.plans import read_log
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append, read_rows
from tests.support.metrics import START, window_rows, write_windows
from tests.support.policies import small_policy, write_policy
from tests.support.programs import KILLED, ROOT, submit

POLICY = small_policy("probe")
DETAILS = {
    "snapshots.key_groups": 8, "snapshots.nodes": 2, "snapshots.traffic": 4, "snapshots.noise": 2,
}  # fmt: skip


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = load_settings({"BALLAST_HOME": str(tmp_path)})
    settings = replace(settings, jars=ROOT / ".ballast" / "jars", policies=tmp_path / "policies")
    ensure_tables(settings)
    write_policy(settings.policies, POLICY)
    return settings


def rows(settings: Settings, table: str) -> list[dict[str, object]]:
    return read_rows(settings, table, job=POLICY.job).to_pylist()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_condense_that_is_retried_takes_one_snapshot(settings: Settings) -> None:
    """It is killed after a part of the rows, killed after all of them, and then not killed.

    The second attempt reads the same versions as the first, the third one window more.
    """
    end = write_windows(settings, POLICY, START, 6)
    bad = {**window_rows(POLICY, START, [5])["metrics.key_groups"][0], "cpu_ms": -1.0}
    append(settings, "metrics.key_groups", [bad])
    arguments = ["--job", "probe", "--run-id", "run-1", "--policies", str(settings.policies)]
    for fault in ("condense.after_snapshots.key_groups", "condense.before_snapshot"):
        killed = submit(settings, "condense", *arguments, "--as-of", end.isoformat(), fault=fault)
        assert killed.returncode == KILLED, killed.stderr[-2000:]
        assert rows(settings, "snapshots.snapshots") == []
        assert len(rows(settings, "snapshots.key_groups")) == 8

    end = write_windows(settings, POLICY, end, 1)
    retried = submit(settings, "condense", *arguments, "--as-of", end.isoformat())
    assert retried.returncode == 0, retried.stdout[-2000:] + retried.stderr[-2000:]
    (snapshot,) = rows(settings, "snapshots.snapshots")
    assert f"snapshot {snapshot['snapshot_id']} of 6 windows is in force" in retried.stdout
    for table, size in DETAILS.items():
        attempts = Counter(row["snapshot_id"] for row in rows(settings, table))
        assert attempts[snapshot["snapshot_id"]] == size
        # Rows of a killed attempt have an id without a snapshot.
        assert set(attempts.values()) == {size}
    assert len(rows(settings, "metrics.rejected")) == 1
    assert read_log(settings, POLICY.job) == []

    again = submit(settings, "condense", *arguments)
    assert again.returncode == 0
    assert "Spark session up" not in again.stdout
    assert rows(settings, "snapshots.snapshots") == [snapshot]
