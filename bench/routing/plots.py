"""Locality week by week, and what the gate keeps at each price, a panel for each stream."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.common.drawing import svg_pyplot
from bench.routing.methods import DECAYED, HASH, ONCE, OURS, PAPER, UNGATED
from bench.routing.report import streams_in
from bench.routing.season import ALL_PAIRS, FIRST_WEEK, SeasonOutcome
from bench.routing.verdicts import gate_curve, of_stream
from solvers.model.amortisation import RECORDS_PER_BYTE

COLOURS = {
    HASH: "#999999",
    ONCE: "#7570b3",
    PAPER: "#d95f02",
    DECAYED: "#1f77b4",
    UNGATED: "#66c2a5",
    OURS: "#0b6e4f",
}


def draw(outcomes: Sequence[SeasonOutcome], path: Path) -> None:
    plt = svg_pyplot()

    streams = streams_in(outcomes)
    figure, axes = plt.subplots(
        2, len(streams), figsize=(4.2 * len(streams), 5.6), squeeze=False, layout="constrained"
    )
    for column, stream in enumerate(streams):
        _weeks(axes[0][column], stream, of_stream(outcomes, stream, ALL_PAIRS))
        _gate(axes[1][column], outcomes, stream)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _weeks(axis: Any, stream: str, rows: dict[str, SeasonOutcome]) -> None:
    for method, colour in COLOURS.items():
        if method in rows:
            values = rows[method].course.locality
            weeks = range(FIRST_WEEK + 1, FIRST_WEEK + 1 + len(values))
            width = 2.0 if method == OURS else 1.1
            axis.plot(weeks, values, label=method, color=colour, linewidth=width)
    axis.set_title(stream, fontsize=9)
    axis.set_xlabel("week of 2013")
    axis.set_ylabel("locality, %")
    axis.set_ylim(0, 100)


def _gate(axis: Any, outcomes: Sequence[SeasonOutcome], stream: str) -> None:
    points = gate_curve(outcomes, stream)
    moved = [100 * p.state_moved for p in points]
    kept = [100 * p.gain_kept for p in points]
    axis.plot(moved, kept, color=COLOURS[OURS], marker="o", markersize=3.5)
    for point, x, y in zip(points, moved, kept, strict=True):
        weight = "bold" if point.price == RECORDS_PER_BYTE else "normal"
        axis.annotate(
            f"{point.price:g}", (x, y), (4, -9), textcoords="offset points", fontweight=weight
        )
    axis.set_xlabel("state moved, % of that without the gate (by the points: the price)")
    axis.set_ylabel("gain over offline once kept, %")
    axis.set_ylim(min(0, *kept) - 5, max(100, *kept) + 8)
