"""Verifies a plan: recomputes everything that it promises, and shares no code with any solver.

The plan comes as names of key groups and nodes, the problem as its raw arrays. The types of
``solvers.model`` are imported for type checking alone. All checks work on whole columns: a plan of
a million key groups takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from solvers.verify.headroom import check_headroom
from solvers.verify.improvement import check_improvement
from solvers.verify.operator_skew import check_levelled_operator, levels_operator
from solvers.verify.placement_rules import (
    check_budget,
    check_caps,
    check_node_states,
    check_pins_and_allowed_nodes,
)
from solvers.verify.plan_figures import Floats, PlanFigures
from solvers.verify.rules import check_rules
from solvers.verify.tolerance import is_close, is_number
from solvers.verify.violation import Violation, first_names

if TYPE_CHECKING:
    from solvers.model.budget import Budget
    from solvers.model.objective import Objective
    from solvers.model.problem import Problem

Ints = npt.NDArray[np.int64]
Assignment = Mapping[str, str] | tuple[Sequence[Any], Sequence[Any]]
"""Key group to node, or a column of key groups beside a column of nodes."""
OPTIMAL_GAP = 1e-4
"""Percentage points by which a plan called optimal may be above its bound."""
STATUSES = ("optimal", "feasible", "unchanged", "infeasible")


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
        *check_rules(problem, figures.plan, promises),
        *check_headroom(problem, figures.plan, promises),
        *check_caps(problem, figures),
        *check_budget(budget, figures),
        *check_figures(promises, figures),
        *check_bound(promises, figures),
        *check_collocation_bound(promises, figures),
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

    The arguments are those of :func:`verify`, which also checks whether the rows are valid.
    """
    plan = nodes_of_key_groups(problem, *columns_of(assignment_names))
    sums = PlanFigures.of(problem, plan, objective, after or problem).sums
    return dict(zip(problem.node_ids, sums, strict=True))


def columns_of(assignment: Assignment) -> tuple[list[Any], list[Any]]:
    """The key groups and their nodes as two columns."""
    if isinstance(assignment, Mapping):
        return list(assignment.keys()), list(assignment.values())
    ids, nodes = assignment
    return list(ids), list(nodes)


def check_rows(problem: Problem, ids: list[Any], nodes: list[Any]) -> Iterator[Violation]:
    """Each key group of the problem is listed exactly once, and every node exists."""
    if len(ids) != len(nodes):
        yield Violation("assignment", f"{len(ids)} key groups, but {len(nodes)} nodes")
        return
    unknown_nodes = sorted({str(name) for name in set(nodes) - set(problem.node_ids)})
    if unknown_nodes:
        yield Violation("assignment.known_nodes", f"unknown {first_names(unknown_nodes)}")
    if ids == list(problem.key_group_ids):
        return  # A problem names no key group twice, so this has each of them once.
    known, listed = set(problem.key_group_ids), set(ids)
    unknown = sorted({str(name) for name in listed - known})
    if unknown:
        yield Violation("assignment.known_key_groups", f"unknown {first_names(unknown)}")
    if len(listed) != len(ids):
        seen: set[Any] = set()
        twice = [name for name in ids if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
        yield Violation("assignment.exactly_once", f"more than once: {first_names(twice)}")
    missing = known - listed
    if missing:
        yield Violation("assignment.exactly_once", f"missing: {first_names(sorted(missing))}")


def nodes_of_key_groups(problem: Problem, ids: list[Any], nodes: list[Any]) -> Ints:
    """[G]: the node index of each key group, in the order of the problem."""
    row_of = {name: i for i, name in enumerate(problem.key_group_ids)}
    index_of = {name: i for i, name in enumerate(problem.node_ids)}
    rows = np.fromiter(map(row_of.__getitem__, ids), dtype=np.int64, count=len(ids))
    plan = np.empty(len(ids), dtype=np.int64)
    plan[rows] = np.fromiter(map(index_of.__getitem__, nodes), dtype=np.int64, count=len(ids))
    return plan


def check_figures(promises: Mapping[str, Any], figures: PlanFigures) -> Iterator[Violation]:
    """Each promised figure is the recomputed one; counts and bytes exactly."""
    for name, actual in figures.values.items():
        if name not in promises:
            continue
        promised = promises[name]
        if promised is None and actual is None:
            continue
        if actual is None or not is_number(promised):
            yield Violation(name, f"promised {promised!r}, is {actual!r}")
        elif isinstance(actual, int) and promised != actual:
            yield Violation(name, f"promised {promised}, is {actual}")
        elif not is_close(float(promised), float(actual), figures.rounding.get(name, 0.0)):
            yield Violation(name, f"promised {promised:.9g}, is {actual:.9g}")


def check_bound(promises: Mapping[str, Any], figures: PlanFigures) -> Iterator[Violation]:
    """The bound is not above the load distance, and the gap is the difference of the two."""
    distance = figures.number("load_distance")
    bound, gap = promises.get("bound"), promises.get("gap")
    if bound is None:
        return
    if not is_number(bound) or bound < 0:
        yield Violation("bound", f"promised {bound!r}, which is not a number >= 0")
        return
    if bound > distance and not is_close(bound, distance):
        yield Violation("bound", f"{bound:.9g} is above the load distance {distance:.9g}")
    if gap is not None and (
        not is_number(gap) or abs(gap - max(0.0, distance - bound)) > OPTIMAL_GAP
    ):
        yield Violation("gap", f"promised {gap!r}, is {max(0.0, distance - bound):.9g}")


def check_collocation_bound(
    promises: Mapping[str, Any], figures: PlanFigures
) -> Iterator[Violation]:
    """The bound of the traffic within nodes is not below what the plan has."""
    bound, collocated = promises.get("collocation_bound"), figures.values["collocation_factor"]
    if bound is None:
        return
    if not is_number(bound) or collocated is None:
        yield Violation("collocation_bound", f"promised {bound!r}, traffic is {collocated!r}")
    elif bound < collocated and not is_close(bound, collocated):
        yield Violation(
            "collocation_bound", f"{bound:.9g} is below the collocation factor {collocated:.9g}"
        )


def check_status(
    promises: Mapping[str, Any], figures: PlanFigures, *, is_rerouted: bool
) -> Iterator[Violation]:
    """The status agrees with the moves, the routes and the bound."""
    status = promises.get("status")
    if status is None:
        return
    if status not in STATUSES:
        yield Violation("status", f"{status!r} is none of {', '.join(STATUSES)}")
    if status == "infeasible":
        yield Violation("status", "says infeasible, but there is an assignment")
    if status == "unchanged" and is_rerouted:
        yield Violation("status", "says unchanged, but routes changed")
    if status == "unchanged" and figures.moved.any():
        yield Violation(
            "status", f"says unchanged, but {np.count_nonzero(figures.moved)} key groups moved"
        )
    bound = promises.get("bound")
    distance = figures.number("load_distance")
    is_proven = bound is not None and is_number(bound) and distance - bound <= OPTIMAL_GAP
    if status == "optimal" and not is_proven:
        yield Violation("status", f"says optimal at {distance:.9g}, but the bound is {bound!r}")
