"""What the review page shows: jobs at a glance, a job's versions, a plan with its life."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

import pyarrow.compute as pc
from deltalake import DeltaTable

from ballast.contracts import plan_text
from ballast.contracts.errors import InvalidInput, NotFound
from ballast.contracts.policy import policy_files
from ballast.contracts.records import LogEntry
from ballast.contracts.settings import check_job_name
from ballast.store.cache import LONG_COLUMNS, Row, TableCache
from ballast.store.paging import Key, Order, Page, read_page
from ballast.store.plans import over_since
from ballast.store.tables import Filter, rows_of

IN_FORCE_EVENTS = ("published", "rolled_back")
REFUSALS = ("gate_failed", "refused", "conflict", "rejected", "timed_out")
OF_OTHER_RUNS = ("superseded", "promise_broken")
"""Events that a run writes down of a plan that another run made."""
BEFORE_THE_FIRST = "0"
"""Names the job as it was before its first plan, where two plans are compared."""
MOVE_COLUMNS = ("operator_id", "key_group", "previous_node_id", "node_id", "state_bytes")
ORDERS = {
    "key": Order(("operator_id", "key_group")),
    "bytes": Order(("operator_id", "key_group"), descending="state_bytes"),
}


@dataclass(frozen=True)
class JobHistory:
    """Everything the small tables say of one job's plans, each read once, when first asked for."""

    cache: TableCache
    job: str

    @cached_property
    def log(self) -> list[Row]:
        """What happened, oldest first."""
        return sorted(self.cache.rows("plans.log", self.job), key=lambda row: row["at"])

    @cached_property
    def plans(self) -> dict[str, Row]:
        """Every draft by its plan id, oldest first."""
        rows = sorted(self.cache.rows("plans.plans", self.job), key=lambda row: row["created_at"])
        return {row["plan_id"]: row for row in rows}

    @cached_property
    def head(self) -> Row | None:
        """What is in force."""
        return next(iter(self.cache.rows("plans.heads", self.job)), None)

    @cached_property
    def acks(self) -> list[Row]:
        """The streaming job's words on its versions, oldest first."""
        return [row for row in self._all_acks if row.get("region_id") is None]

    @cached_property
    def region_acks(self) -> list[Row]:
        """The words of the job's ordered regions on its versions, oldest first."""
        return [row for row in self._all_acks if row.get("region_id") is not None]

    @cached_property
    def _all_acks(self) -> list[Row]:
        return sorted(self.cache.rows("plans.acks", self.job), key=lambda row: row["acked_at"])

    @cached_property
    def outcomes(self) -> dict[int, dict[str, Row]]:
        """The newest measurement of every figure, by version and figure."""
        newest: dict[int, dict[str, Row]] = {}
        rows = self.cache.rows("plans.outcomes", self.job)
        for row in sorted(rows, key=lambda row: row["measured_at"]):
            newest.setdefault(row["version"], {})[row["figure"]] = row
        return newest

    @cached_property
    def versions(self) -> dict[int, Row]:
        """The event that brought each version; the head counts even before its log row is there."""
        found = {
            row["version"]: row
            for row in self.log
            if row["event"] in IN_FORCE_EVENTS and row["version"] is not None
        }
        head = self.head
        if head is not None and head["version"] not in found:
            said = {"event": "published", "actor": "", "reason": "", "at": head["published_at"]}
            found[head["version"]] = {**head, **said}
        return dict(sorted(found.items()))

    def measured(self, version: int, figure: str = "load_distance_pct") -> float | None:
        """A figure as it was last measured under a version."""
        row = self.outcomes.get(version, {}).get(figure)
        return None if row is None else row["measured"]

    def approver(self, plan_id: str, version: int | None) -> str | None:
        """Who approved the plan, the last time that it came into force with this version."""
        until = self.versions[version]["at"] if version in self.versions else None
        names = [
            row["actor"]
            for row in self.log
            if row["event"] == "approved"
            and row["plan_id"] == plan_id
            and (until is None or row["at"] <= until)
        ]
        return names[-1] if names else None


def known_jobs(cache: TableCache) -> list[str]:
    """Jobs that have a policy, or plans from the time they had one."""
    named = {file.stem for file in policy_files(cache.settings.policies)}
    for table in ("plans.heads", "plans.log", "snapshots.snapshots"):
        named |= cache.jobs(table)
    return sorted(name for name in named if is_job_name(name))


def read_ahead(cache: TableCache) -> None:
    """Read the small tables of every job once, so that nobody waits for it later."""
    for job in known_jobs(cache):
        glance(JobHistory(cache, job))
        cache.rows("snapshots.snapshots", job)


def is_job_name(name: str) -> bool:
    """Whether a policy file or a partition is named as a job may be."""
    try:
        return check_job_name(name) == name
    except InvalidInput:
        return False


def glance(history: JobHistory) -> Row:
    """How a job stands, in a line."""
    head = history.head
    version = head["version"] if head else 0
    plan = history.plans.get(head["plan_id"], {}) if head else {}
    words_on_it = [row for row in history.acks if row["version"] == version]
    refusals = [row for row in history.log if row["event"] in REFUSALS]
    return {
        "job": history.job,
        "version": version,
        "plan_id": head["plan_id"] if head else None,
        "published_at": head["published_at"] if head else None,
        "take_up": words_on_it[-1]["status"] if words_on_it else None,
        "load_distance_before_pct": plan.get("load_distance_before_pct"),
        "load_distance_promised_pct": plan.get("load_distance_pct"),
        "load_distance_measured_pct": history.measured(version),
        "plans": len(history.plans),
        "last_event": history.log[-1] if history.log else None,
        "last_refusal": refusals[-1]
        | {
            "over_since": over_since(
                [LogEntry.from_row(row) for row in history.log], LogEntry.from_row(refusals[-1])
            )
        }
        if refusals
        else None,
    }


def timeline(history: JobHistory) -> list[Row]:
    """Every version with what it promised and what came, oldest first."""
    return [_version_line(history, version, event) for version, event in history.versions.items()]


def _version_line(history: JobHistory, version: int, event: Row) -> Row:
    plan = history.plans.get(event["plan_id"], {})
    words_on_it = [row for row in history.acks if row["version"] == version]
    return {
        "version": version,
        "in_force": bool(history.head and history.head["version"] == version),
        "plan_id": event["plan_id"],
        "event": event["event"],
        "at": event["at"],
        "actor": event["actor"],
        "reason": event["reason"],
        "approved_by": history.approver(event["plan_id"], version),
        "take_up": words_on_it[-1]["status"] if words_on_it else None,
        "load_distance_before_pct": plan.get("load_distance_before_pct"),
        "load_distance_promised_pct": plan.get("load_distance_pct"),
        "load_distance_measured_pct": history.measured(version),
        "moves": plan.get("moves"),
        "bytes": plan.get("bytes"),
    }


def drafts(history: JobHistory, limit: int) -> list[Row]:
    """The newest plans that never came into force, newest first, each with its last event."""
    published = {event["plan_id"] for event in history.versions.values()}
    last = {row["plan_id"]: row for row in history.log if row["plan_id"]}
    names = (
        "plan_id", "run_id", "created_at", "status", "load_distance_before_pct",
        "load_distance_pct", "moves", "bytes",
    )  # fmt: skip
    return [
        {name: plan[name] for name in names}
        | {"last_event": last.get(plan_id, {}).get("event", "drafted"),
           "last_reason": last.get(plan_id, {}).get("reason", "")}
        for plan_id, plan in reversed(history.plans.items())
        if plan_id not in published
    ][:limit]  # fmt: skip


@dataclass(frozen=True)
class PlanReference:
    """A plan as a person named it; a draft has no version."""

    version: int | None
    plan_id: str


def find_plan(history: JobHistory, name: str) -> PlanReference:
    """The plan of a version or of a plan id."""
    if name.isdecimal() and len(name) <= 15 and int(name) in history.versions:
        return PlanReference(int(name), history.versions[int(name)]["plan_id"])
    if name in history.plans:
        versions = [v for v, event in history.versions.items() if event["plan_id"] == name]
        return PlanReference(versions[-1] if versions else None, name)
    raise NotFound(
        f"job {history.job} has no version or plan {name[:40]!r}", value=name,
        allowed="a version or the id of a plan of this job", remedy="choose one of its versions",
    )  # fmt: skip


def first_plan(history: JobHistory) -> str:
    """The plan of the first version."""
    if not history.versions:
        raise NotFound(
            f"job {history.job} has no version yet",
            value=history.job,
            remedy="compare two of its drafts",
        )
    return str(next(iter(history.versions.values()))["plan_id"])


def plan_row(history: JobHistory, plan_id: str) -> Row:
    """The row of a plan that a version names."""
    if plan_id not in history.plans:
        raise NotFound(
            f"the row of plan {plan_id} is missing from plans.plans", value=plan_id,
            remedy="run the DAG that checks invariants, or restore the table from a copy",
        )  # fmt: skip
    return history.plans[plan_id]


def plan_of_run(history: JobHistory, run_id: str) -> str | None:
    """The plan that a run drafted, answered for or rolled back to; None if it has none.

    A run also writes down what it did to plans of other runs, which are not its own.
    """
    for plan_id, plan in history.plans.items():
        if plan["run_id"] == run_id:
            return plan_id
    for row in reversed(history.log):
        if row["run_id"] == run_id and row["plan_id"] and row["event"] not in OF_OTHER_RUNS:
            return str(row["plan_id"])
    return None


def plan_detail(history: JobHistory, name: str) -> Row:
    """A plan: what it promises and costs, what came of it, and who did what to it."""
    found = find_plan(history, name)
    plan = plan_row(history, found.plan_id)
    texts = _long_texts(history, found.plan_id)
    outcomes = history.outcomes.get(found.version or 0, {})
    versions = list(history.versions)
    return {
        "job": history.job,
        "version": found.version,
        "versions": versions,
        "in_force": bool(history.head and history.head["version"] == found.version),
        "approved_by": history.approver(found.plan_id, found.version),
        "plan": plan,
        "why": plan_text.plan_reason(plan),
        "quality": plan_text.quality_text(plan["bound_pct"], plan["gap_pct"]),
        "progress": plan_text.progress_text(json.loads(texts.get("trace_json") or "[]")),
        "held_back": plan_text.held_back_lines(json.loads(texts.get("held_back_json") or "[]")),
        "acks": [row for row in history.acks if row["version"] == found.version],
        "region_acks": [row for row in history.region_acks if row["version"] == found.version],
        "outcomes": list(outcomes.values()),
        "log": [row for row in history.log if row["plan_id"] == found.plan_id],
    }


def _long_texts(history: JobHistory, plan_id: str) -> Row:
    where: list[Filter] = [("plan_id", "=", plan_id)]
    wanted = LONG_COLUMNS["plans.plans"]
    rows = history.cache.guarded(
        "plans.plans",
        lambda table: _present_columns(table, history.job, where, wanted),
    )
    return rows[0] if rows else {}


def _present_columns(
    table: DeltaTable, job: str, where: list[Filter], wanted: tuple[str, ...]
) -> list[Row]:
    """A table of an earlier version may lack a column."""
    present = {field.name for field in table.schema().fields}
    columns = [name for name in wanted if name in present]
    return list(rows_of(table, job, where=where, columns=columns).to_pylist())


@dataclass(frozen=True)
class MoveFilter:
    """Which moves a person wants to see; None is any."""

    operator_id: str | None = None
    from_node_id: str | None = None
    to_node_id: str | None = None

    def filters(self) -> list[Filter]:
        """As the store takes it."""
        pairs = {
            "operator_id": self.operator_id,
            "previous_node_id": self.from_node_id,
            "node_id": self.to_node_id,
        }
        return [(name, "=", value) for name, value in pairs.items() if value is not None]


def moves_page(
    history: JobHistory, plan_id: str, wanted: MoveFilter, order: str, after: Key | None, limit: int
) -> Page:
    """A page of the moves of a plan."""
    if order not in ORDERS:
        raise InvalidInput(f"order is {order[:40]!r}", value=order, allowed=", ".join(ORDERS))
    page = history.cache.guarded(
        "plans.assignments",
        lambda table: read_page(
            table, history.job,
            where=[("plan_id", "=", plan_id), *wanted.filters()],
            condition=pc.field("node_id") != pc.field("previous_node_id"),
            order=ORDERS[order], after=after, limit=limit,
        ),
    )  # fmt: skip
    if page is None:
        return Page([], None)
    rows = [{name: row[name] for name in MOVE_COLUMNS} for row in page.rows]
    return Page(rows, page.after)
