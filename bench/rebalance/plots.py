"""Quality over time: for each cell, the load distance of each peer after so many seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from bench.common.drawing import svg_pyplot
from bench.rebalance.cells import Cell
from bench.rebalance.measure import OK, OURS, PEERS, PeerOutcome
from bench.rebalance.peers.exchange import TracePoint

COLOURS = {
    OURS: "#0b6e4f",
    "flux": "#999999",
    "meta": "#1f77b4",
    "cp-sat": "#d95f02",
    "highs": "#7570b3",
    "cbc": "#e7298a",
}
FLOOR = 1e-5
"""Percent that is drawn for a perfect balance on a logarithmic axis."""


def curve(rows: Sequence[PeerOutcome]) -> list[TracePoint]:
    """The best so far over time, from the traces and the verified ends of a peer's runs.

    Traces are as the solver reports them; the ends are verified figures.
    """
    points: list[TracePoint] = []
    for row in rows:
        if row.status == OK:
            points += [*row.trace, (row.seconds, row.load_distance)]
    best = math.inf
    falling: list[TracePoint] = []
    for seconds, value in sorted(points):
        if value < best:
            best = value
            falling.append((max(seconds, 1e-3), max(value, FLOOR)))
    if falling:
        falling.append((max(seconds for seconds, _ in points), falling[-1][1]))
    return falling


def draw(cells: Sequence[Cell], outcomes: Sequence[PeerOutcome], path: Path) -> None:
    """One panel per cell, of its first instance, into one SVG file."""
    plt = svg_pyplot()

    shown = [cell for cell in cells if any(row.cell == cell.name for row in outcomes)]
    columns = min(5, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(3.1 * columns, 2.6 * rows), squeeze=False, layout="constrained"
    )
    for place, axis in enumerate(axes.flat):
        if place >= len(shown):
            axis.set_visible(False)
            continue
        _panel(axis, shown[place], outcomes)
    handles = {
        label: handle
        for axis in axes.flat
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles))
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _panel(axis: object, cell: Cell, outcomes: Sequence[PeerOutcome]) -> None:
    first = min(row.index for row in outcomes if row.cell == cell.name)
    for peer in PEERS:
        rows = [
            row
            for row in outcomes
            if (row.cell, row.index, row.peer) == (cell.name, first, peer.name)
        ]
        points = curve(rows)
        if points:
            axis.step(  # type: ignore[attr-defined]
                *zip(*points, strict=True),
                where="post",
                label=peer.name,
                color=COLOURS[peer.name],
                linewidth=2.0 if peer.name == OURS else 1.2,
                # A peer without a trace has its end alone, so a marker is needed.
                marker="o",
                markersize=3.5,
                markevery=[len(points) - 1],
            )
    axis.set_xscale("log")  # type: ignore[attr-defined]
    axis.set_yscale("log")  # type: ignore[attr-defined]
    axis.set_title(f"cell {cell.name}", fontsize=8)  # type: ignore[attr-defined]
    axis.set_xlabel("seconds")  # type: ignore[attr-defined]
    axis.set_ylabel("load distance, %")  # type: ignore[attr-defined]
