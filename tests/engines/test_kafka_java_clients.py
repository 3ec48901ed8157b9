"""Java consumers with the built jar follow plans, on a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ballast.contracts.settings import Settings
from embedded.kafka_broker import KafkaBroker
from tests.support.orders_group import (
    BACK,
    MIXED,
    NODES,
    PARTITIONS,
    JavaOrdersGroup,
    ack,
    give,
    kafka_policy,
    kill,
    owners,
    statuses,
    stop,
    wait_for,
)
from tests.support.policies import write_policy

MakeGroup = Callable[[str], JavaOrdersGroup]


@pytest.fixture
def java_group(broker: KafkaBroker, settings: Settings, tmp_path: Path) -> Iterator[MakeGroup]:
    made: list[JavaOrdersGroup] = []

    def make(job: str) -> JavaOrdersGroup:
        policy = kafka_policy(job, clients="java")
        write_policy(settings.policies, policy)
        made.append(JavaOrdersGroup(settings, policy, broker.address, tmp_path / job))
        group = made[-1]
        group.start_service()
        group.start_members(*NODES)
        group.wait_until_balanced(len(NODES))
        group.start_feed()
        return group

    yield make
    for group in made:
        group.close()


def test_java_members_take_up_a_plan_and_its_rollback_with_exact_counts(
    java_group: MakeGroup,
) -> None:
    group = java_group("java_rollback")
    give(group, 1, MIXED)
    first = ack(group, 1, "applied")
    assert owners(group) == list(MIXED)
    assert first.pause_ms > 0
    # The plan is the members' own: without the service it outlives a member that starts anew.
    stop(group.services[0])
    stop(group.members["node-2"])
    group.start_member("node-2")
    wait_for("the group is under the plan again",
             lambda: owners(group) == list(MIXED) or None, group.logs)  # fmt: skip
    group.start_service()
    give(group, 2, BACK)
    ack(group, 2, "applied")
    assert owners(group) == list(BACK)
    assert statuses(group.settings, group.policy) == [
        (1, "accepted"), (1, "applied"), (2, "accepted"), (2, "applied"),
    ]  # fmt: skip
    found = group.ended()
    assert found.fed > 0
    assert (found.lost, found.doubled) == (0, 0)


def test_java_members_are_measured_by_partition(java_group: MakeGroup) -> None:
    group = java_group("java_measured")
    complete = wait_for("two whole windows", lambda: group.whole_windows(2), group.logs, 120)
    assert all(len(rows) == PARTITIONS for rows in complete)
    assert all(row["cpu_ms"] > 0 for rows in complete for row in rows if row["records"])
    assert sum(row["records"] for rows in complete for row in rows) > 0


def test_a_java_member_that_is_killed_in_a_take_up_loses_nothing(java_group: MakeGroup) -> None:
    group = java_group("java_killed")
    wait_for("orders are processed", lambda: any(group.out.glob("*.log")) or None, group.logs)
    give(group, 1, MIXED)
    ack(group, 1, "accepted")
    kill(group.members["node-1"])
    ack(group, 1, "applied")
    found = owners(group)
    assert None not in found
    assert [found[n] for n in range(PARTITIONS) if MIXED[n] != "node-1"] == [
        node for node in MIXED if node != "node-1"
    ]
    assert group.ended().lost == 0
