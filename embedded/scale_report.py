"""The report of ``make demo-scale``: what it must show, and what it did not show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from embedded.report import boxed
from embedded.stack import JOB

NODES, SPARES = 3, 1
# A twentieth of the 120 key groups may move in one plan. These six are half of a node's share, so
# the plan after the one that adds the node fills the node further. Whichever node is drained later
# then has more key groups than one round may move, so that the drain takes several rounds. A node
# that was in use from the start, with at most 40 key groups, is drained in time as well.
BUDGET_MOVES = 6
MAX_DRAIN_ROUNDS = 7
MIN_DRAIN_ROUNDS = 2
TOLERANCE = 0.10
# A promise holds for the load that it was made for. If a busy machine feeds the job unevenly, the
# measured figures say nothing about the plan.
LOAD_TOLERANCE = 0.05


@dataclass
class ScaleRun:
    """What happened while the load rose and fell, for the report."""

    added: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    """The reason of each run's plan, or for making none."""
    promised: dict[str, tuple[float, float]] = field(default_factory=dict)
    """CPU cores promised and measured, by node."""
    flights_per_s: tuple[float, float] = (0.0, 0.0)
    """Flights a second: when the plan was made, and when it was measured."""
    drained: list[str] = field(default_factory=list)
    key_groups_left: list[int] = field(default_factory=list)
    """Key groups on the draining node: before its first round, and after each round."""
    drain_moves: list[int] = field(default_factory=list)
    """Moves of each round of the drain, including moves that balance the load."""
    removed: list[str] = field(default_factory=list)
    heartbeats: list[str] = field(default_factory=list)
    """Nodes that sent heartbeats when they were not in use."""
    sums_equal: bool = False
    sums_text: str = ""

    @property
    def drain_rounds(self) -> int:
        return len(self.drain_moves)

    @property
    def needed_rounds(self) -> int:
        """Rounds that the drain needs under the budget; 0 if nothing was drained."""
        return math.ceil(self.key_groups_left[0] / BUDGET_MOVES) if self.key_groups_left else 0


def shortcomings(run: ScaleRun) -> list[str]:
    """What the demonstration must show and did not show; empty is success."""
    off = {n: (p, m) for n, (p, m) in run.promised.items() if abs(m - p) > TOLERANCE * p}
    needed, rounds, left = run.needed_rounds, run.drain_rounds, run.key_groups_left
    within = 0 < max(run.drain_moves, default=0) <= BUDGET_MOVES
    checks: Sequence[tuple[bool, str]] = [
        (len(run.added) == 1, f"a plan adds one node (added {run.added})"),
        (len(run.promised) == NODES + SPARES, "every node's CPU was promised and measured"),
        (has_even_load(run), f"an even load: {load_text(run)}; try again on a less busy machine"),
        (not off, f"CPU of each node within {TOLERANCE:.0%} of the promised (off: {off})"),
        (len(run.drained) == 1, f"one node is drained (drained {run.drained})"),
        (within, f"rounds in budget (moves {run.drain_moves}, budget {BUDGET_MOVES})"),
        (
            needed >= MIN_DRAIN_ROUNDS,
            f"the budget makes a drain of several rounds necessary (key groups {left})",
        ),
        (
            max(needed, MIN_DRAIN_ROUNDS) <= rounds <= MAX_DRAIN_ROUNDS,
            f"as many rounds as needed, {needed} to {MAX_DRAIN_ROUNDS} (took {rounds})",
        ),
        (
            run.key_groups_left[-1:] == [0],
            f"the node is empty in the end (key groups {run.key_groups_left})",
        ),
        (
            bool(run.removed) and run.removed == run.drained,
            f"the drained node is removed (is {run.removed})",
        ),
        (not run.heartbeats, f"nodes out of use are silent (heartbeats: {run.heartbeats})"),
        (run.sums_equal, "the sums are those of the input"),
    ]
    return [requirement for is_met, requirement in checks if not is_met]


def has_even_load(run: ScaleRun) -> bool:
    """Whether the job took as many flights while it was measured as the plan was made for."""
    planned, measured = run.flights_per_s
    return planned > 0 and abs(measured - planned) <= LOAD_TOLERANCE * planned


def load_text(run: ScaleRun) -> str:
    """The load when the plan was made and when it was measured."""
    planned, measured = run.flights_per_s
    return f"planned for {planned:,.0f} flights/s, measured at {measured:,.0f}"


def report_lines(run: ScaleRun) -> list[str]:
    """The report, in a box."""
    rows = [
        ("added", ", ".join(run.added)),
        ("drained", f"{', '.join(run.drained)} over {run.drain_rounds} rounds"),
        ("rounds the budget needs", str(run.needed_rounds)),
        ("key groups on it", " -> ".join(str(n) for n in run.key_groups_left)),
        ("moves a round", f"{run.drain_moves}, budget {BUDGET_MOVES}"),
        ("removed", ", ".join(run.removed)),
        ("load", load_text(run)),
        *(
            (f"CPU of {node}", cpu_text(promised, measured))
            for node, (promised, measured) in run.promised.items()
        ),
        ("sums", run.sums_text.splitlines()[0] if run.sums_text else ""),
    ]
    return boxed(f"Scaling of {JOB}", rows)


def cpu_text(promised: float, measured: float) -> str:
    """Promised and measured CPU of a node."""
    off = 100 * (measured / promised - 1) if promised else 0.0
    return f"promised {promised:.4f}, measured {measured:.4f} cores ({off:+.1f} %)"
