"""The real jobs on Spark: sums are equal to the input's after moves and repeated batches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ballast.streaming import QueryOptions
from ballast.streaming.operators import build_topology
from ballast.streaming.routing import Placement
from bench.real_jobs.blocks import source_key_of
from bench.real_jobs.cluster import LogicalCluster
from bench.real_jobs.problems import even_placement
from bench.real_jobs.rounds import cut_batches
from bench.real_jobs.shuffles import Watch
from examples.flights.check_real_jobs import check, compare, wanted_sums
from examples.flights.feed import FlightsFolder
from examples.flights.real_jobs import REAL_JOB_4, REAL_JOBS, real_job_policy
from examples.flights.results import store_results
from examples.flights.weather import merged_lines

NODES, PER_NODE, LINES = 3, 2, 3000


@pytest.fixture(scope="module")
def lines():
    """A few days with rain, flights without an airplane, and flights that never arrived."""
    everything = merged_lines()
    first = next(
        i for i, line in enumerate(everything) if line.startswith("weather,JFK,2013-06-07")
    )
    return everything[first : first + LINES]


def shifted(placement, by):
    """A placement of every operator's key groups, shifted by some nodes for each operator."""
    return Placement(
        placement.version + 1,
        "",
        {
            operator: nodes[by * number % len(nodes) :] + nodes[: by * number % len(nodes)]
            for number, (operator, nodes) in enumerate(placement.nodes.items())
        },
    )


@pytest.mark.parametrize("name", ["real_job_2", "real_job_3", "real_job_4"])
def test_sums_are_the_inputs_over_moves_and_a_repeated_batch(spark, tmp_path, lines, name):
    job = REAL_JOBS[name]
    policy = real_job_policy(job, NODES, PER_NODE)
    kept = [line for line in lines if name == "real_job_4" or line[0] != "w"]
    batches = cut_batches(kept, len(kept) // 2, tmp_path / "input")
    nodes = tuple(node.id for node in policy.nodes)
    start = even_placement(build_topology(job.job, job.operators, policy), nodes)
    cluster = LogicalCluster(spark, job, policy, tmp_path / "cluster", batches, start)
    first = cluster.run_round([0])
    assert first.records == len(kept) // 2
    assert first.spark.source_bytes > 0
    assert first.spark.between_bytes > first.payload_bytes * 0.1 > 0
    moved = cluster.move_to(shifted(cluster.placement, 1))
    assert moved.key_groups > 0
    cluster.run_round([1])
    # The batch fails after its work and is repeated, as after a crash.
    cluster.next_batch -= 1
    cluster.state.discard_from(cluster.next_batch)
    cluster.run_round([1])
    files = [(path.read_text(), 1) for path in batches]
    text, equal = compare(wanted_sums(name, files), cluster.results())
    assert equal, text


def test_real_job_4_runs_as_a_streaming_job_and_stores_its_results(
    spark, settings, tmp_path, lines
):
    settings = replace(settings, home=tmp_path / "home")
    folder = FlightsFolder(settings.home / "jobs" / REAL_JOB_4.job)
    folder.input.mkdir(parents=True)
    for number in range(3):
        part = lines[number * 800 : (number + 1) * 800]
        (folder.input / f"flights-{number:010d}.csv").write_text("".join(part))
    stream = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder.input))
    policy = real_job_policy(REAL_JOB_4, NODES, PER_NODE)
    with REAL_JOB_4.start(stream, settings, policy, QueryOptions(trigger_s=0.1)) as running:
        running.drain()
    store_results(settings, REAL_JOB_4)
    text, equal = check(settings, REAL_JOB_4.job)
    assert equal, text


def test_the_source_key_in_sql_is_the_one_in_python(spark, lines):
    frame = spark.createDataFrame([(line.rstrip("\n"),) for line in lines], ["value"])
    keys = [row[0] for row in frame.selectExpr(REAL_JOB_4.source_key).collect()]
    assert keys == [source_key_of(line) for line in lines]


def test_a_watch_has_nothing_of_an_earlier_one_of_its_name(spark):
    """Each method's lane of each job numbers its batches from 0."""

    def stages_of():
        watch = Watch(spark, "ours-1")
        with watch.watching():
            spark.range(100).repartition(3).collect()
        return {stage.stage_id for stage in watch.stages}

    first, second = stages_of(), stages_of()
    assert first
    assert second
    assert not first & second
