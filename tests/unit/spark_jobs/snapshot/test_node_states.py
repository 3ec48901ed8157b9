"""The plan in force determines which nodes have to report."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ballast.contracts.errors import GateFailed
from spark_jobs.snapshot.node_states import NodeActivity, NodeStatus, node_states
from spark_jobs.snapshot.statistics_period import StatisticsPeriod, period_ending_at
from tests.support.policies import small_policy

NODES = ["a", "b", {"id": "c", "spare": True}]
POLICY = small_policy(nodes=NODES, scaling={}, dead_after_windows=10)
END = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
PERIOD: StatisticsPeriod = period_ending_at(POLICY, END)


def report_of(first: int, last: int = 0) -> NodeActivity:
    """A report of the windows from ``first`` before the end to ``last`` before it."""
    ends = frozenset(PERIOD.back(n) for n in range(last, first))
    return NodeActivity(max(ends), ends)


def test_a_spare_node_is_not_missed_and_one_in_use_is() -> None:
    reported = {"a": report_of(6), "b": report_of(6)}
    states = node_states(POLICY, PERIOD, reported, {})
    assert [(s.node.id, s.state) for s in states] == [("a", "alive"), ("b", "alive")]
    with pytest.raises(GateFailed, match=r"1 of 3 nodes silent.*: c, never seen"):
        node_states(POLICY, PERIOD, reported, {}, dict.fromkeys("abc", "alive"))


def test_a_removed_node_is_not_missed_and_one_that_drains_still_is() -> None:
    states = node_states(
        POLICY, PERIOD, {"a": report_of(6), "b": report_of(6, 3)}, {}, {"a": "alive"}
    )
    assert [s.node.id for s in states] == ["a"]
    with pytest.raises(GateFailed, match=r"1 of 2 nodes silent.*: b since"):
        node_states(
            POLICY,
            PERIOD,
            {"a": report_of(6), "b": report_of(6, 3)},
            {},
            {"a": "alive", "b": "draining"},
        )


def windows_of_all(states: list[NodeStatus]) -> int:
    """Number of windows in which every node reports."""
    return sum(all(state.reports_in(end) for state in states) for end in PERIOD.ends)


def test_an_added_node_is_missed_from_its_first_window_on() -> None:
    in_use = dict.fromkeys("abc", "alive")
    gap = NodeActivity(END, frozenset({END, PERIOD.back(2)}))
    for reported, whole in ((report_of(2), 6), (gap, 5)):
        all_reports = {"a": report_of(6), "b": report_of(6), "c": reported}
        states = node_states(POLICY, PERIOD, all_reports, {}, in_use, added={"c"})
        assert windows_of_all(states) == whole
    missed = node_states(
        POLICY, PERIOD, {"a": report_of(6), "b": report_of(6), "c": report_of(2)}, {}, in_use
    )
    assert windows_of_all(missed) == 2
    assert END - PERIOD.start == timedelta(seconds=30)
