"""A routed job without Spark, for tests that kill many of its processes.

``JobRuntime.on_batch`` is the code of a job. Only Spark's shuffles are replaced by a loop over the
nodes, and Spark's commit log by a file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ballast.contracts.fault_points import VARIABLE
from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings, load_settings
from ballast.streaming import batch_runner
from ballast.streaming.job_state import job_folder
from ballast.streaming.node_task import SOURCE, BatchWork, Delivery, NodeReport, run_node, unpack
from ballast.streaming.routing import Placement, key_group_of
from tests.support.streaming_parts import JOB, policy_of, topology_by_key

POLICY = policy_of(3, window_s=1, statistics_period_s=10)
WORDS = [f"{letter}{number}" for letter in "abcé" for number in range(15)] + ["o'x", 'say "x"']


def policy_in_steps(moves_per_batch: int) -> JobPolicy:
    """The job's policy with a limit on the moves of a step."""
    take_up = {"moves_per_batch": moves_per_batch}
    return policy_of(3, window_s=1, statistics_period_s=10, take_up=take_up)


def live(home: str, batches: int, fault: str, moves_per_batch: int | None = None) -> None:
    """Run one process of the job: a number of batches from the first uncommitted one, then
    windows."""
    policy = POLICY if moves_per_batch is None else policy_in_steps(moves_per_batch)
    os.environ[VARIABLE] = fault
    batch_runner.run_stages, batch_runner.SentRoutes = run_stages, FakeRoutes  # type: ignore[misc,assignment]
    settings = load_settings({"BALLAST_HOME": home})
    job = batch_runner.JobRuntime(
        topology_by_key(policy), "value", settings, policy, job_folder(settings, JOB)
    )
    first = committed(settings)
    for batch in range(first, first + batches):
        job.on_batch(Frame(), batch)  # type: ignore[arg-type]
        new = Path(home) / "committed.new"
        new.write_text(str(batch + 1))
        new.rename(Path(home) / "committed")
    job.ledger.flush(closing=True)


def committed(settings: Settings) -> int:
    """Number of committed batches, as Spark's commit log would have it."""
    path = settings.home / "committed"
    return int(path.read_text()) if path.exists() else 0


class FakeRoutes:
    """Replaces the routes that Spark sends to executors."""

    source = None

    def __init__(self, _spark: object, placement: Placement, _first: str) -> None:
        self.version, self.routes = placement.version, placement.routes

    def on_worker(self) -> Any:
        return lambda: self.routes

    def forget(self) -> None:
        """Do nothing, because nothing was sent."""


class Frame:
    """Replaces the records of a batch; all batches have the same records."""

    sparkSession = None  # noqa: N815 - Spark's name


def run_stages(_frame: object, _key: str, work: BatchWork, _routes: object) -> list[NodeReport]:
    """Run the stages as Spark would, one node after another."""
    routed = work.routes().get("parse", {})
    inboxes: list[dict[Any, list[Delivery]]] = [{} for _ in work.node_ids]
    for word in WORDS:
        group = (0, routed.get(word, key_group_of(word, work.topology.key_groups[0])))
        parts = inboxes[work.owner(group)].setdefault(group, [])
        parts.append(Delivery(SOURCE, lambda word=word: [(word, {"value": word})]))
    reports = []
    for stage in range(work.topology.stages):
        following: list[dict[Any, list[Delivery]]] = [{} for _ in inboxes]
        for node, inbox in enumerate(inboxes):
            report, blocks = run_node(work, node, stage, inbox)
            reports.append(report)
            for block in blocks:
                part = Delivery(block.sender, lambda p=block.payload: unpack(p), len(block.payload))
                following[work.owner(block.target)].setdefault(block.target, []).append(part)
        inboxes = following
    return reports
