"""Records a second over time by setting; weights of 64 workers, and the paper's clusters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.common.drawing import svg_pyplot
from bench.weights.methods import (
    METHODS,
    ORACLE,
    OURS,
    PAPER,
    PLANS,
    REROUTING,
    ROUND_ROBIN,
    STATIC,
)
from bench.weights.run import RegionRun
from bench.weights.settings import RegionSetting

COLOURS = {
    ROUND_ROBIN: "#999999",
    REROUTING: "#7570b3",
    STATIC: "#1f77b4",
    ORACLE: "#222222",
    PAPER: "#d95f02",
    OURS: "#0b6e4f",
    PLANS: "#66c2a5",
}
COLUMNS = 3


def draw(
    chosen: Sequence[RegionSetting], runs: Sequence[RegionRun], folder: Path
) -> dict[str, str]:
    """SVG files by name, with what they show."""
    found = {"bench-weights.svg": "Records a second over time; dashed: the capacity"}
    _save(_rates(chosen, runs), folder / "bench-weights.svg")
    many = [s for s in chosen if s.workers >= 64 and not s.is_lifted]
    if many:
        _save(_heat(many[0], runs), folder / "bench-weights-clusters.svg")
        found["bench-weights-clusters.svg"] = (
            f"{many[0].name}: weights by worker and second of the paper's loop and of ours, and "
            "the clusters of the paper's loop (a colour a cluster; time runs downward)"
        )
    return found


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})
    svg_pyplot().close(figure)


def _rates(chosen: Sequence[RegionSetting], runs: Sequence[RegionRun]) -> Any:
    lines = -(-len(chosen) // COLUMNS)
    figure, axes = svg_pyplot().subplots(
        lines, COLUMNS, figsize=(11, 2.1 * lines), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(chosen) :]:
        axis.set_visible(False)
    for axis, setting in zip(axes.flat, chosen, strict=False):
        for found in (r for r in runs if r.setting == setting.name):
            rates = found.done_a_second()
            width = 1.8 if found.method == OURS else 1.0
            axis.plot(rates, label=found.method, color=COLOURS[found.method], linewidth=width)
        axis.axhline(float(setting.final_capacities.sum()), color="#bbbbbb", linestyle="--")
        axis.set_title(setting.name, fontsize=9)
        axis.set_xlabel("seconds")
        axis.set_ylabel("records a second")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(METHODS))
    return figure


def _heat(setting: RegionSetting, runs: Sequence[RegionRun]) -> Any:
    figure, axes = svg_pyplot().subplots(1, 3, figsize=(11, 4.2), layout="constrained")
    for axis, method in zip(axes, (PAPER, OURS), strict=False):
        image = axis.imshow(
            np.array([r.weights for r in _rounds(setting, runs, method)]),
            aspect="auto",
            interpolation="nearest",
            cmap="viridis",
            vmax=40,
        )
        axis.set_title(f"weights, {method}", fontsize=9)
    figure.colorbar(image, ax=axes[1], label="units")
    clusters = [r.clusters for r in _rounds(setting, runs, PAPER) if r.clusters]
    axes[2].imshow(np.array(clusters), aspect="auto", interpolation="nearest", cmap="prism")
    axes[2].set_title(f"clusters, {PAPER}", fontsize=9)
    for axis in axes:
        axis.set_xlabel("worker: 20 at 100x, 20 at 5x, 24 at 1x")
        axis.set_ylabel("round")
    return figure


def _rounds(setting: RegionSetting, runs: Sequence[RegionRun], method: str) -> list[Any]:
    return [
        r
        for found in runs
        if (found.setting, found.method) == (setting.name, method)
        for r in found.rounds
    ]
