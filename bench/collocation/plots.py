"""Collocation, load distance and moves by round: a column per shape, three panels per size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.collocation.methods import ALBIC, ALBIC_M, COLA, METHODS, OURS, UNLEVELLED, WORDS
from bench.collocation.rounds import CollocationRound, CollocationRun
from bench.common.drawing import svg_pyplot

COLOURS = {
    OURS: "#0b6e4f", UNLEVELLED: "#8fc7a3", ALBIC_M: "#1f77b4", ALBIC: "#7570b3", COLA: "#d95f02",
}  # fmt: skip
DRAWN = ("pairs", "chains", "pairs-skewed", "chains-skewed")
FIGURES = ("collocation", "load_distance", "moves")
LABELS = {
    "collocation": "collocation, %",
    "load_distance": "load distance, %",
    "moves": "moves",
}


def figure_of(found: CollocationRound, name: str) -> float:
    return float(getattr(found, name))


def panels(runs: Sequence[CollocationRun]) -> list[list[CollocationRun | None]]:
    """Sizes by shapes: the first seed of each; shapes that were not run have no column."""
    first = {run.setting.name: run for run in reversed(runs)}
    sizes = sorted({run.setting.scenario.nodes for run in runs})
    shapes = [s for s in DRAWN if any(f"{n} nodes, {s}" in first for n in sizes)]
    rows = [[first.get(f"{nodes} nodes, {shape}") for shape in shapes] for nodes in sizes]
    return [row for row in rows if any(row)]


def draw(runs: Sequence[CollocationRun], path: Path) -> bool:
    """One SVG file; False where nothing of what is drawn was run."""
    rows = panels(runs)
    if not rows:
        return False
    plt = svg_pyplot(7)

    height, width = len(rows) * len(FIGURES), len(rows[0])
    figure, axes = plt.subplots(
        height, width, figsize=(3.2 * width, 1.6 * height), squeeze=False, layout="constrained"
    )
    for i, row in enumerate(rows):
        for j, run in enumerate(row):
            for place, name in enumerate(FIGURES):
                axis = axes[i * len(FIGURES) + place][j]
                if run is None:
                    axis.set_visible(False)
                else:
                    _panel(axis, run, name)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=max(1, len(labels)))
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return True


def _panel(axis: Any, run: CollocationRun, name: str) -> None:
    for method in METHODS:
        history = run.histories[method]
        axis.plot(
            range(1, len(history) + 1),
            [figure_of(found, name) for found in history],
            label=WORDS[method],
            color=COLOURS[method],
            linewidth=1.8 if method == OURS else 1.0,
            # COLA has too few rounds for a line.
            marker="o" if method == COLA else None,
            markersize=3,
        )
    if name == "collocation":
        axis.set_title(run.setting.name, fontsize=8)
        axis.axhline(run.wanted, color="#999999", linewidth=0.8, linestyle=":")
        axis.axvline(run.fewest, color="#999999", linewidth=0.8, linestyle="--")
    if name == "load_distance":
        axis.axhline(run.setting.bound, color="#999999", linewidth=0.8, linestyle=":")
    if name == "moves":
        axis.set_yscale("symlog", linthresh=1)
        axis.set_ylim(bottom=0)
        axis.set_xlabel("round")
    # ALBIC needs hundreds of rounds, COLA one.
    axis.set_xscale("log")
    axis.set_ylabel(LABELS[name])
