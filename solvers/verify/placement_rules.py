"""Checks the rules of a placement: node states, pins, allowed nodes, caps and the budget."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from solvers.verify.plan_figures import PlanFigures, is_on_allowed_node
from solvers.verify.tolerance import is_close
from solvers.verify.violation import MAX_NAMED, Violation, first_names

if TYPE_CHECKING:
    from solvers.model.budget import Budget
    from solvers.model.problem import Problem


def check_node_states(problem: Problem, figures: PlanFigures) -> Iterator[Violation]:
    """No key group stays on a dead node, and none moves to a draining or a dead node."""
    state = np.array(problem.node_state)[figures.plan]
    stayed = ~figures.moved & (state == "dead")
    if stayed.any():
        yield Violation("nodes.alive", f"left on a dead node: {_key_group_names(problem, stayed)}")
    for state_name in ("dead", "draining"):
        arrived = figures.moved & (state == state_name)
        if arrived.any():
            yield Violation(
                f"nodes.{state_name}",
                f"moved onto a {state_name} node: {_key_group_names(problem, arrived)}",
            )


def check_pins_and_allowed_nodes(problem: Problem, figures: PlanFigures) -> Iterator[Violation]:
    """Pinned key groups stay, and restricted key groups are on nodes of their lists."""
    if problem.pinned is not None:
        broken = figures.moved & problem.pinned
        if broken.any():
            yield Violation("pinned", f"moved although pinned: {_key_group_names(problem, broken)}")
    outside = ~is_on_allowed_node(problem, figures.plan)
    if outside.any():
        named = _key_group_names(problem, outside)
        yield Violation("allowed_nodes", f"on a node that is not allowed: {named}")


def check_caps(problem: Problem, figures: PlanFigures) -> Iterator[Violation]:
    """The load of a capped resource is within the capacity, or no higher than before."""
    limits = figures.cap_limits
    for i, r in np.argwhere(figures.sums > limits)[:MAX_NAMED].tolist():
        yield Violation(
            "caps",
            f"{problem.node_ids[i]!r} carries {figures.sums[i, r]:.9g} of the capped resource "
            f"{problem.resources[r]!r}, allowed {limits[i, r]:.9g}",
        )


def check_budget(budget: Budget, figures: PlanFigures) -> Iterator[Violation]:
    """The moves that are not forced keep the limits of the budget."""
    moves, n_bytes = int(figures.number("moves")), int(figures.values["bytes"] or 0)
    if budget.moves is not None and moves > budget.moves:
        yield Violation("budget.moves", f"{moves} moves, allowed {budget.moves}")
    if budget.bytes is not None and n_bytes > budget.bytes:
        yield Violation("budget.bytes", f"{n_bytes} bytes, allowed {budget.bytes}")
    pause_s = figures.chosen_pause_s
    if (
        budget.pause_s is not None
        and pause_s > budget.pause_s
        and not is_close(pause_s, budget.pause_s)
    ):
        yield Violation("budget.pause_s", f"{pause_s:g} s of pause, allowed {budget.pause_s:g}")


def _key_group_names(problem: Problem, which: npt.NDArray[np.bool_]) -> str:
    return first_names(problem.key_group_ids, np.flatnonzero(which))
