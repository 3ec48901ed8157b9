"""``make demo-scale`` reports what it showed, and names what it did not show."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from ballast.contracts.policy import load_policy
from ballast.contracts.settings import load_settings
from embedded.demo_scale import (
    KeyGroupWindow,
    check_input_rate,
    rates_in,
    with_scaling,
)
from embedded.errors import EmbeddedError
from embedded.scale_report import (
    BUDGET_MOVES,
    MAX_DRAIN_ROUNDS,
    NODES,
    SPARES,
    ScaleRun,
    report_lines,
    shortcomings,
)

SHOWN = ScaleRun(
    added=["node-3"],
    reasons=["3 nodes become 4"],
    promised={f"node-{i}": (0.02, 0.021) for i in range(4)},
    flights_per_s=(11_000.0, 11_200.0),
    drained=["node-3"],
    key_groups_left=[BUDGET_MOVES + 3, 3, 0],
    drain_moves=[BUDGET_MOVES, 3],
    removed=["node-3"],
    sums_equal=True,
    sums_text="sums of 10 flights: equal",
)


def test_a_run_that_showed_everything_has_no_shortcoming() -> None:
    assert shortcomings(SHOWN) == []
    text = "\n".join(report_lines(SHOWN))
    assert "promised 0.0200, measured 0.0210 cores (+5.0 %)" in text
    assert "node-3 over 2 rounds" in text
    assert f"{BUDGET_MOVES + 3} -> 3 -> 0" in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"added": []}, "adds one node"),
        ({"promised": SHOWN.promised | {"node-0": (0.02, 0.0225)}}, "within 10% of the promised"),
        ({"promised": {}}, "every node's CPU"),
        ({"flights_per_s": (11_000.0, 8_000.0)}, "planned for 11,000 flights/s, measured at 8,000"),
        ({"flights_per_s": (0.0, 0.0)}, "an even load"),
        ({"drained": [], "removed": []}, "one node is drained"),
        ({"drained": ["node-2", "node-3"]}, "one node is drained"),
        ({"drain_moves": [BUDGET_MOVES + 1, 2]}, "in budget"),
        ({"drain_moves": []}, "in budget"),
        ({"drain_moves": [1] * (MAX_DRAIN_ROUNDS + 1)}, "as many rounds"),
        ({"key_groups_left": [BUDGET_MOVES, 0]}, "several rounds necessary"),
        ({"key_groups_left": []}, "several rounds necessary"),
        ({"key_groups_left": [BUDGET_MOVES, 0], "drain_moves": [BUDGET_MOVES]}, "as many rounds"),
        ({"key_groups_left": [2 * BUDGET_MOVES + 1, 9, 0]}, "as many rounds as needed, 3 to"),
        ({"key_groups_left": [BUDGET_MOVES + 3, 3, 1]}, "empty in the end"),
        ({"removed": []}, "is removed"),
        ({"drained": [], "removed": []}, "is removed"),
        ({"heartbeats": ["node-3 under version 0"]}, "silent"),
        ({"sums_equal": False}, "sums"),
    ],
)
def test_what_was_not_shown_is_named(change: dict[str, Any], words: str) -> None:
    assert any(words in problem for problem in shortcomings(replace(SHOWN, **change)))


def test_a_machine_too_busy_to_double_the_load_is_said_to_be_and_nothing_is_shown() -> None:
    check_input_rate(10_200.0, 11_000.0)
    with pytest.raises(EmbeddedError, match=r"took 7,375 flights a second of 11,000.* too busy"):
        check_input_rate(7_375.0, 11_000.0)


def test_flights_and_cpu_are_those_of_the_newest_windows() -> None:
    rows = [
        KeyGroupWindow(operator, datetime(2026, 1, 1, 0, 0, end, tzinfo=UTC), 10 * end, 500.0)
        for end in (1, 2, 3)
        for operator in ("in", "sums")
    ]
    rates = rates_in(rows, 2, 5.0, {"in"})
    assert (rates.records_per_s, rates.cpu_cores) == (5.0, 0.2)
    assert rates_in([], 2, 5.0, {"in"}).records_per_s == 0


def test_its_policy_has_three_nodes_in_use_and_a_spare_one(tmp_path: Any) -> None:
    settings = with_scaling(load_settings({"BALLAST_HOME": str(tmp_path)}), cores=0.05)
    policy = load_policy(settings.policies / "flights.yaml")
    assert [node.spare for node in policy.nodes] == [False, False, False, True]
    assert policy.nodes[0].capacity.cpu_cores == 0.05
    assert policy.scaling is not None


def test_any_node_can_be_drained_in_time_and_a_level_one_not_in_one_round(tmp_path: Any) -> None:
    settings = with_scaling(load_settings({"BALLAST_HOME": str(tmp_path)}), cores=0.05)
    policy = load_policy(settings.policies / "flights.yaml")
    key_groups = sum(operator.key_groups for operator in policy.operators)
    assert policy.budgets.moves == BUDGET_MOVES < key_groups / (NODES + SPARES)
    assert policy.scaling is not None
    assert BUDGET_MOVES * policy.scaling.max_drain_rounds >= key_groups / NODES
