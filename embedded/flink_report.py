"""The table of ``make demo-flink``, and what the demonstration did not show. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from examples.visits.check import VisitCounts

TOLERANCE = 0.35
"""How far a measured capacity may be from the promised one, as a share of it.

A capacity is promised for the skew between subtasks that was measured, and another number of
subtasks divides the keys in another way.
"""


@dataclass(frozen=True)
class ShownVersion:
    """A version that the job took up, and what was measured under it."""

    version: int
    what: str
    """How it came about, for the table."""
    size: int
    """Subtasks of the counting operator."""
    before: float | None
    """Records per second that its busiest subtask allowed before."""
    promised: float | None
    measured: float | None
    pause_ms: float
    take_up: str
    """What the engine said of it."""


@dataclass(frozen=True)
class FlinkRun:
    """What the demonstration saw."""

    first_size: int
    backlog_before: int
    backlog_after: int
    versions: Sequence[ShownVersion]
    counts: VisitCounts


def report_lines(run: FlinkRun) -> list[str]:
    """The table, a line for each version."""
    head = ("version", "how", "subtasks", "before", "promised", "measured", "pause")
    rows = [head, *(_row(each) for each in run.versions)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    counts = run.counts
    return [
        f"subtasks of the counting operator before the first plan: {run.first_size}",
        "capacity in visits per second, at which the busiest subtask is full:",
        *("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
          for row in rows),
        *(f"version {each.version}: {each.take_up}" for each in run.versions),
        (
            f"backlog: {run.backlog_before:,} visits before the first plan, "
            f"{run.backlog_after:,} at the end"
        ),
        (
            f"counts: {counts.visits:,} visits, lost {counts.lost}, doubled {counts.doubled}; "
            f"{counts.repeated:,} were processed again after rescales, and counted once"
        ),
    ]  # fmt: skip


def shortcomings(run: FlinkRun) -> list[str]:
    """What the demonstration was to show and did not; empty if it showed everything."""
    return list(_shortcomings(run))


def _shortcomings(run: FlinkRun) -> Iterator[str]:
    if not run.counts.is_exact or run.counts.visits == 0:
        yield f"exact counts: lost {run.counts.lost}, doubled {run.counts.doubled}"
    if not run.versions or run.versions[0].size <= run.first_size:
        yield "a plan that gives the operator with the backlog more subtasks"
    if run.backlog_after >= run.backlog_before:
        yield f"a backlog that shrinks: {run.backlog_before} before, {run.backlog_after} after"
    if not any("rollback" in each.what for each in run.versions):
        yield "a rollback"
    for each in run.versions:
        if each.promised is None or each.measured is None:
            continue
        if abs(each.measured - each.promised) > TOLERANCE * each.promised:
            yield (
                f"version {each.version}: a capacity of {each.promised:.0f} was promised and "
                f"{each.measured:.0f} measured, more than {100 * TOLERANCE:.0f} % apart"
            )
    if run.versions and run.versions[0].measured is None:
        yield "a measured capacity of the first version"


def _row(each: ShownVersion) -> tuple[str, ...]:
    figures = (each.before, each.promised, each.measured)
    return (
        str(each.version), each.what, str(each.size),
        *("-" if value is None else f"{value:.0f}" for value in figures),
        f"{each.pause_ms:.0f} ms",
    )  # fmt: skip
