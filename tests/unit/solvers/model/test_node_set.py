"""Problems with nodes added, taken away, or in another state."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from ballast.contracts.errors import InvalidInput
from solvers.model.node_set import NodeSpec, that_must_move, with_nodes, with_states, without_nodes
from solvers.model.problem import Problem
from tests.unit.solvers.instances import make, problems

QUICK = settings(max_examples=60, deadline=None, derandomize=True)


def permitted(problem: Problem) -> dict[str, set[str]]:
    """Names, so that problems with other indices compare."""
    return {
        name: {
            problem.node_ids[i]
            for i in range(problem.n_nodes)
            if problem.permits(np.array([k]), np.array([i]))[0]
        }
        for k, name in enumerate(problem.key_group_ids)
    }


@given(problems(max_nodes=4, max_groups=6))
@QUICK
def test_empty_nodes_leave_and_everything_else_stays_by_name(problem: Problem) -> None:
    used = set(problem.current.tolist())
    leaving = {problem.node_ids[i] for i in range(problem.n_nodes) if i not in used}
    if len(leaving) == problem.n_nodes:
        return
    smaller = without_nodes(problem, leaving)
    assert set(smaller.node_ids) == set(problem.node_ids) - leaving
    where = [problem.node_ids[i] for i in problem.current]
    assert [smaller.node_ids[i] for i in smaller.current] == where
    assert permitted(smaller) == {k: v - leaving for k, v in permitted(problem).items()}


def test_a_node_with_a_key_group_cannot_be_ended() -> None:
    with pytest.raises(InvalidInput, match="still has key group 'k0'"):
        without_nodes(make([1.0, 1.0], [0, 1]), {"n0"})


def test_added_nodes_are_alive_and_empty() -> None:
    larger = with_nodes(make([1.0], [0]), [NodeSpec("x", (2.0,), "rack-9")])
    assert larger.node_ids == ("n0", "x")
    assert larger.node_state[1] == "alive"
    assert larger.rack[1] == "rack-9"
    assert larger.capacity[1, 0] == 2.0


def test_a_node_that_is_there_cannot_be_added() -> None:
    with pytest.raises(InvalidInput, match="more than once"):
        with_nodes(make([1.0], [0]), [NodeSpec("n0", (1.0,))])


def test_only_the_named_states_change() -> None:
    problem = with_states(make([1.0, 1.0], [0, 1]), {"n1": "draining"})
    assert problem.node_state == ("alive", "draining")


@given(problems(max_nodes=4, max_groups=6))
@QUICK
def test_what_must_move_is_allowed_on_staying_nodes_alone(problem: Problem) -> None:
    chosen = np.flatnonzero(problem.draining[problem.current])
    restricted = that_must_move(problem, chosen)
    before, after = permitted(problem), permitted(restricted)
    staying = {problem.node_ids[i] for i in np.flatnonzero(problem.staying)}
    for k, name in enumerate(problem.key_group_ids):
        expected = before[name] & staying if k in chosen else before[name]
        assert after[name] == expected
