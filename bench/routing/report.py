"""Makes Markdown of outcomes: the tables by pairs kept, the gate's curve, 4.2, and the verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from bench.common.markdown import table
from bench.common.verdict import Verdict, judged
from bench.routing.methods import DECAYED, HASH, ONCE, OURS, PAPER, UNGATED
from bench.routing.season import ALL_PAIRS, SeasonOutcome, pairs_text
from bench.routing.streams import FLIGHTS
from bench.routing.synthetic import SyntheticCell
from bench.routing.verdicts import gate_curve, of_stream
from solvers.model.amortisation import RECORDS_PER_BYTE

ORDER = (HASH, ONCE, PAPER, DECAYED, UNGATED, OURS)


def streams_in(outcomes: Sequence[SeasonOutcome]) -> list[str]:
    return [name for name in FLIGHTS if any(row.stream == name for row in outcomes)]


def figures(outcomes: Sequence[SeasonOutcome], n_pairs: int) -> str:
    """A row for each method, a column for each stream."""
    streams = streams_in(outcomes)
    by_stream = [of_stream(outcomes, name, n_pairs) for name in streams]
    rows = [
        [method, *(_figures(found[method]) if method in found else "-" for found in by_stream)]
        for method in ORDER
    ]
    return table(["method", *streams], rows)


def _figures(row: SeasonOutcome) -> str:
    return f"{row.locality:.1f} / {row.moved:.1f} / {row.imbalance:.2f} / {row.worst_imbalance:.2f}"


def learned(outcomes: Sequence[SeasonOutcome]) -> str:
    """Life and trust that Ballast's method at the default price had learned by its last plan."""
    rows = []
    for name in streams_in(outcomes):
        course = of_stream(outcomes, name, ALL_PAIRS)[OURS].course
        if not course.decay:
            continue
        decays = sorted(set(course.decay), key=course.decay.count, reverse=True)
        shares = [f"{d:g} ({course.decay.count(d)})" for d in decays]
        texts = [f"{course.lifetime[-1]:.1f}", f"{course.trust[-1]:.2f}", f"{course.entries:,}"]
        rows.append([name, ", ".join(shares), *texts])
    heads = [
        "decay (plans)",
        "lifetime in weeks",
        "realised over predicted",
        "entries of the tables",
    ]
    return table(["stream", *heads], rows)


def curve(outcomes: Sequence[SeasonOutcome]) -> str:
    """The table of the gate: a row for each price, a column for each stream."""
    streams = streams_in(outcomes)
    curves = [gate_curve(outcomes, name) for name in streams]
    rows = []
    for points in zip(*curves, strict=True):
        price = points[0].price
        mark = " (default)" if price == RECORDS_PER_BYTE else ""
        texts = [f"{100 * p.gain_kept:.0f} / {100 * p.state_moved:.0f}" for p in points]
        rows.append([f"{price:g}{mark}", *texts])
    return table(["price", *streams], rows)


def synthetic(cells: Sequence[SyntheticCell]) -> str:
    rows = [
        [
            str(c.servers),
            f"{c.locality:g}",
            f"{100 / c.servers:.1f}",
            f"{c.hashed:.1f}",
            f"{c.printed:g}",
            f"{c.papers:.1f}",
            f"{c.ours:.1f}",
            f"{c.ours_imbalance:.2f}",
        ]
        for c in cells
    ]
    heads = [
        "servers",
        "equal, %",
        "hash, printed (1/n)",
        "hash",
        "tables of 4.2, printed",
        PAPER,
        OURS,
        "imbalance",
    ]
    return table(heads, rows)


def page(
    words: str,
    outcomes: Sequence[SeasonOutcome],
    cells: Sequence[SyntheticCell],
    found: Sequence[Verdict],
) -> str:
    """The whole report, below its title."""
    parts = [words]
    kept = sorted({row.n_pairs for row in outcomes}, reverse=True)
    for n_pairs in kept:
        parts += [f"## Flights, {pairs_text(n_pairs)} kept", LEGEND, figures(outcomes, n_pairs)]
    if ALL_PAIRS in kept:
        parts += [
            "## What ours learned",
            "By its last plan, all pairs kept.",
            learned(outcomes),
            "## The gate, by its price",
            CURVE_LEGEND,
            curve(outcomes),
        ]
    if cells:
        parts += ["## [MW16-LOCALITY, 4.2]", SYNTHETIC_LEGEND, synthetic(cells)]
    return "\n\n".join([*parts, "## Verdicts", judged(found)]) + "\n"


LEGEND = (
    "Locality in % / state moved a week in % / mean imbalance / worst week's imbalance. "
    "All but the hash begin with the same offline plan."
)
CURVE_LEGEND = (
    "Share of the gain over offline once that is kept / share of the state that is moved, both in "
    "% of ours without the gate (price 0). The price is in remote records per record of state; "
    f"its default, {RECORDS_PER_BYTE:g}, was fixed before these runs."
)
SYNTHETIC_LEGEND = (
    "Locality in %. As many keys a stage as servers; the tables are learned from 20,000 records "
    "and serve 20,000 others. Printed: tables keep local what is equal, and a hash keeps 1/n."
)
