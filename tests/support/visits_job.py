"""A real Flink job on a real cluster: the visits example and its engine services."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ballast.contracts.fault_points import VARIABLE
from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings
from embedded.flink_cluster import FlinkCluster
from examples.visits.check import VisitCounts, visit_counts
from tests.support.orders_group import stop, wait_for
from tests.support.policies import small_policy
from tests.support.programs import job_environment
from tests.support.streaming_plans import publish

MOST = 6
FIRST = 2
SOURCE, COUNT = "visits", "count"
COST_US = 500
FOR_EVER = 10**9


def flink_policy(job: str, **fields: Any) -> JobPolicy:
    """Windows of 3 s, so that tests see several."""
    return small_policy(
        job=job,
        operators={SOURCE: 1, COUNT: MOST},
        nodes=["cluster"],
        **{
            "window_s": 3,
            "statistics_period_s": 12,
            "engine": {
                "kind": "flink",
                "job_name": job,
                "vertices": {
                    SOURCE: {"name": "Source: visits"},
                    COUNT: {"name": "count -> end: Writer", "parallelism": FIRST},
                },
            },
            **fields,
        },
    )


class VisitsJob:
    """A Flink job with its engine services; stops all of them at the end.

    Args:
        settings: where the tables are.
        policy: the job's policy; its name is also the name on the cluster.
        cluster: the cluster.
        jar: the jar of the job.
        folder: where the processes write.
    """

    def __init__(
        self, settings: Settings, policy: JobPolicy, cluster: FlinkCluster, jar: Path, folder: Path
    ) -> None:
        self.settings, self.policy, self.cluster = settings, policy, cluster
        self.folder, self.out = folder, folder / "out"
        self.out.mkdir(parents=True)
        self._jar = jar
        self._environment = {**job_environment(settings), "BALLAST_FLINK_URL": cluster.url}
        self.services: list[subprocess.Popen[bytes]] = []
        self.job_id = ""

    @property
    def job(self) -> str:
        return self.policy.job

    def submit(self, rate: int = 200, size: int = FIRST, savepoint: str | None = None) -> None:
        """Submit the job, and wait until it runs and has a checkpoint."""
        arguments = [
            self.job, str(FOR_EVER), str(rate), str(COST_US), "100", str(size), str(self.out),
        ]  # fmt: skip
        self.job_id = self.cluster.submit(self._jar, arguments, savepoint)
        wait_for(
            "a checkpoint is completed",
            lambda: self.call("/checkpoints")["latest"]["completed"],
            self.logs,
        )

    def start_service(self, fault: str | None = None) -> subprocess.Popen[bytes]:
        environment = {**self._environment, **({VARIABLE: fault} if fault else {})}
        with (self.folder / f"service-{len(self.services)}.log").open("ab") as log:
            service = subprocess.Popen(
                [sys.executable, "-m", "ballast.cli.main", "engine", "run", self.job],
                stdout=log, stderr=log, env=environment,
            )  # fmt: skip
        self.services.append(service)
        return service

    def give(self, version: int, sizes: Mapping[str, int], **changes: Any) -> None:
        """Publish a plan."""
        publish(
            self.settings, self.policy, version, lambda *_: "cluster",
            nodes={"cluster": "keep"}, sizes=sizes, **changes,
        )  # fmt: skip

    def sizes(self) -> dict[str, int]:
        """Subtasks of each vertex that run, by name."""
        vertices = self.call("")["vertices"]
        return {each["name"].split()[0].rstrip(":"): each["tasks"]["RUNNING"] for each in vertices}

    def count_size(self) -> int:
        return self.sizes()["count"]

    def call(self, path: str) -> Any:
        return self.cluster.call("GET", f"/jobs/{self.job_id}{path}")

    def ended(self) -> VisitCounts:
        """Stops the job after the visits that it has read, and compares."""
        self.cluster.call("POST", f"/jobs/{self.job_id}/stop", {"drain": True})
        wait_for(
            "the job is finished",
            lambda: self.call("")["state"] == "FINISHED" or None,
            self.logs,
        )
        return visit_counts(self.out)

    def close(self) -> None:
        for process in self.services:
            if process.poll() is None:
                stop(process)
        if not self.job_id:
            return
        jobs = self.cluster.call("GET", "/jobs")["jobs"]
        for each in jobs:
            if each["status"] not in ("FINISHED", "CANCELED", "FAILED"):
                self.cluster.cancel(each["id"])
        wait_for(
            "its slots are free",
            lambda: self._all_slots_free() or None,
            self.logs,
        )

    def _all_slots_free(self) -> bool:
        overview = self.cluster.call("GET", "/overview")
        return bool(overview["slots-available"] == overview["slots-total"])

    def logs(self) -> str:
        """The ends of all logs, for the message of a test that waited too long."""
        parts = [self.cluster.logs()]
        for log in sorted(self.folder.glob("*.log")):
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
            parts.append("\n".join([f"== {log.name}", *lines]))
        return "\n".join(parts)
