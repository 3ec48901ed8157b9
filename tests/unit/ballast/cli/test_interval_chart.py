"""Lines of text with intervals, expected and measured values."""

from __future__ import annotations

import pytest

from ballast.cli.interval_chart import WIDTH, axis_line, interval_line, scale_end
from ballast.readmodel.promises import PromisedFigure


def figure(
    low: float | None, expected: float, high: float | None, measured: float | None, side: str | None
) -> PromisedFigure:
    return PromisedFigure(
        figure="load_distance_pct", unit="% of mean", low=low, expected=expected, high=high,
        measured=measured, side=side,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("measured", "side", "mark"),
    [(3.0, "inside", "o"), (6.0, "above", "x"), (0.5, "below", "x"), (3.0, None, "*")],
)
def test_a_measured_value_has_a_mark_for_its_side(
    measured: float, side: str | None, mark: str
) -> None:
    line = interval_line(figure(1.0, 2.0, 4.0, measured, side), 10.0)
    assert line[round(measured / 10 * (WIDTH - 1))] == mark
    assert (line.index("["), line.index("|"), line.index("]")) == (4, 9, 17)


def test_a_value_beyond_the_scale_is_at_its_end() -> None:
    figures = [figure(1.0, 2.0, 4.0, 60.0, "above"), figure(1.0, 2.0, 3.0, None, None)]
    end = scale_end(figures)
    assert end == 8.0
    line = interval_line(figures[0], end)
    assert (len(line), line[-1]) == (WIDTH, ">")


def test_without_intervals_the_scale_has_every_value() -> None:
    assert scale_end([figure(None, 0.0, None, 6.6, None)]) >= 6.6
    assert interval_line(figure(None, 0.0, None, None, None), 8.0) == "|"
    assert scale_end([figure(None, 0.0, None, None, None)]) == 1.0


def test_the_axis_is_as_wide_as_the_lines() -> None:
    line = axis_line(8.0, "%")
    assert len(line) == WIDTH
    assert line.endswith("8 %")
