"""What every engine must do, shown by a Kafka consumer group of real processes on a real broker."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaProducer

from ballast.engines.kafka.messages import plan_topic
from ballast.store.tables import read_rows
from tests.support.orders_group import (
    BACK,
    MIXED,
    NODES,
    PARTITIONS,
    OrdersGroup,
    ack,
    give,
    kill,
    owners,
    statuses,
    stop,
    wait_for,
)

MakeGroup = Callable[[], OrdersGroup]
ON_FIRST = ("node-0",) * PARTITIONS


@pytest.fixture
def running(make_group: MakeGroup) -> OrdersGroup:
    """Three members that are fed, and a service."""
    group = make_group()
    group.start_service()
    group.start_members(*NODES)
    group.wait_until_balanced(len(NODES))
    group.start_feed()
    return group


def test_a_plan_and_its_rollback_are_taken_up_with_exact_counts(running: OrdersGroup) -> None:
    give(running, 1, MIXED)
    first = ack(running, 1, "applied")
    assert owners(running) == list(MIXED)
    give(running, 2, BACK)
    second = ack(running, 2, "applied")
    assert owners(running) == list(BACK)
    assert first.pause_ms > 0
    assert second.pause_ms > 0
    assert second.moved_key_groups == sum(a != b for a, b in zip(MIXED, BACK, strict=True))
    assert second.batch_id > first.batch_id
    found = running.ended()
    assert (found.lost, found.doubled) == (0, 0)
    assert found.fed > 0
    assert statuses(running.settings, running.policy) == [
        (1, "accepted"), (1, "applied"), (2, "accepted"), (2, "applied"),
    ]  # fmt: skip


def test_windows_are_aligned_complete_and_written_once(running: OrdersGroup) -> None:
    def rows() -> list[dict[str, object]]:
        return list(
            read_rows(running.settings, "metrics.key_groups", job=running.job).to_pylist()
        )  # fmt: skip

    def whole() -> set[object] | None:
        ends: dict[object, int] = {}
        for row in rows():
            ends[row["window_end_at"]] = ends.get(row["window_end_at"], 0) + 1
        complete = {end for end, count in ends.items() if count == PARTITIONS}
        return complete if len(complete) >= 3 else None

    complete = wait_for("three whole windows", whole, running.logs)
    found = [row for row in rows() if row["window_end_at"] in complete]
    names = [(row["key_group"], row["window_end_at"]) for row in found]
    assert len(names) == len(set(names))
    assert all(end.timestamp() % running.policy.window_s == 0 for end in complete)  # type: ignore[attr-defined]
    assert sum(int(str(row["records"])) for row in found) > 0
    assert all(float(str(row["cpu_ms"])) > 0 for row in found if row["records"])
    nodes = read_rows(running.settings, "metrics.nodes", job=running.job).to_pylist()
    assert {row["node_id"] for row in nodes} == set(NODES)
    sources = read_rows(running.settings, "metrics.sources", job=running.job).to_pylist()
    assert any(row["backlog_records"] is not None for row in sources)


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        (("node-9", *MIXED[1:]), "unknown node node-9"),
        (("node-2", *ON_FIRST[1:]), "node-2 is not in group"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused_and_the_group_stays(
    make_group: MakeGroup, nodes: tuple[str, ...], reason: str
) -> None:
    group = make_group()
    group.start_service()
    group.start_members("node-0", "node-1")
    group.wait_until_balanced(2)
    before = owners(group)
    give(group, 1, nodes)
    assert reason in ack(group, 1, "refused").reason
    assert owners(group) == before
    give(group, 2, ON_FIRST)
    ack(group, 2, "applied")
    assert owners(group) == list(ON_FIRST)


def test_a_plan_for_a_topic_that_got_partitions_is_refused(running: OrdersGroup) -> None:
    running.add_partitions(PARTITIONS + 2)
    wait_for(
        "the topic has more partitions",
        lambda: running.broker.partition_counts([running.job])[running.job] > PARTITIONS or None,
        running.logs,
    )
    give(running, 1, MIXED)
    assert f"has {PARTITIONS + 2} partitions" in ack(running, 1, "refused").reason


def test_an_unreadable_head_leaves_the_group_as_it_is(running: OrdersGroup) -> None:
    give(running, 1, MIXED)
    ack(running, 1, "applied")
    table = Path(running.settings.warehouse) / "plans" / "heads"
    table.rename(table.with_name("away"))
    table.mkdir()
    (table / "_delta_log").mkdir()
    (table / "_delta_log" / f"{0:020d}.json").write_text("no log of Delta")
    wait_for(
        "the service has failed to read the head",
        lambda: "tried again" in running.logs() or None,
        running.logs,
    )
    assert owners(running) == list(MIXED)
    shutil.rmtree(table)
    table.with_name("away").rename(table)
    give(running, 2, BACK)
    ack(running, 2, "applied")
    found = running.ended()
    assert (found.lost, found.doubled) == (0, 0)


def test_an_unreadable_record_of_the_plan_topic_is_left_out(running: OrdersGroup) -> None:
    give(running, 1, MIXED)
    ack(running, 1, "applied")
    producer = KafkaProducer(**running.connection)
    for value in (b"no plan", b'{"format": 7}', b'{"format": 1, "version": -1}'):
        producer.send(plan_topic(running.job), key=b"x", value=value).get(timeout=30)
    producer.close()
    stop(running.members["node-1"])
    running.start_member("node-1")
    wait_for(
        "the group is under the plan again",
        lambda: owners(running) == list(MIXED) or None,
        running.logs,
    )
    give(running, 2, BACK)
    ack(running, 2, "applied")


def test_of_two_services_one_acts_and_the_other_takes_over(running: OrdersGroup) -> None:
    running.start_service()
    give(running, 1, MIXED)
    ack(running, 1, "applied")
    assert stop(running.services[0]) == 0
    give(running, 2, BACK)
    ack(running, 2, "applied")
    assert statuses(running.settings, running.policy) == [
        (1, "accepted"), (1, "applied"), (2, "accepted"), (2, "applied"),
    ]  # fmt: skip
    nodes = read_rows(running.settings, "metrics.nodes", job=running.job).to_pylist()
    names = [(row["node_id"], row["window_end_at"]) for row in nodes]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("point", ["accepted", "sent", "before_applied"])
def test_a_service_that_is_killed_in_a_take_up_is_continued_by_the_next(
    make_group: MakeGroup, point: str
) -> None:
    group = make_group()
    service = group.start_service(fault=f"engine.{point}@1")
    group.start_members("node-0", "node-1")
    group.wait_until_balanced(2)
    group.start_feed()
    give(group, 1, ON_FIRST)
    wait_for("the service is killed", service.poll, group.logs)
    group.start_service()
    ack(group, 1, "applied")
    assert owners(group) == list(ON_FIRST)
    assert statuses(group.settings, group.policy) == [(1, "accepted"), (1, "applied")]
    found = group.ended()
    assert (found.lost, found.doubled) == (0, 0)


def test_a_member_that_is_killed_in_a_take_up_loses_nothing(running: OrdersGroup) -> None:
    wait_for("orders are processed", lambda: any(running.out.glob("*.log")) or None, running.logs)
    give(running, 1, MIXED)
    ack(running, 1, "accepted")
    kill(running.members["node-1"])
    ack(running, 1, "applied")
    found = owners(running)
    assert None not in found
    assert [found[n] for n in range(PARTITIONS) if MIXED[n] != "node-1"] == [
        node for node in MIXED if node != "node-1"
    ]
    assert running.ended().lost == 0


def test_a_member_that_joins_in_a_take_up_is_used_by_the_plan(make_group: MakeGroup) -> None:
    group = make_group()
    group.start_service()
    group.start_members(*NODES)
    group.wait_until_balanced(3)
    group.start_feed()
    give(group, 1, MIXED)
    ack(group, 1, "applied")
    stop(group.members["node-2"])
    wait_for("others have its partitions",
             lambda: (None not in owners(group) and "node-2" not in owners(group)) or None,
             group.logs)  # fmt: skip
    give(group, 2, BACK)
    assert "node-2 is not in group" in ack(group, 2, "refused").reason
    group.start_member("node-2")
    wait_for("it has what the plan gave it", lambda: owners(group) == list(MIXED) or None,
             group.logs)  # fmt: skip
    found = group.ended()
    assert (found.lost, found.doubled) == (0, 0)


def test_members_that_start_one_after_another_are_never_left_idle(make_group: MakeGroup) -> None:
    group = make_group()
    group.start_service()
    group.start_feed()
    for count, node in enumerate(NODES, start=1):
        # Polls of 2 ms end while the group still joins: without the guard of half joins a leader
        # stays half joined, and is expelled.
        group.start_member(node, poll_ms=2)
        group.wait_until_balanced(count)
    found = group.ended()
    assert (found.lost, found.doubled) == (0, 0)
