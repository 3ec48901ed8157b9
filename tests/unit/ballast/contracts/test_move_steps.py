"""Steps keep the limits, move everything once, and no state between them is worse than before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.contracts.move_steps import StepProblem, divide_into_steps
from ballast.contracts.step_limits import StepLimits


def problem_of(source, target, load, size=None, others=None, **changes):
    """Nodes of capacity 1; ``others`` is the load that does not move, by node."""
    nodes = max(*source, *target) + 1 if others is None else len(others)
    node_load = np.zeros((nodes, 1)) if others is None else np.array(others, dtype=float)[:, None]
    loads = np.array(load, dtype=float)[:, None]
    np.add.at(node_load, np.array(source), loads)
    values = {
        "source": np.array(source),
        "target": np.array(target),
        "state_bytes": np.array(size or [1] * len(source)),
        "load": loads,
        "node_load": node_load,
        "capacity": np.ones((nodes, 1)),
        "staying": np.ones(nodes, dtype=bool),
        "dead": np.zeros(nodes, dtype=bool),
        "weights": np.ones(1),
        **changes,
    }
    return StepProblem(**values)


def distances(problem, steps):
    """Load distance before the first step and after each one."""
    done, found = [], [problem.load_distance_pct(problem.node_load)]
    for step in steps:
        done += step.moves
        found.append(problem.load_distance_pct(problem.after(done)))
    return found


@st.composite
def problems(draw):
    nodes = draw(st.integers(2, 5))
    moves = draw(st.integers(1, 12))
    node = st.integers(0, nodes - 1)
    source = draw(st.lists(node, min_size=moves, max_size=moves))
    shift = draw(st.lists(st.integers(1, nodes - 1), min_size=moves, max_size=moves))
    target = [(s + by) % nodes for s, by in zip(source, shift, strict=True)]
    load = draw(st.lists(st.integers(0, 9), min_size=moves, max_size=moves))
    size = draw(st.lists(st.integers(0, 9), min_size=moves, max_size=moves))
    others = draw(st.lists(st.integers(0, 20), min_size=nodes, max_size=nodes))
    staying = np.array(
        [True, *draw(st.lists(st.booleans(), min_size=nodes - 1, max_size=nodes - 1))]
    )
    dead = ~staying & np.array(draw(st.lists(st.booleans(), min_size=nodes, max_size=nodes)))
    return problem_of(source, target, load, size, others, staying=staying, dead=dead)


LIMIT = st.none() | st.integers(1, 10)


@given(problems(), LIMIT, LIMIT)
def test_every_move_is_made_once_within_the_limits_and_no_state_is_worse(problem, moves, size):
    limits = StepLimits(moves, size)
    steps = divide_into_steps(problem, limits)
    assert sorted(move for step in steps for move in step.moves) == list(range(problem.n_moves))
    found = distances(problem, steps)
    assert max(found) <= max(found[0], found[-1]) * (1 + 1e-8) + 1e-8
    for step in steps:
        copied = sum(problem.state_bytes[list(step.moves)])
        is_over = len(step.moves) > (moves or 99) or copied > (size if size is not None else 1e9)
        assert is_over == bool(step.exceeds)


@given(problems(), LIMIT, LIMIT)
def test_the_same_input_gives_the_same_steps(problem, moves, size):
    limits = StepLimits(moves, size)
    assert divide_into_steps(problem, limits) == divide_into_steps(problem, limits)


@given(problems())
def test_a_step_is_beyond_the_limit_only_if_no_single_move_was_allowed(problem):
    steps = divide_into_steps(problem, StepLimits(moves=1))
    ceiling = max(distances(problem, steps)[0], distances(problem, steps)[-1])
    done: list[int] = []
    for step in steps:
        left = set(range(problem.n_moves)) - set(done)
        if len(step.moves) > 1:
            after = [problem.load_distance_pct(problem.after([*done, move])) for move in left]
            assert min(after) > ceiling
        done += step.moves


def test_without_limits_there_is_one_step():
    problem = problem_of([0, 0, 0], [1, 1, 2], [1, 2, 3])
    assert [step.moves for step in divide_into_steps(problem, StepLimits())] == [(0, 1, 2)]


def test_a_plan_without_moves_has_no_steps():
    nothing = np.array([], int)
    empty = replace(problem_of([0], [1], [1]), source=nothing, target=nothing)
    assert divide_into_steps(empty, StepLimits(1)) == []


def test_the_most_overloaded_node_is_first():
    problem = problem_of([0, 1, 1], [2, 3, 3], [1, 3, 2], others=[4, 6, 0, 0])
    first = divide_into_steps(problem, StepLimits(moves=1))[0]
    assert problem.source[first.moves[0]] == 1


def test_moves_off_a_dead_node_are_first():
    alive = np.array([True, True, True, False])
    problem = problem_of(
        [0, 0, 3, 3], [1, 2, 1, 2], [3, 3, 1, 1], others=[4, 0, 0, 0], staying=alive, dead=~alive
    )
    steps = divide_into_steps(problem, StepLimits(moves=2))
    assert [sorted(step.moves) for step in steps] == [[2, 3], [0, 1]]


def test_two_key_groups_that_change_places_move_at_once_and_the_step_says_so():
    problem = problem_of([0, 1], [1, 0], [5, 5], others=[1, 1])
    (step,) = divide_into_steps(problem, StepLimits(moves=1))
    assert sorted(step.moves) == [0, 1]
    assert "2 key groups moved at once" in step.exceeds


def test_a_key_group_above_the_limit_on_bytes_moves_alone_and_the_step_says_so():
    problem = problem_of([0, 0, 0], [1, 1, 1], [1, 1, 1], [100, 7, 3], others=[9, 0])
    steps = divide_into_steps(problem, StepLimits(bytes=10))
    alone = next(step for step in steps if 0 in step.moves)
    assert alone.moves == (0,)
    assert "has 100 bytes, more than the 10 of a step" in alone.exceeds
    assert [sorted(step.moves) for step in steps if step is not alone] == [[1, 2]]


def test_a_cap_is_not_exceeded_between_steps():
    # Node 1 has room for the arriving key group only after its own one has left.
    capacity = np.array([[1.0, 10.0], [1.0, 10.0], [1.0, 10.0]])
    load = np.array([[1.0, 6.0], [1.0, 6.0]])
    node_load = np.array([[1.0, 6.0], [1.0, 6.0], [1.0, 0.0]])
    problem = replace(
        problem_of([0, 1], [1, 2], [1, 1]), load=load, node_load=node_load, capacity=capacity,
        weights=np.array([1e-6, 0.0]),
    )  # fmt: skip
    steps = divide_into_steps(problem, StepLimits(moves=1))
    assert [step.moves for step in steps] == [(1,), (0,)]


def test_ten_thousand_moves_are_divided():
    draw = np.random.default_rng(3)
    source, target = draw.integers(0, 50, 10_000), draw.integers(0, 50, 10_000)
    target = np.where(source == target, (target + 1) % 50, target)
    problem = problem_of(source.tolist(), target.tolist(), draw.lognormal(0, 1, 10_000).tolist())
    steps = divide_into_steps(problem, StepLimits(moves=100))
    assert sum(len(step.moves) for step in steps) == 10_000
    assert len(steps) < 1000


@pytest.mark.parametrize("limits", [{"moves": 0}, {"bytes": 0}])
def test_a_limit_below_one_is_refused(limits):
    with pytest.raises(ValueError, match="allowed: 1 and above"):
        StepLimits(**limits)
