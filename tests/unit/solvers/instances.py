"""Small problems for the solvers' tests, and an exhaustive search to compare with."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import strategies as st

from solvers.model.budget import Budget
from solvers.model.problem import Problem


def make(
    load: Any,
    current: Any,
    *,
    nodes: int | None = None,
    states: Any = None,
    capacity: Any = None,
    **rest: Any,
) -> Problem:
    """A problem from plain numbers; ``load`` is [G] or [G, R]."""
    loads = np.array(load, dtype=float)
    loads = loads.reshape(len(loads), -1) if loads.size else np.zeros((0, 1))
    count = nodes or (len(states) if states is not None else int(np.max(current)) + 1)
    resources = loads.shape[1]
    room = np.ones((count, resources)) if capacity is None else np.array(capacity, dtype=float)
    room = np.broadcast_to(room.reshape(count, -1), (count, resources))
    groups = len(loads)
    rest.setdefault("state_bytes", np.full(groups, 10, dtype=np.int64))
    return Problem(
        node_ids=tuple(f"n{i}" for i in range(count)),
        resources=tuple(f"r{r}" for r in range(resources)),
        capacity=room,
        node_state=tuple(states) if states is not None else ("alive",) * count,
        key_group_ids=tuple(f"k{k}" for k in range(groups)),
        operator_ids=("op",) * groups,
        load=loads,
        current=np.array(current, dtype=np.int64),
        **rest,
    )


def names(problem: Problem, assignment: Any) -> tuple[list[str], list[str]]:
    return list(problem.key_group_ids), [problem.node_ids[i] for i in assignment]


def exhaustive_optimum(problem: Problem, budget: Budget) -> float | None:
    """The least load distance over all assignments that keep the rules, in plain Python."""
    states = problem.node_state
    alive = [i for i, s in enumerate(states) if s == "alive"]
    if not alive:
        return None
    options = []
    for k, here in enumerate(problem.current.tolist()):
        listed = None
        if problem.allowed is not None and problem.allowed.restricted[k]:
            listed = set(problem.allowed.row(k).tolist())
        targets = set() if problem.pinned_mask[k] else set(alive)
        if states[here] != "dead":
            targets.add(here)
        options.append(sorted(t for t in targets if listed is None or t in listed))
    best = None
    for plan in itertools.product(*options):
        moved = [
            k
            for k, i in enumerate(plan)
            if i != problem.current[k] and states[problem.current[k]] != "dead"
        ]
        n_bytes = sum(int(problem.state_bytes[k]) for k in moved)
        pause = sum(
            problem.pause_c0_s + problem.pause_s_per_byte * int(problem.state_bytes[k])
            for k in moved
        )
        if budget.moves is not None and len(moved) > budget.moves:
            continue
        if budget.bytes is not None and n_bytes > budget.bytes:
            continue
        if budget.pause_s is not None and pause > budget.pause_s + 1e-9:
            continue
        if breaks_a_cap(problem, plan):
            continue
        distance = plain_distance(problem, plan)
        best = distance if best is None else min(best, distance)
    return best


def plain_distance(problem: Problem, plan: Any) -> float:
    worst = 0.0
    alive = [i for i, s in enumerate(problem.node_state) if s == "alive"]
    for r in range(problem.n_resources):
        if not problem.balanced_mask[r]:
            continue
        total = sum(problem.load[:, r].tolist())
        mean = total / sum(problem.capacity[i, r] for i in alive)
        if mean == 0:
            continue
        for i in alive:
            load = sum(problem.load[k, r] for k, n in enumerate(plan) if n == i)
            away = abs(load / problem.capacity[i, r] - mean) / mean
            worst = max(worst, float(problem.weights[r]) * away)
    return 100 * worst


def breaks_a_cap(problem: Problem, plan: Any) -> bool:
    """Whether a node that stays has more of a capped resource than its capacity and than before."""

    def carried(places: Any, i: int, r: int) -> float:
        return sum(float(problem.load[k, r]) for k, n in enumerate(places) if n == i)

    return any(
        carried(plan, i, r)
        > max(float(problem.capacity[i, r]), carried(problem.current, i, r)) * (1 + 1e-9)
        for r in range(problem.n_resources)
        if not problem.balanced_mask[r]
        for i, state in enumerate(problem.node_state)
        if state == "alive"
    )


@st.composite
def problems(draw: Any, max_nodes: int = 3, max_groups: int = 6, max_resources: int = 3) -> Problem:
    """Tiny problems of every kind: states, pins, allowed nodes, resources with weights and caps."""
    nodes = draw(st.integers(1, max_nodes))
    groups = draw(st.integers(0, max_groups))
    resources = draw(st.integers(1, max_resources))
    whole = st.integers(0, 12).map(float)
    matrix = st.lists(
        st.lists(whole, min_size=resources, max_size=resources), min_size=groups, max_size=groups
    )
    states = draw(
        st.lists(
            st.sampled_from(["alive", "alive", "alive", "draining", "dead"]),
            min_size=nodes,
            max_size=nodes,
        )
    )
    current = draw(st.lists(st.integers(0, nodes - 1), min_size=groups, max_size=groups))
    allowed = None
    if groups and draw(st.booleans()):
        rows = st.lists(
            st.lists(st.sampled_from([True, True, False]), min_size=nodes, max_size=nodes),
            min_size=groups,
            max_size=groups,
        )
        allowed = np.array(draw(rows))
    load = np.array(draw(matrix), dtype=float).reshape(groups, resources)
    balanced = np.array([True] * resources)
    if resources > 1 and draw(st.booleans()):
        balanced[draw(st.integers(1, resources - 1)) :] = False
    weight = None
    if draw(st.booleans()):
        kinds = st.sampled_from([0.25, 1.0, 3.0])
        weight = np.array(draw(st.lists(kinds, min_size=resources, max_size=resources)))
    # Caps near the load of a node: sometimes below it, sometimes far above.
    room = np.where(balanced, 1.0, draw(st.sampled_from([5.0, 12.0, 20.0, 40.0])))
    return Problem(
        node_ids=tuple(f"n{i}" for i in range(nodes)),
        resources=tuple(f"r{r}" for r in range(resources)),
        capacity=np.array(
            draw(st.lists(st.sampled_from([1.0, 2.0]), min_size=nodes, max_size=nodes))
        )[:, None]
        * room[None, :],
        node_state=tuple(states),
        key_group_ids=tuple(f"k{k}" for k in range(groups)),
        operator_ids=("op",) * groups,
        load=load,
        state_bytes=np.array(
            draw(st.lists(st.integers(0, 50), min_size=groups, max_size=groups)), dtype=np.int64
        ),
        current=np.array(current, dtype=np.int64),
        pinned=np.array(
            draw(
                st.lists(
                    st.sampled_from([False, False, False, True]), min_size=groups, max_size=groups
                )
            ),
            dtype=bool,
        ),
        allowed=allowed,
        pause_c0_s=0.5,
        pause_s_per_byte=0.1,
        weight=weight,
        balanced=balanced,
    )


budgets = st.builds(
    Budget,
    moves=st.none() | st.integers(0, 4),
    bytes=st.none() | st.integers(0, 120),
    pause_s=st.none() | st.floats(0, 12),
)
