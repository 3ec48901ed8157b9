"""Problems with other nodes or another load than measured, for what-if questions. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.model.node_set import NodeSpec, with_nodes, with_states
from solvers.model.parameter_checks import is_finite
from solvers.model.problem import ALIVE, DEAD, DRAINING, FloatArray, Problem
from solvers.planner.drain import levelled

EVERY_OPERATOR = "*"
MOST_NODES = 100_000


@dataclass(frozen=True, slots=True)
class WhatIfQuestion:
    """Changes of nodes and load to apply to a problem."""

    gone: tuple[str, ...] = ()
    """Nodes that fail at once: their key groups have to move."""
    leaving: tuple[str, ...] = ()
    """Nodes that drain within the budget."""
    added: int = 0
    """Number of new nodes; they are named ``new-1`` and so on."""
    resized: Mapping[str, float] = field(default_factory=dict)
    """Factor on the capacity, by node."""
    scaled: Mapping[str, float] = field(default_factory=dict)
    """Factor on the load, by operator; ``*`` is every operator."""
    racks: Mapping[str, str] = field(default_factory=dict)
    """New rack, by node."""

    def __post_init__(self) -> None:
        if not 0 <= self.added <= MOST_NODES:
            raise InvalidInput(f"{self.added} nodes to add", allowed=f"0 to {MOST_NODES}")
        _check_factors("capacity of node", self.resized)
        _check_factors("load of operator", self.scaled)
        both = set(self.gone) & set(self.leaving)
        if both:
            raise InvalidInput(f"node {min(both)!r} is both gone and draining", remedy="choose one")


def _check_factors(what: str, factors: Mapping[str, float]) -> None:
    for name, factor in factors.items():
        if not (is_finite(factor) and factor > 0):
            raise InvalidInput(
                f"the {what} {name!r} times {factor!r}", allowed="a finite number > 0"
            )


def apply_question(problem: Problem, question: WhatIfQuestion) -> Problem:
    """The problem with the changes of a question. The question may also name the nodes it adds.

    Raises:
        InvalidInput: the question names a node or operator that does not exist.
    """
    more = with_nodes(problem, _new_nodes(problem, question.added))
    named = [*question.gone, *question.leaving, *question.resized, *question.racks]
    _check_names("node", named, more.node_ids)
    operators = [name for name in question.scaled if name != EVERY_OPERATOR]
    _check_names("operator", operators, more.operator_ids)
    states = {**dict.fromkeys(question.gone, DEAD), **dict.fromkeys(question.leaving, DRAINING)}
    factors = [question.resized.get(name, 1.0) for name in more.node_ids]
    every = question.scaled.get(EVERY_OPERATOR, 1.0)
    load_factors = np.array([question.scaled.get(name, every) for name in more.operator_ids])
    changed = dataclasses.replace(
        more,
        capacity=more.capacity * np.array(factors)[:, None],
        load=more.load * load_factors.reshape(-1, 1),
        noise=None if more.noise is None else more.noise.of_scaled_loads(load_factors),
        rack=_racks(more, question.racks),
    )
    return with_states(changed, states)


def _racks(problem: Problem, racks: Mapping[str, str]) -> tuple[str, ...]:
    pairs = zip(problem.node_ids, problem.rack, strict=True)
    return tuple(racks.get(node, rack) for node, rack in pairs)


def with_load_of(problem: Problem, other: Problem) -> Problem:
    """The problem with the loads, and their noise, that its key groups have in another problem.

    Raises:
        InvalidInput: the other problem has other resources, or lacks a key group.
    """
    if problem.resources != other.resources:
        raise InvalidInput(
            f"the other load is of {', '.join(other.resources)}",
            allowed=", ".join(problem.resources),
        )
    known = {name: k for k, name in enumerate(other.key_group_ids)}
    missing = [name for name in problem.key_group_ids if name not in known]
    if missing:
        raise InvalidInput(
            f"the other load lacks {len(missing)} key groups, first {missing[0]!r}",
            remedy="ask for a period in which the job had the key groups it has now",
        )
    rows = [known[name] for name in problem.key_group_ids]
    noise = None if other.noise is None else other.noise.of_key_groups(np.array(rows))
    return dataclasses.replace(problem, load=other.load[rows], noise=noise)


class NodesThatHold(NamedTuple):
    """The fewest nodes that were found to hold a load, and the utilisation of the fullest."""

    nodes: int
    fullest: float


def nodes_that_hold(problem: Problem, utilisation: float) -> NodesThatHold:
    """The fewest nodes that hold the load with no node above ``utilisation``, if moves are free.

    With fewer nodes than there are, the largest stay; added nodes have the typical capacity. The
    search places the largest key group first on the emptiest node. So a plan exists for the number
    that it returns, and one node less may be enough.

    Raises:
        InvalidInput: no number of nodes was found.
    """
    if not (is_finite(utilisation) and utilisation > 0):
        raise InvalidInput(f"utilisation is {utilisation!r}", allowed="a finite number > 0")
    free = dataclasses.replace(problem, allowed=None, pinned=None, rules=None)
    most = free.n_nodes + free.n_key_groups
    low, high = 0, 1
    while (reached := levelled(_of_size(free, high))) > utilisation:
        if high >= most or _largest_alone(free) > utilisation:
            raise InvalidInput(
                f"no number of nodes was found that holds the load at {100 * utilisation:g} %; the "
                f"largest key group alone is {100 * _largest_alone(free):.3g} % of a node",
                remedy="allow more, or split its operator into more key groups",
            )
        low, high = high, min(most, 2 * high)
    while high - low > 1:
        middle = (low + high) // 2
        trial = levelled(_of_size(free, middle))
        if trial > utilisation:
            low = middle
        else:
            high, reached = middle, trial
    return NodesThatHold(high, reached)


def _of_size(problem: Problem, count: int) -> Problem:
    """The problem on ``count`` nodes, all alive; other key groups may be placed anywhere."""
    size = (problem.capacity / problem.capacity.mean(axis=0)).min(axis=1)
    order = np.argsort(-size, kind="stable")
    kept = {problem.node_ids[i] for i in order[:count].tolist()}
    states = {name: ALIVE if name in kept else DEAD for name in problem.node_ids}
    more = with_nodes(problem, _new_nodes(problem, count - len(kept)))
    return with_states(more, states)


def _largest_alone(problem: Problem) -> float:
    room: FloatArray = np.maximum(problem.capacity.max(axis=0), _typical(problem))
    return float((problem.load / room).max(initial=0.0))


def _new_nodes(problem: Problem, count: int) -> list[NodeSpec]:
    """New nodes of the typical capacity, with unused names."""
    taken = set(problem.node_ids)
    names = (f"new-{number}" for number in range(1, count + len(taken) + 1))
    free = [name for name in names if name not in taken][:count]
    capacity = tuple(_typical(problem).tolist())
    return [NodeSpec(name, capacity) for name in free]


def _typical(problem: Problem) -> FloatArray:
    """[R]: the median capacity of the nodes that stay, or of all nodes if none stays."""
    rows = problem.capacity[problem.staying] if problem.staying.any() else problem.capacity
    return np.asarray(np.median(rows, axis=0))


def _check_names(what: str, names: Collection[str], known: Collection[str]) -> None:
    present = set(known)
    for name in names:
        if name not in present:
            shown = ", ".join(sorted(present)[:10]) + (", ..." if len(present) > 10 else "")
            raise InvalidInput(f"there is no {what} {name!r}", value=name, allowed=shown)
