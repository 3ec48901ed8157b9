"""The Java assignor gives what the Python assignor gives, and bears data that nobody can read."""

from __future__ import annotations

import json
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ballast.engines.kafka.assignment import PlannedPartitions
from ballast.engines.kafka.assignor import PlanAssignor
from embedded.java import java_command
from embedded.java_consumer import PROJECT

JARS = Path(__file__).resolve().parents[2] / ".ballast" / "kafka-jars"
GROUPS = 2_000
JUNK = ('{"node": 7}', "{", "", '{"node": "node-0", "plan": {"version": 3}}', "[1]", "\u00fc" * 9)


@dataclass(frozen=True)
class FakePart:
    topic: str
    partitions: list[int]


@dataclass(frozen=True)
class FakeSubscription:
    topics: list[str]
    owned_partitions: list[FakePart]
    user_data: bytes


@dataclass(frozen=True)
class FakeMember:
    member_id: str
    metadata: FakeSubscription


class FakeCluster:
    def __init__(self, topics: dict[str, int]) -> None:
        self._topics = topics

    def partitions_for_topic(self, topic: str) -> set[int]:
        return set(range(self._topics.get(topic, 0)))


def by_java(groups: list[dict[str, Any]]) -> list[dict[str, list[list[Any]]]]:
    java = java_command()
    assert java is not None
    answer = subprocess.run(
        [java, "-cp", f"{PROJECT}/target/classes:{PROJECT}/target/test-classes:{JARS}/*",
         "ballast.kafka.AssignmentProbe"],
        input="\n".join(map(json.dumps, groups)) + "\n", capture_output=True, text=True,
        check=True, timeout=280,
    )  # fmt: skip
    return [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]


def by_python(group: dict[str, Any]) -> dict[str, list[list[Any]]]:
    members = [
        FakeMember(
            member["id"],
            FakeSubscription(
                member["topics"], [FakePart(t, [n]) for t, n in member["owned"]],
                member["data"].encode(),
            ),
        )
        for member in group["members"]
    ]  # fmt: skip
    found = PlanAssignor("node-0", PlannedPartitions).assign(FakeCluster(group["topics"]), members)
    return {
        member: sorted([topic, n] for topic, numbers in given.assigned_partitions for n in numbers)
        for member, given in found.items()
    }


def random_group(chosen: random.Random) -> dict[str, Any]:
    """A group in any state that rebalances leave, with claims that contradict each other."""
    topics = {"orders": chosen.randint(1, 8), "payments": chosen.randint(1, 3)}
    every = [[topic, number] for topic, count in topics.items() for number in range(count)]
    version = chosen.choice([0, 0, 3, 4])
    plan = {
        "job": "orders", "version": version, "window_ms": 5000,
        "placement": {
            t: [f"node-{chosen.randint(0, 3)}" for _ in range(n)] for t, n in topics.items()
        } if version else {},
    }  # fmt: skip
    members = []
    for number in range(chosen.randint(1, 4)):
        data: dict[str, Any] = {
            "node": f"node-{chosen.randint(0, 3)}", "generation": chosen.randint(-1, 2),
            "version": chosen.choice([0, 3, 4, 5]),
        }  # fmt: skip
        if chosen.random() < 0.5:
            data["plan"] = plan
        members.append(
            {
                "id": f"member-{number}",
                "topics": ["orders", "payments"] if chosen.random() < 0.8 else ["orders"],
                "owned": [pair for pair in every if chosen.random() < 0.4],
                "data": json.dumps(data),
            }
        )
    if chosen.random() < 0.3:
        data = {"trigger": True, "version": version, "plan": plan}
        members.append(
            {"id": "trigger", "topics": list(topics), "owned": [], "data": json.dumps(data)}
        )
    return {"topics": topics, "members": members}


def test_both_assignors_give_the_same_in_any_state_of_a_group() -> None:
    chosen = random.Random(5)
    groups = [random_group(chosen) for _ in range(GROUPS)]
    found = by_java(groups)
    assert len(found) == GROUPS
    for group, given in zip(groups, found, strict=True):
        assert {m: sorted(parts) for m, parts in given.items()} == by_python(group), group


@pytest.mark.parametrize("junk", JUNK)
def test_members_with_unreadable_data_still_get_every_partition(junk: str) -> None:
    members = [
        {"id": f"member-{n}", "topics": ["orders"], "owned": [], "data": junk} for n in range(3)
    ]
    (found,) = by_java([{"topics": {"orders": 6}, "members": members}])
    assert sorted(map(len, found.values())) == [2, 2, 2]
