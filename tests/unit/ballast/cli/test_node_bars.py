"""Load per node as bars of text."""

from __future__ import annotations

import pytest

from ballast.cli.node_bars import BarScale, bar_scale, load_table
from ballast.cli.terminal import Terminal, print_parts
from ballast.readmodel.placement import NodeUtilisation, ResourceLoads


@pytest.mark.parametrize(
    ("load", "mark", "unicode", "plain"),
    [
        (50.0, None, "█████", "#####"),
        (55.0, None, "█████▌", "######"),
        (0.0, None, "", ""),
        (200.0, None, "██████████", "##########"),
        (50.0, 90.0, "█████    │", "#####    |"),
        (50.0, 25.0, "██│██", "##|##"),
        (0.0, 300.0, "         │", "         |"),
    ],
)
def test_a_bar_ends_at_its_load_and_has_a_mark(
    load: float, mark: float | None, unicode: str, plain: str
) -> None:
    assert BarScale(100.0, 10, has_unicode=True).bar(load, mark) == unicode
    assert BarScale(100.0, 10, has_unicode=False).bar(load, mark) == plain


def nodes(count: int) -> list[NodeUtilisation]:
    return [NodeUtilisation(f"n{i:02}", "alive", float(i), float(i), None) for i in range(count)]


def test_the_scale_fits_every_load_and_the_terminal() -> None:
    scale = bar_scale([NodeUtilisation("a", "alive", 120.0, 10.0, None)], Terminal(70))
    assert (scale.end >= 120.0, scale.width) == (True, 10)
    assert bar_scale([], Terminal()).end == 1.0
    assert scale.axis() == "0   125 %"[:1] + f"{scale.end:g} %".rjust(9)


def test_of_many_nodes_the_fullest_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    loads = ResourceLoads("cpu", [*nodes(30), NodeUtilisation("gone", "dead", 99.0, 0.0, None)])
    print_parts(load_table(loads, Terminal(), 5))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["n26", "n27", "n28", "n29", "gone", "and"]
    assert "gone (dead)" in lines[6]
    assert "and 26 more" in lines[7]
