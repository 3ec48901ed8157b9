"""Intervals with an expected and a measured value as lines of text, all on one scale."""

from __future__ import annotations

from collections.abc import Sequence

from ballast.cli.chart import nice_ticks, short_number
from ballast.cli.terminal import Terminal
from ballast.contracts.tables import INSIDE
from ballast.readmodel.promises import PromisedFigure

WIDTH, NARROWEST = 44, 12
BESIDE_THE_CHART = 50
"""Columns of a terminal that the numbers need."""
LOW, HIGH, BETWEEN, EXPECTED = "[", "]", "-", "|"
MEASURED_INSIDE, MEASURED_OUTSIDE, MEASURED_ONLY, BEYOND = "o", "x", "*", ">"
LEGEND = (
    f"{LOW}{BETWEEN}{EXPECTED}{BETWEEN}{HIGH} 90 % interval with the expected value   "
    f"{MEASURED_INSIDE} measured inside   {MEASURED_OUTSIDE} outside   "
    f"{MEASURED_ONLY} without an interval   {BEYOND} beyond the scale"
)
OUTLIER = 2.0
"""A value beyond this many times the largest end of an interval does not stretch the scale."""


def scale_end(figures: Sequence[PromisedFigure]) -> float:
    """Return the largest value of the scale; it starts at 0."""
    ends = [figure.high for figure in figures if figure.high]
    others = [value for figure in figures for value in (figure.expected, figure.measured) if value]
    largest = max([*ends, *others], default=0.0)
    return nice_ticks(min(largest, OUTLIER * max(ends)) if ends else largest)[-1]


def chart_width(terminal: Terminal) -> int:
    """Return how many columns a line of the chart has."""
    if terminal.width is None:
        return WIDTH
    return min(WIDTH, max(NARROWEST, terminal.width - BESIDE_THE_CHART))


def axis_line(end: float, unit: str, width: int = WIDTH) -> str:
    """Return the line above the intervals: both ends of the scale."""
    right = f"{short_number(end)} {unit}"
    return f"0{right.rjust(width - 1)}"


def interval_line(figure: PromisedFigure, end: float, width: int = WIDTH) -> str:
    """Return one interval with its expected and its measured value; the latter hides the others.

    Args:
        figure: the figure.
        end: the value at the right end of the line.
        width: the length of the line.
    """
    cells = [" "] * width
    if figure.low is not None and figure.high is not None:
        left, right = _cell(figure.low, end, width), _cell(figure.high, end, width)
        cells[left : right + 1] = BETWEEN * (right + 1 - left)
        cells[left], cells[right] = LOW, HIGH
    if figure.expected is not None:
        cells[_cell(figure.expected, end, width)] = EXPECTED
    if figure.measured is not None:
        is_beyond = figure.measured > end
        cells[_cell(figure.measured, end, width)] = BEYOND if is_beyond else _mark(figure.side)
    return "".join(cells).rstrip()


def _mark(side: str | None) -> str:
    if side is None:
        return MEASURED_ONLY
    return MEASURED_INSIDE if side == INSIDE else MEASURED_OUTSIDE


def _cell(value: float, end: float, width: int) -> int:
    return min(width - 1, max(0, round(value / end * (width - 1))))
