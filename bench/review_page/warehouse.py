"""Writes a job with many versions, with the rows that the pipeline would write.

Loads differ between versions, and each plan moves key groups from the fullest node to the emptiest.
A job with spare nodes also adds one, drains it two versions later and removes it with the next. A
job with routes routes some of its keys elsewhere in every version. Load distances, moves, bytes and
pauses are computed from the rows, so that the figures of a page are consistent. Generated are
bounds, measured figures (8 % above the promised ones) and the reasons of scaling. A job with
promises also has the noise of its loads, and intervals (bench/review_page/promises.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ballast.contracts import identity
from ballast.contracts.policy import JobPolicy, parse_policy
from ballast.contracts.scaling import (
    ADD,
    ALIVE,
    DRAIN,
    IN_USE,
    KEEP,
    REMOVE,
    SPARE,
    nodes_in_use,
)
from ballast.contracts.settings import Settings
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append, open_table, table_exists
from bench.review_page import promises

Row = dict[str, Any]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
START = datetime(2026, 11, 1, 6, 0, tzinfo=UTC)
BETWEEN = timedelta(hours=4)
TABLES = (
    "snapshots.snapshots", "snapshots.key_groups", "snapshots.nodes", "snapshots.traffic",
    "plans.plans", "plans.assignments", "plans.routes", "plans.scaling", "plans.heads",
    "plans.log", "plans.acks", "plans.outcomes",
)  # fmt: skip
PROMISE_TABLES = ("plans.promises", "snapshots.noise")


@dataclass
class SampleJob:
    """A job with generated versions."""

    policy: JobPolicy
    per_version: int
    """Most moves of each plan."""
    seed: int = 1
    drift_by: float = 0.25
    """How much loads differ from their usual values, as the sigma of a log-normal distribution."""
    routes: int = 0
    """Keys that have a route in each version."""
    has_promises: bool = False
    """Whether versions promise intervals; if not, the warehouse is as an earlier version wrote
    it."""
    states: dict[str, str] = field(init=False)
    """Nodes in use, alive or draining, before the plan that is being made."""
    actions: dict[str, str] = field(init=False)
    """What that plan does with each node; empty where the job is not scaled."""
    operators: list[str] = field(init=False)
    numbers: Ints = field(init=False)
    usual: Floats = field(init=False)
    loads: Floats = field(init=False)
    nodes: Ints = field(init=False)
    state_bytes: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        sizes = {operator.id: operator.key_groups for operator in self.policy.operators}
        # In the order of names, as problems are.
        self.operators = [name for name in sorted(sizes) for _ in range(sizes[name])]
        self.numbers = np.concatenate([np.arange(sizes[name]) for name in sorted(sizes)])
        count = self.numbers.size
        heavy = self.random.lognormal(0.0, 0.8, count)
        in_use = sum(not node.spare for node in self.policy.nodes)
        self.usual = heavy / heavy.sum() * 0.6 * in_use
        self.loads = self.usual
        self.states = nodes_in_use(self.policy)
        self.actions = {}
        # Spare nodes come last.
        self.nodes = self.random.integers(0, len(self.states), count)
        self.state_bytes = (heavy * 100_000).astype(np.int64)

    @property
    def node_ids(self) -> npt.NDArray[Any]:
        """Names of the nodes."""
        return np.array([node.id for node in self.policy.nodes], dtype=object)

    def drift(self) -> None:
        """Draw the loads of another hour of the day."""
        # Drawn around the usual load: with steps on top of each other, one key group would become
        # heavier than all others together, and nothing could be moved.
        self.loads = self.usual * self.random.lognormal(0.0, self.drift_by, self.loads.size)

    def scale(self, version: int) -> None:
        """Decide on the nodes: of four versions one adds, one drains and one removes a node."""
        if self.policy.scaling is None:
            return
        in_turn = {2: ADD, 0: DRAIN, 1: REMOVE if version > 1 else KEEP}.get(version % 4, KEEP)
        last = self.policy.nodes[-1].id
        self.actions = {
            node.id: KEEP if node.id in self.states else SPARE for node in self.policy.nodes
        }
        if in_turn != KEEP:
            self.actions[last] = in_turn

    def settle(self, after: Ints) -> None:
        """Put the plan in force."""
        self.nodes = after
        if self.actions:
            self.states = {n: IN_USE[a] for n, a in self.actions.items() if a in IN_USE}

    @property
    def staying(self) -> Ints:
        """Numbers of the nodes that a plan may use."""
        states = {n: IN_USE.get(a) for n, a in self.actions.items()} or self.states
        numbered = enumerate(self.policy.nodes)
        return np.array([i for i, node in numbered if states.get(node.id) == ALIVE])

    def better(self) -> Ints:
        """Return a placement after some moves; every key group moves if there are as many moves."""
        if self.per_version >= self.nodes.size:
            return (self.nodes + 1) % len(self.policy.nodes)
        after, staying = self.nodes.copy(), self.staying
        for group in np.flatnonzero(~np.isin(after, staying)):
            after[group] = staying[self.totals(after)[staying].argmin()]
        for _ in range(self.per_version):
            totals = self.totals(after)
            fullest = int(staying[totals[staying].argmax()])
            emptiest = int(staying[totals[staying].argmin()])
            between = totals[fullest] - totals[emptiest]
            # A heavier one would only change which of the two is the fullest.
            light = np.flatnonzero((after == fullest) & (self.loads < between))
            if light.size == 0:
                break
            after[light[np.abs(self.loads[light] - between / 2).argmin()]] = emptiest
        return after

    def totals(self, nodes: Ints) -> Floats:
        """The load of each node."""
        return np.bincount(nodes, weights=self.loads, minlength=len(self.policy.nodes))

    def distance(self, nodes: Ints) -> float:
        """Load distance, in percent of the mean; every node has one core."""
        totals = self.totals(nodes)[self.staying]
        return float(100 * np.abs(totals - totals.mean()).max() / totals.mean())


def job_policy(job: str, operators: int, key_groups: int, nodes: int, spares: int = 0) -> JobPolicy:
    """A policy with operators in a chain, each with this number of key groups; scaled with spare
    nodes."""
    names = [f"operator-{number}" for number in range(operators)]
    data: dict[str, Any] = {
        "job": job, "window_s": 5, "statistics_period_s": 60,
        "operators": [
            {"id": name, "key_groups": key_groups, "partition_key": ["key"]} for name in names
        ],
        "edges": [{"from": a, "to": b} for a, b in pairwise(names)],
        "nodes": [
            {"id": f"node-{number:02d}", "spare": number >= nodes}
            for number in range(nodes + spares)
        ],
    }  # fmt: skip
    if spares:
        data["scaling"] = {"interval_s": 60}
    return parse_policy(data, f"{job}.yaml")


def write_job(settings: Settings, world: SampleJob, versions: int, fan_out: int = 4) -> None:
    """Append the rows that this number of versions of a job leaves."""
    ensure_tables(settings, (*TABLES, *(PROMISE_TABLES if world.has_promises else ())))
    for version in range(1, versions + 1):
        world.drift()
        world.scale(version)
        after = world.better()
        for table, rows in _rows(world, version, after, fan_out):
            append(settings, table, rows)
        world.settle(after)
    _write_head(settings, world, versions)


def ids_of(job: str, version: int) -> tuple[str, str, str]:
    """The ids of the run, the snapshot and the plan of a version."""
    run_id = f"scheduled__{START + version * BETWEEN:%Y-%m-%dT%H:%M:%S}+00:00"
    snapshot = identity.snapshot_id(job, run_id, ["bench"])
    return run_id, snapshot, identity.plan_id(job, snapshot, f"content of {version}")


def _rows(
    world: SampleJob, version: int, after: Ints, fan_out: int
) -> Iterator[tuple[str, list[Row] | pa.Table]]:
    job, at = world.policy.job, START + version * BETWEEN
    run_id, snapshot, plan = ids_of(job, version)
    ids = {"job": job, "snapshot_id": snapshot}
    has_noise = world.has_promises and promises.has_noise(version)
    yield "snapshots.key_groups", _key_groups(world, ids, has_noise)
    yield "snapshots.nodes", [_node(ids, node, state, at) for node, state in world.states.items()]
    yield "snapshots.traffic", _traffic(world, ids, fan_out)
    yield "snapshots.snapshots", [_snapshot(world, ids, run_id, version, at)]
    yield "plans.assignments", _assignments(world, job, plan, after)
    if world.routes:
        yield "plans.routes", _routes(world, job, plan)
    if world.actions:
        yield "plans.scaling", _scaling(world, {"job": job, "plan_id": plan}, after, at)
    row = _plan(world, (run_id, snapshot, plan), version, after, at)
    promised = []
    if has_noise:
        row |= {"precision": "measured", "gain_chance_pct": 98.5}
        promised = _promises(world, row, version, after)
        yield "plans.promises", promised
        yield "snapshots.noise", [promises.noise(ids, version)]
    yield "plans.plans", [row]
    yield "plans.log", list(_log(job, run_id, plan, version, at))
    yield "plans.acks", list(_acks(job, plan, version, row, at))
    outcomes = list(_outcomes(job, plan, run_id, version, row, at))
    yield "plans.outcomes", _compared(outcomes, promised, version)


def _columns(ids: Row, count: int) -> Row:
    return {name: pa.array([value]).take(pa.array(np.zeros(count, dtype=np.int64)))
            for name, value in ids.items()}  # fmt: skip


def _key_groups(world: SampleJob, ids: Row, has_noise: bool) -> pa.Table:
    count = world.numbers.size
    unknown = pa.nulls(count, pa.float64())
    return pa.table({
        **_columns(ids, count),
        "operator_id": world.operators,
        "key_group": world.numbers,
        "node_id": world.node_ids[world.nodes],
        "cpu_load_cores": world.loads,
        "wire_load_cores": world.loads * 0.1,
        "memory_load_bytes": world.state_bytes.astype(float),
        "network_load_bytes_per_s": world.loads * 1e6,
        "records_per_s": world.loads * 1e4,
        "state_bytes": world.state_bytes,
        "cpu_window_sd_cores": world.loads * 0.14 if has_noise else unknown,
        "cpu_mean_error_cores": world.loads * 0.05 if has_noise else unknown,
        "network_window_sd_bytes_per_s": unknown,
        "network_mean_error_bytes_per_s": unknown,
        "cpu_level_cores": world.loads if has_noise else unknown,
        "cpu_level_error_cores": world.loads * 0.05 if has_noise else unknown,
        "network_level_bytes_per_s": unknown,
        "network_level_error_bytes_per_s": unknown,
        "busy_windows": pa.nulls(count, pa.int64()),
    })  # fmt: skip


def _traffic(world: SampleJob, ids: Row, fan_out: int) -> pa.Table:
    """Each key group sends to some key groups of the next operator."""
    sizes = [operator.key_groups for operator in world.policy.operators]
    names = sorted(operator.id for operator in world.policy.operators)
    parts = []
    for position in range(len(names) - 1):
        source = np.repeat(np.arange(sizes[position]), fan_out)
        target = world.random.integers(0, sizes[position + 1], source.size)
        pairs = np.unique(np.stack([source, target], axis=1), axis=0)
        parts.append(pa.table({
            **_columns(ids, len(pairs)),
            **_columns({"from_operator_id": names[position]}, len(pairs)),
            "from_key_group": pairs[:, 0],
            **_columns({"to_operator_id": names[position + 1]}, len(pairs)),
            "to_key_group": pairs[:, 1],
            "records_per_s": world.random.exponential(50.0, len(pairs)),
            "bytes_per_s": world.random.exponential(5000.0, len(pairs)),
            "records_window_sd_per_s": pa.nulls(len(pairs), pa.float64()),
            "records_mean_error_per_s": pa.nulls(len(pairs), pa.float64()),
        }))  # fmt: skip
    return pa.concat_tables(parts)


def _assignments(world: SampleJob, job: str, plan: str, after: Ints) -> pa.Table:
    return pa.table({
        **_columns({"job": job, "plan_id": plan}, world.numbers.size),
        "operator_id": world.operators,
        "key_group": world.numbers,
        "node_id": world.node_ids[after],
        "previous_node_id": world.node_ids[world.nodes],
        "state_bytes": world.state_bytes,
    })  # fmt: skip


def _routes(world: SampleJob, job: str, plan: str) -> pa.Table:
    """Keys of the last operator, each in one of its key groups; some change from plan to plan."""
    last = world.policy.operators[-1]
    groups = world.random.integers(0, last.key_groups, world.routes)
    groups = np.where(world.random.random(world.routes) < 0.1, groups, 0)
    keys = [f"key-{number:07d}" for number in range(world.routes)]
    return pa.table({
        **_columns({"job": job, "plan_id": plan, "operator_id": last.id}, world.routes),
        "key": keys,
        "key_group": groups,
    })  # fmt: skip


def _due_moves(world: SampleJob) -> int | None:
    """Number of key groups that have to leave a draining node; None for a job that is not
    scaled."""
    if not world.actions:
        return None
    return int((~np.isin(world.nodes, world.staying)).sum())


REASONS = {
    ADD: ("utilisation 0.91 is above the upper boundary 0.85, so 1 node more", "cpu below 0.85"),
    DRAIN: (
        "utilisation 0.41 was below the lower boundary 0.45 in 3 rounds, so 1 node less",
        "cpu above 0.45 in one of the rounds",
    ),
    REMOVE: ("a draining node is empty and goes", "cpu above 0.85, which takes the node back"),
    KEEP: (
        "utilisation 0.62 is within the boundaries, so the nodes stay",
        "cpu above 0.85, or below 0.45 for 3 rounds",
    ),
}
"""Texts of decisions, as the pipeline writes them, with generated figures."""


def _why(world: SampleJob) -> dict[str, str]:
    last = world.actions[world.policy.nodes[-1].id]
    reason, would_change = REASONS.get(last, REASONS[KEEP])
    return {"reason": reason, "binding": "cpu", "would_change": would_change}


def _scaling_reason(world: SampleJob) -> str:
    said = _why(world)
    return (
        f"{said['reason']}; {said['binding']} bound; what would have changed it: "
        f"{said['would_change']}"
    )


def _scaling(world: SampleJob, ids: Row, after: Ints, at: datetime) -> list[Row]:
    nothing = dict.fromkeys(("wanted", "before", "needed", "utilisation", "cpu_load_cores",
                             "drain_rounds", "due", "loads_json"))  # fmt: skip
    shared = {**nothing, **ids, **_why(world), "period_end_at": at, "decided_at": at}
    totals = world.totals(after)
    nodes = [
        {"subject": "node", "subject_id": node.id, "action": world.actions[node.id]}
        | ({"utilisation": totals[i], "cpu_load_cores": totals[i]}
           if world.actions[node.id] in IN_USE else {})
        | ({"drain_rounds": 1, "due": []} if world.actions[node.id] == DRAIN else {})
        for i, node in enumerate(world.policy.nodes)
    ]  # fmt: skip
    before = sum(state == ALIVE for state in world.states.values())
    wanted = world.staying.size
    action = "out" if wanted > before else "in" if wanted < before else "hold"
    cluster = {"subject": "cluster", "subject_id": "main", "action": action, "before": before,
               "wanted": wanted, "needed": wanted, "utilisation": 0.62,
               "loads_json": '{"cpu": 0.62}'}  # fmt: skip
    return [shared | row for row in [*nodes, cluster]]


def _node(ids: Row, node_id: str, state: str, at: datetime) -> Row:
    return {
        **ids, "node_id": node_id, "cluster": "main", "rack": "rack-1", "cpu_capacity_cores": 1.0,
        "memory_capacity_bytes": None, "network_capacity_bytes_per_s": None, "state": state,
        "last_seen_at": at, "silent_windows": 0,
    }  # fmt: skip


def _snapshot(world: SampleJob, ids: Row, run_id: str, version: int, at: datetime) -> Row:
    job = world.policy.job
    return {
        **ids, "run_id": run_id, "period_start_at": at - timedelta(minutes=1),
        "period_end_at": at, "windows": 12, "head_version": version - 1,
        "head_plan_id": ids_of(job, version - 1)[2] if version > 1 else None,
        "key_groups_table_version": version, "nodes_table_version": version,
        "traffic_table_version": version, "key_pairs_table_version": None, "rejected_rows": 0,
        "policy_json": world.policy.to_json(), "created_at": at,
    }  # fmt: skip


def _plan(
    world: SampleJob, ids: tuple[str, str, str], version: int, after: Ints, at: datetime
) -> Row:
    job, moved = world.policy.job, after != world.nodes
    before, promised = world.distance(world.nodes), world.distance(after)
    n_bytes = int(world.state_bytes[moved].sum())
    return {
        "job": job, "plan_id": ids[2], "run_id": ids[0], "snapshot_id": ids[1],
        "parent_version": version - 1,
        "parent_plan_id": ids_of(job, version - 1)[2] if version > 1 else None,
        "content_hash": f"content of {version}", "objective": "balance", "method": "search",
        "status": "feasible",
        "reason": f"{int(moved.sum())} key groups leave the fullest nodes",
        "load_distance_before_pct": max(before, promised), "load_distance_pct": promised,
        "load_distance_before_points": before * 0.6, "load_distance_points": promised * 0.6,
        "bound_pct": promised * 0.9, "gap_pct": promised * 0.1,
        "moves": int(moved.sum()), "bytes": n_bytes, "forced_moves": 0, "forced_bytes": 0,
        "pause_s": moved.sum() * 0.005 + n_bytes * 1e-8, "routes": world.routes, "rerouted_keys": 0,
        "route_bytes": 0, "route_pause_s": 0.0, "solver_seconds": 1.5, "seed": 0,
        "due_moves": _due_moves(world),
        "scaling_reason": _scaling_reason(world) if world.actions else None,
        "trace_json": f'[[0.1,"start",{before}],[1.2,"search",{promised}]]', "created_at": at,
    }  # fmt: skip


def _log(job: str, run_id: str, plan: str, version: int, at: datetime) -> Iterator[Row]:
    common = {"job": job, "plan_id": plan, "run_id": run_id}
    said = (
        ("drafted", None, f"solve of run {run_id}", "drafted and verified"),
        ("approved", None, "ada", "looks right"),
        ("published", version, f"publish of run {run_id}", f"plan {plan} is version {version}"),
    )
    for number, (event, of_version, actor, reason) in enumerate(said):
        yield {**common, "event": event, "version": of_version, "actor": actor, "reason": reason,
               "at": at + timedelta(seconds=30 * number)}  # fmt: skip


def _acks(job: str, plan: str, version: int, row: Row, at: datetime) -> Iterator[Row]:
    for status, moves in (("accepted", 0), ("applied", row["moves"])):
        yield {
            "job": job, "version": version, "plan_id": plan, "status": status,
            "batch_id": 100 * version, "reason": "", "moved_key_groups": moves,
            "bytes_moved": row["bytes"] if moves else 0, "pause_ms": 1000.0 * row["pause_s"],
            "acked_at": at + timedelta(minutes=2),
        }  # fmt: skip


def _outcomes(
    job: str, plan: str, run_id: str, version: int, row: Row, at: datetime
) -> Iterator[Row]:
    figures = (
        ("load_distance_pct", "% of mean", row["load_distance_before_pct"],
         row["load_distance_pct"]),
        ("pause_s", "s", None, row["pause_s"]),
        ("bytes", "bytes", None, float(row["bytes"])),
    )  # fmt: skip
    for figure, unit, before, promised in figures:
        yield {
            "job": job, "version": version, "plan_id": plan, "run_id": run_id, "figure": figure,
            "unit": unit, "before": before, "promised": promised, "measured": promised * 1.08,
            "windows": 12, "period_start_at": at + timedelta(minutes=3),
            "period_end_at": at + timedelta(minutes=4), "measured_at": at + BETWEEN,
        }  # fmt: skip


def _promises(world: SampleJob, plan: Row, version: int, after: Ints) -> list[Row]:
    """The promises of a plan: its load distance, its pause and the load of each node."""
    figures = [
        # More than the load distance by the loads of the snapshot, because noise raises it.
        ("load_distance_pct", "% of mean", plan["load_distance_pct"] + 1.4),
        ("pause_s", "s", plan["pause_s"]),
        *(
            (f"cpu_load_cores/{world.policy.nodes[number].id}", "cores", float(load))
            for number, load in enumerate(world.totals(after))
            if load > 0
        ),
    ]
    return [promises.promise(plan, version, *figure) for figure in figures]


def _compared(outcomes: list[Row], promised: list[Row], version: int) -> list[Row]:
    """Outcomes with the promises of the same figures."""
    of_figure = {row["figure"]: row for row in promised}
    share = promises.measured_share(version)
    return [
        promises.compared(row | {"measured": found["expected"] * share}, found)
        if (found := of_figure.get(row["figure"])) is not None
        else row
        for row in outcomes
    ]


def _write_head(settings: Settings, world: SampleJob, version: int) -> None:
    job = world.policy.job
    run_id, _, plan = ids_of(job, version)
    head = {"job": job, "version": version, "plan_id": plan,
            "content_hash": f"content of {version}", "run_id": run_id,
            "published_at": START + version * BETWEEN}  # fmt: skip
    if table_exists(settings, "plans.heads"):
        open_table(settings, "plans.heads").delete(f"job = '{job}'")
    append(settings, "plans.heads", [head])
