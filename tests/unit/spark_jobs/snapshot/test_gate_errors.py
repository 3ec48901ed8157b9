"""Silent and dead nodes, when there will be enough windows, and how errors name them."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from ballast.contracts.errors import GateFailed
from spark_jobs.snapshot.incomplete_period import MissingKeyGroups, enough_at
from spark_jobs.snapshot.message_text import number_ranges, shortened_list, utc_text
from spark_jobs.snapshot.node_states import (
    NodeActivity,
    NodeStatus,
    ReportedCapacity,
    node_states,
    nodes_since,
    silent_nodes,
)
from spark_jobs.snapshot.statistics_period import StatisticsPeriod, period_ending_at
from tests.support.metrics import START
from tests.support.policies import small_policy

WINDOW = timedelta(seconds=5)
POLICY = small_policy(nodes=["a", "b"], dead_after_windows=10)
END = START + 100 * WINDOW
PERIOD = period_ending_at(POLICY, END)


def report_of(first_windows_back: int, last_windows_back: int = 0) -> NodeActivity:
    """A node that reported from the first to the last of these windows before the end."""
    ends = [END - n * WINDOW for n in range(last_windows_back, first_windows_back)]
    return NodeActivity(
        max(ends), frozenset(ends), ReportedCapacity(cpu_capacity_cores=4.0, rack="r")
    )


def states(reported: dict[str, NodeActivity], **previous: datetime) -> dict[str, str]:
    found = node_states(POLICY, PERIOD, reported, previous)
    return {state.node.id: state.state for state in found}


def test_nodes_are_looked_at_far_enough_back_to_tell_the_dead() -> None:
    assert nodes_since(POLICY, PERIOD) == END - 10 * WINDOW
    short = small_policy(dead_after_windows=2)
    assert nodes_since(short, PERIOD) == PERIOD.start == END - 6 * WINDOW


def test_nodes_that_report_are_alive() -> None:
    assert states({"a": report_of(10), "b": report_of(10)}) == {"a": "alive", "b": "alive"}


@pytest.mark.parametrize("silent", [1, 9])
def test_a_silent_node_fails_the_gate_with_since_when(silent: int) -> None:
    since = utc_text(END - silent * WINDOW)
    with pytest.raises(GateFailed, match=f"b since {since}"):
        states({"a": report_of(10), "b": report_of(10, silent)})


def test_a_node_silent_for_long_enough_is_dead() -> None:
    assert states({"a": report_of(10)}, b=END - 10 * WINDOW) == {"a": "alive", "b": "dead"}


def test_a_node_never_seen_is_silent_since_the_jobs_first_window() -> None:
    with pytest.raises(GateFailed, match=f"b, never seen, since {utc_text(END - 9 * WINDOW)}"):
        states({"a": report_of(9)})


def test_a_node_never_seen_for_long_enough_is_dead() -> None:
    assert states({"a": report_of(10)}) == {"a": "alive", "b": "dead"}


def test_a_node_cannot_die_while_the_job_stands_still() -> None:
    """The job was started three windows ago; the node was last seen a day ago."""
    with pytest.raises(GateFailed, match="b, never seen"):
        states({"a": report_of(3)}, b=END - timedelta(days=1))


def test_bad_figures_are_not_silence() -> None:
    only_bad = NodeActivity(last_seen=END)
    assert states({"a": report_of(10), "b": only_bad}) == {"a": "alive", "b": "alive"}


def test_capacity_comes_from_the_node_and_else_from_the_policy() -> None:
    row = node_states(POLICY, PERIOD, {"a": report_of(10), "b": report_of(10)}, {})[0].record(
        "probe", "s"
    )
    assert (row.cpu_capacity_cores, row.rack, row.cluster) == (4.0, "r", "main")
    dead = node_states(POLICY, PERIOD, {"a": report_of(10)}, {})[1].record("probe", "s")
    assert (dead.cpu_capacity_cores, dead.last_seen_at, dead.silent_windows) == (
        1.0,
        None,
        10,
    )


def silent_in_each_window(found: list[NodeStatus]) -> list[int]:
    return [silent_nodes(found, end) for end in PERIOD.ends]


def test_a_window_needs_every_living_node() -> None:
    assert silent_in_each_window(node_states(POLICY, PERIOD, {"a": report_of(10)}, {})) == [0] * 6
    both = node_states(POLICY, PERIOD, {"a": report_of(10), "b": report_of(2)}, {})
    assert silent_in_each_window(both) == [1] * 4 + [0] * 2


@pytest.mark.parametrize(
    ("complete", "windows_to_wait"),
    [
        ([0, 1, 2, 3], 1),  # newest four: one more
        ([5, 4, 3, 2], 5),  # oldest four fall out one by one
        ([], 5),
        ([0], 4),
    ],
)
def test_when_enough_windows_will_be_there(complete: list[int], windows_to_wait: int) -> None:
    period = StatisticsPeriod(END, WINDOW, 6)
    ends = [period.back(n) for n in complete]
    assert enough_at(period, ends, 5) == END + windows_to_wait * WINDOW


def test_long_lists_are_cut() -> None:
    assert shortened_list([str(n) for n in range(9)]) == "0, 1, 2, 3, 4, 5 and 3 more"
    assert number_ranges([7, 1, 2, 3]) == ["1-3", "7"]
    many = MissingKeyGroups("op", tuple(range(0, 48, 2)), 500, 1000)
    assert str(many) == "op 0, 2, 4, 6, 8, 10, ... (500 of 1000)"
    assert str(MissingKeyGroups("op", (3,), 1, 40)) == "op 3 (1 of 40)"
