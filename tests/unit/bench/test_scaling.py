"""bench/scaling: the costs that the paper implies, consistent figures of methods, verdicts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from bench.scaling import dodo, keygroups, operators, placing, streams, verdicts
from bench.scaling.__main__ import PARTS, tasks_of
from bench.scaling.course import Course
from bench.scaling.dodo import Trial
from bench.scaling.draining import Drain
from bench.scaling.operators import Mapper, most_of_a_node
from bench.simulator import rows, scale_in
from bench.simulator.pipeline import KEY_GROUPS_EACH
from bench.simulator.scale_in import DrainRounds
from bench.simulator.substreams import ZIPF, Substreams
from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.stop import Stop
from solvers.planner.allocation import Allocation
from solvers.rebalance.solve import solve

PRINTED = dodo.experiments(None)


def test_the_costs_of_6_4_give_the_printed_throughputs() -> None:
    e, c, t = dodo.costs_64()
    assert 1e3 / (c + t) == pytest.approx(16_000)
    assert 6e3 / (e + c) == pytest.approx(16_000 * 1.8773)
    assert 1e3 / (e + t) == pytest.approx(6_000)
    assert min(e, c, t) > 0


def test_the_costs_of_7_2_give_the_printed_throughputs() -> None:
    e, c, t = dodo.costs_72()
    assert 3e3 / (c + t) == pytest.approx(9_500)
    assert 3e3 / t == pytest.approx(14_400)
    assert 6e3 / e == pytest.approx(16_700)
    assert c / e == pytest.approx(0.3, abs=0.02)
    assert dodo.costs_64()[1] / dodo.costs_64()[0] == pytest.approx(0.3, abs=0.02)


def test_algorithm_1_gains_what_is_printed_of_the_extreme_case() -> None:
    even = Mapper(evenly=True)
    before = operators.run(PRINTED[dodo.EXTREME], even)
    after = operators.run(PRINTED[dodo.EXTREME], replace(even, balances=True))
    assert before.steady == pytest.approx(16_000)
    assert 100 * (after.steady / before.steady - 1) == pytest.approx(87.73, abs=0.01)


def test_algorithm_1_moves_nothing_in_the_optimal_case_but_without_capacity() -> None:
    optimal = PRINTED[dodo.OPTIMAL]
    assert operators.run(optimal, Mapper(balances=True)).moves == 0
    needless = operators.run(optimal, Mapper(balances=True, weighs=False, evenly=True))
    assert needless.moves == 1
    assert needless.steady == pytest.approx(16_000)


def test_a_ring_spreads_less_evenly_than_print_assumes() -> None:
    assert most_of_a_node(("a",)) == pytest.approx(1.0)
    assert 1.01 < most_of_a_node(tuple("abcdef")) < 1.5


def test_scaling_keeps_the_cap_over_both_clusters_and_pays_for_launches() -> None:
    small = replace(PRINTED[dodo.FIXED], sizes=(1, 1), minutes=24)
    course = operators.run(small, Mapper(policy=dodo.POLICY))
    assert max(course.nodes) <= 15
    assert course.nodes[0] == 2
    assert course.nodes[-1] > 4
    assert course.hours[-1] >= sum(course.nodes) * 30 / 3600


def test_ours_levels_key_groups_over_all_nodes_without_a_needless_move() -> None:
    course = keygroups.KeyGroupNodes(replace(PRINTED[dodo.OPTIMAL], minutes=6), seed=3).run(None)
    assert course.sustained > 0.98 * 7e3 / sum(dodo.costs_64())
    assert course.needless == 0
    assert course.moves > 0


def test_ours_asks_for_nodes_and_fills_them_once_they_are_up() -> None:
    small = replace(PRINTED[dodo.FIXED], sizes=(1, 1), minutes=10)
    world = keygroups.KeyGroupNodes(small, seed=3)
    course = world.run(dodo.POLICY)
    assert 2 == course.nodes[0] < course.nodes[-1] <= 15
    assert len(set(world.on)) == course.nodes[-1]


def test_a_world_of_key_groups_writes_the_rows_that_a_streaming_job_writes() -> None:
    world = keygroups.KeyGroupNodes(PRINTED[dodo.EXTREME], seed=1)
    passed = world.topology.passed(5_000.0, 60.0)
    window = rows.window_columns(datetime(2026, 1, 1, tzinfo=UTC), 60.0, batch_id=1, version=1)
    groups = rows.key_group_rows("topics", world.cluster(0.0), passed, window, node_ms=60_000.0)
    nodes = rows.node_rows("topics", world.cluster(0.0), passed, window, node_ms=60_000.0)
    assert nodes["node_id"].to_pylist() == [m.name for m in world.fleet.ready(0.0)]
    assert set(groups["node_id"].to_pylist()) <= set(nodes["node_id"].to_pylist())
    assert max(groups["key_group"].to_pylist()) == KEY_GROUPS_EACH - 1
    used = sum(nodes["cpu_used_ms"].to_pylist())
    assert used == pytest.approx(sum(dodo.costs_64()) * 5_000 * 60)


def test_no_method_moves_a_substream_that_is_not_there_and_all_start_alike() -> None:
    stream = Substreams(ZIPF, 1)
    start = placing.universal_hash(stream.substreams, 10, 1)
    windows = [stream.next_window().counts(stream.substreams) for _ in range(6)]
    for method in placing.METHODS:
        step = placing.step_of(method, 10, stream.state_bytes, seed=1)
        after = step(windows, start)
        assert after.shape == start.shape
        assert 0 <= after.min() <= after.max() < 10
        is_still = method in (placing.PKG, placing.UHLB)
        assert np.array_equal(after, start) == is_still


def test_what_acts_every_m_windows_does_nothing_in_between() -> None:
    stream = Substreams(ZIPF, 1)
    start = placing.universal_hash(stream.substreams, 10, 1)
    windows = [stream.next_window().counts(stream.substreams) for _ in range(7)]
    for method in (placing.CLB, placing.ROBUST):
        step = placing.step_of(method, 10, stream.state_bytes, seed=1)
        assert step(windows, start) is start


def test_a_run_measures_after_the_warm_up_and_pkg_pays_for_merging() -> None:
    run = streams.StreamRun(ZIPF, placing.PKG, 1, 10, queues=True)
    run.go(12)
    assert len(run.loads) == 12 - placing.WARM_UP
    assert run.bytes > 0
    assert all(np.all(waits > 0) for waits in run.latencies)


def course_of(steady: float, needless: int = 0) -> Course:
    course = Course(needless=needless)
    for i in range(4):
        course.note(30.0 * i, steady, 7, 1.0)
    return course


def test_the_worst_ratio_of_costs_decides() -> None:
    trials = []
    for ratio, ours in ((dodo.AS_PRINTED, 99.0), ("1 : 1 : 1", 97.0)):
        papers = {m + even: course_of(50.0) for m in dodo.SIX_FOUR for even in ("", dodo.EVEN)}
        trials.append(Trial(dodo.EXTREME, ratio, 100.0, {**papers, dodo.OURS: course_of(ours, 2)}))
    found = {v.claim.split(": ")[-1]: v for v in verdicts.of_trials(trials)}
    assert found["throughput over the fluid bound"].figure == pytest.approx(0.97)
    assert not found["throughput over the fluid bound"].holds
    assert not found["needless moves"].holds
    assert found["throughput over that of Algorithm 1"].holds


def test_a_drain_that_takes_too_long_or_moves_too_much_is_seen() -> None:
    apart = DrainRounds((10.0, 10.0), drained_after=2, moves=(20, 20))
    late = DrainRounds((1.0,) * 3, drained_after=3, moves=(20, 21, 0))
    found = [v.holds for v in verdicts.of_drains([Drain(1, 0, late, apart)])]
    assert found == [True, True, False, False]
    assert verdicts.of_drains([]) == []


def flux(problem: Problem, budget: Budget) -> Allocation:
    """Replaces the search, because it takes milliseconds instead of seconds."""
    return Allocation(solve(problem, budget, Stop(steps=50), method="flux"))


def test_integrated_scale_in_keeps_its_moves_and_its_bound_on_rounds() -> None:
    runs = []
    for run in (scale_in.run_integrated, scale_in.run_apart):
        cluster, load = scale_in.overloaded_cluster(7, overloaded=1)
        runs.append(run(cluster, load, 12, flux))
    drain = Drain(1, 0, *runs)
    assert drain.integrated.drained_after is not None
    assert drain.rounds_ratio() <= 1.2
    assert drain.most_moves() <= 20
    assert drain.area_ratio() < 1
    assert drain.same_rounds_ratio() < 1


def test_tasks_are_those_that_were_asked_for() -> None:
    assert [p for p, tasks in tasks_of(["dodo"], 3, 1).items() if tasks] == ["dodo"]
    tasks = tasks_of(PARTS, 2, 1)
    assert len(tasks["scale-in"]) == 4
    assert len(tasks["dodo"]) == 3 * len(dodo.RATIOS)
    assert len(tasks["substreams"]) == 2 * len(placing.METHODS) * 4


def outcome(method: str, index: int, figure: float) -> streams.StreamOutcome:
    return streams.StreamOutcome(ZIPF, method, index, 10, (figure,), (figure,), figure, 9.0, {})


def test_of_streams_the_mean_of_the_seeds_counts() -> None:
    rows = [outcome(m, i, 1.0) for m in placing.METHODS for i in (0, 1) if m != placing.OURS]
    rows += [outcome(placing.OURS, 0, 0.5), outcome(placing.OURS, 1, 1.4)]
    found = verdicts.of_outcomes(rows)
    assert len(found) == 6
    assert all(v.holds for v in found)
    assert found[0].figure == pytest.approx(0.95)


def test_ours_never_moves_more_state_than_elb_has() -> None:
    moved = {}
    for method in (placing.OURS, placing.ELB):
        run = streams.StreamRun(ZIPF, method, 4, 10, queues=False)
        run.go(9)
        moved[method] = run.bytes
    assert 0 < moved[placing.OURS] <= moved[placing.ELB]
