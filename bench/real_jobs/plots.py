"""Collocation factor, load index, load distance and bytes over the rounds, a row for each job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.common.drawing import svg_pyplot
from bench.real_jobs.methods import ALBIC, COLA, METHODS, NO_PLAN, OURS, WORDS
from bench.real_jobs.report import corrected_index, title
from bench.real_jobs.rounds import JobRound, JobRun

COLOURS = {OURS: "#0b6e4f", ALBIC: "#1f77b4", COLA: "#d95f02", NO_PLAN: "#999999"}
Value = Callable[[JobRun, JobRound], float]
PANELS: tuple[tuple[str, Value], ...] = (
    ("collocation factor, %", lambda _, row: row.collocation),
    ("load index, %", corrected_index),
    ("load distance, %", lambda _, row: row.load_distance),
    ("MB between nodes", lambda _, row: row.between_bytes / 1e6),
)


def draw(runs: Sequence[JobRun], path: Path) -> None:
    """Draw one row of panels for each job into one SVG file."""
    plt = svg_pyplot()

    figure, axes = plt.subplots(
        len(runs), len(PANELS), figsize=(3.1 * len(PANELS), 2.4 * len(runs)), squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for run, row in zip(runs, axes, strict=True):
        for (label, value), axis in zip(PANELS, row, strict=True):
            _panel(axis, run, label, value)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _panel(axis: Any, run: JobRun, label: str, value: Value) -> None:
    for method in METHODS:
        rows = run.of(method)
        if rows:
            axis.plot(
                [row.number for row in rows],
                [value(run, row) for row in rows],
                label=WORDS[method],
                color=COLOURS[method],
                linewidth=2.0 if method == OURS else 1.2,
                marker="o",
                markersize=2.5,
            )
    axis.set_ylim(bottom=0)
    axis.set_title(title(run), fontsize=8)
    axis.set_xlabel("round")
    axis.set_ylabel(label)
