"""The Kafka demonstration passes exactly if it shows what it must show."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ballast.contracts.records import Ack, Outcome, Promise
from embedded.kafka_report import KafkaFindings, kafka_report_lines, kafka_shortcomings
from examples.orders.check import Exactness
from examples.orders.load import Gaps

NOW = datetime(2026, 11, 19, tzinfo=UTC)
PROMISE = Promise(
    job="orders", plan_id="abc", figure="load_distance_pct", unit="% of mean", expected=1.3,
    low=0.5, high=2.9, lowest=0.1, highest=4.5, reason="",
)  # fmt: skip
OUTCOME = Outcome(
    job="orders", version=1, plan_id="abc", run_id="r", figure="load_distance_pct",
    unit="% of mean", before=34.9, promised=1.3, measured=2.1, windows=12, period_start_at=NOW,
    period_end_at=NOW, measured_at=NOW,
)  # fmt: skip
ACK = Ack(
    job="orders", version=1, plan_id="abc", status="applied", batch_id=7, reason="",
    moved_key_groups=4, bytes_moved=0, pause_ms=55.0, acked_at=NOW,
)  # fmt: skip
GOOD = KafkaFindings(
    client="Python", by_assignor={"range": 35.0, "round-robin": 2.0, "cooperative-sticky": 18.0},
    promise=PROMISE, outcome=OUTCOME, consumers_pct=2.2, ack=ACK, take_up=Gaps(255.0, None),
    control=Gaps(268.0, 277.0), exactness=Exactness(1000, 0, 0), peak_memory_bytes=2**30,
)  # fmt: skip


def test_a_plan_that_kept_its_promise_passes() -> None:
    assert kafka_shortcomings(GOOD) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"by_assignor": {"range": 35.0, "cooperative-sticky": 6.0}}, "a third of 6.00 %"),
        ({"promise": replace(PROMISE, highest=2.0)}, "above 2.00 %"),
        ({"exactness": Exactness(1000, 1, 0)}, "lost 1, doubled 0"),
        ({"exactness": Exactness(1000, 0, 2)}, "lost 0, doubled 2"),
        ({"exactness": Exactness(0, 0, 0)}, "0 fed"),
    ],
)
def test_each_shortcoming_is_named(change: dict[str, object], said: str) -> None:
    (problem,) = kafka_shortcomings(replace(GOOD, **change))  # type: ignore[arg-type]
    assert said in problem


def test_rounding_is_not_above_the_interval() -> None:
    measured = GOOD.outcome.measured
    near = replace(PROMISE, low=0.0, lowest=0.0, high=measured - 1e-7, highest=measured - 1e-7)
    assert kafka_shortcomings(replace(GOOD, promise=near)) == []


def test_the_table_has_gaps_beside_their_control_and_the_side_of_the_promise() -> None:
    text = "\n".join(kafka_report_lines(GOOD))
    assert "255 ms, 268 in a control time before the plan" in text
    assert "no such partition" in text
    assert "inside the 90 % interval" in text
    outside = replace(GOOD, outcome=replace(OUTCOME, measured=3.0))
    assert "OUTSIDE, 0.10 above" in "\n".join(kafka_report_lines(outside))
