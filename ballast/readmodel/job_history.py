"""Everything that the tables say about one job's plans: log, drafts, head, acks and outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ballast.contracts.errors import InvalidInput, NotFound
from ballast.contracts.log_events import APPROVED, OF_OTHER_RUNS, PUBLISHED, VERSION_EVENTS
from ballast.contracts.planning_stop import PlanningState, planning_state
from ballast.contracts.policy import policy_files
from ballast.contracts.records import (
    Ack,
    Draft,
    DraftSummary,
    Head,
    LogEntry,
    Outcome,
    Promise,
    Snapshot,
)
from ballast.contracts.settings import check_job_name
from ballast.contracts.tables import ABOVE, BELOW
from ballast.store.cache import TableCache
from ballast.store.planning import stop_after_of

BEFORE_THE_FIRST = "0"
"""Names the job as it was before its first plan, where two plans are compared."""
LOAD_DISTANCE = "load_distance_pct"
"""Name of the figure that lists and pictures of plans show."""


@dataclass(frozen=True)
class JobHistory:
    """The small tables of one job, each read once, on first use."""

    cache: TableCache
    job: str

    @cached_property
    def log(self) -> list[LogEntry]:
        """The events of the job's plans, oldest first."""
        return sorted(self.cache.records(LogEntry, self.job), key=lambda entry: entry.at)

    @cached_property
    def plans(self) -> dict[str, DraftSummary]:
        """Every draft by its plan id, oldest first."""
        rows = self.cache.records(DraftSummary, self.job)
        return {row.plan_id: row for row in sorted(rows, key=lambda row: row.created_at)}

    @cached_property
    def head(self) -> Head | None:
        """The plan in force; None before the first."""
        return next(iter(self.cache.records(Head, self.job)), None)

    @cached_property
    def acks(self) -> list[Ack]:
        """The streaming job's answers to its versions, oldest first."""
        return [ack for ack in self._all_acks if ack.region_id is None]

    @cached_property
    def region_acks(self) -> list[Ack]:
        """The answers of the job's ordered regions to its versions, oldest first."""
        return [ack for ack in self._all_acks if ack.region_id is not None]

    @cached_property
    def _all_acks(self) -> list[Ack]:
        return sorted(self.cache.records(Ack, self.job), key=lambda ack: ack.acked_at)

    @cached_property
    def promises(self) -> dict[str, Promise]:
        """The promised load distance of every draft, by its plan id.

        Promises of other figures are not cached: there is one for each node in each draft.
        """
        rows = self.cache.records(Promise, self.job, ("figure", "=", LOAD_DISTANCE))
        return {row.plan_id: row for row in rows}

    @cached_property
    def measurements(self) -> dict[tuple[int | None, str], list[Outcome]]:
        """Every measurement by version and figure, the oldest first."""
        found: dict[tuple[int | None, str], list[Outcome]] = {}
        rows = self.cache.records(Outcome, self.job)
        for row in sorted(rows, key=lambda row: (row.measured_at, row.figure)):
            found.setdefault((row.version, row.figure), []).append(row)
        return found

    def newest_outcomes(self, version: int | None) -> list[Outcome]:
        """The newest measurement of every figure of a version."""
        return [rows[-1] for (of, _), rows in self.measurements.items() if of == version]

    @cached_property
    def planning(self) -> PlanningState:
        """Whether the job plans by itself, by its policy as it is now (ADR 60)."""
        rows = [row for of_figure in self.measurements.values() for row in of_figure]
        # The policy is a file to parse. It matters only if a promise was broken.
        is_broken = any(row.side in (BELOW, ABOVE) for row in rows)
        stop_after = stop_after_of(self.cache.settings, self.job) if is_broken else None
        return planning_state(self.log, rows, stop_after)

    @cached_property
    def versions(self) -> dict[int, LogEntry]:
        """The event that brought each version into force, in order of the versions.

        The head counts even while its log entry is missing.
        """
        found = {
            entry.version: entry
            for entry in self.log
            if entry.event in VERSION_EVENTS and entry.version is not None
        }
        head = self.head
        if head is not None and head.version not in found:
            found[head.version] = LogEntry(
                job=head.job, at=head.published_at, event=PUBLISHED, version=head.version,
                plan_id=head.plan_id, run_id=head.run_id, actor="", reason="",
            )  # fmt: skip
        return dict(sorted(found.items()))

    def plan_id_of(self, version: int) -> str:
        """The plan of a version."""
        return str(self.versions[version].plan_id)

    def is_in_force(self, version: int | None) -> bool:
        """Whether the version is the head."""
        return self.head is not None and self.head.version == version

    def last_ack(self, version: int) -> Ack | None:
        """The streaming job's last answer to a version."""
        found = [ack for ack in self.acks if ack.version == version]
        return found[-1] if found else None

    def approver(self, plan_id: str, version: int | None) -> str | None:
        """Who approved the plan last, before it came into force with this version."""
        until = self.versions[version].at if version in self.versions else None
        names = [
            entry.actor
            for entry in self.log
            if entry.event == APPROVED
            and entry.plan_id == plan_id
            and (until is None or entry.at <= until)
        ]
        return names[-1] if names else None


@dataclass(frozen=True)
class PlanReference:
    """A plan that a person named; a draft has no version."""

    version: int | None
    plan_id: str


def find_plan(history: JobHistory, name: str) -> PlanReference:
    """The plan that a version or a plan id names.

    Raises:
        NotFound: the job has no version and no plan of this name.
    """
    by_text = {str(version): version for version in history.versions}
    if name in by_text:
        version = by_text[name]
        return PlanReference(version, history.plan_id_of(version))
    if name in history.plans:
        versions = [v for v in history.versions if history.plan_id_of(v) == name]
        return PlanReference(versions[-1] if versions else None, name)
    versions = list(history.versions)
    span = f"versions {versions[0]} to {versions[-1]}" if versions else "versions (none yet)"
    raise NotFound(
        f"job {history.job} has no version or plan {name[:40]!r}", value=name,
        allowed=f"{span}, or the id of a plan of this job",
        remedy=f"choose one of them; `ballast plans list {history.job}` shows them",
    )  # fmt: skip


def plan_in_force(history: JobHistory) -> PlanReference:
    """The newest version.

    Raises:
        NotFound: the job has no version yet.
    """
    if not history.versions:
        raise NotFound(
            f"job {history.job} has no published plan", value=history.job,
            remedy=f"see drafts with `ballast plans list {history.job}`, reasons with "
            f"`ballast status {history.job}`",
        )  # fmt: skip
    version = max(history.versions)
    return PlanReference(version, history.plan_id_of(version))


def first_plan(history: JobHistory) -> str:
    """The plan id of the first version.

    Raises:
        NotFound: the job has no version yet.
    """
    if not history.versions:
        raise NotFound(
            f"job {history.job} has no version yet", value=history.job,
            remedy="compare two of its drafts",
        )  # fmt: skip
    return history.plan_id_of(min(history.versions))


def summary_of(history: JobHistory, plan_id: str) -> DraftSummary:
    """The summary of a plan that a version names.

    Raises:
        NotFound: plans.plans has no row of the plan.
    """
    if plan_id not in history.plans:
        raise _missing_row(plan_id)
    return history.plans[plan_id]


def draft_of(history: JobHistory, plan_id: str) -> Draft:
    """The whole row of a plan, with its long texts.

    Raises:
        NotFound: plans.plans has no row of the plan.
    """
    rows = history.cache.read_records(Draft, history.job, ("plan_id", "=", plan_id))
    if not rows:
        raise _missing_row(plan_id)
    return rows[0]


def _missing_row(plan_id: str) -> NotFound:
    return NotFound(
        f"the row of plan {plan_id} is missing from plans.plans", value=plan_id,
        remedy="run the DAG that checks invariants, or restore the table from a copy",
    )  # fmt: skip


def plan_of_run(history: JobHistory, run_id: str) -> str | None:
    """The id of the plan that a run drafted, answered for or rolled back to; None if it has none.

    A run also records what it did to plans of other runs, which are not its own.
    """
    for plan_id, plan in history.plans.items():
        if plan.run_id == run_id:
            return plan_id
    for entry in reversed(history.log):
        if entry.run_id == run_id and entry.plan_id and entry.event not in OF_OTHER_RUNS:
            return entry.plan_id
    return None


def known_jobs(cache: TableCache) -> list[str]:
    """Jobs that have a policy, or plans from the time when they had one."""
    names = {file.stem for file in policy_files(cache.settings.policies)}
    for table in (Head.table, LogEntry.table, Snapshot.table):
        names |= cache.jobs(table)
    return sorted(name for name in names if is_job_name(name))


def is_job_name(name: str) -> bool:
    """Whether a policy file or a partition is named as a job may be."""
    try:
        return check_job_name(name) == name
    except InvalidInput:
        return False
