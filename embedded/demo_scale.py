"""Scaling on one machine: ``make demo-scale``.

The reference job runs on three nodes, and a fourth one is spare. Its load is doubled: a plan adds
the node, the job takes it up, and what each node uses is compared with what was promised. Then the
load falls: the node, or another one, is drained over as many rounds as the budget needs, which is
more than one, and removed. Exit 0 only if all of that held and the job's sums are those of its
input.
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from ballast.contracts.errors import BallastError
from ballast.contracts.scaling import nodes_in_use, scaled
from ballast.contracts.settings import Settings, load_settings
from ballast.store.plans import (
    read_assignment,
    read_head,
    read_log,
    read_outcomes,
    read_plan,
    read_scaling,
)
from ballast.store.tables import read_rows
from ballast.streaming.job_state import job_folder
from embedded.demo import (
    DAG_ID,
    JOB,
    Stack,
    end_left_runs,
    run_dag,
    say,
    start_afresh,
    wait_for_take_up,
    wait_for_windows,
)
from embedded.errors import EmbeddedError
from embedded.processes import Stopped, ending_signals_raise
from embedded.report import boxed
from embedded.rest import AirflowClient
from examples.flights.check import check_sums
from examples.flights.feed import FlightsFolder, set_rate

# Each statistics period of 120 s sees all 336,776 flights twice, and then four times: two periods
# of one rate see the same flights, so that they differ by how long things took alone.
LOW_RATE, HIGH_RATE = 336_776 / 60, 336_776 / 30
NODES, SPARES = 3, 1
# Nodes have the capacity at which the low rate uses half of it, whatever this machine can do.
LOW_UTILISATION = 0.5
BOUNDARIES = {"lower": 0.45, "target": 0.6, "upper": 0.75}
# Of 120 key groups, a twentieth a plan. The six largest are half of a node's share, so the plan
# after the one that adds the node fills it further: whichever node is then let go holds more than
# one round may move, so its drain takes several. One in use before (40 at most) is drained in time
# as well.
BUDGET_MOVES = 6
MAX_DRAIN_ROUNDS = 7
FEWEST_DRAIN_ROUNDS = 2
# 120 key groups are solved in a fraction of it; the rest would go into the proof of a bound.
SOLVER_SECONDS = 1
CALIBRATION_WINDOWS, WARM_UP_WINDOWS = 4, 3
MOST_RUNS = 2 + MAX_DRAIN_ROUNDS
TOLERANCE = 0.10
# What is promised holds for the load it was planned for. On a machine that is too busy to feed the
# job evenly, what is measured says nothing about the plan.
FED_TOLERANCE = 0.05
LEAST_FED = 0.9


@dataclass
class Story:
    """What happened, for the report."""

    added: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    promised: dict[str, tuple[float, float]] = field(default_factory=dict)
    """CPU cores promised and measured, by node."""
    fed: tuple[float, float] = (0.0, 0.0)
    """Flights a second that the job took: when the plan was made, and when it was measured."""
    drained: list[str] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    """Key groups on the draining node: before its first round, and after each."""
    drain_moves: list[int] = field(default_factory=list)
    """Moves of each round of the drain, those that balance included."""
    removed: list[str] = field(default_factory=list)
    heartbeats: list[str] = field(default_factory=list)
    """Nodes that spoke when they were not in use."""
    sums_equal: bool = False
    sums_text: str = ""

    @property
    def drain_rounds(self) -> int:
        return len(self.drain_moves)

    @property
    def needed_rounds(self) -> int:
        """Rounds that the budget makes necessary for the drain; 0 where nothing drained."""
        return math.ceil(self.held[0] / BUDGET_MOVES) if self.held else 0


def main() -> int:
    """Run the demonstration; exit 0 only if it showed what it must."""
    try:
        with ending_signals_raise():
            return _run()
    except Stopped as stopped:
        say("stopped")
        return stopped.signal_number + 128
    except BallastError as error:
        print(f"ballast: {error}", file=sys.stderr, flush=True)
        return error.exit_code


def _run() -> int:
    settings = with_scaling(load_settings(), cores=1.0)
    stack = Stack(settings, schedules=False, rate=round(LOW_RATE))
    began = time.monotonic()
    try:
        stack.airflow.claim()
        start_afresh(settings)
        stack.start()
        story = tell(stack)
        stack.stop_job()
    finally:
        stack.stop()
    sums = check_sums(settings)
    story.sums_equal, story.sums_text = sums.equal, sums.text()
    story.heartbeats = spoke_unasked(settings, stack)
    print("\n" + "\n".join(report_lines(story)) + "\n", flush=True)
    problems = shortcomings(story)
    for problem in problems:
        print(f"NOT SHOWN: {problem}", flush=True)
    say(f"{'failed' if problems else 'done'} after {time.monotonic() - began:.0f} s")
    return 1 if problems else 0


def with_scaling(settings: Settings, cores: float) -> Settings:
    """The settings with the job's policy for scaling, in a folder of its own."""
    source = load_settings().policies / f"{JOB}.yaml"
    policy = yaml.safe_load(source.read_text(encoding="utf-8"))
    policy["nodes"] = [
        {"id": f"node-{i}", "capacity": {"cpu_cores": cores}, "spare": i >= NODES}
        for i in range(NODES + SPARES)
    ]
    policy["budgets"] = {"moves": BUDGET_MOVES}
    policy["solver"] = {**policy.get("solver", {}), "seconds": SOLVER_SECONDS}
    policy["scaling"] = {
        "method": "thresholds",
        "boundaries": BOUNDARIES,
        "min_nodes": NODES,
        "max_nodes": NODES + SPARES,
        "interval_s": 120.0,
        "cool_down_s": 30.0,
        "stabilisation_rounds": 1,
        "max_drain_rounds": MAX_DRAIN_ROUNDS,
    }
    folder = settings.home / "policies" / "scale"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / source.name).write_text(yaml.safe_dump(policy, sort_keys=False), encoding="utf-8")
    return replace(settings, policies=folder)


def tell(stack: Stack) -> Story:
    """Calibrate, double the load, halve it again; what the plans made of that."""
    client = stack.airflow.client()
    client.wait_for_dag(DAG_ID)
    end_left_runs(client)
    client.unpause(DAG_ID)
    calibrate(stack)
    story = Story()
    # Condense looks at the last period before its own start, several windows after the trigger: a
    # batch that was still under way when the rate changed is out of its sight by then.
    period = stack.policy.windows_per_period
    change_rate(stack, HIGH_RATE)
    wait_for_windows(stack, "a period of the doubled load", period, after_batch=last_batch(stack))
    check_fed(newest_windows(stack, period).records_per_s, HIGH_RATE)
    grow(stack, client, story)
    change_rate(stack, LOW_RATE)
    wait_for_windows(stack, "a period of the low load", period, after_batch=last_batch(stack))
    shrink(stack, client, story)
    return story


def calibrate(stack: Stack) -> None:
    """Give nodes the capacity at which the low rate uses half of it, and start the job anew."""
    wait_for_windows(stack, "what the low rate costs here", CALIBRATION_WINDOWS + WARM_UP_WINDOWS)
    seen = newest_windows(stack, CALIBRATION_WINDOWS)
    # Of a flight, for a busy machine may feed fewer than it should.
    used = seen.cpu_cores / max(seen.records_per_s, 1.0) * LOW_RATE
    cores = used / (NODES * LOW_UTILISATION)
    say(f"the low rate uses {used:.3f} cores; a node gets {cores:.4f}")
    with_scaling(stack.settings, cores)
    stack.restart_job()


@dataclass(frozen=True)
class Seen:
    """What the job did in some windows."""

    records_per_s: float
    """Flights that came in."""
    cpu_cores: float


def newest_windows(stack: Stack, count: int) -> Seen:
    """The newest so many windows of the job."""
    columns = ["operator_id", "window_end_at", "records", "cpu_ms"]
    rows = read_rows(stack.settings, "metrics.key_groups", job=JOB, columns=columns).to_pylist()
    return seen_in(rows, count, stack.policy.window_s, stack.policy.entry_operators)


def seen_in(rows: Sequence[Any], count: int, window_s: float, entries: Collection[str]) -> Seen:
    """Flights and CPU a second in the newest windows of rows of metrics.key_groups."""
    ends = set(sorted({row["window_end_at"] for row in rows})[-count:])
    newest = [row for row in rows if row["window_end_at"] in ends]
    seconds = max(1, len(ends)) * window_s
    records = sum(row["records"] for row in newest if row["operator_id"] in entries)
    return Seen(records / seconds, sum(row["cpu_ms"] for row in newest) / 1000 / seconds)


def check_fed(records_per_s: float, rate: float) -> None:
    """Refuse to go on where the load is not what it is said to be."""
    if records_per_s < LEAST_FED * rate:
        raise EmbeddedError(
            f"the job took {records_per_s:,.0f} flights a second of {rate:,.0f}: this machine is "
            "too busy for the load to be doubled; to fix it: end what else runs, and try again"
        )


def change_rate(stack: Stack, rate: float) -> None:
    """Feed at another rate from now on."""
    set_rate(FlightsFolder(job_folder(stack.settings, JOB)), rate)
    say(f"the load is now {rate:,.0f} flights a second")


def last_batch(stack: Stack) -> int:
    """The newest batch that windows tell of, and one: what comes after it."""
    rows = read_rows(stack.settings, "metrics.nodes", job=JOB, columns=["last_batch_id"])
    return 1 + max((b for b in rows["last_batch_id"].to_pylist() if b is not None), default=-1)


def grow(stack: Stack, client: AirflowClient, story: Story) -> None:
    """A run that adds the node, and another one that measures it and fills the node further."""
    version = one_round(stack, client, story)
    if version is None:
        raise EmbeddedError(f"the doubled load made no new version: {story.reasons[-1]}")
    story.added = acted(stack, version, "add")
    plan = read_plan(stack.settings, JOB, plan_of(stack, version))
    one_round(stack, client, story)
    outcomes = [
        row
        for row in read_outcomes(stack.settings, JOB, version)
        if row["figure"].startswith("cpu_load_cores/")
    ]
    story.promised = {
        row["figure"].partition("/")[2]: (row["promised"], row["measured"]) for row in outcomes
    }
    if outcomes:
        story.fed = (planned_rate(stack, plan), measured_rate(stack, outcomes[0]))


def planned_rate(stack: Stack, plan: Any) -> float:
    """Flights a second of the snapshot that the plan was made from."""
    rows = read_rows(
        stack.settings, "snapshots.key_groups", job=JOB,
        where=[("snapshot_id", "=", plan["snapshot_id"]), of_entry(stack)],
        columns=["records_per_s"],
    )  # fmt: skip
    return float(sum(rows["records_per_s"].to_pylist()))


def measured_rate(stack: Stack, outcome: Any) -> float:
    """Flights a second of the windows that the outcome was measured over."""
    rows = read_rows(
        stack.settings, "metrics.key_groups", job=JOB,
        where=[
            ("window_end_at", ">", outcome["period_start_at"]),
            ("window_end_at", "<=", outcome["period_end_at"]),
            of_entry(stack),
        ],
        columns=["window_end_at", "records"],
    )  # fmt: skip
    windows = len(set(rows["window_end_at"].to_pylist()))
    return float(sum(rows["records"].to_pylist())) / max(1.0, windows * stack.policy.window_s)


def of_entry(stack: Stack) -> tuple[str, str, Any]:
    """Rows of the operators that flights come in at."""
    return ("operator_id", "in", list(stack.policy.entry_operators))


def shrink(stack: Stack, client: AirflowClient, story: Story) -> None:
    """Runs until a node is gone."""
    for _ in range(MOST_RUNS):
        before = key_groups_by_node(stack)
        version = one_round(stack, client, story)
        if version is None:
            continue
        draining = acted(stack, version, "drain")
        if draining:
            story.drained = sorted({*story.drained, *draining})
            after = key_groups_by_node(stack)
            story.held = story.held or [sum(before[node] for node in draining)]
            story.held.append(sum(after[node] for node in draining))
            plan = read_plan(stack.settings, JOB, plan_of(stack, version))
            story.drain_moves.append(plan["moves"])
            say(f"  {', '.join(draining)}: {story.held[-1]} of {story.held[0]} key groups left")
        story.removed = acted(stack, version, "remove")
        if story.removed:
            return


def key_groups_by_node(stack: Stack) -> Counter[str]:
    """How many key groups the plan in force has on each node."""
    head = read_head(stack.settings, JOB)
    if head is None:
        raise EmbeddedError("no plan is in force; the doubled load should have made one")
    rows = read_assignment(stack.settings, JOB, head.plan_id)
    return Counter(row["node_id"] for row in rows)


def one_round(stack: Stack, client: AirflowClient, story: Story) -> int | None:
    """A whole run, and the take-up of its version; None where it made none."""
    before = read_head(stack.settings, JOB)
    run_id = run_dag(stack, client)
    reason = next(
        row["reason"]
        for row in read_log(stack.settings, JOB)
        if row["run_id"] == run_id and row["event"] in ("drafted", "unchanged")
    )
    story.reasons.append(reason)
    say(f"  {reason[reason.find('scaling: ') :]}")
    head = read_head(stack.settings, JOB)
    if head is None or (before is not None and head.version == before.version):
        return None
    wait_for_take_up(stack, head)
    # No snapshot is taken from windows of two versions.
    wait_for_windows(
        stack, f"windows of version {head.version}", stack.policy.windows_per_period,
        after_batch=last_batch(stack),
    )  # fmt: skip
    return head.version


def plan_of(stack: Stack, version: int) -> str:
    """The plan of the version in force."""
    head = read_head(stack.settings, JOB)
    if head is None or head.version != version:
        raise EmbeddedError(f"version {version} is not in force any more")
    return head.plan_id


def acted(stack: Stack, version: int, action: str) -> list[str]:
    """Nodes with which the version in force does this."""
    rows = read_scaling(stack.settings, JOB, plan_of(stack, version))
    return sorted(r["subject_id"] for r in rows if r["subject"] == "node" and r["action"] == action)


def spoke_unasked(settings: Settings, stack: Stack) -> list[str]:
    """Nodes that sent heartbeats in a window of a version that does not use them.

    The window in which a version is taken up also shows the nodes of the one before.
    """
    plans = {
        row["version"]: row["plan_id"]
        for row in read_log(settings, JOB)
        if row["event"] == "published"
    }
    used = {
        version: nodes_in_use(stack.policy, scaled(read_scaling(settings, JOB, plan_id)))
        for version, plan_id in plans.items()
    } | {0: nodes_in_use(stack.policy)}
    columns = ["node_id", "plan_version", "window_start_at"]
    rows = read_rows(settings, "metrics.nodes", job=JOB, columns=columns).to_pylist()
    first: dict[int, Any] = {}
    for row in sorted(rows, key=lambda row: row["window_start_at"]):
        first.setdefault(row["plan_version"], row["window_start_at"])
    return sorted(
        {
            f"{row['node_id']} under version {row['plan_version']}"
            for row in rows
            if row["window_start_at"] > first[row["plan_version"]]
            and row["node_id"] not in used[row["plan_version"]]
        }
    )


def shortcomings(story: Story) -> list[str]:
    """What was to be shown and was not."""
    off = {n: (p, m) for n, (p, m) in story.promised.items() if abs(m - p) > TOLERANCE * p}
    needed, rounds = story.needed_rounds, story.drain_rounds
    within = 0 < max(story.drain_moves, default=0) <= BUDGET_MOVES
    checks: Sequence[tuple[bool, str]] = [
        (len(story.added) == 1, f"a plan adds one node (added {story.added})"),
        (len(story.promised) == NODES + SPARES, "every node's CPU was promised and measured"),
        (is_fed_alike(story), f"an even load: {fed_text(story)}; try again on a machine less busy"),
        (not off, f"CPU of each node within {TOLERANCE:.0%} of the promised (off: {off})"),
        (len(story.drained) == 1, f"one node is drained (drained {story.drained})"),
        (within, f"rounds in budget (moves {story.drain_moves}, budget {BUDGET_MOVES})"),
        (
            needed >= FEWEST_DRAIN_ROUNDS,
            f"the budget makes a drain of several rounds necessary (key groups {story.held})",
        ),
        (
            max(needed, FEWEST_DRAIN_ROUNDS) <= rounds <= MAX_DRAIN_ROUNDS,
            f"as many rounds as needed, {needed} to {MAX_DRAIN_ROUNDS} (took {rounds})",
        ),
        (story.held[-1:] == [0], f"the node is empty in the end (key groups {story.held})"),
        (
            bool(story.removed) and story.removed == story.drained,
            f"the drained node is removed (is {story.removed})",
        ),
        (not story.heartbeats, f"nodes out of use are silent (spoke: {story.heartbeats})"),
        (story.sums_equal, "the sums are those of the input"),
    ]
    return [what for held, what in checks if not held]


def is_fed_alike(story: Story) -> bool:
    """Whether the job took as many flights when it was measured as it was planned for."""
    planned, measured = story.fed
    return planned > 0 and abs(measured - planned) <= FED_TOLERANCE * planned


def fed_text(story: Story) -> str:
    """Load of the plan and of its measurement."""
    return f"planned for {story.fed[0]:,.0f} flights/s, measured at {story.fed[1]:,.0f}"


def report_lines(story: Story) -> list[str]:
    """The report, in a box."""
    rows = [
        ("added", ", ".join(story.added)),
        ("drained", f"{', '.join(story.drained)} over {story.drain_rounds} rounds"),
        ("rounds the budget needs", str(story.needed_rounds)),
        ("key groups on it", " -> ".join(str(n) for n in story.held)),
        ("moves a round", f"{story.drain_moves}, budget {BUDGET_MOVES}"),
        ("removed", ", ".join(story.removed)),
        ("load", fed_text(story)),
        *(
            (f"CPU of {node}", cpu_text(promised, measured))
            for node, (promised, measured) in story.promised.items()
        ),
        ("sums", story.sums_text.splitlines()[0] if story.sums_text else ""),
    ]
    return boxed(f"Scaling of {JOB}", rows)


def cpu_text(promised: float, measured: float) -> str:
    """Promised against measured."""
    off = 100 * (measured / promised - 1) if promised else 0.0
    return f"promised {promised:.4f}, measured {measured:.4f} cores ({off:+.1f} %)"


if __name__ == "__main__":
    sys.exit(main())
