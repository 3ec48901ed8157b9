"""Makes the table of outcomes: medians over the seeds, a verdict per cell, Markdown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.rebalance.cells import Cell
from bench.rebalance.measure import OK, OURS, PeerOutcome

RELATIVE_TOLERANCE = 0.01
ABSOLUTE_TOLERANCE = 0.001
"""A peer is better than Ballast only by more than 1 % of its figure or 0.001 points, the larger."""
TIE = 1e-5
"""Percentage points within which the figures of two solvers count as equal."""
LATE_FACTOR = 1.25
LATE_GRACE_S = 0.1
"""Ballast may overrun its limit by this much (as Meta's rebalancer does) before its figure is
void."""
CELLS_AT_LEAST = 0.9
"""Share of the cells in which Ballast, at its short limit, must match every peer at the long
one."""


@dataclass(frozen=True)
class Figure:
    """The median of a peer's load distances in a cell; infinite if most runs gave no plan."""

    peer: str
    limit: float
    median: float
    seconds: float
    runs: int
    plans: int
    why_not: str = ""

    def text(self) -> str:
        if math.isinf(self.median):
            return f"{self.why_not} ({self.plans}/{self.runs})" if self.plans else self.why_not
        return f"{self.median:.5g}"


@dataclass(frozen=True)
class CellVerdict:
    """Whether no peer is better than Ballast in a cell, and which peer is better."""

    cell: str
    better_peers: tuple[str, ...]
    late_s: float = 0.0  # seconds of Ballast, if it overran its limit

    @property
    def holds(self) -> bool:
        return not self.better_peers and not self.late_s

    def text(self) -> str:
        words = ["better: " + ", ".join(self.better_peers)] if self.better_peers else []
        words += [f"ours took {self.late_s:.2f} s"] if self.late_s else []
        return "; ".join(words) or "ok"


def figures_of(outcomes: Iterable[PeerOutcome]) -> dict[tuple[str, float], Figure]:
    """The figures of a cell by peer and limit."""
    rows: dict[tuple[str, float], list[PeerOutcome]] = {}
    for outcome in outcomes:
        rows.setdefault((outcome.peer, outcome.limit), []).append(outcome)
    return {key: _figure(*key, group) for key, group in rows.items()}


def _figure(peer: str, limit: float, rows: Sequence[PeerOutcome]) -> Figure:
    without = [row.status for row in rows if row.status != OK]
    return Figure(
        peer=peer,
        limit=limit,
        # The larger of the two middle runs: if half of the runs have no plan, the median has none.
        median=statistics.median_high([row.figure for row in rows]),
        seconds=statistics.median(row.seconds for row in rows),
        runs=len(rows),
        plans=len(rows) - len(without),
        why_not=max(set(without), key=without.count) if without else "",
    )


def is_better(peer: float, ours: float) -> bool:
    """Whether the peer's figure is better than that of Ballast by more than the tolerance."""
    if math.isinf(peer):
        return False
    return ours > peer + max(RELATIVE_TOLERANCE * peer, ABSOLUTE_TOLERANCE)


def verdict(cell: str, figures: dict[tuple[str, float], Figure], limit: float) -> CellVerdict:
    """Compare at equal wall time, with the tolerance."""
    ours = figures[OURS, limit].median
    better = [
        peer
        for (peer, at), figure in figures.items()
        if peer != OURS and at == limit and is_better(figure.median, ours)
    ]
    return CellVerdict(cell, tuple(better), _late_s(figures[OURS, limit]))


def _late_s(ours: Figure) -> float:
    return ours.seconds if ours.seconds > LATE_FACTOR * ours.limit + LATE_GRACE_S else 0.0


def late_verdict(
    cell: str, figures: dict[tuple[str, float], Figure], limit: float, long_limit: float
) -> CellVerdict:
    """Compare Ballast at the short limit with every peer at the long one, without tolerance."""
    ours = figures[OURS, limit].median
    better = [
        peer
        for (peer, at), figure in figures.items()
        if peer != OURS and at in (limit, long_limit) and figure.median < ours - TIE
    ]
    return CellVerdict(cell, tuple(dict.fromkeys(better)))


def matched_often_enough(verdicts: Sequence[CellVerdict]) -> bool:
    held = sum(v.holds for v in verdicts)
    return held >= math.ceil(CELLS_AT_LEAST * len(verdicts))


def median_of(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def markdown(
    cells: Sequence[Cell],
    outcomes: Sequence[PeerOutcome],
    columns: Sequence[tuple[str, float]],
    verdicts: Sequence[Sequence[CellVerdict]],
    titles: Sequence[str],
) -> str:
    """The whole table; ``columns`` are (peer, limit), with one column of verdicts for each
    title."""
    heads = ["cell", "instance", "start", "bound"]
    heads += [f"{peer} {limit:g} s" for peer, limit in columns] + list(titles)
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    ours = next((column for column in columns if column[0] == OURS), None)
    for cell in cells:
        rows = [row for row in outcomes if row.cell == cell.name]
        if not rows:
            continue
        figures = figures_of(rows)
        # Once for each instance: the first one has further runs of Ballast, for the plots.
        before = {row.index: row.before for row in rows if not math.isnan(row.before)}
        bounds = {r.index: r.extra.get("bound") for r in rows if (r.peer, r.limit) == ours}
        texts = [cell.name, cell.words]
        texts += [_number(median_of(before.values())), _number(median_of(bounds.values()))]
        texts += [figures[key].text() if key in figures else "-" for key in columns]
        texts += [_verdict_text(column, cell.name) for column in verdicts]
        lines.append("| " + " | ".join(texts) + " |")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"


def _verdict_text(verdicts: Sequence[CellVerdict], cell: str) -> str:
    return next((v.text() for v in verdicts if v.cell == cell), "-")
