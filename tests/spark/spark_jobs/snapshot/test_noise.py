"""Condense estimates how far the loads may be off, as the pure functions do on the same windows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from ballast.contracts.errors import GateFailed
from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings
from ballast.store.plans import read_log
from ballast.store.snapshots import read_noise, read_snapshot
from ballast.store.tables import address, read_rows
from expectations.run_suite import validate
from solvers.noise.load_noise import noise_of_snapshot
from solvers.noise.noise_estimate import EarlierEstimate, estimate_loads
from spark_jobs.snapshot.load_noise import KEY_GROUP_NOISE
from spark_jobs.snapshot.snapshot_tables import record_frame
from spark_jobs.snapshot.validate_and_reject import require_good_details
from tests.spark.spark_jobs.snapshot.conftest import Condense
from tests.support.earlier import without_columns
from tests.support.metrics import START, write_windows
from tests.support.policies import small_policy
from tests.support.snapshots import noise_row

Row = dict[str, Any]
Loads = Callable[[str, int, int], float]
WINDOWS = 12
GROUPS = 12
CLOCK_STEPS_AT = 6


def policy_of(windows: int = WINDOWS) -> JobPolicy:
    return small_policy(
        operators={"parse": GROUPS, "count": GROUPS}, nodes=3, statistics_period_s=5 * windows
    )


def noisy(seed: int) -> Loads:
    """Milliseconds of CPU with noise of a fifth, and bursts common to all key groups."""
    rng = np.random.default_rng(seed)
    loads = rng.uniform(20, 200, (2, GROUPS, 1)) * rng.gamma(25.0, 0.04, (2, GROUPS, WINDOWS))
    loads *= rng.uniform(0.5, 1.5, WINDOWS)

    def cpu_ms(operator: str, group: int, window: int) -> float:
        return float(loads[int(operator == "count"), group, window])

    return cpu_ms


class NoisySnapshot:
    """A snapshot of windows with these loads."""

    def __init__(
        self, settings: Settings, take: Condense, cpu_ms: Loads, policy: JobPolicy, **rows: Any
    ) -> None:
        self.settings, self.policy = settings, policy
        end = write_windows(
            settings, policy, START, policy.windows_per_period, loads=cpu_ms, **rows
        )
        self.snapshot = take(settings, policy, "run-1", end)
        self.noise = {row.resource: row for row in read_noise(settings, self.snapshot)}

    def rows(self, table: str) -> list[Row]:
        where = [("snapshot_id", "=", self.snapshot.snapshot_id)]
        rows = read_rows(self.settings, table, job=self.policy.job, where=where).to_pylist()
        return sorted(rows, key=lambda row: list(row.values())[:6])

    def column(self, name: str) -> dict[tuple[str, int], Any]:
        rows = self.rows("snapshots.key_groups")
        return {(row["operator_id"], row["key_group"]): row[name] for row in rows}


def loads_of(cpu_ms: Loads) -> dict[tuple[str, int], np.ndarray]:
    """Loads in cores of each key group in each window."""
    return {
        (operator, group): np.array([cpu_ms(operator, group, w) / 5000 for w in range(WINDOWS)])
        for operator in ("parse", "count")
        for group in range(GROUPS)
    }


def test_the_noise_is_what_the_pure_functions_say_of_the_same_windows(
    settings: Settings, take: Condense
) -> None:
    cpu_ms = noisy(1)
    taken = NoisySnapshot(settings, take, cpu_ms, policy_of())
    loads = loads_of(cpu_ms)
    names = list(loads)
    node_of = np.array([group % 3 for _, group in names])
    wanted = estimate_loads("cpu", np.array(list(loads.values())), node_of, 3)
    sd, error = taken.column("cpu_window_sd_cores"), taken.column("cpu_mean_error_cores")
    assert [sd[name] for name in names] == pytest.approx(wanted.key_groups.window_sd)
    assert [error[name] for name in names] == pytest.approx(wanted.key_groups.mean_error)
    found = taken.noise["cpu"]
    assert (found.status, found.windows) == (wanted.resource.status, WINDOWS)
    assert found.common_sd_pct == pytest.approx(wanted.resource.common_sd_pct)
    assert found.node_variance_ratio == pytest.approx(wanted.resource.node_variance_ratio)
    assert found.period_variance_ratio == pytest.approx(wanted.resource.period_variance_ratio)
    assert set(taken.column("busy_windows").values()) == {WINDOWS}


def test_the_problem_of_the_snapshot_has_its_noise(settings: Settings, take: Condense) -> None:
    taken = NoisySnapshot(settings, take, noisy(2), policy_of())
    found = read_snapshot(settings, taken.snapshot)
    noise = noise_of_snapshot(found.problem.resources, found.noise)
    assert found.noise_reason == ""
    assert noise is not None
    assert noise.mean_error.shape == found.problem.load.shape
    sd, error = taken.column("cpu_window_sd_cores"), taken.column("cpu_mean_error_cores")
    ratio = taken.noise["cpu"].period_variance_ratio
    for name, value in zip(found.problem.key_group_ids, noise.period_sd[:, 0], strict=True):
        operator, _, group = name.partition("/")
        half = sd[operator, int(group)] ** 2 * ratio / WINDOWS
        # The change to the next period, without the error of this period's mean.
        wanted = max(2 * half - error[operator, int(group)] ** 2, half / 2)
        assert value == pytest.approx(np.sqrt(wanted))


def test_constant_loads_and_steady_traffic_have_no_noise(
    settings: Settings, take: Condense
) -> None:
    taken = NoisySnapshot(settings, take, lambda operator, group, window: 10.0 + group, policy_of())
    assert set(taken.column("cpu_window_sd_cores").values()) == {0.0}
    assert set(taken.column("network_mean_error_bytes_per_s").values()) == {0.0}
    assert taken.noise["cpu"].status == "steady"
    traffic = taken.rows("snapshots.traffic")
    assert len(traffic) == GROUPS
    assert {row["records_window_sd_per_s"] for row in traffic} == {0.0}


def test_of_one_window_nothing_is_known_but_the_means(settings: Settings, take: Condense) -> None:
    taken = NoisySnapshot(settings, take, noisy(3), policy_of(windows=1))
    assert taken.noise["cpu"].status == "too_few_windows"
    assert "an estimate of the noise needs" in taken.noise["cpu"].reason
    assert set(taken.column("cpu_window_sd_cores").values()) == {None}
    found = read_snapshot(settings, taken.snapshot)
    assert (found.noise, found.noise_reason) == (None, taken.noise["cpu"].reason)


def test_a_key_group_with_load_in_one_window_of_twelve_is_most_uncertain(
    settings: Settings, take: Condense
) -> None:
    usual = noisy(4)

    def cpu_ms(operator: str, group: int, window: int) -> float:
        if (operator, group) != ("parse", 5):
            return usual(operator, group, window)
        return 600.0 if window == 7 else 0.0

    def quiet(table: str, row: Row) -> Row:
        is_quiet = table == "metrics.key_groups" and row["cpu_ms"] == 0
        return row | {"records": 0} if is_quiet else row

    taken = NoisySnapshot(settings, take, cpu_ms, policy_of(), change=quiet)
    load, error = taken.column("cpu_load_cores"), taken.column("cpu_mean_error_cores")
    assert taken.column("busy_windows")["parse", 5] == 1
    assert load["parse", 5] == pytest.approx(600 / 5000 / WINDOWS)
    relative = {name: error[name] / load[name] for name in load}
    assert max(relative, key=lambda name: relative[name]) == ("parse", 5)
    assert relative["parse", 5] > 0.5


def test_loads_from_1e_minus_9_to_1e9_have_a_finite_noise(
    settings: Settings, take: Condense
) -> None:
    rng = np.random.default_rng(5)
    noise = rng.gamma(9.0, 1 / 9, (GROUPS, WINDOWS))

    def cpu_ms(operator: str, group: int, window: int) -> float:
        return float(10.0 ** (-9 + 18 * group / (GROUPS - 1)) * noise[group, window])

    taken = NoisySnapshot(settings, take, cpu_ms, policy_of())
    for name in ("cpu_window_sd_cores", "cpu_mean_error_cores"):
        assert np.isfinite(list(taken.column(name).values())).all()
        assert max(taken.column(name).values()) > 0
    assert all(np.isfinite(row.node_variance_ratio) for row in taken.noise.values())


def test_a_load_that_moves_within_the_period_is_called_a_trend(
    settings: Settings, take: Condense
) -> None:
    usual = noisy(6)

    def cpu_ms(operator: str, group: int, window: int) -> float:
        is_late_on_first = window >= WINDOWS // 2 and group % 3 == 0
        return usual(operator, group, window) * (3.0 if is_late_on_first else 1.0)

    taken = NoisySnapshot(settings, take, cpu_ms, policy_of())
    cpu = taken.noise["cpu"]
    assert cpu.status == "trend"
    assert cpu.trend_pct is not None
    assert cpu.trend_pct > 20
    found = read_snapshot(settings, taken.snapshot)
    noise = noise_of_snapshot(found.problem.resources, found.noise)
    assert noise is not None
    assert cpu.reason in noise.trend


def clock_steps_ahead(windows: int) -> Callable[[str, Row], Row]:
    """The clock of node-1 is ahead by so many windows from window 6 on."""
    moved_at = START + timedelta(seconds=5 * CLOCK_STEPS_AT)

    def change(_table: str, row: Row) -> Row:
        if row.get("node_id") != "node-1" or row["window_start_at"] < moved_at:
            return row
        ahead = {
            name: row[name] + timedelta(seconds=5 * windows)
            for name in ("window_start_at", "window_end_at", "emitted_at")
        }
        return row | ahead

    return change


@pytest.mark.parametrize("windows", [2, 4])
def test_no_estimate_is_made_where_the_clock_of_a_node_steps_ahead(
    settings: Settings, take: Condense, windows: int
) -> None:
    """The gate says who has no rows of the newest window: all other nodes."""
    expected = r"2 of 3 nodes silent up to the newest window.*node-0 since .*, node-2 since "
    with pytest.raises(GateFailed, match=expected):
        NoisySnapshot(settings, take, noisy(10), policy_of(), change=clock_steps_ahead(windows))


def test_after_a_snapshot_of_an_earlier_version_the_noise_is_that_of_this_period_alone(
    settings: Settings, take: Condense
) -> None:
    cpu_ms, policy = noisy(4), policy_of()
    taken = NoisySnapshot(settings, take, cpu_ms, policy)
    shutil.rmtree(address(settings, "snapshots.noise"))
    noise = [name for of in KEY_GROUP_NOISE.values() for name in of.stored]
    without_columns(settings, "snapshots.key_groups", [*noise, "busy_windows"])

    start = START + timedelta(seconds=5 * WINDOWS)
    end = write_windows(settings, policy, start, WINDOWS, loads=cpu_ms)
    taken.snapshot = take(settings, policy, "run-2", end)
    loads = loads_of(cpu_ms)
    node_of = np.array([group % 3 for _, group in loads])
    wanted = estimate_loads("cpu", np.array(list(loads.values())), node_of, 3)
    sd, level = taken.column("cpu_window_sd_cores"), taken.column("cpu_level_cores")
    assert [sd[name] for name in loads] == pytest.approx(wanted.key_groups.window_sd)
    assert [level[name] for name in loads] == pytest.approx(wanted.mean)
    (found,) = [row for row in read_noise(settings, taken.snapshot) if row.resource == "cpu"]
    assert found.period_variance_ratio == pytest.approx(wanted.resource.period_variance_ratio)


def test_after_another_snapshot_the_estimate_is_that_of_the_pure_functions(
    settings: Settings, take: Condense
) -> None:
    """A key group moves between the periods, and the load of a node really rises."""
    rng = np.random.default_rng(7)
    mean = rng.uniform(20, 200, (2, GROUPS, 1))
    periods = mean * rng.gamma(25.0, 0.04, (2, 2, GROUPS, WINDOWS))
    periods[1, :, 1::3] *= 1.2

    def usual(operator: str, group: int, window: int) -> float:
        return float(periods[0, int(operator == "count"), group, window])

    def risen(operator: str, group: int, window: int) -> float:
        return float(periods[1, int(operator == "count"), group, window])

    policy = policy_of()
    taken = NoisySnapshot(settings, take, usual, policy)
    first, second = loads_of(usual), loads_of(risen)
    home = np.array([group % 3 for _, group in first])
    now = home.copy()
    now[0] = 2
    placed = {name: f"node-{node}" for name, node in zip(first, now, strict=True)}
    end = write_windows(
        settings, policy, START + timedelta(seconds=5 * WINDOWS), WINDOWS, loads=risen,
        nodes=placed,
    )  # fmt: skip
    taken.snapshot = take(settings, policy, "run-2", end)
    before = EarlierEstimate(estimate_loads("cpu", np.array(list(first.values())), home, 3), home)
    loads = np.array(list(second.values()))
    wanted = estimate_loads("cpu", loads, now, 3, before)
    for column, values in (
        ("cpu_window_sd_cores", wanted.key_groups.window_sd),
        ("cpu_level_cores", wanted.key_groups.level),
        ("cpu_level_error_cores", wanted.key_groups.level_error),
    ):
        found = taken.column(column)
        assert [found[name] for name in first] == pytest.approx(values), column
    anew = np.isclose(wanted.key_groups.level, wanted.mean)
    assert anew[0]
    assert anew[now == 1].all()
    assert not anew.all()
    cpu = {row.resource: row for row in read_noise(settings, taken.snapshot)}["cpu"]
    assert cpu.node_variance_ratio == pytest.approx(wanted.resource.node_variance_ratio)
    assert cpu.period_variance_ratio == pytest.approx(wanted.resource.period_variance_ratio)


def test_after_a_change_of_the_windows_the_noise_is_that_of_this_period_alone(
    settings: Settings, take: Condense
) -> None:
    taken = NoisySnapshot(settings, take, noisy(5), policy_of())
    cpu_ms = noisy(6)
    longer = policy_of().model_copy(
        update={"window_s": 10.0, "statistics_period_s": 10.0 * WINDOWS}
    )
    start = START + timedelta(seconds=5 * WINDOWS)
    end = write_windows(settings, longer, start, WINDOWS, loads=cpu_ms)
    taken.snapshot = take(settings, longer, "run-2", end)
    loads = loads_of(cpu_ms)
    node_of = np.array([group % 3 for _, group in loads])
    wanted = estimate_loads("cpu", np.array(list(loads.values())) / 2, node_of, 3)
    sd = taken.column("cpu_window_sd_cores")
    assert [sd[name] for name in loads] == pytest.approx(wanted.key_groups.window_sd)


def test_key_groups_of_a_dead_node_get_the_noise_that_is_usual_for_their_load(
    settings: Settings, take: Condense
) -> None:
    policy = policy_of()
    write_windows(settings, policy, START - timedelta(seconds=60), WINDOWS, loads=noisy(7))
    silent = {"node-2": set(range(WINDOWS))}
    taken = NoisySnapshot(settings, take, noisy(8), policy, silent=silent)
    sd, error = taken.column("cpu_window_sd_cores"), taken.column("cpu_mean_error_cores")
    unknown = {name for name, value in sd.items() if value is None}
    assert unknown == {name for name in sd if name[1] % 3 == 2}
    found = read_snapshot(settings, taken.snapshot)
    noise = noise_of_snapshot(found.problem.resources, found.noise)
    assert noise is not None
    known = [name for name in sd if name not in unknown]
    load = taken.column("cpu_load_cores")
    usual = sum(sd[name] for name in known) / sum(load[name] for name in known)
    for k, name in enumerate(found.problem.key_group_ids):
        operator, _, group = name.partition("/")
        of = operator, int(group)
        wanted = usual * load[of] if of in unknown else error[of]
        assert noise.mean_error[k, 0] == pytest.approx(wanted)


def test_noise_that_is_not_finite_is_refused_in_words(
    settings: Settings, take: Condense, spark: SparkSession
) -> None:
    taken = NoisySnapshot(settings, take, noisy(9), policy_of())
    names = ("key_groups", "traffic", "noise")
    frames = {
        f"snapshots.{name}": spark.read.format("delta").load(
            settings.table_uri(f"snapshots.{name}")
        )
        for name in names
    }
    require_good_details(frames, validate)
    spoiled = frames["snapshots.key_groups"].selectExpr(
        "* EXCEPT (cpu_window_sd_cores)",
        "if(key_group = 3, double('NaN'), cpu_window_sd_cores) AS cpu_window_sd_cores",
    )
    with pytest.raises(GateFailed, match="cpu_window_sd_cores is NaN, infinite or outside"):
        require_good_details(frames | {"snapshots.key_groups": spoiled}, validate)
    ids = {"job": taken.policy.job, "snapshot_id": taken.snapshot.snapshot_id}
    row = type(taken.noise["cpu"])(**noise_row(ids, "cpu", 12, node_variance_ratio=float("inf")))
    absurd = record_frame(spark, [row])
    with pytest.raises(GateFailed, match="node_variance_ratio is NaN, infinite or outside"):
        require_good_details(frames | {"snapshots.noise": absurd}, validate)
    assert read_log(settings, taken.policy.job) == []
