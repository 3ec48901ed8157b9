"""The gate learns lifetime and trust of plans from their outcomes."""

from __future__ import annotations

import pytest

from ballast.contracts.errors import InvalidInput
from solvers.model.amortisation import (
    LEAST_TRUST,
    AmortisationGate,
    AmortisationMemory,
    learned_lifetime,
    learned_trust,
)


def test_life_and_trust_are_learned_from_what_came() -> None:
    assert learned_lifetime([]) == 1.0
    assert learned_lifetime([[60.0, 50.0, 40.0]], floor=20.0) == pytest.approx(1 / (1 - 50 / 70))
    assert learned_lifetime([[60.0, 60.0]]) == pytest.approx(1e6)
    assert learned_trust([], []) == 1.0
    assert learned_trust([5.0, 3.0], [10.0, 6.0]) == pytest.approx(0.5)
    assert learned_trust([-5.0], [10.0]) == 0.0


def test_a_plan_is_not_expected_to_outlive_what_was_watched() -> None:
    assert learned_lifetime([[60.0, 60.0]], longest=3) == pytest.approx(3)
    assert learned_lifetime([[60.0, 30.0]], longest=3) == pytest.approx(2)


def test_the_gates_memory_follows_each_plan_as_it_ages() -> None:
    memory = AmortisationMemory(floor=20.0)
    assert (memory.lifetime, memory.trust) == (1.0, 1.0)
    memory.record_plan(10.0)
    memory.record_period([70.0], realised_gain=5.0)
    memory.record_plan(10.0)
    memory.record_period([45.0, 70.0], realised_gain=2.0)
    # The first plan kept half of its 50 points above the floor; both kept 7 of 20 points, and a
    # point counts as kept beforehand.
    assert memory.lifetime == pytest.approx(2.0)
    assert memory.trust == pytest.approx(8 / 21)
    assert memory.gate(0.5) == AmortisationGate(0.5, lifetime=memory.lifetime, trust=memory.trust)
    with pytest.raises(InvalidInput):
        memory.record_period([1.0], 0.0)


def test_small_disappointments_cost_little_trust_and_large_ones_can_be_earned_back() -> None:
    memory = AmortisationMemory(floor=0.0)
    memory.record_plan(0.01)
    memory.record_period([50.0], realised_gain=-0.01)
    assert memory.trust > 0.97
    memory.record_plan(20.0)
    memory.record_period([50.0, 50.0], realised_gain=-20.0)
    assert memory.trust == LEAST_TRUST
