"""Checks a plan that is made to level a single operator of a job whose whole load is level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from solvers.verify.plan_figures import PlanFigures
from solvers.verify.tolerance import is_close, is_number
from solvers.verify.violation import Violation

if TYPE_CHECKING:
    from solvers.model.problem import Problem

OPERATOR = "levelled_operator"
FIGURES = ("operator_skew_before", "operator_skew")


def check_levelled_operator(
    problem: Problem, figures: PlanFigures, promises: Mapping[str, Any]
) -> Iterator[Violation]:
    """The operator exists, its skew before and after is as promised, and the plan lowers it."""
    operator = promises.get(OPERATOR)
    if operator is None:
        for name in FIGURES:
            if promises.get(name) is not None:
                yield Violation(name, f"promised {promises[name]!r}, but no operator is named")
        return
    if operator not in problem.operator_ids:
        yield Violation(OPERATOR, f"there is no operator {operator!r}")
        return
    plans = figures.before, figures.plan
    for name, plan in zip(FIGURES, plans, strict=True):
        promised, actual = promises.get(name), operator_skew(problem, plan, operator)
        is_kept = promised is not None and is_number(promised) and is_close(promised, actual)
        if not is_kept:
            yield Violation(name, f"promised {promised!r}, is {actual:.9g}")
    if not levels_operator(problem, figures, promises):
        yield Violation(OPERATOR, f"operator {operator!r} is not more level with the plan")


def levels_operator(problem: Problem, figures: PlanFigures, promises: Mapping[str, Any]) -> bool:
    """Whether the plan names an operator, and this operator is more level with the plan."""
    operator = promises.get(OPERATOR)
    if operator is None or operator not in problem.operator_ids:
        return False
    before = operator_skew(problem, figures.before, operator)
    after = operator_skew(problem, figures.plan, operator)
    return after < before and not is_close(after, before)


def operator_skew(problem: Problem, plan: npt.NDArray[np.int64], operator: str) -> float:
    """How far a node that stays is above its fair share of an operator's load, in percent of it.

    The fair share is that of the node in the capacity of the nodes that stay. It is the largest
    over nodes and balanced resources; 0 for an operator without load.
    """
    stays = np.array(problem.node_state) == "alive"
    rows = np.flatnonzero(np.array(problem.operator_ids) == operator)
    worst = -100.0
    for r in range(len(problem.resources)):
        load = problem.load[rows, r]
        is_balanced = problem.balanced is None or bool(problem.balanced[r])
        if not is_balanced or not float(np.sum(load)) > 0 or not stays.any():
            continue
        held = np.zeros(len(problem.node_ids))
        np.add.at(held, plan[rows], load)
        fair = float(np.sum(load)) * problem.capacity[stays, r] / problem.capacity[stays, r].sum()
        worst = max(worst, 100.0 * (float(np.max(held[stays] / fair)) - 1.0))
    return max(worst, 0.0)
