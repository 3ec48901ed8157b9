"""Messages come back as they were sent, and what is no message is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ballast.engines.kafka.messages import (
    PartitionReport,
    PlanMessage,
    Report,
    TakeUpReport,
    UnreadableMessage,
    WindowReport,
    report_from_bytes,
    report_to_bytes,
)

PLAN = PlanMessage("orders", 3, 10_000, {"orders": ("node-0", "node-1")}, "plan-3", 1)
WINDOW = WindowReport(
    "node-0", "p", 10_000, 1000, 3, 7, True,
    (PartitionReport("orders", 1, 10, 900, 5.5, 8.0, False),),
)  # fmt: skip


def test_a_plan_comes_back_as_it_was_sent() -> None:
    assert PlanMessage.from_bytes(PLAN.to_bytes()) == PLAN
    assert PLAN.node_by_partition == {("orders", 0): "node-0", ("orders", 1): "node-1"}


@pytest.mark.parametrize("report", [WINDOW, TakeUpReport("node-0", "p", 3, 210.5)])
def test_a_report_comes_back_as_it_was_sent(report: Report) -> None:
    assert report_from_bytes(report_to_bytes(report)) == report


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"[]", b"null", b"{}", b'{"format": 2}', b'{"format": 1}']
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableMessage):
        PlanMessage.from_bytes(data)
    with pytest.raises(UnreadableMessage):
        report_from_bytes(data)


def changed(data: bytes, **values: Any) -> bytes:
    return json.dumps(json.loads(data) | values).encode()


@pytest.mark.parametrize(
    "values",
    [
        {"version": -1}, {"version": "x"}, {"window_ms": 0}, {"placement": []},
        {"placement": {"t": 1}},
    ],
)  # fmt: skip
def test_a_plan_with_a_wrong_field_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(UnreadableMessage):
        PlanMessage.from_bytes(changed(PLAN.to_bytes(), **values))


@pytest.mark.parametrize(
    "values",
    [
        {"kind": "other"}, {"node_id": 7}, {"start_ms": -5}, {"start_ms": 1.5},
        {"is_whole": "yes"}, {"heartbeats": True}, {"partitions": [{}]}, {"more": 1},
    ],
)  # fmt: skip
def test_a_report_with_a_wrong_field_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(UnreadableMessage):
        report_from_bytes(changed(report_to_bytes(WINDOW), **values))


@pytest.mark.parametrize("cpu_ms", [-1.0, float("nan"), float("inf"), 1e15])
def test_a_figure_that_no_window_can_have_is_refused(cpu_ms: float) -> None:
    part = {**json.loads(report_to_bytes(WINDOW))["partitions"][0], "cpu_ms": cpu_ms}
    with pytest.raises(UnreadableMessage, match="cpu_ms"):
        report_from_bytes(changed(report_to_bytes(WINDOW), partitions=[part]))
