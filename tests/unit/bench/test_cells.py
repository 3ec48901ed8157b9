"""The instances of the comparison match their descriptions, and depend on the seed only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.rebalance.cells import (
    BYTES_CORRELATION,
    TEN_CELLS,
    Cell,
    bytes_cell,
    correlated_bytes,
    icde17_loads,
    problem_of,
)
from bench.rebalance.peers.exchange import Answer, Instance
from solvers.model import metrics
from solvers.model.stop import Stop
from solvers.rebalance.milp import MilpParams
from solvers.rebalance.solve import solve
from tests.unit.solvers.noisy_instances import with_noise


@pytest.mark.parametrize("cell", TEN_CELLS, ids=lambda cell: cell.name)
def test_a_cell_has_the_size_it_says_and_starts_unbalanced(cell: Cell) -> None:
    instance, _ = cell.draw(1, 0)
    problem, budget = problem_of(instance)
    assert (problem.n_key_groups, problem.n_nodes) == (cell.key_groups, cell.nodes)
    assert (budget.moves is None) != (budget.bytes is None)
    assert metrics.load_distance(problem, problem.current) > 5


def test_the_same_seed_base_and_index_draw_the_same_instance() -> None:
    (a, seed_a), (b, seed_b) = TEN_CELLS[0].draw(5, 2), TEN_CELLS[0].draw(5, 2)
    assert seed_a == seed_b
    assert np.array_equal(a.load, b.load)
    assert np.array_equal(a.current, b.current)


def test_bases_cells_and_indices_draw_different_instances() -> None:
    seeds = {cell.draw(base, i)[1] for cell in TEN_CELLS[:3] for base in (1, 2) for i in (0, 1)}
    assert len(seeds) == 12


def test_icde17_shifts_a_fifth_of_the_nodes_by_half_of_varies() -> None:
    rng = np.random.default_rng(3)
    current, load = icde17_loads(rng, nodes=40, per_node=20, varies=40)
    assert np.all(np.bincount(current) == 20)
    sums = np.bincount(current, weights=load) / 20
    lowered, raised = (sums < 0.9).sum(), (sums > 1.1).sum()
    assert (lowered, raised) == (4, 4)
    assert sums.min() == pytest.approx(0.8, abs=0.05)
    assert sums.max() == pytest.approx(1.2, abs=0.05)


def test_bytes_and_load_are_correlated_as_said() -> None:
    load, state_bytes = correlated_bytes(np.random.default_rng(0), 20_000)
    found = np.corrcoef(np.log(load), np.log(state_bytes))[0, 1]
    assert found == pytest.approx(BYTES_CORRELATION, abs=0.02)


def test_a_byte_budget_is_its_share_of_all_bytes() -> None:
    instance, _ = bytes_cell("b", 1000, 20, 0.01).draw(0, 0)
    assert instance.moves is None
    assert instance.bytes == int(0.01 * instance.state_bytes.sum())


@pytest.mark.parametrize(
    "cell", [cell for cell in TEN_CELLS if cell.key_groups <= 1200], ids=lambda cell: cell.name
)
def test_the_plans_of_the_comparison_are_those_of_precision_exact(cell: Cell) -> None:
    """The instances have no noise; with noise and ``exact`` a policy gets the same plans."""
    instance, seed = cell.draw(1, 0)
    problem, budget = problem_of(instance)
    assert problem.noise is None
    # Without the MILP, which cannot stop by steps.
    alike: dict[str, Any] = {"milp": MilpParams(max_terms=1)}
    plain = solve(problem, budget, Stop(steps=1), seed=seed, params=alike)
    exact = solve(
        with_noise(problem, 0.1), budget, Stop(steps=1), seed=seed,
        params={**alike, "precision": "exact"},
    )  # fmt: skip
    assert plain.moves > 0
    assert np.array_equal(plain.assignment, exact.assignment)
    assert (plain.bound, plain.reason) == (exact.bound, exact.reason)


def test_instances_and_answers_survive_the_disk(tmp_path) -> None:
    instance, _ = TEN_CELLS[8].draw(0, 0)
    instance.save(tmp_path / "i.npz")
    again = Instance.read(tmp_path / "i.npz")
    assert np.array_equal(again.load, instance.load)
    assert (again.moves, again.bytes) == (instance.moves, instance.bytes)
    answer = Answer(instance.current, 1.5, "why", True, ((0.1, 2.0),), {"bound": 0.5})
    answer.save(tmp_path / "a.npz")
    read = Answer.read(tmp_path / "a.npz")
    assert np.array_equal(read.assignment, instance.current)
    assert (read.seconds, read.note, read.is_final) == (1.5, "why", True)
    assert read.trace == ((0.1, 2.0),)
    Answer(None, 1.0).save(tmp_path / "none.npz")
    assert Answer.read(tmp_path / "none.npz").assignment is None
