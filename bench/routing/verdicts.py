"""The requirements on the flights, each a claim with its figure and its limit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.common.verdict import Verdict
from bench.routing.methods import DECAYED, ONCE, OURS, PAPER, UNGATED
from bench.routing.season import ALL_PAIRS, SeasonOutcome
from bench.routing.streams import FLIGHTS
from bench.routing.synthetic import SyntheticCell
from solvers.model.amortisation import RECORDS_PER_BYTE

LEAST_LEAD = 2.0
"""Points of locality above the paper's method with decayed statistics."""
STREAMS_AHEAD = 2
MOST_MOVED = 5.0
"""Percent of the state a week, on the first two streams."""
MOST_OF_THE_PAPERS = 0.25
"""Share of the state that the paper's method moves, on the third stream, which is local already."""
WORST_IMBALANCE = 1.3
FIRST_TWO, THIRD = tuple(FLIGHTS)[:2], tuple(FLIGHTS)[2]


def of_stream(
    outcomes: Iterable[SeasonOutcome], stream: str, n_pairs: int
) -> dict[str, SeasonOutcome]:
    """Return outcomes by method; Ballast's at the default price and without the gate."""
    return {
        row.method: row
        for row in outcomes
        if (row.stream, row.n_pairs) == (stream, n_pairs)
        and (row.method != OURS or row.price == RECORDS_PER_BYTE)
    }


def verdicts(outcomes: Sequence[SeasonOutcome], cells: Sequence[SyntheticCell]) -> list[Verdict]:
    """Return the verdicts with all pairs counted; with fewer there are figures only."""
    streams = [s for s in FLIGHTS if any(row.stream == s for row in outcomes)]
    by_stream = {s: of_stream(outcomes, s, ALL_PAIRS) for s in streams}
    found = [v for s, rows in by_stream.items() if OURS in rows for v in _of_one(s, rows)]
    if len(streams) == len(FLIGHTS) and all(OURS in rows for rows in by_stream.values()):
        leads = sorted((lead(rows) for rows in by_stream.values()), reverse=True)
        found.append(
            Verdict(
                f"ours, points above {DECAYED} on the {STREAMS_AHEAD} best of the streams",
                leads[STREAMS_AHEAD - 1],
                LEAST_LEAD,
                at_least=True,
            )
        )
    return found + [_of_cell(c) for c in cells]


def lead(rows: dict[str, SeasonOutcome]) -> float:
    return rows[OURS].locality - rows[DECAYED].locality


def _of_one(stream: str, rows: dict[str, SeasonOutcome]) -> list[Verdict]:
    ours, paper = rows[OURS], rows[PAPER]
    most = MOST_MOVED if stream in FIRST_TWO else MOST_OF_THE_PAPERS * paper.moved
    return [
        Verdict(f"{stream}: locality of ours", ours.locality, paper.locality, at_least=True),
        Verdict(f"{stream}: state ours moves a week, %", ours.moved, most, at_least=False),
        Verdict(
            f"{stream}: worst week's imbalance of ours",
            ours.worst_imbalance,
            WORST_IMBALANCE,
            at_least=False,
        ),
    ]


def _of_cell(cell: SyntheticCell) -> Verdict:
    claim = f"4.2, {cell.servers} servers, {cell.locality:g} % equal: locality of ours"
    return Verdict(claim, cell.ours, cell.least, at_least=True)


@dataclass(frozen=True)
class GateShare:
    """The shares of gain and moved state that the gate lets through at one price."""

    price: float
    locality: float
    gain_kept: float
    state_moved: float


def gate_curve(outcomes: Sequence[SeasonOutcome], stream: str) -> list[GateShare]:
    """Return the shares of the gain and of the moved state without the gate, by price."""
    rows = [o for o in outcomes if (o.stream, o.n_pairs) == (stream, ALL_PAIRS)]
    once = next(row for row in rows if row.method == ONCE)
    free = next(row for row in rows if row.method == UNGATED)
    ours = sorted((r for r in rows if r.method in (OURS, UNGATED)), key=lambda r: r.price)
    return [
        GateShare(
            row.price,
            row.locality,
            _share(row.locality - once.locality, free.locality - once.locality),
            _share(row.moved, free.moved),
        )
        for row in ours
    ]


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
