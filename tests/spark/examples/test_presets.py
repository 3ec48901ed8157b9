"""The preset of each paper on the reference job: solved, published, taken up, with exact sums.

The windows of metrics are synthetic, so that one period takes no minutes; everything else is the
pipeline's and the job's own work.
"""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from ballast.contracts.policy import JobPolicy, parse_policy
from ballast.contracts.settings import Settings
from ballast.store.plans import read_acks, read_weights
from ballast.store.tables import append
from ballast.streaming import QueryOptions
from ballast.streaming.job_state import placement_in_force
from ballast.streaming.operators import build_topology
from ballast.streaming.routing import first_placement
from examples.flights.check import check_sums
from examples.flights.feed import FlightsFolder
from examples.flights.operators import FLIGHTS
from examples.flights.weather import flight_lines
from spark_jobs.draft.draft_plan import draft_plan
from spark_jobs.draft.solve_arguments import SolveOptions
from spark_jobs.publication.publisher import publish_plan
from spark_jobs.snapshot.run_context import SnapshotRequest
from spark_jobs.snapshot.take_snapshot import condense
from tests.support.metrics import START, write_windows
from tests.support.regions import connection_rows

PRESETS = Path(__file__).resolve().parents[3] / "policies" / "presets"
LINES, WINDOWS = 900, 12
HEAVY_MS, LIGHT_MS = 300.0, 100.0
"""CPU time of a key group in a window, on the first node and elsewhere."""


def preset(name: str) -> JobPolicy:
    path = PRESETS / f"{name}.yaml"
    return parse_policy(yaml.safe_load(path.read_text(encoding="utf-8")), str(path))


def period(settings: Settings, policy: JobPolicy, lines: list[str], *, is_even: bool) -> Any:
    """Windows of one period in which the first node has too much to do, unless all is even."""
    placed = first_placement(build_topology(FLIGHTS.job, FLIGHTS.operators, policy), policy)
    nodes = {
        (operator, group): node
        for operator, of_operator in placed.nodes.items()
        for group, node in enumerate(of_operator)
    }

    def load(operator: str, group: int, _window: int) -> float:
        is_heavy = not is_even and nodes[operator, group] == policy.nodes[0].id
        return HEAVY_MS if is_heavy else LIGHT_MS

    end = write_windows(
        settings, policy, START, WINDOWS, nodes=nodes, loads=load,
        backlog=0 if policy.scaling else None,
    )  # fmt: skip
    if policy.routing.edges:
        append(settings, "metrics.key_pairs", key_pair_rows(policy, lines))
    for region in policy.regions:
        rates = dict.fromkeys(region.worker_ids, 100.0)
        blocked = {region.worker_ids[0]: 0.6}
        append(
            settings,
            "metrics.connections",
            connection_rows(policy, region.id, end, rates, blocked=blocked, windows=WINDOWS),
        )
    return end


def key_pair_rows(policy: JobPolicy, lines: list[str]) -> list[dict[str, Any]]:
    """Every airplane with its destinations, counted exactly, in every window."""
    fields = [line.split(",") for line in lines]
    pairs = Counter((f[11], f[13]) for f in fields if f[11])
    planes, places = Counter(f[11] for f in fields if f[11]), Counter(f[13] for f in fields)
    counted = [
        *(("pair", "extract_delays", a, "sum_by_destination", b, n) for (a, b), n in pairs.items()),
        *(("key", "extract_delays", key, None, None, n) for key, n in planes.items()),
        *(("key", "sum_by_airplane", key, None, None, n) for key, n in planes.items()),
        *(("key", "sum_by_destination", key, None, None, n) for key, n in places.items()),
    ]
    names = ("kind", "from_operator_id", "from_key", "to_operator_id", "to_key", "records")
    rows = []
    for number in range(WINDOWS):
        begin = START + timedelta(seconds=policy.window_s * number)
        end = begin + timedelta(seconds=policy.window_s)
        window = {
            "job": policy.job, "window_date": end.date(), "window_start_at": begin,
            "window_end_at": end, "first_batch_id": number, "last_batch_id": number,
            "plan_version": 0, "emitted_at": end + timedelta(milliseconds=200), "error_records": 0,
        }  # fmt: skip
        rows += [{**window, **dict(zip(names, each, strict=True))} for each in counted]
    return rows


def process(
    spark: SparkSession, settings: Settings, policy: JobPolicy, name: str, lines: list[str]
) -> None:
    """Feed lines to the job, and run it until it has processed them."""
    folder = FlightsFolder(settings.home / "jobs" / FLIGHTS.job)
    folder.input.mkdir(parents=True, exist_ok=True)
    (folder.input / f"flights-{name}.csv").write_text("".join(lines))
    stream = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder.input))
    with FLIGHTS.start(stream, settings, policy, QueryOptions(trigger_s=0.1)) as running:
        running.drain()


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("icde17", "cola"),
        ("autodasp17", "components"),
        ("dodo", "static_mapping"),
        ("mw16-locality", None),
        ("mw16-regions", None),
    ],
)
def test_a_plan_of_each_papers_preset_is_taken_up_and_the_sums_are_exact(
    spark: SparkSession, settings: Settings, tmp_path: Path, name: str, method: str | None
) -> None:
    settings, policy = replace(settings, home=tmp_path / "home"), preset(name)
    lines = flight_lines()[:LINES]
    process(spark, settings, policy, "0000000000", lines[: LINES // 2])
    end = period(settings, policy, lines, is_even=bool(policy.routing.edges))
    condense(settings, SnapshotRequest(policy, "run-1", end), lambda: nullcontext(spark))
    spark.catalog.clearCache()
    draft = draft_plan(settings, policy.job, "run-1", SolveOptions(solver_steps=2))
    assert method in (None, draft.method), draft.reason
    head = publish_plan(settings, policy.job, "run-1")
    assert head is not None, draft.reason
    if policy.routing.edges:
        assert draft.moves == 0
        assert (draft.routes or 0) > 0, draft.reason
    if policy.regions:
        weights = {
            row.worker_id: row.weight for row in read_weights(settings, policy.job, head.plan_id)
        }
        assert min(weights, key=lambda worker: weights[worker]) == "worker-0"
    process(spark, settings, policy, "0000000001", lines[LINES // 2 :])
    assert placement_in_force(settings, policy.job).version == head.version
    acks = [(ack.version, ack.status) for ack in read_acks(settings, policy.job)]
    assert acks == [(head.version, "accepted"), (head.version, "applied")]
    report = check_sums(settings)
    assert report.equal, report.text()
    assert report.flights == LINES
