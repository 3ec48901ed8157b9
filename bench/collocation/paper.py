"""Compares what [ICDE17, 5.3] prints about ALBIC and COLA with the same setting in the simulator.

The text prints one number: ALBIC has up to ten percent more collocation than COLA. The rest of the
text says which method is better. Figures 10 and 11 are curves, and no values are read off them. The
paper does not print the topology (here pairs of operators), COLA's bound on load (here that of all
methods), the number of rounds that ALBIC had (here until it makes no progress or reaches its
limit), and ``varies`` of 5.1 (here 0).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.collocation.methods import ALBIC, COLA, OURS
from bench.collocation.rounds import HELD, CollocationRun, History
from bench.collocation.settings import SIZES, name_of

FIGURE_10 = {
    0: name_of(40, "pairs-full"),
    25: name_of(40, "pairs-25"),
    50: name_of(40, "pairs-50"),
    75: name_of(40, "pairs-75"),
    100: name_of(40, "pairs"),
}
"""Percent of the key groups that send one to one, and the setting that has it. The paper calls this
percentage the maximum collocation. Here the other key groups send in pairs of operators as well, so
that more collocation is possible."""
FIGURE_11 = {nodes: name_of(nodes, "pairs-50") for nodes in SIZES}
PRINTED_AT_MOST = 10.0
LAST = HELD
"""Rounds at the end of a history whose mean is its figure; a single round varies too much."""
EQUAL = 0.5
"""Points within which two collocation factors or load distances count as equal."""


@dataclass(frozen=True, slots=True)
class End:
    """The figures at the end of a method: means over the last rounds, and the median over the
    seeds."""

    collocation: float
    load_distance: float

    def text(self) -> str:
        return f"{self.collocation:.1f} / {self.load_distance:.1f}"


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of the paper, the figure of the simulator, and whether they agree."""

    printed: str
    found: str
    agrees: bool

    def text(self) -> str:
        return f"| {self.printed} | {self.found} | {'yes' if self.agrees else 'no'} |"


def end_of(histories: Sequence[History]) -> End:
    lasts = [history[-LAST:] for history in histories]
    return End(
        statistics.median(statistics.mean(r.collocation for r in last) for last in lasts),
        statistics.median(statistics.mean(r.load_distance for r in last) for last in lasts),
    )


def ends(runs: Sequence[CollocationRun], names: Mapping[int, str]) -> dict[int, dict[str, End]]:
    """Return the ends by the axis of the figure and by method, of the settings that ran."""
    found: dict[int, dict[str, End]] = {}
    for at, name in names.items():
        mine = [run for run in runs if run.setting.name == name]
        if mine:
            methods = (ALBIC, COLA, OURS)
            found[at] = {m: end_of([run.histories[m] for run in mine]) for m in methods}
    return found


def claims(runs: Sequence[CollocationRun]) -> list[Claim]:
    figure_10, figure_11 = ends(runs, FIGURE_10), ends(runs, FIGURE_11)
    found = []
    if figure_10:
        found.append(_lower_distance("Figure 10: ALBIC has a smaller load distance", figure_10))
        found.append(_more_collocation(figure_10))
    if figure_11:
        found.append(_lower_distance("Figure 11: ALBIC's load distance is smaller", figure_11))
        found.append(_never_less("Figure 11: ALBIC's collocation is higher", figure_11))
    return found


def _lower_distance(printed: str, figure: Mapping[int, Mapping[str, End]]) -> Claim:
    wins = [at for at, by in figure.items() if by[ALBIC].load_distance < by[COLA].load_distance]
    return Claim(printed, f"at {len(wins)} of {len(figure)} points", len(wins) == len(figure))


def _differences(figure: Mapping[int, Mapping[str, End]]) -> list[float]:
    return [by[ALBIC].collocation - by[COLA].collocation for by in figure.values()]


def _more_collocation(figure: Mapping[int, Mapping[str, End]]) -> Claim:
    found = _differences(figure)
    return Claim(
        "Figure 10: ALBIC has up to ten percent more collocation than COLA",
        f"{min(found):+.1f} to {max(found):+.1f} points",
        min(found) > -EQUAL and EQUAL < max(found) <= PRINTED_AT_MOST + EQUAL,
    )


def _never_less(printed: str, figure: Mapping[int, Mapping[str, End]]) -> Claim:
    found = _differences(figure)
    return Claim(printed, f"{min(found):+.1f} to {max(found):+.1f} points", min(found) > EQUAL)


def section(runs: Sequence[CollocationRun]) -> str:
    """Return both figures as tables and the claims; empty if none of their settings ran."""
    parts = []
    for title, axis, names in (
        ("Figure 10, 40 nodes", "key groups that send one to one, %", FIGURE_10),
        ("Figure 11, 50 % of the key groups send one to one", "nodes", FIGURE_11),
    ):
        figure = ends(runs, names)
        if figure:
            lines = [
                f"{title}; collocation / load distance, both in %, mean of the last {LAST} rounds",
                "",
                f"| {axis} | printed | ALBIC | COLA | ours |",
                "|---|---|---|---|---|",
            ]
            lines += [
                f"| {at} | a curve | {by[ALBIC].text()} | {by[COLA].text()} | {by[OURS].text()} |"
                for at, by in figure.items()
            ]
            parts.append("\n".join(lines))
    found = claims(runs)
    if found:
        heads = ["| printed | simulator | agrees |", "|---|---|---|"]
        parts.append("\n".join([*heads, *(claim.text() for claim in found)]))
    return "\n\n".join(parts)
