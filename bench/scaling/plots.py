"""Load distance by round, throughput under the ramp, and imbalance against state moved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.common.drawing import svg_pyplot
from bench.scaling import dodo, placing
from bench.scaling.dodo import Trial
from bench.scaling.draining import OVERLOADED, Drain
from bench.scaling.streams import INSTANCES, StreamOutcome
from bench.simulator.substreams import LAWS

GREEN, ORANGE, BLUE, VIOLET, GREY = "#0b6e4f", "#d95f02", "#1f77b4", "#7570b3", "#999999"
COURSES = {
    dodo.NO_OPT + dodo.EVEN: GREY,
    dodo.PAPER + dodo.EVEN: ORANGE,
    dodo.WITHOUT + dodo.EVEN: VIOLET,
    dodo.SCALED + dodo.EVEN: BLUE,
    dodo.OURS: GREEN,
    dodo.OURS_SCALED: GREEN,
}
METHODS = {
    placing.OURS: GREEN,
    placing.ELB: ORANGE,
    placing.CLB: BLUE,
    placing.PKG: VIOLET,
    placing.UHLB: GREY,
}


def draw(
    drains: Sequence[Drain], trials: Sequence[Trial], outcomes: Sequence[StreamOutcome], path: Path
) -> None:
    """One SVG file with a row for each of the three seeds."""
    plt = svg_pyplot()
    figure, axes = plt.subplots(3, 3, figsize=(12, 9), layout="constrained")
    for axis in axes.ravel():
        axis.set_visible(False)
    for axis, overloaded in zip(axes[0], OVERLOADED, strict=False):
        mine = [d for d in drains if d.overloaded == overloaded]
        if mine:
            _drain(axis, mine[0])
    printed = [t for t in trials if t.ratio == dodo.AS_PRINTED]
    for axis, trial in zip(axes[1], printed, strict=False):
        _trial(axis, trial)
    for axis, law in zip(axes[2], LAWS, strict=False):
        _placed(axis, [o for o in outcomes if (o.law, o.instances) == (law, INSTANCES)], law)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _drain(axis: Any, drain: Drain) -> None:
    axis.set_visible(True)
    for rounds, name, colour in (
        (drain.integrated, "integrated", GREEN),
        (drain.apart, "apart", ORANGE),
    ):
        numbers = range(1, len(rounds.distances) + 1)
        axis.plot(numbers, rounds.distances, label=name, color=colour)
        if rounds.drained_after:
            axis.axvline(rounds.drained_after, color=colour, linewidth=0.8, linestyle=":")
    axis.set_title(f"Figure 5, {drain.overloaded}OL (dotted: drained)", fontsize=9)
    axis.set_xlabel("round")
    axis.set_ylabel("load distance, points")
    axis.legend()


def _trial(axis: Any, trial: Trial) -> None:
    axis.set_visible(True)
    for method, colour in COURSES.items():
        if method in trial.courses:
            course = trial.courses[method]
            minutes = [at / 60 for at in course.at_s]
            style = "--" if method == dodo.OURS_SCALED else "-"
            axis.plot(minutes, course.passed, label=method, color=colour, linestyle=style)
    axis.axhline(trial.bound, color=GREY, linewidth=0.8, linestyle=":")
    axis.set_title(f"{trial.case} (dotted: fluid bound)", fontsize=9)
    axis.set_xlabel("minute")
    axis.set_ylabel("tweets/s")
    axis.legend(fontsize=7)


def _placed(axis: Any, outcomes: Sequence[StreamOutcome], law: str) -> None:
    if not outcomes:
        return
    axis.set_visible(True)
    for method, colour in METHODS.items():
        mine = [o.figures() for o in outcomes if o.method == method]
        axis.scatter(
            [100 * f["state moved"] for f in mine],
            [f["variance"] for f in mine],
            label=method,
            color=colour,
        )
    axis.set_yscale("log")
    axis.set_title(f"{law}: a point a seed", fontsize=9)
    axis.set_xlabel("state moved, % of all")
    axis.set_ylabel("variance of the loads")
    axis.legend()
