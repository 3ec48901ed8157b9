"""Load per node as bars of text: measured or planned, with a mark for the load before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ballast.cli.chart import nice_ticks, short_number
from ballast.cli.render import FAINT, measured_cell, styled, text_table
from ballast.cli.terminal import Terminal
from ballast.readmodel.placement import CAME_LATER, NodeUtilisation, ResourceLoads

if TYPE_CHECKING:
    from rich.console import RenderableType

EIGHTHS = " ▏▎▍▌▋▊▉"
WIDEST, NARROWEST_BAR = 40, 10
BESIDE_THE_BAR = 64
"""Columns of a terminal that the numbers need."""


@dataclass(frozen=True)
class BarScale:
    """How bars are drawn: the load at the right end, the width, and the characters."""

    end: float
    width: int
    has_unicode: bool

    def bar(self, load: float, mark: float | None) -> str:
        """A bar of a load from 0 on, with a mark at another load."""
        cells = self._unicode_cells(load) if self.has_unicode else self._ascii_cells(load)
        if mark is not None:
            at = min(self.width - 1, max(0, int(mark / self.end * self.width)))
            cells = cells.ljust(self.width)
            cells = cells[:at] + ("│" if self.has_unicode else "|") + cells[at + 1 :]
        return cells.rstrip()

    def axis(self) -> str:
        """The line above the bars: both ends of the scale."""
        return "0" + f"{short_number(self.end)} %".rjust(self.width - 1)

    def _unicode_cells(self, load: float) -> str:
        eighths = min(8 * self.width, max(0, round(8 * self.width * load / self.end)))
        return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()

    def _ascii_cells(self, load: float) -> str:
        return "#" * min(self.width, max(0, round(self.width * load / self.end)))


def bar_scale(nodes: Sequence[NodeUtilisation], terminal: Terminal) -> BarScale:
    """The scale that fits every load of the nodes, and the width of the terminal."""
    loads = [
        load
        for node in nodes
        for load in (node.before, node.promised, node.measured)
        if load is not None
    ]
    width = WIDEST
    if terminal.width is not None:
        width = min(WIDEST, max(NARROWEST_BAR, terminal.width - BESIDE_THE_BAR))
    return BarScale(nice_ticks(max(loads, default=0.0))[-1], width, terminal.has_unicode)


def load_table(loads: ResourceLoads, terminal: Terminal, most: int) -> RenderableType:
    """Load per node on one resource: a bar and the numbers.

    Args:
        loads: the loads.
        terminal: where they are printed.
        most: the largest number of nodes to show; the fullest ones are shown.
    """
    shown = _fullest(loads.nodes, most)
    scale = bar_scale(loads.nodes, terminal)
    headers = ["node", scale.axis(), "before", "promised", "measured"]
    rows = [_row(node, scale) for node in shown]
    if len(shown) < len(loads.nodes):
        rows.append([f"and {len(loads.nodes) - len(shown):,} more", *[""] * 4])
    return text_table(headers, rows)


def legend(resource: str, *, is_measured: bool, terminal: Terminal) -> str:
    """The line above the table of loads."""
    bar = "measured" if is_measured else "promised"
    mark = "│" if terminal.has_unicode else "|"
    return f"Load per node, {resource}, % of capacity (bar: {bar}, {mark}: before the plan)"


def _fullest(nodes: Sequence[NodeUtilisation], most: int) -> list[NodeUtilisation]:
    """The fullest nodes, in the order of the nodes; all of them where they are few."""
    if len(nodes) <= most:
        return list(nodes)
    by_load = sorted(nodes, key=lambda node: max(node.before or 0.0, _load(node)), reverse=True)
    names = {node.node_id for node in by_load[:most]}
    return [node for node in nodes if node.node_id in names]


def _load(node: NodeUtilisation) -> float:
    """The load that the bar shows: the measured one where there is one."""
    return (node.promised if node.measured is None else node.measured) or 0.0


def _row(node: NodeUtilisation, scale: BarScale) -> list[Any]:
    is_usual = node.state in ("alive", CAME_LATER)
    name = node.node_id if is_usual else f"{node.node_id} ({node.state})"
    before = None if node.before is None else f"{node.before:.1f} %"
    style = FAINT if node.measured is None else ""
    bar = styled(scale.bar(_load(node), node.before), style, is_picture=True)
    return [name, bar, before, node.promised_text, measured_cell(node.measured_text)]
