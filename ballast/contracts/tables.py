"""Definitions of all tables: columns with units, keys, limits, partitions, retention.

DDL, Delta CHECK constraints, Arrow schemas, Great Expectations suites and ``docs/tables.md``
are generated from these definitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ballast.contracts.job_states import JOB_STATES
from ballast.contracts.log_events import ACK_STATUSES, LOG_EVENTS
from ballast.contracts.regions import CONNECTION_STATES, UNITS, WORKER_STATES

ALIVE_STATES = ("alive", "draining")
NODE_STATES = ("alive", "draining", "dead")
SOLVER_STATUSES = ("optimal", "feasible", "unchanged")
BALANCE, JOINT = "balance", "joint"
OBJECTIVES = (BALANCE, JOINT)
LEXICOGRAPHIC, WEIGHTED = "lexicographic", "weighted"
TRADES = (LEXICOGRAPHIC, WEIGHTED)
# The method of a plan with the content of an earlier one: chosen by a person, not by a solver.
ROLLBACK = "rollback"
SCALING_SUBJECTS = ("node", "cluster", "operator")
SCALING_ACTIONS = ("add", "keep", "drain", "remove", "spare", "out", "in", "hold", "size")
KEY_PAIR_KINDS = ("pair", "key", "other_pairs", "other_keys")
NOISE_RESOURCES = ("cpu", "network")
STEADY, TREND, TOO_FEW = "steady", "trend", "too_few_windows"
NOISE_STATUSES = (STEADY, TREND, TOO_FEW)
INSIDE, BELOW, ABOVE = "inside", "below", "above"
PROMISE_SIDES = (INSIDE, BELOW, ABOVE)
MEASURED, EXACT = "measured", "exact"
PRECISIONS = (MEASURED, EXACT)

# Longer keys have no route and are not counted in pairs: their hash decides. So tables, counters
# and joins have a limited size.
LONGEST_ROUTED_KEY_BYTES = 1024

COLUMN_TYPES = ("string", "long", "double", "timestamp", "date", "array<string>")


@dataclass(frozen=True)
class Column:
    """A column: its type, unit and allowed values."""

    name: str
    type: str
    doc: str
    unit: str | None = None
    nullable: bool = False
    minimum: float | None = None
    maximum: float | None = None
    allowed: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.type not in COLUMN_TYPES:
            raise ValueError(f"column {self.name}: type {self.type!r}, allowed: {COLUMN_TYPES}")


@dataclass(frozen=True)
class Table:
    """A Delta table. ``trusted`` tables refuse bad rows on write (NOT NULL, CHECK).

    Tables of raw metrics are not trusted: a streaming job that writes a bad row must not fail, and
    the row must not be used. So ``condense`` checks their limits and moves bad rows elsewhere.
    """

    name: str
    doc: str
    written_by: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    partition_by: tuple[str, ...] = ("job",)
    retention_days: int = 90
    append_only: bool = True
    trusted: bool = True
    checks: dict[str, str] = field(default_factory=dict)
    retired_checks: tuple[str, ...] = ()
    """Constraints of earlier versions, which are removed from a table that has them."""

    def column(self, name: str) -> Column:
        """Return the column of this name."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"table {self.name} has no column {name!r}")

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns in order."""
        return tuple(column.name for column in self.columns)


# An upper limit for every figure: a comparison with a maximum also catches NaN and infinity,
# which pass a minimum alone.
LARGEST_COUNT = 10**15
LARGEST_MS = 1e12
LARGEST_LOAD = 1e15
LARGEST_KEY_GROUP = 10**7

JOB = Column("job", "string", "Name of the streaming job")
RUN_ID = Column("run_id", "string", "Run of the DAG that wrote the row")
SNAPSHOT_ID = Column("snapshot_id", "string", "Problem snapshot the row belongs to")
PLAN_ID = Column("plan_id", "string", "Hash of job, snapshot and content")


def _count(name: str, doc: str, unit: str, *, nullable: bool = False) -> Column:
    return Column(name, "long", doc, unit, nullable, minimum=0, maximum=LARGEST_COUNT)


def _figure(
    name: str, doc: str, unit: str, *, nullable: bool = False, maximum: float = LARGEST_LOAD
) -> Column:
    return Column(name, "double", doc, unit, nullable, minimum=0, maximum=maximum)


def _signed(name: str, doc: str, *, nullable: bool = False) -> Column:
    """A figure of any unit, which may be negative."""
    return Column(name, "double", doc, None, nullable, minimum=-LARGEST_LOAD, maximum=LARGEST_LOAD)


def _key_group(name: str, doc: str) -> Column:
    return Column(name, "long", doc, None, minimum=0, maximum=LARGEST_KEY_GROUP)


WINDOW_COLUMNS = (
    Column("window_date", "date", "UTC date of the window's end; partitions the table"),
    Column("window_start_at", "timestamp", "Start of the window, a multiple of window_s"),
    Column("window_end_at", "timestamp", "End of the window, exclusive"),
    Column(
        "first_batch_id", "long", "First batch the window covers; NULL if it covers none",
        nullable=True, minimum=0, maximum=LARGEST_COUNT,
    ),
    Column(
        "last_batch_id", "long", "Last batch the window covers; NULL if it covers none",
        nullable=True, minimum=0, maximum=LARGEST_COUNT,
    ),
    Column(
        "plan_version", "long", "Version in force at the window's end; 0 is the placement by hash",
        minimum=0, maximum=LARGEST_COUNT,
    ),
    Column("emitted_at", "timestamp", "When the streaming job wrote the row"),
)  # fmt: skip

METRICS_KEY_GROUPS = Table(
    name="metrics.key_groups",
    doc="A key group's window: records processed, and CPU time and bytes for them.",
    written_by="streaming job",
    columns=(
        JOB,
        Column("operator_id", "string", "Operator of the key group"),
        _key_group("key_group", "Number of the key group within its operator"),
        Column("node_id", "string", "Node that held the key group at the window's end"),
        *WINDOW_COLUMNS,
        _count("records", "Records processed", "records"),
        _figure(
            "cpu_ms", "CPU time of the thread, corrected by its speed", "ms", maximum=LARGEST_MS
        ),
        _figure("busy_ms", "Wall time spent processing", "ms", maximum=LARGEST_MS),
        _count("state_bytes", "Size of the state at the window's end", "bytes"),
        _count("bytes_in", "Serialised bytes received from other nodes", "bytes"),
        _count("bytes_out", "Serialised bytes sent to other nodes", "bytes"),
        _figure(
            "wire_ms",
            "Part of cpu_ms for serialising records to other nodes and reading those from them; "
            "NULL in rows of versions that did not measure it",
            "ms",
            nullable=True,
            maximum=LARGEST_MS,
        ),
    ),
    key=("job", "operator_id", "key_group", "window_start_at"),
    partition_by=("job", "window_date"),
    retention_days=30,
    trusted=False,
)

METRICS_TRAFFIC = Table(
    name="metrics.traffic",
    doc="Traffic between two key groups in a window; pairs without traffic have no row.",
    written_by="streaming job",
    columns=(
        JOB,
        Column("from_operator_id", "string", "Operator of the sending key group"),
        _key_group("from_key_group", "Sending key group"),
        Column("to_operator_id", "string", "Operator of the receiving key group"),
        _key_group("to_key_group", "Receiving key group"),
        *WINDOW_COLUMNS,
        _count("records", "Records sent", "records"),
        _count("bytes", "Serialised bytes; 0 if both were on one node", "bytes"),
    ),
    key=(
        "job", "from_operator_id", "from_key_group", "to_operator_id", "to_key_group",
        "window_start_at",
    ),
    partition_by=("job", "window_date"),
    retention_days=30,
    trusted=False,
)  # fmt: skip

KEY_PAIR_COLUMNS = (
    Column(
        "kind", "string",
        "pair: records of from_key that were sent under to_key. key: records processed under "
        "from_key. other_pairs, other_keys: those of the edge or operator without a row",
        allowed=KEY_PAIR_KINDS,
    ),
    Column("from_operator_id", "string", "Sending operator; of a key, its operator"),
    Column("from_key", "string", "Key at that operator; NULL for all others", nullable=True),
    Column("to_operator_id", "string", "Receiving operator; NULL unless of a pair or other pairs",
           nullable=True),
    Column("to_key", "string", "Key at the receiving operator; NULL unless of a pair",
           nullable=True),
)  # fmt: skip

METRICS_KEY_PAIRS = Table(
    name="metrics.key_pairs",
    doc="The heaviest keys and pairs of keys of a window, between operators that keep their state "
    "by key. The true count is at least records and at most records + error_records. A pair or "
    "key without a row has at most the error_records of the row for the others; that row counts "
    "all records without a row. Keys above 1,024 bytes are counted with the others.",
    written_by="streaming job",
    columns=(
        JOB,
        *KEY_PAIR_COLUMNS,
        *WINDOW_COLUMNS,
        _count("records", "Records counted, never too many", "records"),
        _count("error_records", "Most records that were missed", "records"),
    ),
    key=(
        "job", "kind", "from_operator_id", "from_key", "to_operator_id", "to_key",
        "window_start_at",
    ),
    partition_by=("job", "window_date"),
    retention_days=3,
    trusted=False,
)  # fmt: skip

NODE_COLUMNS = (
    Column("cluster", "string", "Cluster the node belongs to"),
    Column("rack", "string", "Rack of the node"),
    Column(
        "cpu_capacity_cores", "double", "CPU time of the node per second", "cores",
        minimum=1e-9, maximum=LARGEST_LOAD,
    ),
    Column(
        "memory_capacity_bytes", "double", "State the node can hold; NULL if not limited", "bytes",
        nullable=True, minimum=1e-9, maximum=LARGEST_LOAD,
    ),
    Column(
        "network_capacity_bytes_per_s", "double", "Most traffic of the node; NULL if not limited",
        "bytes/s", nullable=True, minimum=1e-9, maximum=LARGEST_LOAD,
    ),
)  # fmt: skip

METRICS_NODES = Table(
    name="metrics.nodes",
    doc="A node's window: heartbeat, capacity and use. A node without a row is silent, not idle.",
    written_by="streaming job",
    columns=(
        JOB,
        Column("node_id", "string", "The node"),
        *NODE_COLUMNS,
        Column("state", "string", "State of the node", allowed=ALIVE_STATES),
        *WINDOW_COLUMNS,
        _count("heartbeats", "Batches in which the node answered", "batches"),
        _count("records", "Records processed", "records"),
        _figure("cpu_used_ms", "CPU time of its key groups", "ms", maximum=LARGEST_MS),
        _count("memory_used_bytes", "State resident on the node", "bytes"),
        _count("network_used_bytes", "Serialised bytes in and out", "bytes"),
    ),
    key=("job", "node_id", "window_start_at"),
    partition_by=("job", "window_date"),
    retention_days=30,
    trusted=False,
)

METRICS_SOURCES = Table(
    name="metrics.sources",
    doc="A source's window: records that arrived, were read, and wait. NULL means that it was not "
    "measured, not that there were none.",
    written_by="streaming job",
    columns=(
        JOB,
        Column("source_id", "string", "The source, with the name of its operator"),
        Column("operator_id", "string", "Operator that reads its records"),
        *WINDOW_COLUMNS,
        _count("records", "Records read by the job", "records"),
        _count("arrived_records", "Records that arrived", "records", nullable=True),
        _count("backlog_records", "Records that wait at the window's end", "records",
               nullable=True),
    ),
    key=("job", "source_id", "window_start_at"),
    partition_by=("job", "window_date"),
    retention_days=30,
    trusted=False,
)  # fmt: skip

METRICS_JOBS = Table(
    name="metrics.jobs",
    doc="A window of a job as a whole. It is written also for windows in which nothing was "
    "measured (stalled, no_executors), which have no rows in the other tables of metrics.",
    written_by="streaming job",
    columns=(
        JOB,
        *(column for column in WINDOW_COLUMNS if not column.name.endswith("_batch_id")),
        Column("state", "string", "State of the job at the window's end", allowed=JOB_STATES),
        Column("state_since_at", "timestamp", "Since when it has been in that state"),
        _count("executors", "Executors at the window's end; NULL if unknown", "executors",
               nullable=True),
        _figure("head_age_s", "Time since the plan's head was last read; NULL before the first",
                "s", nullable=True),
    ),
    key=("job", "window_start_at"),
    partition_by=("job", "window_date"),
    retention_days=30,
    trusted=False,
)  # fmt: skip

REGION = Column("region_id", "string", "The ordered region")
WORKER = Column("worker_id", "string", "Worker of the connection")


def _weight(name: str, doc: str) -> Column:
    return Column(name, "long", doc, "0.1 %", minimum=0, maximum=UNITS)


CONNECTION_FIGURES = (
    Column("state", "string", "Whether the worker was alive at the window's end",
           allowed=CONNECTION_STATES),
    _weight("weight", "Mean weight in the window"),
    _count("sent", "Records sent to it", "records"),
    _count("done", "Results received from it", "records"),
    _figure("blocked_ms", "Time that the splitter waited for it", "ms", maximum=LARGEST_MS),
    _figure("busy_ms", "Time in which it had at least one record", "ms", maximum=LARGEST_MS),
)  # fmt: skip

METRICS_CONNECTIONS = Table(
    name="metrics.connections",
    doc="A window of a connection from the splitter of an ordered region to a worker. A dead "
    "worker has rows with that state; without a row nothing is known.",
    written_by="streaming job",
    columns=(JOB, REGION, WORKER, *WINDOW_COLUMNS, *CONNECTION_FIGURES),
    key=("job", "region_id", "worker_id", "window_start_at"),
    partition_by=("job", "window_date"),
    retention_days=30,
    trusted=False,
)

METRICS_REJECTED = Table(
    name="metrics.rejected",
    doc="A bad row as it was written, with the reasons. No row is dropped without a trace.",
    written_by="condense",
    columns=(
        JOB,
        Column("row_id", "string", "Hash of table and row, so that a row is rejected once"),
        Column("table_name", "string", "Table the row came from"),
        RUN_ID,
        Column("reasons", "array<string>", "Every limit the row breaks"),
        Column("row_json", "string", "The row as it was written"),
        Column("rejected_at", "timestamp", "When it was rejected"),
    ),
    key=("job", "row_id"),
    retention_days=90,
    append_only=False,
)

SNAPSHOTS_SNAPSHOTS = Table(
    name="snapshots.snapshots",
    doc="The problem of one run: its period and the versions of the tables read. Written last.",
    written_by="condense",
    columns=(
        JOB,
        SNAPSHOT_ID,
        RUN_ID,
        Column("period_start_at", "timestamp", "Start of the statistics period"),
        Column("period_end_at", "timestamp", "End of the statistics period, exclusive"),
        _count("windows", "Complete windows the loads are averaged over", "windows"),
        _count("head_version", "Version in force when the snapshot was taken", "versions"),
        Column("head_plan_id", "string", "Plan in force; NULL before the first",
               nullable=True),
        _count("key_groups_table_version", "Version of metrics.key_groups read", "versions"),
        _count("nodes_table_version", "Version of metrics.nodes read", "versions"),
        _count("traffic_table_version", "Version of metrics.traffic read", "versions"),
        _count("key_pairs_table_version", "Version of metrics.key_pairs read; NULL if none was",
               "versions", nullable=True),
        _count("sources_table_version", "Version of metrics.sources read; NULL if none was",
               "versions", nullable=True),
        _count("connections_table_version", "Version of metrics.connections read; NULL if none was",
               "versions", nullable=True),
        Column("applied_plan_id", "string", "Plan of the newest window; NULL if none",
               nullable=True),
        Column("remembered_snapshot_ids", "array<string>",
               "Earlier snapshots whose key pairs are also used, oldest first; NULL if none",
               nullable=True),
        _count("rejected_rows", "Rejected rows of the period", "rows"),
        Column("policy_json", "string", "The job's policy at that time"),
        Column("created_at", "timestamp", "When the snapshot was taken"),
    ),
    key=("job", "run_id"),
)  # fmt: skip

SNAPSHOTS_KEY_GROUPS = Table(
    name="snapshots.key_groups",
    doc="Load, state and current node of each key group of a snapshot.",
    written_by="condense",
    columns=(
        JOB,
        SNAPSHOT_ID,
        Column("operator_id", "string", "Operator of the key group"),
        _key_group("key_group", "Number of the key group within its operator"),
        Column("node_id", "string", "Current node"),
        _figure("cpu_load_cores", "CPU seconds a second, mean of the period", "cores"),
        _figure(
            "wire_load_cores",
            "Of them for records from and to other nodes; NULL if unknown",
            "cores",
            nullable=True,
        ),
        _figure("memory_load_bytes", "State, as a load on memory", "bytes"),
        _figure("network_load_bytes_per_s", "Serialised bytes in and out a second", "bytes/s"),
        _figure("records_per_s", "Records processed a second", "records/s"),
        _count("state_bytes", "State that a move copies", "bytes"),
        _figure("cpu_window_sd_cores", "Standard deviation of the CPU load from window to window, "
                "without what all key groups have in common; NULL if unknown", "cores",
                nullable=True),
        _figure("cpu_mean_error_cores", "Standard error of the mean CPU load; NULL if unknown",
                "cores", nullable=True),
        _figure("cpu_level_cores", "Expected CPU load: the mean of this period and, with less "
                "weight, of periods before; NULL if unknown", "cores", nullable=True),
        _figure("cpu_level_error_cores", "Standard error of cpu_level_cores; NULL if unknown",
                "cores", nullable=True),
        _figure("network_window_sd_bytes_per_s", "As cpu_window_sd_cores, of the network load",
                "bytes/s", nullable=True),
        _figure("network_mean_error_bytes_per_s", "As cpu_mean_error_cores, of the network load",
                "bytes/s", nullable=True),
        _figure("network_level_bytes_per_s", "As cpu_level_cores, of the network load", "bytes/s",
                nullable=True),
        _figure("network_level_error_bytes_per_s", "As cpu_level_error_cores, of the network load",
                "bytes/s", nullable=True),
        _count("busy_windows", "Windows in which it processed records; NULL if unknown", "windows",
               nullable=True),
    ),
    key=("job", "snapshot_id", "operator_id", "key_group"),
)  # fmt: skip

SNAPSHOTS_NODES = Table(
    name="snapshots.nodes",
    doc="Capacity and state of each node of a snapshot.",
    written_by="condense",
    columns=(
        JOB,
        SNAPSHOT_ID,
        Column("node_id", "string", "The node"),
        *NODE_COLUMNS,
        Column("state", "string", "alive, draining, or dead", allowed=NODE_STATES),
        Column("last_seen_at", "timestamp", "End of its last window; NULL if never seen",
               nullable=True),
        _count("silent_windows", "Windows since it was last seen", "windows"),
    ),
    key=("job", "snapshot_id", "node_id"),
)  # fmt: skip

SNAPSHOTS_TRAFFIC = Table(
    name="snapshots.traffic",
    doc="Rate between two key groups of a snapshot.",
    written_by="condense",
    columns=(
        JOB,
        SNAPSHOT_ID,
        Column("from_operator_id", "string", "Operator of the sending key group"),
        _key_group("from_key_group", "Sending key group"),
        Column("to_operator_id", "string", "Operator of the receiving key group"),
        _key_group("to_key_group", "Receiving key group"),
        _figure("records_per_s", "Records a second, mean of the period", "records/s"),
        _figure("bytes_per_s", "Serialised bytes a second", "bytes/s"),
        _figure("records_window_sd_per_s", "Standard deviation of the rate from window to window, "
                "without what all pairs have in common; NULL if unknown", "records/s",
                nullable=True),
        _figure("records_mean_error_per_s", "Standard error of the mean rate; NULL if unknown",
                "records/s", nullable=True),
    ),
    key=(
        "job", "snapshot_id", "from_operator_id", "from_key_group", "to_operator_id",
        "to_key_group",
    ),
)  # fmt: skip

SNAPSHOTS_NOISE = Table(
    name="snapshots.noise",
    doc="How much the loads of a snapshot vary from window to window, a row for each resource.",
    written_by="condense",
    columns=(
        JOB,
        SNAPSHOT_ID,
        Column("resource", "string", "The resource", allowed=NOISE_RESOURCES),
        Column("status", "string", "steady; trend: loads moved during the period; or too few "
               "windows for an estimate", allowed=NOISE_STATUSES),
        Column("reason", "string", "The status in a sentence"),
        _count("windows", "Windows that the estimate is made from", "windows"),
        _count("wild_windows", "Of them windows that differ so much from the others that they "
               "count less", "windows"),
        _figure("common_sd_pct", "Standard deviation from window to window of what all key groups "
                "have in common; larger if the total changes beyond noise within the period",
                "% of mean"),
        _figure("node_variance_ratio", "Variance of a node's load over the sum of the variances of "
                "its key groups; above 1 if key groups of a node vary together", "ratio"),
        _figure("period_variance_ratio", "Variance of the mean of a period over that of as many "
                "independent windows; above 1 if windows resemble the one before", "ratio"),
        _figure("trend_pct", "Change of the nodes' loads within the period, as a load distance; "
                "NULL if it is within the noise", "% of mean", nullable=True),
        Column("change_ratio", "double", "Variance of the change of true loads from period to "
               "period, over the squared errors of the means of a period; about 0 or below if "
               "loads stand still; NULL in older rows", "ratio", True, minimum=-1,
               maximum=LARGEST_LOAD),
    ),
    key=("job", "snapshot_id", "resource"),
)  # fmt: skip

SNAPSHOTS_KEY_PAIRS = Table(
    name="snapshots.key_pairs",
    doc="Rate of the heaviest keys and pairs of keys of a snapshot, with bounds as in "
    "metrics.key_pairs.",
    written_by="condense",
    columns=(
        JOB,
        SNAPSHOT_ID,
        *KEY_PAIR_COLUMNS,
        _figure("records_per_s", "Records counted a second, mean of the period", "records/s"),
        _figure("error_records_per_s", "Most records per second that were missed", "records/s"),
    ),
    key=(
        "job", "snapshot_id", "kind", "from_operator_id", "from_key", "to_operator_id", "to_key",
    ),
)  # fmt: skip

SNAPSHOTS_LOAD_SERIES = Table(
    name="snapshots.load_series",
    doc="Loads of each key group of a snapshot in steps, back to the last round, for the decision "
    "on scaling. A step is some windows long; incomplete windows are left out.",
    written_by="condense",
    columns=(
        JOB,
        SNAPSHOT_ID,
        Column("operator_id", "string", "Operator of the key group"),
        _key_group("key_group", "Number of the key group within its operator"),
        _count("step", "Number of the step, oldest first", "steps"),
        Column("step_end_at", "timestamp", "End of its last window"),
        _figure("step_s", "Seconds of windows in it", "s"),
        _figure("cpu_load_cores", "CPU seconds a second", "cores"),
        _figure("busy_load_cores", "Wall seconds spent processing a second", "cores"),
        _figure("memory_load_bytes", "State, as a load on memory", "bytes"),
        _figure("network_load_bytes_per_s", "Serialised bytes in and out a second", "bytes/s"),
        _figure("records_per_s", "Records processed a second", "records/s"),
    ),
    key=("job", "snapshot_id", "operator_id", "key_group", "step"),
)

SNAPSHOTS_SOURCES = Table(
    name="snapshots.sources",
    doc="Arrivals and backlog of each source of a snapshot; a figure that was not measured in the "
    "period is NULL.",
    written_by="condense",
    columns=(
        JOB,
        SNAPSHOT_ID,
        Column("source_id", "string", "The source"),
        Column("operator_id", "string", "Operator that reads its records"),
        _figure("arrival_records_per_s", "Records that arrived a second, mean of the period",
                "records/s", nullable=True),
        _count("backlog_records", "Records that waited at its end", "records", nullable=True),
        _count("windows", "Windows with the figure", "windows"),
    ),
    key=("job", "snapshot_id", "source_id"),
)  # fmt: skip

SNAPSHOTS_CONNECTIONS = Table(
    name="snapshots.connections",
    doc="The newest good windows of each connection of an ordered region, within the period, for "
    "the decision on weights. A silent region has no row.",
    written_by="condense",
    columns=(
        JOB,
        SNAPSHOT_ID,
        REGION,
        WORKER,
        Column("window_end_at", "timestamp", "End of the window"),
        *CONNECTION_FIGURES,
    ),
    key=("job", "snapshot_id", "region_id", "worker_id", "window_end_at"),
)

PLANS_PLANS = Table(
    name="plans.plans",
    doc="A draft: promised figures and costs. Its later events are in plans.log.",
    written_by="solve",
    columns=(
        JOB,
        PLAN_ID,
        RUN_ID,
        SNAPSHOT_ID,
        _count("parent_version", "Version that it was solved against", "versions"),
        Column("parent_plan_id", "string", "Plan of that version; NULL before the first",
               nullable=True),
        Column("content_hash", "string", "Hash of the canonical rows of its content"),
        Column("objective", "string", "Objective", allowed=OBJECTIVES),
        Column("method", "string", "Method that made it"),
        Column("status", "string", "Status of the result", allowed=SOLVER_STATUSES),
        Column("reason", "string", "Reason, in a sentence"),
        _figure("load_distance_before_pct", "Load distance without the plan", "% of mean"),
        _figure("load_distance_pct", "Load distance promised", "% of mean"),
        _figure("load_distance_before_points", "The same in points of load", "points"),
        _figure("load_distance_points", "The same in points of load", "points"),
        _figure("bound_pct", "No plan within the budget has a smaller load distance", "% of mean"),
        _figure("gap_pct", "Load distance promised minus bound", "% of mean"),
        _figure("collocation_bound_pct", "No plan within the budget has more traffic within nodes; "
                "NULL for balance plans and in plans of earlier versions", "%", nullable=True,
                maximum=100.000001),
        Column("precision", "string", "measured: the plan stops where an improvement cannot be "
               "measured any more; exact: at the smallest load distance; NULL in plans of earlier "
               "versions", nullable=True, allowed=PRECISIONS),
        _figure("gain_chance_pct", "Chance that the plan is measurably better than the placement "
                "in force; NULL if the noise of the loads is not known", "%", nullable=True,
                maximum=100.000001),
        _count("moves", "Key groups that move by choice", "key groups"),
        _count("bytes", "State of these key groups", "bytes"),
        _count("forced_moves", "Key groups that leave dead nodes", "key groups"),
        _count("forced_bytes", "State of these key groups", "bytes"),
        _figure("pause_s", "Predicted pause", "s"),
        _count("routes", "Keys that have a route", "keys", nullable=True),
        _count("rerouted_keys", "Keys that change their key group", "keys", nullable=True),
        _count("route_bytes", "Estimated state of the routed keys", "bytes", nullable=True),
        _figure("route_pause_s", "Additional pause for the routed keys", "s", nullable=True),
        _count("split_keys", "Keys that are split over several key groups; NULL in plans of "
               "earlier versions", "keys", nullable=True),
        _figure("unsplit_bound_pct", "No placement that splits none of these keys has a smaller "
                "load distance; NULL if no key is split", "% of mean", nullable=True),
        Column("splits_reason", "string", "Hot keys and what the plan does about them; NULL if "
               "there are none or they are not looked for", nullable=True),
        _figure("max_load_distance_pct", "Largest load distance of a joint plan; NULL without this "
                "limit", "% of mean", nullable=True),
        Column("trade", "string", "How a joint plan trades load for traffic; NULL for other plans",
               nullable=True, allowed=TRADES),
        _figure("traffic_weight", "Weight of a percent of the traffic saved; NULL if not weighted",
                "1/%", nullable=True),
        _figure("load_weight", "Weight of a percent of load distance; NULL if not weighted", "1/%",
                nullable=True),
        _figure("traffic_saved_before_pct", "Traffic saved by its price without the plan; NULL if "
                "not weighted", "%", nullable=True, maximum=100.000001),
        _figure("traffic_saved_pct", "Traffic saved by its price; NULL if not weighted", "%",
                nullable=True, maximum=100.000001),
        _count("drained_moves", "Key groups that leave draining nodes; NULL if not weighted",
               "key groups", nullable=True),
        _figure("collocation_factor_before_pct", "Traffic within nodes without the plan", "%",
                nullable=True, maximum=100.000001),
        _figure("collocation_factor_pct", "Traffic within nodes; NULL without traffic", "%",
                nullable=True, maximum=100.000001),
        _figure("load_index_pct", "Load under the plan; below 100 if less is serialised",
                "% of before", nullable=True),
        _figure("wire_bytes_before_per_s", "Traffic between nodes without the plan; NULL if "
                "unknown", "bytes/s", nullable=True),
        _figure("wire_bytes_per_s", "Traffic between nodes; NULL if unknown", "bytes/s",
                nullable=True),
        _figure("serialise_us", "CPU time of a record between nodes, used by a joint plan; NULL "
                "for other plans", "us/record", nullable=True),
        _count("budget_moves", "Moves allowed; NULL if not limited", "key groups", nullable=True),
        _count("budget_bytes", "Bytes allowed; NULL if not limited", "bytes", nullable=True),
        _figure("budget_pause_s", "Pause allowed; NULL if not limited", "s", nullable=True),
        _figure("solver_seconds", "Time of the solver", "s"),
        _count("seed", "Seed of the solver's random numbers", "seed"),
        Column("trace_json", "string", "Best load distance over time, as JSON"),
        Column("target_json", "string", "Target placement of joint plans, for the next round",
               nullable=True),
        Column("held_back_json", "string", "Moves held back by the amortisation gate, as JSON",
               nullable=True),
        _count("due_moves", "Moves that the limit of rounds for a drain requires; NULL without "
               "scaling", "key groups", nullable=True),
        Column("scaling_reason", "string", "Number of nodes needed, with the reason, the metric "
               "that decided and the change that would alter the decision; NULL without scaling",
               nullable=True),
        Column("advice", "string", "Operators that could be one component, a line each; NULL if "
               "there are none or no traffic was measured", nullable=True),
        Column("weights_reason", "string", "Weights of the workers of ordered regions, and the "
               "reason; NULL without regions", nullable=True),
        Column("levelled_operator_id", "string", "Operator that the plan balances, because the "
               "load of the whole job hides its skew; NULL for other plans", nullable=True),
        _figure("operator_skew_before_pct", "Most load of that operator on a node above its fair "
                "share, without the plan", "% of fair share", nullable=True),
        _figure("operator_skew_pct", "The same with the plan", "% of fair share", nullable=True),
        _figure("levelling_limit_pct", "Largest load distance of a plan that balances an operator; "
                "NULL for other plans", "% of mean", nullable=True),
        Column("skew_reason", "string", "Operators, edges, racks and key groups that are skewed "
               "or not known, and what the plan does about them; NULL if there are none",
               nullable=True),
        Column("rules", "string", "Names of the rules of the policy that the plan keeps, separated "
               "by commas; NULL without rules", nullable=True),
        Column("restored_rules", "string", "Those of them that are broken without the plan; NULL "
               "if there are none", nullable=True),
        Column("rules_text", "string", "What each rule says about the plan, a line each; NULL "
               "without rules", nullable=True),
        _figure("headroom_limit_pct", "Most load of a node after the loss of a node or rack; NULL "
                "without a rule for headroom", "% of capacity", nullable=True),
        _figure("headroom_before_pct", "Load of the fullest node after the worst loss, without the "
                "plan; NULL if a key group would have no node", "% of capacity", nullable=True),
        _figure("headroom_pct", "The same with the plan", "% of capacity", nullable=True),
        Column("created_at", "timestamp", "When it was drafted"),
    ),
    key=("job", "run_id", "snapshot_id"),
    retention_days=3650,
    checks={
        "moves_within_budget": "budget_moves IS NULL OR moves <= budget_moves",
        "bytes_within_budget": "budget_bytes IS NULL OR bytes <= budget_bytes",
        "routes_within_budget": "budget_bytes IS NULL OR route_bytes IS NULL "
        "OR bytes + route_bytes <= budget_bytes",
        "not_worse_without_cause": "forced_moves > 0 OR coalesce(due_moves, 0) > 0 "
        "OR restored_rules IS NOT NULL "
        f"OR method = '{ROLLBACK}' "
        f"OR (coalesce(trade, '{LEXICOGRAPHIC}') <> '{WEIGHTED}' "
        "AND (load_distance_pct <= load_distance_before_pct + 0.000001 "
        "OR (max_load_distance_pct IS NOT NULL "
        "AND load_distance_pct <= max_load_distance_pct + 0.000001))) "
        # With weights: the weighted sum is not worse, or a drain does not raise the load distance.
        f"OR (coalesce(trade, '{LEXICOGRAPHIC}') = '{WEIGHTED}' "
        "AND (coalesce(traffic_weight, 0) "
        "* (coalesce(traffic_saved_pct, 0) - coalesce(traffic_saved_before_pct, 0)) "
        "- coalesce(load_weight, 1) * (load_distance_pct - load_distance_before_pct) "
        ">= -0.000001 * (coalesce(traffic_weight, 0) "
        "+ coalesce(load_weight, 1) * (1 + load_distance_pct)) "
        "OR (coalesce(drained_moves, 0) > 0 "
        "AND load_distance_pct <= load_distance_before_pct + 0.000001))) "
        # An operator becomes more level, and the whole job stays as level as its policy asks.
        f"OR (objective = '{BALANCE}' AND levelled_operator_id IS NOT NULL "
        "AND coalesce(operator_skew_pct, 0) < coalesce(operator_skew_before_pct, 0) "
        "AND load_distance_pct <= coalesce(levelling_limit_pct, 0) + 0.000001)",
    },
    retired_checks=("never_worse", "not_worse_without_need"),
)  # fmt: skip

PLANS_ASSIGNMENTS = Table(
    name="plans.assignments",
    doc="The content of a plan: the node of each key group. Visible through plans.heads only.",
    written_by="solve",
    columns=(
        JOB,
        PLAN_ID,
        Column("operator_id", "string", "Operator of the key group"),
        _key_group("key_group", "Number of the key group within its operator"),
        Column("node_id", "string", "Node it is placed on"),
        Column("previous_node_id", "string", "Node it was on when the plan was made"),
        _count("state_bytes", "Size of its state at that time", "bytes"),
    ),
    key=("job", "plan_id", "operator_id", "key_group"),
    retention_days=3650,
)

PLANS_ROUTES = Table(
    name="plans.routes",
    doc="Content of a plan: keys that belong to another key group than "
    "the one of their hash. The hash decides for keys without a row. Visible through plans.heads "
    "only.",
    written_by="solve",
    columns=(
        JOB,
        PLAN_ID,
        Column("operator_id", "string", "Operator that keeps its state by key"),
        Column("key", "string", "The key, at most 1,024 bytes of UTF-8"),
        _key_group("key_group", "Key group it belongs to"),
    ),
    key=("job", "plan_id", "operator_id", "key"),
    retention_days=3650,
)

PLANS_SPLITS = Table(
    name="plans.splits",
    doc="Content of a plan: keys that are split over several key groups of their operator, a row "
    "for each part. The key group of the key's hash or route is always one of them. Records of the "
    "key are dealt over its parts. Visible through plans.heads only.",
    written_by="solve",
    columns=(
        JOB,
        PLAN_ID,
        Column("operator_id", "string", "Operator that declares how partial states merge"),
        Column("key", "string", "The key, at most 1,024 bytes of UTF-8"),
        _key_group("key_group", "Key group that gets a part of the key's records"),
    ),
    key=("job", "plan_id", "operator_id", "key", "key_group"),
    retention_days=3650,
)

PLANS_SCALING = Table(
    name="plans.scaling",
    doc="Content of a plan of a job with scaling: the action for "
    "each node of the policy, the size of each operator, and for each cluster the decision and "
    "its inputs, which later rounds read. subject, subject_id, action and wanted "
    "are part of the content's hash. Visible to streaming jobs through plans.heads only.",
    written_by="solve",
    columns=(
        JOB,
        PLAN_ID,
        Column("subject", "string", "Kind of subject of the row", allowed=SCALING_SUBJECTS),
        Column("subject_id", "string", "Its name"),
        Column(
            "action", "string",
            "Of a node: add, keep, drain (gets no key group), remove (is empty), spare (not used). "
            "Of a cluster: out, in, hold. Of an operator: size",
            allowed=SCALING_ACTIONS,
        ),
        _count("wanted", "Nodes of a cluster, or instances of an operator; NULL of a node",
               "instances", nullable=True),
        _count("before", "Nodes that a cluster had", "nodes", nullable=True),
        _count("needed", "Nodes that the method computed; NULL if metrics were missing",
               "nodes", nullable=True),
        _figure("utilisation", "Of a cluster: the value compared with the boundaries, 1 is full. "
                "Of a node: promised CPU over its capacity", "share", nullable=True),
        _figure("cpu_load_cores", "Promised CPU of a node's key groups", "cores",
                nullable=True),
        _count("drain_rounds", "Rounds that a node has been draining, including this one", "rounds",
               nullable=True),
        Column("due", "array<string>", "Key groups that must leave a node in this round",
               nullable=True),
        Column("loads_json", "string", "Level of each resource of a cluster, as JSON",
               nullable=True),
        Column("reason", "string", "Reason, in a sentence"),
        Column("binding", "string", "The metric that decided"),
        Column("would_change", "string", "Change of a metric that would alter the decision"),
        Column("period_end_at", "timestamp", "End of the period of the decision"),
        Column("decided_at", "timestamp", "When it was drafted"),
    ),
    key=("job", "plan_id", "subject", "subject_id"),
    retention_days=3650,
)  # fmt: skip

PLANS_WEIGHTS = Table(
    name="plans.weights",
    doc="Content of a plan of a job with ordered regions: the "
    "weight of every worker. The weights of a region have the sum 1,000. A CHECK cannot test that, "
    "so solve, publish and the streaming job do. region_id, worker_id and weight are part of the "
    "content's hash. A region without rows keeps its weights.",
    written_by="solve",
    columns=(
        JOB,
        PLAN_ID,
        REGION,
        WORKER,
        _weight("weight", "Its share of 1,000 records"),
        _weight("previous_weight", "Its share when the plan was made"),
        Column("state", "string", "State when the plan was made", allowed=WORKER_STATES),
        _figure("records_per_s", "True rate, by method service; NULL if unknown", "records/s",
                nullable=True),
        _figure("blocked_pct", "Time that the splitter is expected to wait for it, by method "
                "blocking; NULL if unknown", "%", nullable=True),
        Column("reason", "string", "Reason, in a sentence"),
    ),
    key=("job", "plan_id", "region_id", "worker_id"),
    retention_days=3650,
    checks={"dead_get_nothing": "state <> 'dead' OR weight = 0"},
)  # fmt: skip

PLANS_PROMISES = Table(
    name="plans.promises",
    doc="What a plan promises that measure will find, a row for each figure: an expected value "
    "and intervals. Not part of the content.",
    written_by="solve",
    columns=(
        JOB,
        PLAN_ID,
        Column("figure", "string", "Name of the figure, as in plans.outcomes"),
        Column("unit", "string", "Its unit"),
        _signed("expected", "Expected value"),
        _signed("low", "Lower end of the 90 % interval; NULL if the noise is not known",
                nullable=True),
        _signed("high", "Upper end of the 90 % interval", nullable=True),
        _signed("lowest", "Lower end of the 99.9 % interval", nullable=True),
        _signed("highest", "Upper end of the 99.9 % interval", nullable=True),
        _figure("calibration_below", "Factor on the distance between expected value and lower ends "
                "that the job's outcomes called for; 1.2 without outcomes", "ratio", nullable=True),
        _figure("calibration_above", "The same for the upper ends", "ratio", nullable=True),
        Column("reason", "string", "Why there is no interval; empty if there is one"),
    ),
    key=("job", "plan_id", "figure"),
    retention_days=3650,
    checks={
        "low_to_high": "low IS NULL OR (lowest <= low AND low <= high AND high <= highest)",
    },
)  # fmt: skip

PLANS_HEADS = Table(
    name="plans.heads",
    doc="A job's plan in force. One row a job, changed only by compare-and-set on the version.",
    written_by="publish",
    columns=(
        JOB,
        Column("version", "long", "One more with every publish", None,
               minimum=1, maximum=LARGEST_COUNT),
        PLAN_ID,
        Column("content_hash", "string", "Hash of the published content"),
        RUN_ID,
        Column("published_at", "timestamp", "When it came into force"),
    ),
    key=("job",),
    retention_days=3650,
    append_only=False,
)  # fmt: skip

PLANS_LOG = Table(
    name="plans.log",
    doc="Events of plans: actor, time and reason. Missing rows are added from the heads.",
    written_by="measure, condense, solve, publish, rollback",
    columns=(
        JOB,
        Column("at", "timestamp", "When"),
        Column("event", "string", "The event", allowed=LOG_EVENTS),
        Column("version", "long", "Version it concerns; NULL if none", None, True,
               minimum=1, maximum=LARGEST_COUNT),
        Column("plan_id", "string", "Plan it concerns; NULL if none", nullable=True),
        RUN_ID,
        Column("actor", "string", "A task of a run, or a person"),
        Column("reason", "string", "Reason, in a sentence"),
    ),
    key=("job", "event", "run_id", "version", "plan_id"),
    retention_days=3650,
)  # fmt: skip

PLANS_ACKS = Table(
    name="plans.acks",
    doc="A streaming job's acknowledgement of a version, with measured bytes and pause. A job "
    "that lost its folder acknowledges again; the last acknowledgement counts.",
    written_by="streaming job",
    columns=(
        JOB,
        Column("version", "long", "The version", None, minimum=1, maximum=LARGEST_COUNT),
        PLAN_ID,
        Column("status", "string", "refused, accepted, progress (a step that is not the last one), "
               "applied, or superseded (by a newer version before the last step)",
               allowed=ACK_STATUSES),
        Column("region_id", "string", "The ordered region that acknowledges; NULL for the job's "
               "operators", nullable=True),
        _count("batch_id", "Batch at whose start it was decided or applied; 0 for a region, which "
               "has no batches", "batch"),
        Column("reason", "string", "Why it was refused or superseded, or why a step is beyond the "
               "limits of the policy; of a take-up, what the engine says of it; or empty"),
        _count("moved_key_groups", "Key groups whose state was moved: in the step, or in all steps "
               "if applied or superseded", "key groups"),
        _count("bytes_moved", "Bytes copied, as counted while copying; of the same steps",
               "bytes"),
        _figure("pause_ms", "Wall time of the moves; of the same steps", "ms",
                maximum=LARGEST_MS),
        _count("step", "Steps made so far; NULL in rows of earlier versions",
               "steps", nullable=True),
        _count("steps", "Steps of the take-up", "steps", nullable=True),
        _figure("longest_pause_ms", "Wall time of the moves in the longest of the same steps", "ms",
                nullable=True, maximum=LARGEST_MS),
        Column("moved", "array<string>", "Key groups that the step moved to the nodes of the plan; "
               "only of progress", nullable=True),
        Column("acked_at", "timestamp", "When"),
    ),
    key=("job", "version", "region_id", "status", "acked_at"),
    retention_days=3650,
)  # fmt: skip

PLANS_OUTCOMES = Table(
    name="plans.outcomes",
    doc="Promised and measured figures of a version, a row for each figure.",
    written_by="measure",
    columns=(
        JOB,
        Column("version", "long", "The version", None, minimum=1, maximum=LARGEST_COUNT),
        PLAN_ID,
        RUN_ID,
        Column("figure", "string", "Name of the figure, as in plans.plans; wire_bytes_per_record, "
               "by the records of all key groups; cpu_load_cores/<node> "
               "as in plans.scaling; capacity_records_per_s, done_records_per_s and "
               "blocked_pct/<region> of ordered regions"),
        Column("unit", "string", "Its unit"),
        Column("before", "double", "Its value without the plan; NULL if it has none", None, True,
               minimum=-LARGEST_LOAD, maximum=LARGEST_LOAD),
        Column("promised", "double", "Its promised value; NULL if there is none", None, True,
               minimum=-LARGEST_LOAD, maximum=LARGEST_LOAD),
        _signed("measured", "Its measured value"),
        _signed("low", "Lower end of the promised 90 % interval; NULL if none was promised",
                nullable=True),
        _signed("high", "Upper end of the promised 90 % interval", nullable=True),
        Column("side", "string", "Whether the measured value is inside, below or above the "
               "interval; NULL without an interval", nullable=True, allowed=PROMISE_SIDES),
        _count("windows", "Windows it was measured over", "windows"),
        Column("period_start_at", "timestamp", "Start of the first of them"),
        Column("period_end_at", "timestamp", "End of the last of them"),
        Column("measured_at", "timestamp", "When it was measured"),
    ),
    key=("job", "version", "run_id", "figure"),
    retention_days=3650,
)  # fmt: skip

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        METRICS_KEY_GROUPS,
        METRICS_TRAFFIC,
        METRICS_KEY_PAIRS,
        METRICS_NODES,
        METRICS_SOURCES,
        METRICS_JOBS,
        METRICS_CONNECTIONS,
        METRICS_REJECTED,
        SNAPSHOTS_SNAPSHOTS,
        SNAPSHOTS_KEY_GROUPS,
        SNAPSHOTS_NODES,
        SNAPSHOTS_TRAFFIC,
        SNAPSHOTS_NOISE,
        SNAPSHOTS_KEY_PAIRS,
        SNAPSHOTS_LOAD_SERIES,
        SNAPSHOTS_SOURCES,
        SNAPSHOTS_CONNECTIONS,
        PLANS_PLANS,
        PLANS_ASSIGNMENTS,
        PLANS_ROUTES,
        PLANS_SPLITS,
        PLANS_SCALING,
        PLANS_WEIGHTS,
        PLANS_PROMISES,
        PLANS_HEADS,
        PLANS_LOG,
        PLANS_ACKS,
        PLANS_OUTCOMES,
    )
}
