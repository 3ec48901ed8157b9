"""Figures of several methods as bars in one SVG: the picture of ``ballast compare``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from ballast.cli.chart import BOUND, FONT, GRID, LINE, TEXT, short_number

ROW, TOP, LEFT = 24, 64, 270
PANEL, GAP, LABEL = 110, 16, 58
FONT_SIZE = 11


@dataclass(frozen=True)
class MethodFigures:
    """What the plan of one method comes to; None where there is no traffic or no bound."""

    name: str
    paper: str
    load_distance_pct: float
    bound_pct: float | None
    traffic_within_nodes_pct: float | None
    moves: int
    bytes: int
    seconds: float


Panel = tuple[str, Sequence[float | None]]


def compare_picture(title: str, methods: Sequence[MethodFigures]) -> str:
    """Return the SVG: a row for each method and a panel for each figure, each on its own scale.

    The proven bound of the load distance is a mark on its bar. Figures that no method has are left
    out.
    """
    panels = [panel for panel in _panels(methods) if any(v is not None for v in panel[1])]
    width = LEFT + len(panels) * (PANEL + LABEL + GAP)
    height = TOP + ROW * len(methods) + 16
    body = "".join(
        [
            _text(12, 22, title, size=13, weight="bold"),
            *(_name(row, each) for row, each in enumerate(methods)),
            *(_panel(column, panel, methods) for column, panel in enumerate(panels)),
        ]
    )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' "
        f"viewBox='0 0 {width} {height}'>"
        f"<rect width='{width}' height='{height}' fill='white'/>{body}</svg>\n"
    )


def _panels(methods: Sequence[MethodFigures]) -> Iterator[Panel]:
    yield "load distance, %", [each.load_distance_pct for each in methods]
    yield "traffic within nodes, %", [each.traffic_within_nodes_pct for each in methods]
    yield "moves", [each.moves for each in methods]
    yield "bytes", [each.bytes for each in methods]
    yield "seconds", [each.seconds for each in methods]


def _name(row: int, method: MethodFigures) -> str:
    y = TOP + ROW * row + 11
    paper = f" [{method.paper.split(',')[0]}]" if method.paper else ""
    return _text(LEFT - 8, y, method.name + paper, anchor="end")


def _panel(column: int, panel: Panel, methods: Sequence[MethodFigures]) -> str:
    name, values = panel
    x = LEFT + column * (PANEL + LABEL + GAP)
    largest = max((v for v in values if v is not None), default=0.0) or 1.0
    parts = [
        _text(x, TOP - 12, name, weight="bold"),
        f"<path d='M{x} {TOP - 4}V{TOP + ROW * len(methods)}' stroke='{GRID}'/>",
    ]
    for row, value in enumerate(values):
        if value is None:
            continue
        y, length = TOP + ROW * row, round(PANEL * value / largest, 2)
        parts.append(f"<rect x='{x}' y='{y}' width='{length}' height='14' fill='{LINE}'/>")
        parts.append(_text(x + length + 5, y + 11, short_number(value)))
        bound = methods[row].bound_pct if column == 0 else None
        if bound is not None:
            at = round(x + PANEL * min(bound, largest) / largest, 2)
            parts.append(f"<path d='M{at} {y - 2}V{y + 16}' stroke='{BOUND}' stroke-width='2'/>")
    return "".join(parts)


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = FONT_SIZE,
    weight: str = "normal",
) -> str:  # fmt: skip
    return (
        f"<text x='{x}' y='{y}' {FONT} font-size='{size}' font-weight='{weight}' fill='{TEXT}' "
        f"text-anchor='{anchor}'>{escape(text)}</text>"
    )
