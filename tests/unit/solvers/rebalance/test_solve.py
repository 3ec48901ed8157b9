"""Cases of the solvers that are easy to get wrong, one fact in each test."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest

from ballast.contracts.errors import InvalidInput
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.result import Status
from solvers.model.stop import Stop
from solvers.rebalance import METHODS as REBALANCE_METHODS
from solvers.rebalance import highs
from solvers.rebalance.solve import solve
from solvers.rebalance.start import place_must_moves
from solvers.verify.assignment import verify
from tests.support.limits import limit_s
from tests.unit.solvers.instances import make, names

METHODS = list(REBALANCE_METHODS)
GOOD = ["auto", "milp", "flux"]


@pytest.mark.parametrize("method", METHODS)
def test_a_single_node_stays_as_it_is(method: str) -> None:
    result = solve(make([3, 4], [0, 0]), Budget(), Stop(steps=5), method=method)
    assert result.status is Status.UNCHANGED
    assert (result.load_distance, result.gap) == (0, 0)


@pytest.mark.parametrize("method", METHODS)
def test_no_key_groups_is_a_balanced_problem(method: str) -> None:
    result = solve(make([], [], nodes=2), Budget(), Stop(steps=5), method=method)
    assert result.status is Status.UNCHANGED
    assert result.load_distance == 0
    assert result.bound == 0


@pytest.mark.parametrize("method", METHODS)
def test_no_load_at_all_is_balanced(method: str) -> None:
    result = solve(make([0, 0], [0, 0], nodes=2), Budget(), Stop(steps=5), method=method)
    assert result.status is Status.UNCHANGED
    assert result.load_distance == 0


@pytest.mark.parametrize("method", GOOD)
def test_an_empty_node_is_filled(method: str) -> None:
    result = solve(make([1, 1], [0, 0], nodes=2), Budget(1), Stop(steps=50), method=method)
    assert result.load_distance_before == pytest.approx(100)
    assert result.load_distance == pytest.approx(0)
    assert (result.moves, result.bytes) == (1, 10)


@pytest.mark.parametrize("method", METHODS)
def test_a_budget_of_nothing_moves_nothing_and_proves_it(method: str) -> None:
    result = solve(make([5, 1, 1], [0, 0, 1]), Budget(0), Stop(steps=5), method=method)
    assert result.status is Status.UNCHANGED
    assert result.gap == 0


@pytest.mark.parametrize("method", METHODS)
def test_a_dead_node_is_emptied_outside_of_the_budget(method: str) -> None:
    problem = make([4, 4, 2, 2], [0, 1, 2, 2], states=["alive", "alive", "dead"])
    result = solve(problem, Budget(0), Stop(steps=50), method=method)
    assert result.load_distance == pytest.approx(0)
    assert (result.moves, result.forced_moves, result.forced_bytes) == (0, 2, 20)


@pytest.mark.parametrize("method", METHODS)
def test_nothing_ever_arrives_on_a_draining_node(method: str) -> None:
    """[ICDE17]'s Lemma 1 as printed fails here: the model moves a 15 into the drained node."""
    problem = make([15, 15, 15, 15], [0, 0, 1, 2], states=["alive", "alive", "alive", "draining"])
    result = solve(problem, Budget(), Stop(steps=50), method=method)
    assert 3 not in result.assignment.tolist()


@pytest.mark.parametrize("method", GOOD)
def test_a_drain_goes_on_where_balance_gains_nothing_by_it(method: str) -> None:
    """A pinned large key group determines the load distance; the draining node is emptied all the
    same."""
    problem = make(
        [100, 1, 0],
        [0, 2, 2],
        states=["alive", "alive", "draining"],
        pinned=np.array([True, False, False]),
    )
    result = solve(problem, Budget(), Stop(steps=50), method=method)
    assert result.draining_load == 0
    assert result.assignment.tolist()[:2] == [0, 1]
    assert 2 not in result.assignment.tolist()


def test_an_overload_can_be_more_urgent_than_a_drain() -> None:
    """[ICDE17, 4.1]: one move, and the overloaded node needs it more."""
    problem = make(
        [6, 6, 2, 2, 1],
        [0, 0, 1, 1, 2],
        states=["alive", "alive", "draining"],
    )
    result = solve(problem, Budget(1), Stop(), method="auto")
    assert result.assignment.tolist()[4] == 2
    assert 1 in result.assignment.tolist()[:2]


def test_a_node_above_twice_the_mean_is_not_infeasible() -> None:
    """Constraint (5) of the printed model would make it infeasible; it is dropped."""
    problem = make([10, 1, 1], [0, 1, 2], pinned=np.array([True, True, True]))
    result = solve(problem, Budget(), Stop(), method="milp")
    assert result.status is Status.UNCHANGED
    assert result.load_distance > 100


def test_unused_resources_do_not_count() -> None:
    problem = make([[1, 0], [1, 0]], [0, 0], nodes=2)
    result = solve(problem, Budget(), Stop(), method="milp")
    assert result.load_distance == pytest.approx(0)


def test_the_worst_resource_decides() -> None:
    problem = make([[1, 3], [1, 1]], [0, 1])
    assert metrics.load_distance(problem, problem.current) == pytest.approx(50)
    assert metrics.load_distance_points(problem, problem.current) == pytest.approx(100)


def test_load_counts_in_shares_of_capacity() -> None:
    problem = make([3, 1], [0, 1], capacity=[[3.0], [1.0]])
    assert metrics.load_distance(problem, problem.current) == 0


def test_the_mean_counts_load_on_draining_nodes_but_not_their_capacity() -> None:
    problem = make([2, 2], [0, 1], states=["alive", "draining"])
    assert metrics.mean_load(problem).tolist() == [4.0]
    assert metrics.load_distance(problem, problem.current) == pytest.approx(50)


@pytest.mark.parametrize(
    ("problem", "budget", "word"),
    [
        (make([1], [0], states=["draining"]), Budget(), "no node is alive"),
        (make([1], [1], states=["alive", "dead"], pinned=[True]), Budget(), "pinned"),
        (
            make([1], [1], states=["alive", "dead"], allowed=np.array([[False, True]])),
            Budget(),
            "allowed",
        ),
        (make([1], [0], nodes=2, allowed=np.array([[False, True]])), Budget(0), "budget"),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_an_infeasible_problem_is_a_result_with_the_reason(
    problem: Problem, budget: Budget, word: str, method: str
) -> None:
    result = solve(problem, budget, Stop(steps=5), method=method)
    assert result.status is Status.INFEASIBLE
    assert word in result.reason
    assert result.bound is None
    assert np.array_equal(result.assignment, problem.current)


@pytest.mark.parametrize("method", METHODS)
def test_a_key_group_leaves_a_node_that_is_not_allowed(method: str) -> None:
    problem = make([1, 1], [0, 1], allowed=np.array([[False, True], [True, True]]))
    result = solve(problem, Budget(1), Stop(steps=50), method=method)
    assert result.assignment.tolist() == [1, 1]
    assert verify(problem, Budget(1), names(problem, result.assignment), result.to_dict()) == []


def test_auto_leaves_things_alone_where_nothing_is_gained() -> None:
    result = solve(make([1, 1, 1, 1], [0, 0, 1, 1]), Budget(), Stop(), method="auto")
    assert (result.method, result.status) == ("unchanged", Status.UNCHANGED)


def test_ties_go_to_fewer_moves_then_fewer_bytes() -> None:
    problem = make([2, 2, 1, 1], [0, 0, 0, 0], nodes=2, state_bytes=np.array([9, 5, 9, 9]))
    result = solve(problem, Budget(), Stop(), method="auto")
    assert result.load_distance == pytest.approx(0)
    assert result.moves == 2


def test_a_byte_budget_is_kept_to_the_byte() -> None:
    problem = make(
        [1, 1, 1, 1],
        [0, 0, 0, 0],
        nodes=2,
        state_bytes=np.array([10**15, 10**15 + 1, 10**15 + 2, 10**15 + 3]),
    )
    result = solve(problem, Budget(bytes=2 * 10**15 + 1), Stop(), method="milp")
    assert result.load_distance == pytest.approx(0)
    assert result.bytes == 2 * 10**15 + 1


def test_pause_is_the_sum_over_all_moves() -> None:
    problem = make([1, 1], [0, 0], nodes=2, pause_c0_s=2.0, pause_s_per_byte=0.1)
    result = solve(problem, Budget(1), Stop(), method="milp")
    assert result.pause_s == pytest.approx(3.0)


def test_collocation_factor_is_the_share_of_rate_that_stays_local() -> None:
    problem = make(
        [1, 1, 1],
        [0, 0, 1],
        traffic_from=np.array([0, 0]),
        traffic_to=np.array([1, 2]),
        traffic_rate=np.array([3.0, 1.0]),
    )
    assert metrics.collocation_factor(problem, problem.current) == pytest.approx(75)
    assert metrics.collocation_factor(make([1], [0]), np.array([0])) is None


def test_a_large_model_keeps_its_time_limit() -> None:
    rng = np.random.default_rng(0)
    problem = make(rng.lognormal(0, 0.8, 600), rng.integers(0, 20, 600))
    assert problem.n_key_groups * problem.n_nodes > highs.CHILD_FROM_COLUMNS
    began = time.monotonic()
    result = solve(problem, Budget(20), Stop(seconds=3.0), method="auto")
    assert time.monotonic() - began < 3.0 + limit_s(0.5)
    assert result.load_distance < result.load_distance_before
    assert verify(problem, Budget(20), names(problem, result.assignment), result.to_dict()) == []


def test_a_model_too_large_to_build_is_skipped_and_says_so() -> None:
    rng = np.random.default_rng(0)
    problem = make(rng.lognormal(0, 0.8, 2000), rng.integers(0, 100, 2000))
    result = solve(problem, Budget(20), Stop(seconds=0.5), method="milp")
    assert "skipped" in result.reason
    assert result.status is Status.UNCHANGED


def test_solving_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    solve(make([3, 2, 1], [0, 0, 0], nodes=2), Budget(), Stop(), method="milp")
    assert capfd.readouterr() == ("", "")


def test_importing_the_solvers_does_not_import_pulp() -> None:
    code = "import sys, solvers; sys.exit('pulp' in sys.modules or 'highspy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("method", METHODS)
def test_unknown_parameters_are_refused(method: str) -> None:
    with pytest.raises(InvalidInput, match="nonsense"):
        solve(make([1], [0]), Budget(), Stop(), method=method, params={"nonsense": 1})


@pytest.mark.parametrize(
    ("method", "params", "message"),
    [
        ("search", {"tolerance": "x"}, "search.tolerance is 'x'"),
        ("flux", {"patience": 0}, "flux.patience is 0"),
        ("milp", {"threads": "x"}, "milp.threads is 'x'"),
        ("auto", {"milp": {"threads": "x"}}, "milp.threads is 'x'"),
    ],
)
def test_bad_values_of_parameters_are_named(
    method: str, params: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        solve(make([1], [0]), Budget(), Stop(), method=method, params=params)


def test_an_unknown_method_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=", ".join(REBALANCE_METHODS)):
        solve(make([1], [0]), Budget(), Stop(), method="magic")


def test_the_exact_figures_of_a_hand_made_plan() -> None:
    problem = make([4, 3, 2, 1], [0, 0, 0, 0], nodes=2)
    result = solve(problem, Budget(moves=1), Stop(), method="milp")
    # Best single move is the 4: loads 6 and 4 around a mean of 5.
    assert result.assignment.tolist() == [1, 0, 0, 0]
    assert result.load_distance == pytest.approx(20)
    assert result.load_distance_points_after == pytest.approx(100)
    assert result.status is Status.OPTIMAL


@pytest.mark.parametrize("seed", [-1, 1.5, "x", None, True])
def test_a_bad_seed_is_refused(seed: object) -> None:
    with pytest.raises(InvalidInput, match="seed is"):
        solve(make([1, 2], [0, 0], nodes=2), Budget(), Stop(steps=1), seed=seed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("capacity", "load"), [([1e-20, 1, 1], [1, 2.5, 3, 4]), ([1e-200, 1e200, 1e200], [1, 2, 3, 4])]
)
def test_a_model_that_is_refused_costs_no_plan(capacity: list[float], load: list[float]) -> None:
    """HiGHS and PuLP refuse these numbers; the other methods have a plan."""
    problem = make(load, [0, 0, 0, 1], nodes=3, capacity=np.array(capacity)[:, None])
    with np.errstate(all="ignore"):
        result = solve(problem, Budget(), Stop(steps=1))
        alone = solve(problem, Budget(), Stop(steps=1), method="milp")
    assert result.is_solved
    assert result.load_distance <= result.load_distance_before
    assert alone.is_solved
    assert "model" in alone.reason


def test_a_pause_budget_of_years_is_used_to_its_end() -> None:
    """One bit of the sum is more than any fixed tolerance; no plan may be lost for it."""
    pause = 7373755.49924593
    rng = np.random.default_rng(5)
    problem = make(
        rng.lognormal(0, 1, 60), rng.integers(0, 5, 60), nodes=5, pause_c0_s=pause,
        pause_s_per_byte=0.0,
    )  # fmt: skip
    for moves in range(5, 25):
        result = solve(problem, Budget(pause_s=moves * pause), Stop(steps=1), method="search")
        by_moves = solve(problem, Budget(moves=moves), Stop(steps=1), method="search")
        assert result.moves <= moves
        assert result.load_distance < result.load_distance_before / 2
        assert by_moves.moves <= moves


@pytest.mark.parametrize("sizes", [(1.0,), (1.0, 2.0, 4.0)])
def test_dead_nodes_are_emptied_to_where_the_load_stays_lowest(sizes: tuple[float, ...]) -> None:
    """The fast method for one resource, compared with a search over all nodes."""
    rng = np.random.default_rng(8)
    nodes, groups = 12, 200
    capacity = rng.choice(sizes, nodes)
    load, current = rng.lognormal(0, 0.8, groups), rng.integers(0, nodes, groups)
    states = ["dead"] * 3 + ["alive"] * 9
    problem = make(load, current, nodes=nodes, states=states, capacity=capacity[:, None])
    found = place_must_moves(problem)
    sums = np.bincount(current[current >= 3], load[current >= 3], nodes)
    expected = current.copy()
    forced = np.flatnonzero(current < 3)
    for k in forced[np.argsort(-load[forced], kind="stable")]:
        target = 3 + int(np.argmin((sums[3:] + load[k]) / capacity[3:]))
        expected[k] = target
        sums[target] += load[k]
    assert found.tolist() == expected.tolist()
