"""Figures of Spark about a batch: bytes that its shuffles wrote, and CPU time of its executors."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

COMPLETE, SKIPPED = "COMPLETE", "SKIPPED"
NO_SUCH = "NoSuchElementException"
PATIENCE_S = 30.0


@dataclass(frozen=True)
class StageFigures:
    """One stage of a Spark job."""

    stage_id: int
    shuffle_write_bytes: int
    executor_cpu_ns: int


@dataclass(frozen=True)
class ShuffleFigures:
    """Bytes as Spark wrote them, compressed. The nodes' reports travel with the records."""

    source_bytes: int
    """From the source to the nodes of the first operator; no placement saves these bytes."""
    between_bytes: int
    """By all later shuffles, from nodes to nodes."""
    executor_cpu_s: float
    """Of the JVM's task threads: reading, shuffling, and passing rows to Python and back."""

    def plus(self, other: ShuffleFigures) -> ShuffleFigures:
        return ShuffleFigures(
            self.source_bytes + other.source_bytes,
            self.between_bytes + other.between_bytes,
            self.executor_cpu_s + other.executor_cpu_s,
        )


NO_SHUFFLES = ShuffleFigures(0, 0, 0.0)


def summed(stages: Sequence[StageFigures]) -> ShuffleFigures:
    """Add up the stages of a batch: its first stage reads the source, the others belong to the
    nodes."""
    first, *later = sorted(stages, key=lambda stage: stage.stage_id)
    return ShuffleFigures(
        first.shuffle_write_bytes,
        sum(stage.shuffle_write_bytes for stage in later),
        sum(stage.executor_cpu_ns for stage in stages) / 1e9,
    )


class Watch:
    """Read the figures of the jobs that run in the block; used once.

    The name of the job group is unique: a group that was used before would return its old jobs.
    """

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.context, self.name = spark.sparkContext, f"{name}-{uuid.uuid4().hex}"
        self.stages: list[StageFigures] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        self.context.setJobGroup(self.name, self.name)
        yield
        tracker = self.context.statusTracker()
        ids = {
            stage
            for job in tracker.getJobIdsForGroup(self.name)
            for stage in getattr(tracker.getJobInfo(job), "stageIds", ())
        }
        found = [self._stage(stage) for stage in sorted(ids)]
        self.stages = [stage for stage in found if stage is not None]
        self._check_none_is_lost(tracker.getJobIdsForGroup(self.name), len(ids))

    @property
    def figures(self) -> ShuffleFigures:
        return summed(self.stages)

    def _check_none_is_lost(self, jobs: Sequence[int], stages: int) -> None:
        """Check that every stage without figures was skipped, as its job reports."""
        store = self.context._jsc.sc().statusStore()
        end = time.monotonic() + PATIENCE_S
        skipped = -1
        while time.monotonic() < end:
            skipped = sum(store.job(job).numSkippedStages() for job in jobs)
            if skipped == stages - len(self.stages):
                return
            time.sleep(0.01)
        raise RuntimeError(
            f"figures of {len(self.stages)} of {stages} stages were found, but {skipped} skipped"
        )

    def _stage(self, stage_id: int) -> StageFigures | None:
        """The figures of a stage, once it is complete: Spark adds them up with a delay.

        None for a stage that was skipped, because an earlier job had done its work.
        """
        store = self.context._jsc.sc().statusStore()
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                found = store.lastStageAttempt(stage_id)
            except Py4JJavaError as error:
                if NO_SUCH not in str(error.java_exception):
                    raise
                # Spark removes the stages that ended first, and treats a skipped one as having
                # ended before all others. Whether it was one is checked against the jobs.
                return None
            status = str(found.status())
            if status == SKIPPED:
                return None
            if status == COMPLETE:
                return StageFigures(stage_id, found.shuffleWriteBytes(), found.executorCpuTime())
            if time.monotonic() > end:
                raise RuntimeError(f"stage {stage_id} is {status} and not complete")
            time.sleep(0.01)
