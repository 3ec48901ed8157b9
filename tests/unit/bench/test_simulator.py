"""The figures of the simulator are consistent: loads, moves, drains, merges, and rows of the
tables."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from ballast.contracts.table_schemas import arrow_schema
from ballast.contracts.tables import METRICS_KEY_GROUPS, METRICS_NODES, PLANS_ACKS
from bench.simulator import rows, scale_in
from bench.simulator.cluster import Migration, PauseModel, SimulatedCluster
from bench.simulator.potc import Potc
from bench.simulator.real_job_1 import KEY_GROUPS_EACH, MINUTES, RealJob1
from solvers.model import metrics


def test_following_a_plan_moves_key_groups_and_costs_pause() -> None:
    cluster = SimulatedCluster(np.array([0, 0, 1]), 2, pause=PauseModel(1.0, 0.01))
    cost = cluster.follow(np.array([0, 1, 1]), np.array([10, 50, 90]))
    assert cost == Migration(moves=1, bytes=50, pause_s=1.5)
    assert cluster.current.tolist() == [0, 1, 1]


def test_the_cluster_measures_load_distance_as_the_solvers_do() -> None:
    rng = np.random.default_rng(0)
    cluster = SimulatedCluster(rng.integers(0, 6, 40), 6, draining=[0])
    load = rng.random(40)
    problem = cluster.problem(load, np.ones(40, dtype=np.int64))
    expected = metrics.load_distance_points(problem, problem.current)
    assert cluster.load_distance_points(load) == pytest.approx(expected)


def test_a_plan_into_a_draining_node_is_refused() -> None:
    cluster = SimulatedCluster(np.array([1, 1]), 2, draining=[0])
    with pytest.raises(ValueError, match="draining"):
        cluster.follow(np.array([1, 0]), np.array([1, 1]))


def test_real_job_1_is_three_operators_and_repeats_for_a_seed() -> None:
    one, two = RealJob1(4, 20), RealJob1(4, 20)
    a, b = one.next_period(), two.next_period()
    assert np.array_equal(a.records, b.records)
    assert len(a.load) == 3 * KEY_GROUPS_EACH == len(one.operators())
    edits = sum(map(len, a.edits))
    hashed, counted = a.records[:KEY_GROUPS_EACH], a.records[KEY_GROUPS_EACH : 2 * KEY_GROUPS_EACH]
    assert hashed.sum() == counted.sum() == edits
    assert counted.std() > 2 * hashed.std()
    assert not np.array_equal(one.next_period().records, a.records)


def test_no_key_group_of_real_job_1_is_larger_than_a_node_should_carry() -> None:
    job = RealJob1(9, 20)
    for _ in range(5):
        period = job.next_period()
        assert period.load.max() < period.load.sum() / 20


def test_potc_spreads_the_work_and_pays_for_merging() -> None:
    job = RealJob1(1, 20)
    period = job.next_period()
    seen = Potc(2, 20, job.node_ms).period(period)
    work = period.load.sum()
    assert seen.node_loads.sum() == pytest.approx(work * (1 + seen.merge_share), rel=1e-9)
    assert seen.merge_share > 0.01


def test_potc_gives_every_article_two_nodes() -> None:
    first, second = Potc(0, 7, 1.0).two.choices
    assert np.all(first != second)


def test_scale_in_apart_drains_first_and_within_its_moves() -> None:
    cluster, load = scale_in.overloaded_cluster(1, overloaded=1)
    assert cluster.node_loads(load)[scale_in.REMOVED] == pytest.approx(1.0)
    before = cluster.current.copy()
    plan = scale_in.spread_draining(cluster, load, moves=20)
    moved = plan != before
    assert moved.sum() == 20
    assert np.all(cluster.is_draining[before[moved]])
    assert not np.any(cluster.is_draining[plan[moved]])


def test_rounds_know_when_the_distance_stays_low() -> None:
    rounds = scale_in.DrainRounds((20.0, 4.0, 12.0, 3.0, 2.0), drained_after=4)
    assert rounds.first_below(5.0) == 4
    assert rounds.first_below(1.0) is None


def test_rows_fit_the_tables_that_a_streaming_job_writes() -> None:
    job = RealJob1(3, 20)
    period = job.next_period()
    cluster = SimulatedCluster(np.arange(300) % 20, 20, operators=job.operators())
    start = datetime(2026, 1, 1, tzinfo=UTC)
    window = rows.window_columns(start, 60.0 * MINUTES, batch_id=7, version=2)
    groups = rows.key_group_rows("wiki", cluster, period, window, job.node_ms)
    nodes = rows.node_rows("wiki", cluster, period, window, job.node_ms)
    ack = rows.ack_row("wiki", 2, "abc", Migration(3, 40, 2.5), start, batch_id=7)
    assert groups.schema == arrow_schema(METRICS_KEY_GROUPS)
    assert nodes.schema == arrow_schema(METRICS_NODES)
    assert ack.schema == arrow_schema(PLANS_ACKS)
    assert (groups.num_rows, nodes.num_rows) == (300, 20)
    used = np.array(nodes["cpu_used_ms"].to_pylist())
    assert used.sum() == pytest.approx(sum(groups["cpu_ms"].to_pylist()))
