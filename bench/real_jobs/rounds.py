"""One job over rounds: measure, plan, move, measure again, for every method from the same start."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ballast.streaming import StreamingJob
from ballast.streaming.operators import build_topology
from bench.real_jobs.cluster import LogicalCluster, Moved, RoundFigures
from bench.real_jobs.methods import COLA, Rules, Step, step_of
from bench.real_jobs.problems import (
    SCORE_FACTOR,
    capacity_of,
    even_placement,
    placement_of,
    problem_of,
    worst_assignment,
)
from examples.flights.check_real_jobs import compare, wanted_sums
from examples.flights.real_jobs import KEY_GROUPS_PER_NODE, real_job_policy
from examples.flights.results import read_results, write_results
from solvers.collocate.clusters import heavy_mask
from solvers.model import metrics
from solvers.model.problem import Problem
from solvers.model.traffic_graph import TrafficGraph

Say = Callable[[str], None]


@dataclass(frozen=True)
class JobSetting:
    """The parameters of a run."""

    nodes: int = 20
    rounds: int = 12
    cola_rounds: int = 2
    batches_per_round: int = 1
    batch_records: int = 96_000
    period: int = 3
    """Rounds whose CPU times make up the loads of a problem: the statistics period."""
    seed: int = 1
    methods: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobRound:
    """A measured round; ``moves`` and ``moved_bytes`` are those of the plan before it."""

    method: str
    number: int
    collocation: float
    load_distance: float
    """Of the loads that the plan is made from, under the placement of this round."""
    round_distance: float
    """Of this round's CPU times alone, disturbances of the machine included."""
    cpu_s: float
    work: float
    records: int
    sent_records: int
    """Records whose two key groups were on different nodes."""
    between_bytes: int
    source_bytes: int
    payload_bytes: int
    executor_cpu_s: float
    moves: int
    moved_bytes: int


@dataclass(frozen=True)
class JobRun:
    """All rounds of all methods of a job, and whether its sums were right at the end."""

    job: str
    rounds: tuple[JobRound, ...]
    heavy_share: float
    """Percent of the traffic on pairs worth collocating by ALBIC's score."""
    send_us: float
    receive_us: float
    checks: tuple[str, ...]
    is_exact: bool

    def of(self, method: str) -> list[JobRound]:
        return [row for row in self.rounds if row.method == method]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> JobRun:
        rounds = tuple(JobRound(**row) for row in found["rounds"])
        return cls(**{**found, "rounds": rounds, "checks": tuple(found["checks"])})


def cut_batches(lines: Sequence[str], size: int, folder: Path) -> list[Path]:
    """Cut the input into files of equally many lines, in order; the rest is not used."""
    folder.mkdir(parents=True)
    paths = []
    for number in range(len(lines) // size):
        path = folder / f"batch-{number:03d}.csv"
        path.write_text("".join(lines[number * size : (number + 1) * size]))
        paths.append(path)
    return paths


def numbers_of(round_number: int, per_round: int, batches: int) -> list[int]:
    """The batches that a round replays: the next ones of the year, and again from its beginning."""
    first = round_number * per_round
    return [(first + i) % batches for i in range(per_round)]


def run_job(
    spark: SparkSession,
    job: StreamingJob,
    lines: Sequence[str],
    setting: JobSetting,
    rules: Rules,
    folder: Path,
    say: Say,
) -> JobRun:
    """Run the whole input once, start from the worst placement, and run the rounds of every
    method."""
    batches = cut_batches(lines, setting.batch_records, folder / "input")
    start, year, problem = _worst_start(spark, job, setting, folder, batches)
    say(f"{job.job}: {len(batches)} batches of {setting.batch_records} lines, warmed up")
    lanes = [
        _Lane(method, start.copy_to(folder / method), step_of(method, rules), setting, year)
        for method in setting.methods
    ]
    for number in range(setting.rounds + 1):
        # Another method comes first in each round, so that none always follows the same one.
        first = number % len(lanes)
        for lane in lanes[first:] + lanes[:first]:
            if lane.is_due(number):
                say(f"{job.job} {shown(lane.play(number))}")
    checks = [lane.check() for lane in lanes]
    send, receive = (1000 * c[0] if c else 0.0 for c in (rules.costs.send, rules.costs.receive))
    return JobRun(
        job.job,
        tuple(row for lane in lanes for row in lane.history),
        heavy_share(problem),
        send,
        receive,
        tuple(f"{lane.method}: {text}" for lane, (text, _) in zip(lanes, checks, strict=True)),
        all(equal for _, equal in checks),
    )


def _worst_start(
    spark: SparkSession,
    job: StreamingJob,
    setting: JobSetting,
    folder: Path,
    batches: Sequence[Path],
) -> tuple[LogicalCluster, RoundFigures, Problem]:
    policy = real_job_policy(job, setting.nodes)
    topology = build_topology(job.job, job.operators, policy)
    node_ids = tuple(node.id for node in policy.nodes)
    placement = even_placement(topology, node_ids)
    cluster = LogicalCluster(spark, job, policy, folder / "start", batches, placement)
    # The whole input is processed first. Otherwise state, and load with it, would grow by round.
    year = cluster.run_at_once(range(len(batches)))
    problem = problem_of(topology, placement, node_ids, year, capacity_of(year, setting.nodes))
    per_node = dict.fromkeys(topology.ids, KEY_GROUPS_PER_NODE)
    worst = worst_assignment(problem, per_node, setting.seed)
    cluster.move_to(placement_of(topology, node_ids, worst, 1))
    return cluster, year, problem


class _Lane:
    """The cluster of one method, which goes from round to round."""

    def __init__(
        self,
        method: str,
        cluster: LogicalCluster,
        step: Step,
        setting: JobSetting,
        year: RoundFigures,
    ) -> None:
        self.method, self.cluster, self.step, self.setting = method, cluster, step, setting
        # Nothing was collocated in the pass that filled the state either, so it is a measurement.
        self.period = deque([year], maxlen=setting.period)
        self.capacity_ms: float | None = None
        self.moved = Moved(0, 0)
        self.history: list[JobRound] = []

    def is_due(self, number: int) -> bool:
        """Whether a round is run: COLA moves nearly everything in each round, so a few rounds are
        enough."""
        return self.method != COLA or number <= self.setting.cola_rounds

    def play(self, number: int) -> JobRound:
        """Measure a round, store its results, then plan and move for the next round."""
        cluster, setting = self.cluster, self.setting
        numbers = numbers_of(number, setting.batches_per_round, len(cluster.batches))
        figures = cluster.run_round(numbers)
        write_results(self.database, cluster.next_batch - 1, cluster.results())
        if self.capacity_ms is None:
            self.capacity_ms = capacity_of(figures, setting.nodes)
        alone, problem = (
            problem_of(cluster.topology, cluster.placement, cluster.node_ids, of, self.capacity_ms)
            for of in (figures, over_period(self.period, figures))
        )
        self.period.append(figures)
        distance = metrics.load_distance(alone, alone.current)
        row = _row(self.method, number, problem, figures, self.moved, distance)
        self.history.append(row)
        last = setting.cola_rounds if self.method == COLA else setting.rounds
        if number < last:
            assignment = self.step(problem, setting.seed + number)
            self.moved = cluster.move_to(
                placement_of(
                    cluster.topology, cluster.node_ids, assignment, cluster.placement.version + 1
                )
            )
        return row

    @property
    def database(self) -> Path:
        return self.cluster.folder / "results.sqlite"

    def check(self) -> tuple[str, bool]:
        """Whether the stored sums are those of the whole input, warm-up and every round
        included."""
        files = [
            (self.cluster.batches[number].read_text(), times)
            for number, times in sorted(self.cluster.fed.items())
        ]
        _, stored = read_results(self.database)
        text, equal = compare(wanted_sums(self.cluster.job.job, files), stored)
        return text.replace("\n", "; "), equal


def over_period(before: Sequence[RoundFigures], now: RoundFigures) -> RoundFigures:
    """This round with the CPU time per record of the whole period.

    On a shared machine the CPU times of a key group in one round are off by a tenth and more.
    """
    whole = [*before, now]
    records = sum(figures.records for figures in whole)
    cpu_ms = {
        name: sum(figures.cpu_ms.get(name, 0.0) for figures in whole) * now.records / records
        for name in now.cpu_ms
    }
    return replace(now, cpu_ms=cpu_ms)


def _row(
    method: str,
    number: int,
    problem: Problem,
    figures: RoundFigures,
    moved: Moved,
    round_distance: float,
) -> JobRound:
    collocation = metrics.collocation_factor(problem, problem.current) or 0.0
    sent = sum(figures.traffic.values())
    return JobRound(
        method=method,
        number=number,
        collocation=collocation,
        load_distance=metrics.load_distance(problem, problem.current),
        round_distance=round_distance,
        cpu_s=figures.cpu_s,
        work=figures.work,
        records=figures.records,
        sent_records=round(sent * (1 - collocation / 100)),
        between_bytes=figures.spark.between_bytes,
        source_bytes=figures.spark.source_bytes,
        payload_bytes=figures.payload_bytes,
        executor_cpu_s=figures.spark.executor_cpu_s,
        moves=moved.key_groups,
        moved_bytes=moved.state_bytes,
    )


def heavy_share(problem: Problem) -> float:
    """Percent of the traffic on pairs which ALBIC's score would collocate."""
    graph = TrafficGraph.of(problem)
    heavy = heavy_mask(problem, graph, SCORE_FACTOR)
    return 100.0 * float(graph.rate_out[heavy].sum()) / graph.total_rate


def shown(row: JobRound) -> str:
    """Return a line of progress."""
    return (
        f"{row.method:9} round {row.number:2}: collocation {row.collocation:5.1f} %, CPU "
        f"{row.cpu_s:.2f} s, load distance {row.load_distance:5.1f} %, between nodes "
        f"{row.between_bytes / 1e6:.2f} MB, {row.moves} moves"
    )
