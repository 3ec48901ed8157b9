"""What must hold between heads, plans and log, as pure functions on what was read of a job.

A head is committed before its row in the log, and a plan's content before either: what the log
says must be in the heads' history, and what a head names must be whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ballast.contracts.identity import Scaled, content_hash
from ballast.contracts.records import Head
from ballast.contracts.regions import Weighted

Row = Any  # TRANSITION: typed records take its place
PUBLISHED = ("published", "rolled_back")


@dataclass(frozen=True)
class Publication:
    """A version as a commit of plans.heads or a row of plans.log has it."""

    version: int
    plan_id: str
    run_id: str
    at: datetime


@dataclass(frozen=True)
class JobState:
    """What was read of a job: the log first, then the heads, then what the head names."""

    job: str
    logged: Sequence[Publication]
    heads: Sequence[Head]
    """Rows of plans.heads; there must be one at most."""
    history: Sequence[Publication]
    """Commits of plans.heads, the oldest first, as far back as Delta remembers."""
    plan: Row | None = None
    """Row of plans.plans of the head's plan."""
    assignments: Sequence[tuple[str, int, str]] = ()
    routes: Sequence[tuple[str, str, int]] = ()
    scaling: Sequence[Scaled] = ()
    weights: Sequence[Weighted] = ()

    @property
    def head(self) -> Head | None:
        return max(self.heads, key=lambda head: head.version, default=None)


@dataclass(frozen=True)
class InvariantViolation:
    """Something that does not hold, and what to do about it."""

    job: str
    what: str
    remedy: str
    repair: Publication | None = field(default=None, compare=False)
    """The row that plans.log lacks, where adding it is all that is needed."""

    def __str__(self) -> str:
        return f"job {self.job}: {self.what}; to fix it: {self.remedy}"


def invariant_violations(state: JobState) -> list[InvariantViolation]:
    """Everything that does not hold of a job; empty if all does."""
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
        last = max(state.logged or state.history, key=lambda said: said.version).version
        yield InvariantViolation(
            state.job, f"version {last} was published, but the job has no head",
            "restore plans.heads to a version that has it (RESTORE TABLE)",
        )  # fmt: skip


def _whole_plan(state: JobState) -> Iterator[InvariantViolation]:
    """The head names a plan that is there, with content of the hash that the head promises."""
    head = state.head
    if head is None:
        return
    back = (
        f"publish a whole plan over it: `ballast trigger {state.job}`, or roll back with "
        f"`ballast rollback {state.job} VERSION`; the job refuses this one and keeps the one it has"
    )
    named = f"version {head.version} names plan {head.plan_id}"
    if state.plan is None:
        yield InvariantViolation(state.job, f"{named}, which plans.plans does not have", back)
    elif state.plan["content_hash"] != head.content_hash:
        promised = f"{state.plan['content_hash'][:16]}, the head promises {head.content_hash[:16]}"
        yield InvariantViolation(state.job, f"{named}, whose content hash is {promised}", back)
    found = content_hash(state.assignments, state.routes, state.scaling, state.weights)
    if found != head.content_hash:
        rows = f"{len(state.assignments)} assignments and {len(state.routes)} routes"
        yield InvariantViolation(
            state.job, f"{named}, whose {rows} hash to {found[:16]}, not {head.content_hash[:16]}",
            back,
        )  # fmt: skip


def _history_rises(state: JobState) -> Iterator[InvariantViolation]:
    """Each commit of the heads brings the next version, and the last is the head."""
    for before, after in zip(state.history, state.history[1:], strict=False):
        if after.version != before.version + 1:
            yield InvariantViolation(
                state.job,
                f"the history of plans.heads goes from version {before.version} to {after.version}",
                "find out who wrote plans.heads but `publish`; nothing has to be undone if the "
                "version in force is right",
            )
    last, head = (state.history[-1] if state.history else None), state.head
    if last and head and not _same(last, _publication(head)):
        yield InvariantViolation(
            state.job,
            f"the head is version {head.version}, plan {head.plan_id}, but the last commit of "
            f"plans.heads brought version {last.version}, plan {last.plan_id}",
            "find out who wrote plans.heads but `publish`",
        )


def _log_agrees(state: JobState) -> Iterator[InvariantViolation]:
    """One plan a version, the one that the history has, and none above the head."""
    known = {said.version: said for said in state.history}
    for version, plans in _plans_of(state.logged).items():
        other = known.get(version)
        if len(plans) > 1:
            yield InvariantViolation(
                state.job, f"plans.log has version {version} as plans {', '.join(sorted(plans))}",
                "believe plans.heads; its history says which of them was in force",
            )  # fmt: skip
        elif other is not None and other.plan_id not in plans:
            yield InvariantViolation(
                state.job,
                f"plans.log has version {version} as plan {min(plans)}, the history of plans.heads "
                f"as plan {other.plan_id}",
                "believe the history; find out who wrote plans.log but the pipeline",
            )
        if state.head is not None and version > state.head.version:
            yield InvariantViolation(
                state.job,
                f"plans.log has version {version}, but version {state.head.version} is in force",
                "restore plans.heads to the version that has it (RESTORE TABLE), or publish anew",
            )


def _log_complete(state: JobState) -> Iterator[InvariantViolation]:
    """Every version of the history is in the log; a publisher that died leaves a row to be added.

    The head counts as well: Delta forgets history that is older than its log retention.
    """
    logged = {said.version for said in state.logged}
    known = {said.version: said for said in state.history}
    if state.head is not None:
        known.setdefault(state.head.version, _publication(state.head))
    for said in known.values():
        if said.version not in logged:
            yield InvariantViolation(
                state.job, f"plans.log lacks version {said.version}, plan {said.plan_id}",
                "run `check_invariants` without --no-repair, which adds the row",
                repair=said,
            )  # fmt: skip


def _no_gaps(state: JobState) -> Iterator[InvariantViolation]:
    """From the first version that is known to the head, none is missing in both."""
    known = {said.version for said in (*state.logged, *state.history)}
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
    for said in logged:
        plans[said.version].add(said.plan_id)
    return plans


def _publication(head: Head) -> Publication:
    return Publication(head.version, head.plan_id, head.run_id, head.published_at)


def _same(one: Publication, other: Publication) -> bool:
    return (one.version, one.plan_id, one.run_id) == (other.version, other.plan_id, other.run_id)
