"""Verifies a plan: recomputes everything that it promises, and shares no code with any solver.

The plan comes as names of key groups and nodes, the problem as its raw arrays. The types of
``solvers.model`` are imported for type checking alone. All checks work on whole columns: a plan of
a million key groups takes seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from solvers.verify.assignment_rows import Assignment, check_rows, columns_of, nodes_of_key_groups
from solvers.verify.improvement import check_improvement
from solvers.verify.operator_skew import check_levelled_operator, levels_operator
from solvers.verify.placement_rules import (
    check_budget,
    check_caps,
    check_node_states,
    check_pins_and_allowed_nodes,
)
from solvers.verify.plan_figures import Floats, PlanFigures
from solvers.verify.promised_figures import check_bound, check_figures, check_status
from solvers.verify.violation import Violation

if TYPE_CHECKING:
    from solvers.model.budget import Budget
    from solvers.model.objective import Objective
    from solvers.model.problem import Problem


def verify(
    problem: Problem,
    budget: Budget,
    assignment_names: Assignment,
    promises: Mapping[str, Any],
    objective: Objective | None = None,
    after: Problem | None = None,
) -> list[Violation]:
    """Check a plan against its problem, its budget and its own figures.

    Args:
        problem: The problem as it was measured.
        budget: Limits on the moves that are not forced.
        assignment_names: Key group to node, or a pair of columns (key_group_ids, node_ids). Only
            columns can show a key group that is listed twice.
        promises: The figures of the plan by name, as in result.json. Figures that are left out are
            not checked.
        objective: The objective of the plan. Without one it is balance.
        after: The problem with loads and traffic as the plan's routes change them. Without it
            routes change nothing.

    Returns:
        The promises that the plan breaks. The list is empty if the plan keeps all of them.
    """
    ids, nodes = columns_of(assignment_names)
    violations = list(check_rows(problem, ids, nodes))
    if violations:
        return violations  # The figures of a broken assignment mean nothing.
    plan = nodes_of_key_groups(problem, ids, nodes)
    figures = PlanFigures.of(problem, plan, objective, after or problem)
    return [
        *check_node_states(problem, figures),
        *check_pins_and_allowed_nodes(problem, figures),
        *check_caps(problem, figures),
        *check_budget(budget, figures),
        *check_figures(promises, figures),
        *check_bound(promises, figures),
        *check_status(promises, figures, is_rerouted=after is not None),
        *check_levelled_operator(problem, figures, promises),
        *check_improvement(
            problem, figures, objective, levels_operator(problem, figures, promises)
        ),
    ]


def node_sums(
    problem: Problem,
    assignment_names: Assignment,
    objective: Objective | None = None,
    after: Problem | None = None,
) -> dict[str, Floats]:
    """The load of each node, one number per resource, under a plan whose rows are valid.

    The arguments are those of :func:`verify`, which says whether the rows are valid.
    """
    plan = nodes_of_key_groups(problem, *columns_of(assignment_names))
    sums = PlanFigures.of(problem, plan, objective, after or problem).sums
    return dict(zip(problem.node_ids, sums, strict=True))
