"""Line charts as SVG, without a plotting library: the pictures of ``ballast frontier``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 560, 360
LEFT, RIGHT, TOP, BOTTOM = 76, 20, 44, 56
LINE, GRID, TEXT, BOUND, MUTED = "#1f5fa8", "#dddddd", "#222222", "#b0302c", "#9a9a9a"
FONT = "font-family='sans-serif'"


@dataclass(frozen=True)
class Series:
    """The points of one line; points without a line where ``is_line`` is False."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str = LINE
    is_dashed: bool = False
    is_line: bool = True


@dataclass(frozen=True)
class Chart:
    """The lines of one chart, its title and the labels of its axes."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]


def to_svg(charts: Sequence[Chart]) -> str:
    """Return the SVG of the charts side by side."""
    body = "".join(
        f"<g transform='translate({i * WIDTH},0)'>{_draw(chart)}</g>"
        for i, chart in enumerate(charts)
    )
    width = WIDTH * max(1, len(charts))
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{HEIGHT}' "
        f"viewBox='0 0 {width} {HEIGHT}'>"
        f"<rect width='{width}' height='{HEIGHT}' fill='white'/>{body}</svg>\n"
    )


def nice_ticks(largest: float, count: int = 5) -> list[float]:
    """Return ticks from 0 to at least ``largest``; a step is 1, 2, 2.5 or 5 times a power of 10."""
    if not largest > 0:
        return [0.0, 1.0]
    raw = largest / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= raw * (1 - 1e-9))
    return [i * step for i in range(math.ceil(largest / step * (1 - 1e-9)) + 1)]


def short_number(value: float) -> str:
    """Return a number in the short form of an axis: 1.5k, 20M."""
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.4g}{name}"
    return f"{value:.4g}"


def _draw(chart: Chart) -> str:
    every = [point for series in chart.series for point in series.points]
    x_ticks = nice_ticks(max((x for x, _ in every), default=0.0))
    y_ticks = nice_ticks(max((y for _, y in every), default=0.0))
    place = _Scale(x_ticks[-1], y_ticks[-1])
    parts = [
        _title(chart.title),
        *_axes(chart, place, x_ticks, y_ticks),
        *(_line(series, place) for series in chart.series),
        *_legend(chart.series),
    ]
    return "".join(parts)


def _title(title: str) -> str:
    return (
        f"<text x='{LEFT}' y='20' {FONT} font-size='14' font-weight='bold' fill='{TEXT}'>"
        f"{escape(title)}</text>"
    )


@dataclass(frozen=True)
class _Scale:
    """Converts values to pixels; both axes start at 0."""

    x_end: float
    y_end: float

    def x(self, value: float) -> float:
        return round(LEFT + value / self.x_end * (WIDTH - LEFT - RIGHT), 2)

    def y(self, value: float) -> float:
        return round(HEIGHT - BOTTOM - value / self.y_end * (HEIGHT - TOP - BOTTOM), 2)


def _axes(
    chart: Chart, place: _Scale, x_ticks: Sequence[float], y_ticks: Sequence[float]
) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for tick in y_ticks:
        y = place.y(tick)
        parts.append(f"<path d='M{LEFT} {y}H{right}' stroke='{GRID}'/>")
        parts.append(_text(LEFT - 8, y + 4, short_number(tick), "end"))
    for tick in x_ticks:
        x = place.x(tick)
        parts.append(f"<path d='M{x} {bottom}V{bottom + 5}' stroke='{TEXT}'/>")
        parts.append(_text(x, bottom + 20, short_number(tick), "middle"))
    parts.append(f"<path d='M{LEFT} {TOP}V{bottom}H{right}' fill='none' stroke='{TEXT}'/>")
    parts.append(_text((LEFT + right) / 2, HEIGHT - 12, chart.x_label, "middle"))
    middle = (TOP + bottom) / 2
    parts.append(
        f"<text transform='translate(18,{middle}) rotate(-90)' {FONT} font-size='12' "
        f"fill='{TEXT}' text-anchor='middle'>{escape(chart.y_label)}</text>"
    )
    return parts


def _line(series: Series, place: _Scale) -> str:
    pixels = [(place.x(x), place.y(y)) for x, y in series.points]
    dots = "".join(f"<circle cx='{x}' cy='{y}' r='3' fill='{series.colour}'/>" for x, y in pixels)
    if not series.is_line or len(pixels) < 2:
        return dots
    path = " ".join(f"{x},{y}" for x, y in pixels)
    dash = " stroke-dasharray='5 4'" if series.is_dashed else ""
    return (
        f"<polyline points='{path}' fill='none' stroke='{series.colour}' "
        f"stroke-width='1.6'{dash}/>{dots}"
    )


def _legend(series: Sequence[Series]) -> list[str]:
    parts = []
    for i, one in enumerate(series):
        y = TOP + 8 + 16 * i
        parts.append(f"<circle cx='{WIDTH - RIGHT - 12}' cy='{y}' r='4' fill='{one.colour}'/>")
        parts.append(_text(WIDTH - RIGHT - 22, y + 4, one.name, "end"))
    return parts


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f"<text x='{x}' y='{y}' {FONT} font-size='12' fill='{TEXT}' text-anchor='{anchor}'>"
        f"{escape(text)}</text>"
    )
