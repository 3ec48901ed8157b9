"""Invariants of a job's heads, plans and log. Pure functions on the state that was read.

A plan's content is committed first, then the head, then the row in the log. So the history of the
heads must have each version of the log, and the plan of a head must be complete.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ballast.contracts.identity import Scaled, Split, content_hash
from ballast.contracts.records import Head
from ballast.contracts.regions import Weighted

PUBLISHED = ("published", "rolled_back")


@dataclass(frozen=True)
class Publication:
    """A version, from a commit of plans.heads or from a row of plans.log."""

    version: int
    plan_id: str
    run_id: str
    at: datetime


@dataclass(frozen=True)
class StoredContent:
    """What the tables hold of the head's plan."""

    content_hash: str | None = None
    """From plans.plans; None if the plan has no row there."""
    assignments: Sequence[tuple[str, int, str]] = ()
    routes: Sequence[tuple[str, str, int]] = ()
    scaling: Sequence[Scaled] = ()
    weights: Sequence[Weighted] = ()
    splits: Sequence[Split] = ()

    @property
    def computed_hash(self) -> str:
        """The hash of the stored rows."""
        return content_hash(self.assignments, self.routes, self.scaling, self.weights, self.splits)


@dataclass(frozen=True)
class JobState:
    """What was read of a job: the log first, then the heads, then the head's plan."""

    job: str
    logged: Sequence[Publication]
    heads: Sequence[Head]
    """Rows of plans.heads; there must be one at most."""
    history: Sequence[Publication]
    """Commits of plans.heads, oldest first, as far back as Delta keeps them."""
    plan: StoredContent = StoredContent()

    @property
    def head(self) -> Head | None:
        return max(self.heads, key=lambda head: head.version, default=None)


@dataclass(frozen=True)
class InvariantViolation:
    """An invariant that is violated, and a remedy."""

    job: str
    what: str
    remedy: str
    repair: Publication | None = field(default=None, compare=False)
    """The row that plans.log lacks, if adding it is the whole repair."""

    def __str__(self) -> str:
        return f"job {self.job}: {self.what}; to fix it: {self.remedy}"


def invariant_violations(state: JobState) -> list[InvariantViolation]:
    """Every invariant that a job violates; empty if all hold."""
    return [
        *_one_head(state), *_whole_plan(state), *_history_rises(state), *_log_agrees(state),
        *_log_complete(state), *_no_gaps(state),
    ]  # fmt: skip


def _one_head(state: JobState) -> Iterator[InvariantViolation]:
    if len(state.heads) > 1:
        versions = ", ".join(str(head.version) for head in state.heads)
        yield InvariantViolation(
            state.job, f"plans.heads has {len(state.heads)} rows, of versions {versions}",
            "stop what writes plans.heads beside `publish`, then restore the table to the version "
            "before (RESTORE TABLE)",
        )  # fmt: skip
    if state.head is None and (state.logged or state.history):
        last = max(state.logged or state.history, key=lambda entry: entry.version).version
        yield InvariantViolation(
            state.job, f"version {last} was published, but the job has no head",
            "restore plans.heads to a version that has it (RESTORE TABLE)",
        )  # fmt: skip


def _whole_plan(state: JobState) -> Iterator[InvariantViolation]:
    """The head's plan exists, and its content has the hash of the head."""
    head = state.head
    if head is None:
        return
    back = (
        f"publish a whole plan over it: `ballast trigger {state.job}`, or roll back with "
        f"`ballast rollback {state.job} VERSION`; the job refuses this one and keeps the one it has"
    )
    named = f"version {head.version} names plan {head.plan_id}"
    if state.plan.content_hash is None:
        yield InvariantViolation(state.job, f"{named}, which plans.plans does not have", back)
    elif state.plan.content_hash != head.content_hash:
        promised = f"{state.plan.content_hash[:16]}, the head promises {head.content_hash[:16]}"
        yield InvariantViolation(state.job, f"{named}, whose content hash is {promised}", back)
    found = state.plan.computed_hash
    if found != head.content_hash:
        rows = f"{len(state.plan.assignments)} assignments and {len(state.plan.routes)} routes"
        yield InvariantViolation(
            state.job, f"{named}, whose {rows} hash to {found[:16]}, not {head.content_hash[:16]}",
            back,
        )  # fmt: skip


def _history_rises(state: JobState) -> Iterator[InvariantViolation]:
    """Each commit of the heads has the next version, and the last commit is the head."""
    for before, after in zip(state.history, state.history[1:], strict=False):
        if after.version != before.version + 1:
            yield InvariantViolation(
                state.job,
                f"the history of plans.heads goes from version {before.version} to {after.version}",
                "find out who else than `publish` wrote plans.heads; nothing has to be undone if "
                "the version in force is right",
            )
    last, head = (state.history[-1] if state.history else None), state.head
    if last and head and not _same(last, _publication(head)):
        yield InvariantViolation(
            state.job,
            f"the head is version {head.version}, plan {head.plan_id}, but the last commit of "
            f"plans.heads brought version {last.version}, plan {last.plan_id}",
            "find out who else than `publish` wrote plans.heads",
        )


def _log_agrees(state: JobState) -> Iterator[InvariantViolation]:
    """The log has one plan a version, the same as the history, and no version above the head."""
    known = {entry.version: entry for entry in state.history}
    for version, plans in _plans_of(state.logged).items():
        other = known.get(version)
        if len(plans) > 1:
            yield InvariantViolation(
                state.job, f"plans.log has version {version} as plans {', '.join(sorted(plans))}",
                "trust plans.heads; its history says which of them was in force",
            )  # fmt: skip
        elif other is not None and other.plan_id not in plans:
            yield InvariantViolation(
                state.job,
                f"plans.log has version {version} as plan {min(plans)}, the history of plans.heads "
                f"as plan {other.plan_id}",
                "trust the history; find out who else than the pipeline wrote plans.log",
            )
        if state.head is not None and version > state.head.version:
            yield InvariantViolation(
                state.job,
                f"plans.log has version {version}, but version {state.head.version} is in force",
                "restore plans.heads to the version that has it (RESTORE TABLE), or publish again",
            )


def _log_complete(state: JobState) -> Iterator[InvariantViolation]:
    """The log has every version of the history; a publisher that died leaves a row to add.

    The head counts as well: Delta deletes history that is older than its log retention.
    """
    logged = {entry.version for entry in state.logged}
    known = {entry.version: entry for entry in state.history}
    if state.head is not None:
        known.setdefault(state.head.version, _publication(state.head))
    for entry in known.values():
        if entry.version not in logged:
            yield InvariantViolation(
                state.job, f"plans.log lacks version {entry.version}, plan {entry.plan_id}",
                "run `check_invariants` without --no-repair, which adds the row",
                repair=entry,
            )  # fmt: skip


def _no_gaps(state: JobState) -> Iterator[InvariantViolation]:
    """Log or history has every version from the first known one up to the head."""
    known = {entry.version for entry in (*state.logged, *state.history)}
    if state.head is not None:
        known.add(state.head.version)
    if not known:
        return
    missing = sorted(set(range(min(known), max(known) + 1)) - known)
    if missing:
        shown = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
        yield InvariantViolation(
            state.job, f"neither plans.log nor the history of plans.heads has version {shown}",
            "nothing can bring it back; find out who wrote plans.heads or removed from plans.log",
        )  # fmt: skip


def _plans_of(logged: Sequence[Publication]) -> Mapping[int, set[str]]:
    plans: dict[int, set[str]] = defaultdict(set)
    for entry in logged:
        plans[entry.version].add(entry.plan_id)
    return plans


def _publication(head: Head) -> Publication:
    return Publication(head.version, head.plan_id, head.run_id, head.published_at)


def _same(one: Publication, other: Publication) -> bool:
    return (one.version, one.plan_id, one.run_id) == (other.version, other.plan_id, other.run_id)
