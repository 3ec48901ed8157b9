"""The settings that are run by default: sizes, shapes, shares and patterns."""

from __future__ import annotations

from collections.abc import Sequence

from bench.collocation.methods import (
    ALBIC,
    ALBIC_M,
    COLA,
    OURS,
    UNLEVELLED,
    CollocationSetting,
)
from bench.simulator.traffic import CHAINS, FULL, MERGE, ONE_TO_ONE, PAIRS, PARTIAL, Scenario

SIZES = (20, 40, 60)
MOVES = {20: 10, 40: 20, 60: 20}
"""Moves of a round by number of nodes. [ICDE17, 5.3] has 20 for 40 nodes; half the nodes get
half."""
SKEW = 0.5

SHAPES: dict[str, tuple[str, str, float, float]] = {
    # name: shape, pattern, share of the key groups that follow it, skew
    "pairs": (PAIRS, ONE_TO_ONE, 1.0, 0.0),
    "chains": (CHAINS, ONE_TO_ONE, 1.0, 0.0),
    "pairs-skewed": (PAIRS, ONE_TO_ONE, 1.0, SKEW),
    "chains-skewed": (CHAINS, ONE_TO_ONE, 1.0, SKEW),
    "pairs-75": (PAIRS, ONE_TO_ONE, 0.75, 0.0),
    "pairs-50": (PAIRS, ONE_TO_ONE, 0.5, 0.0),
    "pairs-25": (PAIRS, ONE_TO_ONE, 0.25, 0.0),
    "pairs-full": (PAIRS, FULL, 0.0, 0.0),
    "pairs-partial": (PAIRS, PARTIAL, 1.0, 0.0),
    "pairs-merge": (PAIRS, MERGE, 1.0, 0.0),
    "chains-merge": (CHAINS, MERGE, 1.0, 0.0),
}
EVERY_SIZE = ("pairs", "chains", "pairs-skewed", "chains-skewed", "pairs-50")
ONE_SIZE = {
    "pairs-75": 40, "pairs-25": 40, "pairs-full": 40,
    "pairs-partial": 20, "pairs-merge": 20, "chains-merge": 20,
}  # fmt: skip
"""Shapes that run at one size by default: Figure 10 has 40 nodes."""

ROUNDS = {OURS: 70, UNLEVELLED: 70, ALBIC_M: 120, ALBIC: 400, COLA: 3}
"""Most rounds; a method without progress ends earlier (rounds.PATIENCE)."""


def name_of(nodes: int, shape: str) -> str:
    return f"{nodes} nodes, {shape}"


def setting_of(nodes: int, shape: str) -> CollocationSetting:
    kind, pattern, share, skew = SHAPES[shape]
    scenario = Scenario(nodes, kind, pattern, share, skew)
    return CollocationSetting(name_of(nodes, shape), scenario, MOVES[nodes])


def settings_of(
    sizes: Sequence[int] | None, shapes: Sequence[str] | None
) -> list[CollocationSetting]:
    """Return the named settings at the named sizes; by default every shape at its sizes."""
    found: list[CollocationSetting] = []
    for shape in shapes or SHAPES:
        usual = SIZES if shape in EVERY_SIZE else (ONE_SIZE[shape],)
        wanted = [n for n in sizes or usual if n in usual or shapes]
        found += [setting_of(nodes, shape) for nodes in wanted]
    return found
