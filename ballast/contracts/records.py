"""Rows of the tables as typed records: one frozen dataclass for each kind of row.

The fields are the columns of ``ballast.contracts.tables``, with the same names and units; a test
compares them. A nullable column is an optional field, so that rows of earlier versions, which
lack newer columns, can be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime
from typing import Any, ClassVar, Self

from ballast.contracts.job_states import STATE_TEXTS, UNMEASURED
from ballast.contracts.log_events import ACK_ACCEPTED, ACK_PROGRESS
from ballast.contracts.tables import TABLES


class Record:
    """A row of the table ``table``."""

    __slots__ = ()
    table: ClassVar[str]

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """The record of a row.

        Args:
            row: values by column name; columns that the record does not have are ignored.

        Raises:
            TypeError: a column that may not be NULL is missing.
        """
        return cls(**{name: _frozen(row[name]) for name in field_names(cls) if name in row})

    def to_row(self) -> dict[str, Any]:
        """Values by column name, as the store writes them."""
        return {name: getattr(self, name) for name in field_names(type(self))}


_FIELD_NAMES: dict[type[Record], tuple[str, ...]] = {}


def field_names(record: type[Record]) -> tuple[str, ...]:
    """The columns of a kind of record, in the order of its table."""
    if record not in _FIELD_NAMES:
        present = {field.name for field in fields(record)}  # type: ignore[arg-type]
        columns = TABLES[record.table].column_names
        _FIELD_NAMES[record] = tuple(name for name in columns if name in present)
    return _FIELD_NAMES[record]


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWindow(Record):
    """The state of a streaming job in one window, measured or not."""

    table: ClassVar[str] = "metrics.jobs"

    job: str
    window_date: date
    window_start_at: datetime
    window_end_at: datetime
    plan_version: int
    emitted_at: datetime
    state: str
    state_since_at: datetime
    executors: int | None = None
    head_age_s: float | None = None

    @property
    def text(self) -> str:
        """The state in words, for people."""
        since = f"{self.state_since_at:%Y-%m-%d %H:%M:%S} UTC"
        if self.state in UNMEASURED:
            return f"{STATE_TEXTS[self.state]} since {since}; nothing is measured"
        return STATE_TEXTS[self.state]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(Record):
    """The problem of one run: which period of which table versions it condenses."""

    table: ClassVar[str] = "snapshots.snapshots"

    job: str
    snapshot_id: str
    run_id: str
    period_start_at: datetime
    period_end_at: datetime
    windows: int
    head_version: int
    head_plan_id: str | None = None
    key_groups_table_version: int
    nodes_table_version: int
    traffic_table_version: int
    key_pairs_table_version: int | None = None
    sources_table_version: int | None = None
    connections_table_version: int | None = None
    applied_plan_id: str | None = None
    remembered_snapshot_ids: tuple[str, ...] | None = None
    rejected_rows: int
    policy_json: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotNode(Record):
    """A node of a snapshot: capacity, state, when it was last seen."""

    table: ClassVar[str] = "snapshots.nodes"

    job: str
    snapshot_id: str
    node_id: str
    cluster: str
    rack: str
    cpu_capacity_cores: float
    memory_capacity_bytes: float | None = None
    network_capacity_bytes_per_s: float | None = None
    state: str
    last_seen_at: datetime | None = None
    silent_windows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotNoise(Record):
    """How much the loads of a snapshot vary from window to window, for one resource."""

    table: ClassVar[str] = "snapshots.noise"

    job: str
    snapshot_id: str
    resource: str
    status: str
    reason: str
    windows: int
    wild_windows: int
    common_sd_pct: float
    node_variance_ratio: float
    period_variance_ratio: float
    trend_pct: float | None = None
    change_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSeriesStep(Record):
    """The loads of one key group in one step of a snapshot's load series."""

    table: ClassVar[str] = "snapshots.load_series"

    job: str
    snapshot_id: str
    operator_id: str
    key_group: int
    step: int
    step_end_at: datetime
    step_s: float
    cpu_load_cores: float
    busy_load_cores: float
    memory_load_bytes: float
    network_load_bytes_per_s: float
    records_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRate(Record):
    """What a source delivered in a snapshot's period."""

    table: ClassVar[str] = "snapshots.sources"

    job: str
    snapshot_id: str
    source_id: str
    operator_id: str
    arrival_records_per_s: float | None = None
    backlog_records: int | None = None
    windows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionWindow(Record):
    """One window of a connection from a splitter to a worker of an ordered region."""

    table: ClassVar[str] = "snapshots.connections"

    job: str
    snapshot_id: str
    region_id: str
    worker_id: str
    window_end_at: datetime
    state: str
    weight: int
    sent: int
    done: int
    blocked_ms: float
    busy_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSummary(Record):
    """A plan without its long JSON texts, as lists and caches of plans hold it."""

    table: ClassVar[str] = "plans.plans"

    job: str
    plan_id: str
    run_id: str
    snapshot_id: str
    parent_version: int
    parent_plan_id: str | None = None
    content_hash: str
    objective: str
    method: str
    status: str
    reason: str
    load_distance_before_pct: float
    load_distance_pct: float
    load_distance_before_points: float
    load_distance_points: float
    bound_pct: float
    gap_pct: float
    collocation_bound_pct: float | None = None
    precision: str | None = None
    gain_chance_pct: float | None = None
    moves: int
    bytes: int
    forced_moves: int
    forced_bytes: int
    pause_s: float
    routes: int | None = None
    rerouted_keys: int | None = None
    route_bytes: int | None = None
    route_pause_s: float | None = None
    split_keys: int | None = None
    unsplit_bound_pct: float | None = None
    splits_reason: str | None = None
    max_load_distance_pct: float | None = None
    trade: str | None = None
    traffic_weight: float | None = None
    load_weight: float | None = None
    traffic_saved_before_pct: float | None = None
    traffic_saved_pct: float | None = None
    drained_moves: int | None = None
    collocation_factor_before_pct: float | None = None
    collocation_factor_pct: float | None = None
    load_index_pct: float | None = None
    wire_bytes_before_per_s: float | None = None
    wire_bytes_per_s: float | None = None
    serialise_us: float | None = None
    budget_moves: int | None = None
    budget_bytes: int | None = None
    budget_pause_s: float | None = None
    solver_seconds: float
    seed: int
    due_moves: int | None = None
    scaling_reason: str | None = None
    advice: str | None = None
    weights_reason: str | None = None
    levelled_operator_id: str | None = None
    operator_skew_before_pct: float | None = None
    operator_skew_pct: float | None = None
    levelling_limit_pct: float | None = None
    skew_reason: str | None = None
    rules: str | None = None
    restored_rules: str | None = None
    rules_text: str | None = None
    headroom_limit_pct: float | None = None
    headroom_before_pct: float | None = None
    headroom_pct: float | None = None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(DraftSummary):
    """A plan: identity, promised figures, costs, and how it was solved."""

    trace_json: str
    target_json: str | None = None
    held_back_json: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedKeyGroup(Record):
    """The node of one key group under a plan, and the node before."""

    table: ClassVar[str] = "plans.assignments"

    job: str
    plan_id: str
    operator_id: str
    key_group: int
    node_id: str
    previous_node_id: str
    state_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRow(Record):
    """What a plan does with one node, cluster or operator of a scaled job."""

    table: ClassVar[str] = "plans.scaling"

    job: str
    plan_id: str
    subject: str
    subject_id: str
    action: str
    wanted: int | None = None
    before: int | None = None
    needed: int | None = None
    utilisation: float | None = None
    cpu_load_cores: float | None = None
    drain_rounds: int | None = None
    due: tuple[str, ...] | None = None
    loads_json: str | None = None
    reason: str
    binding: str
    would_change: str
    period_end_at: datetime
    decided_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerWeight(Record):
    """The weight of one worker of an ordered region under a plan."""

    table: ClassVar[str] = "plans.weights"

    job: str
    plan_id: str
    region_id: str
    worker_id: str
    weight: int
    previous_weight: int
    state: str
    records_per_s: float | None = None
    blocked_pct: float | None = None
    reason: str


@dataclass(frozen=True, slots=True)
class Head(Record):
    """A job's plan in force."""

    table: ClassVar[str] = "plans.heads"

    job: str
    version: int
    plan_id: str
    content_hash: str
    run_id: str
    published_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry(Record):
    """One event of a job's plans: who, when and why."""

    table: ClassVar[str] = "plans.log"

    job: str
    at: datetime
    event: str
    version: int | None = None
    plan_id: str | None = None
    run_id: str
    actor: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack(Record):
    """A streaming job's answer to a version, with what was measured while moving."""

    table: ClassVar[str] = "plans.acks"

    job: str
    version: int
    plan_id: str
    status: str
    region_id: str | None = None
    batch_id: int
    reason: str
    moved_key_groups: int
    bytes_moved: int
    pause_ms: float
    step: int | None = None
    steps: int | None = None
    longest_pause_ms: float | None = None
    moved: tuple[str, ...] | None = None
    acked_at: datetime

    @property
    def is_unfinished(self) -> bool:
        """Whether steps of the take-up are still to be made."""
        if self.status not in (ACK_ACCEPTED, ACK_PROGRESS):
            return False
        return self.steps is not None and self.steps > 1

    @property
    def progress_text(self) -> str:
        """Steps made and to be made, for people; empty for a take-up at once."""
        if self.steps is None or self.steps <= 1:
            return ""
        return f"{self.step or 0} of {self.steps} steps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise(Record):
    """What a plan promises that ``measure`` will find for one figure."""

    table: ClassVar[str] = "plans.promises"

    job: str
    plan_id: str
    figure: str
    unit: str
    expected: float
    low: float | None = None
    high: float | None = None
    lowest: float | None = None
    highest: float | None = None
    calibration_below: float | None = None
    calibration_above: float | None = None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Record):
    """One figure of a version: before, promised and measured."""

    table: ClassVar[str] = "plans.outcomes"

    job: str
    version: int
    plan_id: str
    run_id: str
    figure: str
    unit: str
    before: float | None = None
    promised: float | None = None
    measured: float
    low: float | None = None
    high: float | None = None
    side: str | None = None
    windows: int
    period_start_at: datetime
    period_end_at: datetime
    measured_at: datetime
