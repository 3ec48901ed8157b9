"""The parts of the real jobs' benchmark that need no Spark."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from ballast.streaming.node_task import GroupUse, NodeReport, pack, unpack
from ballast.streaming.operators import build_topology
from bench import serialise
from bench.real_jobs import report
from bench.real_jobs.__main__ import parse
from bench.real_jobs.blocks import flow_of, source_key_of
from bench.real_jobs.cluster import RoundFigures, work_of
from bench.real_jobs.methods import ALBIC, COLA, NO_PLAN, OURS, Rules, step_of
from bench.real_jobs.plots import draw
from bench.real_jobs.problems import (
    capacity_of,
    even_placement,
    placement_of,
    problem_of,
    worst_assignment,
)
from bench.real_jobs.rounds import (
    JobRound,
    JobRun,
    cut_batches,
    heavy_share,
    numbers_of,
    over_period,
)
from bench.real_jobs.shuffles import NO_SHUFFLES, ShuffleFigures, StageFigures, summed
from examples.flights.real_jobs import REAL_JOBS, real_job_policy
from solvers.model import metrics

LINE = "2013,1,5,517.0,515,2.0,830.0,819,{delay},{carrier},15,{tail},EWR,{dest},2.0,1,5,15,x\n"
LINES = [
    LINE.format(delay=n % 7, carrier=("UA", "B6")[n % 2], tail=f"N{n % 40}", dest=f"D{n % 5}")
    for n in range(400)
]
JOB = REAL_JOBS["real_job_2"]
POLICY = real_job_policy(JOB, nodes=4)
TOPOLOGY = build_topology(JOB.job, JOB.operators, POLICY)
NODES = tuple(node.id for node in POLICY.nodes)


def figures(cpu=10.0):
    """Twenty key groups an operator, each with one partner downstream."""
    groups = TOPOLOGY.all_key_groups
    return RoundFigures(
        records=2000,
        cpu_ms=dict.fromkeys(groups, cpu),
        state_bytes=dict.fromkeys(groups, 100),
        traffic={("extract_delays", g, "sum_by_airplane", g): 100 for g in range(20)},
        payload_bytes=0,
        work=1.0,
        spark=NO_SHUFFLES,
    )


def first_problem():
    placement = even_placement(TOPOLOGY, NODES)
    return problem_of(TOPOLOGY, placement, NODES, figures(), capacity_of(figures(), 4))


def test_a_round_becomes_a_problem_and_a_plan_a_placement():
    problem = first_problem()
    assert problem.n_key_groups == 40
    assert problem.load.sum() == 400
    assert metrics.node_loads(problem, problem.current) == pytest.approx(0.5)
    placement = placement_of(TOPOLOGY, NODES, problem.current, 3)
    assert dict(placement.nodes) == dict(even_placement(TOPOLOGY, NODES).nodes)


def test_the_start_is_level_with_no_pair_together_and_five_an_operator_and_node():
    problem = first_problem()
    worst = worst_assignment(problem, dict.fromkeys(TOPOLOGY.ids, 5), seed=1)
    assert metrics.collocation_factor(problem, worst) == 0
    assert metrics.load_distance(problem, worst) == 0
    for half in (worst[:20], worst[20:]):
        assert np.bincount(half).tolist() == [5, 5, 5, 5]
    assert heavy_share(problem) == 100


@pytest.mark.parametrize("method", [OURS, ALBIC, COLA, NO_PLAN])
def test_every_method_plans_and_all_but_cola_keep_the_budget(method):
    problem = first_problem()
    worst = worst_assignment(problem, dict.fromkeys(TOPOLOGY.ids, 5), seed=1)
    problem = replace(problem, current=worst)
    plan = step_of(method, Rules(moves=4))(problem, 1)
    moved = int((plan != problem.current).sum())
    factor = metrics.collocation_factor(problem, plan)
    if method == COLA:
        assert factor == 100
    else:
        assert moved <= 4
    assert (factor > 0) == (method != NO_PLAN)


def test_loads_are_those_of_the_period_for_as_many_records():
    long = replace(figures(cpu=30.0), records=6000)
    pooled = over_period([long], figures(cpu=2.0))
    assert set(pooled.cpu_ms.values()) == {8.0}
    assert over_period([], figures()) == figures()


def test_batches_have_equally_many_lines_and_rounds_go_on_through_them(tmp_path):
    paths = cut_batches(LINES, 150, tmp_path / "input")
    assert [len(path.read_text().splitlines()) for path in paths] == [150, 150]
    assert [numbers_of(n, 2, 3) for n in range(3)] == [[0, 1], [2, 0], [1, 2]]


def test_the_first_shuffle_is_the_sources():
    stages = [StageFigures(7, 30, 10**9), StageFigures(5, 100, 10**9), StageFigures(6, 40, 0)]
    assert summed(stages) == ShuffleFigures(100, 70, 2.0)


def test_work_is_cpu_time_in_units_of_the_probes():
    uses = {(0, 0): GroupUse(cpu_ns=800, probe_ns=8), (0, 1): GroupUse(cpu_ns=1600, probe_ns=16)}
    assert work_of([NodeReport(0, 0, uses)]) == 200
    assert work_of([]) == 0


def test_a_batch_in_one_place_has_every_record_on_every_edge():
    assert source_key_of(LINES[3]) == "N3"
    assert source_key_of(LINE.format(delay=1, carrier="UA", tail="", dest="X")) == "UA15"
    assert source_key_of("weather,EWR,2013-01-05,0.1\n") == "EWR"
    job = REAL_JOBS["real_job_4"]
    policy = real_job_policy(job, nodes=2)
    lines = ["weather,EWR,2013-01-05,0.1\n", *LINES]
    flow = flow_of(build_topology(job.job, job.operators, policy), lines)
    sent = {edge: sum(map(len, blocks)) for edge, blocks in flow.blocks.items()}
    assert sent == {
        ("extract_delays", "sum_by_airplane"): 400,
        ("extract_delays", "sum_by_route"): 400,
        ("extract_delays", "rain_score"): 1,
        ("sum_by_route", "rain_score"): 5,
        ("sum_by_route", "join_rain"): 400,
        ("rain_score", "join_rain"): 5,
        ("join_rain", "courier_efficiency"): 400,
        ("courier_efficiency", "store"): 400,
    }
    for blocks in flow.blocks.values():
        assert all(unpack(pack(pairs)) == pairs for pairs in blocks)


def test_costs_are_by_record_and_a_small_block_costs_more_of_them():
    flow = flow_of(TOPOLOGY, LINES)
    pairs = [pair for block in flow.blocks["extract_delays", "sum_by_airplane"] for pair in block]
    costs = serialise.by_size(pairs, (1, 100), repeat=5)
    assert costs[1].send.median > costs[100].send.median > 0
    assert costs[1].records_per_block == 1
    block, record = serialise.per_block_and_record(costs)
    assert block > record > 0
    send, receive = serialise.overall(list(costs.values()))
    assert 0 < send < 1e-3
    assert 0 < receive < 1e-3


def row(method, number, **changes):
    made = {
        "collocation": 10.0 * number, "load_distance": 5.0, "round_distance": 6.0,
        "cpu_s": 2.0 - 0.1 * number, "work": 20.0 - number, "records": 1000,
        "sent_records": 500, "between_bytes": 10**6,
        "source_bytes": 2 * 10**6, "payload_bytes": 0, "executor_cpu_s": 1.0,
        "moves": 10 if number else 0, "moved_bytes": 0,
    }  # fmt: skip
    return JobRound(method, number, **{**made, **changes})


def run_of_rounds():
    rows = [row(m, n) for m in (OURS, ALBIC, NO_PLAN) for n in range(5)]
    rows += [row(COLA, n, moves=190) for n in range(2)]
    return JobRun("real_job_2", tuple(rows), 100.0, 0.2, 0.2, ("ours: equal",), is_exact=True)


def test_figures_are_the_first_rounds_and_the_mean_of_the_last_three():
    run = run_of_rounds()
    found = report.ends(run, OURS)
    assert found.collocation == (0, 30)
    assert found.load_index == pytest.approx(100 * 1.7 / 2)
    assert found.corrected_index == pytest.approx(100 * 17 / 20)
    assert found.moves == 10
    assert JobRun.from_json(json.loads(json.dumps(run.to_json()))) == run


def test_the_page_has_every_round_and_the_printed_numbers(tmp_path):
    run = run_of_rounds()
    page = report.document([run], "Made by a test.", "Notes.")
    assert "from 100 to 50 %" in page
    assert "| 4 | 40.0 |" in page
    assert "| Real Job 2 | ours (joint) | 0.0 to 30.0 |" in page
    draw([run], tmp_path / "plot.svg")
    assert "collocation factor" in (tmp_path / "plot.svg").read_text()


def test_unknown_jobs_are_refused():
    assert parse(["--jobs", "3"]).jobs == "3"
    with pytest.raises(SystemExit):
        parse(["--jobs", "1"])
