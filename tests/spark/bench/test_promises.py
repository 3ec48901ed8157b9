"""The rounds of the benchmark promise and measure what the programs do with the same windows."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings
from ballast.store.plans import read_assignment, read_outcomes, read_plans, read_promises
from ballast.store.tables import append
from bench.promises.load_sources import SOURCES, WINDOWS, load_source
from bench.promises.rounds import METHODS, STEPS, SimulatedJob
from solvers.model.problem import FloatArray
from spark_jobs.draft.draft_plan import draft_plan
from spark_jobs.draft.solve_arguments import SolveOptions
from spark_jobs.outcome.plan_measurement import measure_plan
from spark_jobs.publication.publisher import publish_plan
from spark_jobs.snapshot.run_context import SnapshotRequest
from spark_jobs.snapshot.take_snapshot import condense
from tests.support.metrics import START, write_windows
from tests.support.policies import small_policy

JOB, OPERATOR, SEED = "promises", "kg", 3
LARGEST_LOAD = 0.5
"""Largest load in cores: a key group cannot use more CPU time than its window has."""
MOVES = 30


class OneRound:
    """The first two periods of a source, with loads that fit into windows."""

    def __init__(self, name: str) -> None:
        source = load_source(name, SEED)
        self.name, self.is_stationary = name, source.is_stationary
        self.capacity, self.start = source.capacity, source.start
        self.state_bytes = source.state_bytes
        past, following = source.next_round()
        scale = LARGEST_LOAD / max(past.max(), following.max())
        self.past, self.following = past * scale, following * scale

    def next_round(self) -> tuple[FloatArray, FloatArray]:
        return self.past, self.following

    def true_mean(self) -> FloatArray:
        return np.asarray(self.past.mean(axis=1))

    def oracle_means(self) -> FloatArray:
        return self.true_mean()[None, :]

    def policy(self) -> JobPolicy:
        return small_policy(
            JOB,
            {OPERATOR: len(self.start)},
            nodes=len(self.capacity),
            statistics_period_s=5 * WINDOWS,
            budgets={"moves": MOVES},
            objective={"kind": "balance", "resources": ["cpu"]},
        )


class RealRound:
    """The same round through condense, solve, publish, the job's acknowledgement, and measure."""

    def __init__(self, settings: Settings, spark: SparkSession, source: OneRound) -> None:
        self.settings, self.spark, self.source = settings, spark, source
        self.policy = source.policy()
        end = self._write(source.past, 0, source.start.tolist())
        request = SnapshotRequest(self.policy, "run-1", end)
        condense(settings, request, lambda: nullcontext(spark))
        options = SolveOptions(
            solver_steps=STEPS, seed=SEED, method=METHODS[self.policy.solver.precision]
        )
        draft_plan(settings, JOB, "run-1", options)
        (self.draft,) = read_plans(settings, JOB)
        (self.promise,) = [
            row
            for row in read_promises(settings, JOB, self.draft.plan_id)
            if row.figure == "load_distance_pct"
        ]

    def measured(self) -> float:
        """The load distance that is measured after the plan was taken up."""
        settings = self.settings
        head = publish_plan(settings, JOB, "run-1")
        assert head is not None
        placed = {
            row.key_group: int(row.node_id.removeprefix("node-"))
            for row in read_assignment(settings, JOB, head.plan_id)
        }
        ack = {
            "job": JOB, "version": 1, "plan_id": head.plan_id, "status": "applied",
            "batch_id": WINDOWS, "reason": "", "moved_key_groups": self.draft.moves,
            "bytes_moved": self.draft.bytes, "pause_ms": 1.0,
            "acked_at": START + timedelta(seconds=5 * WINDOWS),
        }  # fmt: skip
        append(settings, "plans.acks", [ack])
        end = self._write(self.source.following, 1, [placed[k] for k in sorted(placed)])
        measure_plan(settings, JOB, "run-2", lambda: nullcontext(self.spark), end)
        outcomes = {row.figure: row for row in read_outcomes(settings, JOB)}
        assert outcomes["load_distance_pct"].windows == WINDOWS
        return outcomes["load_distance_pct"].measured

    def _write(self, loads: FloatArray, version: int, node_of: list[int]) -> Any:
        """Write a period of windows; return the end of the last one."""
        first = version * WINDOWS

        def numbered(table: str, row: dict[str, Any]) -> dict[str, Any]:
            row["first_batch_id"] += first
            row["last_batch_id"] += first
            if table == "metrics.key_groups":
                row["state_bytes"] = int(self.source.state_bytes[row["key_group"]])
            return row

        return write_windows(
            self.settings,
            self.policy,
            START + timedelta(seconds=5 * first),
            WINDOWS,
            loads=lambda _, group, window: 5000.0 * float(loads[group, window]),
            nodes={(OPERATOR, k): f"node-{node}" for k, node in enumerate(node_of)},
            plan_version=version,
            change=numbered,
        )


@pytest.mark.parametrize("name", SOURCES)
def test_a_round_of_the_real_programs_has_the_figures_of_the_benchmark(
    settings: Settings, spark: SparkSession, name: str
) -> None:
    source = OneRound(name)
    job = SimulatedJob(source, seed=SEED)
    job.policy = source.policy()
    wanted = job.round()
    real = RealRound(settings, spark, source)
    assert wanted.is_plan
    assert (real.draft.moves, real.draft.bytes) == (wanted.moves, wanted.bytes)
    promised = real.promise.expected, real.promise.low, real.promise.high
    assert promised == pytest.approx((wanted.expected, wanted.low, wanted.high))
    assert real.measured() == pytest.approx(wanted.measured)
