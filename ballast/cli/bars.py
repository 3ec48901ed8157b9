"""Bars of the load per node as SVG, two clusters side by side: the picture of what-if."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from ballast.cli.chart import FONT, GRID, LINE, MUTED, TEXT, nice_ticks, short_number

if TYPE_CHECKING:
    from solvers.planner.what_if_figures import WhatIfNode

WIDTH, HEIGHT = 620, 340
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 64, 70
MOST_NODES = 60
BARS = (("now", MUTED), ("with the plan", LINE))
MARKED = {"dead": "#b0302c", "draining": "#b45309"}


@dataclass(frozen=True)
class ClusterLoads:
    """A cluster: its name, and each node's load now and with the plan, in percent."""

    title: str
    nodes: Sequence[WhatIfNode]


def load_picture(sides: Sequence[ClusterLoads]) -> str:
    """Return the SVG of the clusters side by side, all on the same scale."""
    loads = [load for side in sides for node in side.nodes for load in _loads(node)]
    ticks = nice_ticks(max(loads, default=0.0))
    body = "".join(
        f"<g transform='translate({i * WIDTH},0)'>{_side(side, ticks)}</g>"
        for i, side in enumerate(sides)
    )
    width = WIDTH * max(1, len(sides))
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{HEIGHT}' "
        f"viewBox='0 0 {width} {HEIGHT}'>"
        f"<rect width='{width}' height='{HEIGHT}' fill='white'/>{body}</svg>\n"
    )


def _side(side: ClusterLoads, ticks: Sequence[float]) -> str:
    shown = side.nodes[:MOST_NODES]
    more = len(side.nodes) - len(shown)
    title = side.title + (f" (the first {MOST_NODES} of {len(side.nodes)} nodes)" if more else "")
    heading = f"<text x='{LEFT}' y='20' {FONT} font-size='14' font-weight='bold' fill='{TEXT}'>"
    parts = [
        f"{heading}{escape(title)}</text>",
        *_legend(),
        *(_line(tick, ticks[-1]) for tick in ticks),
        *(_node(node, i, len(shown), ticks[-1]) for i, node in enumerate(shown)),
    ]
    return "".join(parts)


def _legend() -> list[str]:
    return [
        f"<rect x='{LEFT + 110 * i}' y='32' width='10' height='10' fill='{colour}'/>"
        + _text(LEFT + 15 + 110 * i, 41, name)
        for i, (name, colour) in enumerate(BARS)
    ]


def _line(tick: float, top: float) -> str:
    y = _y(tick, top)
    return (
        f"<path d='M{LEFT} {y}H{WIDTH - RIGHT}' stroke='{GRID}'/>"
        f"{_text(LEFT - 6, y + 4, f'{short_number(tick)} %', 'end')}"
    )


def _node(node: WhatIfNode, i: int, count: int, top: float) -> str:
    step = (WIDTH - LEFT - RIGHT) / count
    left, width = LEFT + i * step, 0.4 * step
    bars = [
        f"<rect x='{left + 0.1 * step + k * width:.2f}' y='{_y(load, top)}' "
        f"width='{width:.2f}' height='{round(HEIGHT - BOTTOM - _y(load, top), 2)}' "
        f"fill='{colour}'/>"
        for k, (load, (_, colour)) in enumerate(zip(_loads(node), BARS, strict=True))
    ]
    state = "" if node.state == "alive" else f" ({node.state})"
    at = (round(left + step / 2, 2), HEIGHT - BOTTOM + 12)
    name = (
        f"<text transform='translate({at[0]},{at[1]}) rotate(-40)' {FONT} font-size='10' "
        f"fill='{MARKED.get(node.state, TEXT)}' text-anchor='end'>"
        f"{escape(node.node_id + state)}</text>"
    )
    return "".join(bars) + (name if count <= 30 or i % 2 == 0 else "")


def _loads(node: WhatIfNode) -> tuple[float, float]:
    """Return the loads of a node in the order of ``BARS``."""
    return node.load_before_pct, node.load_pct


def _y(value: float, top: float) -> float:
    return round(HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM), 2)


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return (
        f"<text x='{x}' y='{y}' {FONT} font-size='11' fill='{TEXT}' text-anchor='{anchor}'>"
        f"{escape(text)}</text>"
    )
