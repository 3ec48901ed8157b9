"""A job on logical nodes, driven batch by batch under a placement that the caller changes.

A batch runs through the code of the streaming library (stages, nodes, state, figures) without its
tables: the caller sets the placement and receives the measurements.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from ballast.contracts.policy import JobPolicy
from ballast.streaming import StreamingJob
from ballast.streaming.batch_figures import BatchFigures, KeyGroup, Link, figures_of_batch
from ballast.streaming.key_group_state import StateStore
from ballast.streaming.node_task import BatchWork, NodeReport
from ballast.streaming.operators import Topology, build_topology
from ballast.streaming.processor_speed import LEAST, MOST
from ballast.streaming.routing import Placement, moves_between, node_indexes, taking_turns
from ballast.streaming.spark_stages import run_stages
from bench.real_jobs.shuffles import NO_SHUFFLES, ShuffleFigures, Watch
from examples.flights.results import Rows, rows_of


@dataclass(frozen=True)
class RoundFigures:
    """The measurements of a number of batches under one placement."""

    records: int
    cpu_ms: dict[KeyGroup, float]
    state_bytes: dict[KeyGroup, int]
    traffic: dict[Link, int]
    """Records by pair of key groups."""
    payload_bytes: int
    """Serialised records between nodes, as the library counts them."""
    work: float
    """CPU time in units of a fixed piece of work: without the variation of the processor's
    speed."""
    spark: ShuffleFigures

    @property
    def cpu_s(self) -> float:
        """The sum measured over all key groups."""
        return sum(self.cpu_ms.values()) / 1000


@dataclass(frozen=True)
class Moved:
    """Key groups and bytes that a change of placement moved."""

    key_groups: int
    state_bytes: int


class LogicalCluster:
    """One job with its state and placement. ``batches`` are fed by number and may be repeated."""

    def __init__(
        self,
        spark: SparkSession,
        job: StreamingJob,
        policy: JobPolicy,
        folder: Path,
        batches: Sequence[Path],
        placement: Placement,
    ) -> None:
        self.spark, self.job, self.policy, self.folder = spark, job, policy, folder
        self.batches, self.placement = batches, placement
        self.topology: Topology = build_topology(job.job, job.operators, policy)
        self.node_ids = tuple(node.id for node in policy.nodes)
        self.state = StateStore(folder / "state")
        self.state.root.mkdir(parents=True, exist_ok=True)
        self.state_bytes: dict[KeyGroup, int] = {}
        self.next_batch = 0
        self.fed: Counter[int] = Counter()

    def copy_to(self, folder: Path) -> LogicalCluster:
        """A copy of the job in the same state."""
        shutil.copytree(self.folder, folder)
        twin = LogicalCluster(
            self.spark, self.job, self.policy, folder, self.batches, self.placement
        )
        twin.state_bytes, twin.next_batch = dict(self.state_bytes), self.next_batch
        twin.fed = self.fed.copy()
        return twin

    def run_at_once(self, numbers: Sequence[int]) -> RoundFigures:
        """Run these batches of the input as a single one."""
        return self._added_up([self._run_batch(numbers)])

    def run_round(self, numbers: Sequence[int]) -> RoundFigures:
        """Run these batches of the input one after another, and add up their measurements."""
        return self._added_up([self._run_batch([number]) for number in numbers])

    def _added_up(
        self, parts: Sequence[tuple[BatchFigures, float, ShuffleFigures]]
    ) -> RoundFigures:
        cpu, traffic = Counter[KeyGroup](), Counter[Link]()
        for measured, _, _ in parts:
            cpu.update({name: figures.cpu_ms for name, figures in measured.groups.items()})
            traffic.update({link: records for link, (records, _) in measured.traffic.items()})
        first = self.topology.ids[0]
        spark = NO_SHUFFLES
        for _, _, figures in parts:
            spark = spark.plus(figures)
        return RoundFigures(
            records=sum(
                f.records for m, _, _ in parts for (op, _), f in m.groups.items() if op == first
            ),
            cpu_ms=dict(cpu),
            state_bytes=dict(self.state_bytes),
            traffic=dict(traffic),
            payload_bytes=sum(size for m, _, _ in parts for _, size in m.traffic.values()),
            work=sum(work for _, work, _ in parts),
            spark=spark,
        )

    def _run_batch(self, numbers: Sequence[int]) -> tuple[BatchFigures, float, ShuffleFigures]:
        batch_id = self.next_batch
        node_ids = taking_turns(self.node_ids, batch_id)
        routes = node_indexes(self.placement, self.topology, node_ids)
        work = BatchWork(self.topology, routes, node_ids, batch_id, str(self.state.root))
        watch = Watch(self.spark, f"{self.folder.name}-{batch_id}")
        with watch.watching():
            frame = self.spark.read.text([str(self.batches[number]) for number in numbers])
            reports = run_stages(frame, self.job.source_key, work)
        measured = figures_of_batch(
            batch_id, reports, self.topology, self.placement, node_ids, self.state_bytes
        )
        self.state_bytes = {name: group.state_bytes for name, group in measured.groups.items()}
        self.next_batch += 1
        self.fed.update(numbers)
        return measured, work_of(reports), watch.figures

    def move_to(self, placement: Placement) -> Moved:
        """Take a placement up as the library does: copy all states, then remove the old ones."""
        moves = moves_between(self.placement, placement, self.topology.ids)
        copied = sum(
            self.state.copy(m.operator_id, m.key_group, m.source, m.target, self.next_batch)
            for m in moves
        )
        for move in moves:
            self.state.forget(move.source, move.operator_id, move.key_group)
        self.placement = placement
        return Moved(len(moves), copied)

    def results(self) -> dict[str, Rows]:
        """The rows that the job should have stored so far."""
        return rows_of(
            {
                operator: [self.state.read(node, operator, g) for g, node in enumerate(nodes)]
                for operator, nodes in self.placement.nodes.items()
            }
        )


def work_of(reports: Sequence[NodeReport]) -> float:
    """CPU times divided by the probes around them, with the limits that the library sets to a
    probe."""
    uses = [use for report in reports for use in report.groups.values()]
    probes = sorted(use.probe_ns for use in uses)
    usual = probes[len(probes) // 2] if probes else 0
    if usual <= 0:
        return 0.0
    return sum(use.cpu_ns / min(max(use.probe_ns, LEAST * usual), MOST * usual) for use in uses)
