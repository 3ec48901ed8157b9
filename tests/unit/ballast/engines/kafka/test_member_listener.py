"""The member hears of every change of its partitions, whatever the user's listener does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from kafka.structs import TopicPartition

from ballast.engines.kafka.member import GroupMember, MemberListener

FIRST = TopicPartition("orders", 0)


class Recording(GroupMember):
    """A member that notes what it hears."""

    def __init__(self, events: list[str]) -> None:
        self.events = events

    async def give_up(self, partitions: Any) -> None:
        self.events.append(f"gave up {len(partitions)}")

    def take(self, partitions: Any) -> None:
        self.events.append(f"took {len(partitions)}")

    def lose(self, partitions: Any) -> None:
        self.events.append(f"lost {len(partitions)}")


class Plain:
    """A listener with ordinary functions."""

    def __init__(self, events: list[str], on_revoked: Callable[[], None] = lambda: None) -> None:
        self.events, self.on_revoked = events, on_revoked

    def on_partitions_revoked(self, _: Any) -> None:
        self.events.append("user")
        self.on_revoked()


class Waiting:
    """A listener with coroutines."""

    def __init__(self, events: list[str]) -> None:
        self.events = events

    async def on_partitions_revoked(self, _: Any) -> None:
        self.events.append("user")


def test_the_users_listener_is_called_before_offsets_are_committed() -> None:
    for kind in (Plain, Waiting):
        events: list[str] = []
        listener = MemberListener(Recording(events), kind(events))
        asyncio.run(listener.on_partitions_revoked({FIRST}))
        assert events == ["user", "gave up 1"]


def test_offsets_are_committed_although_the_users_listener_fails() -> None:
    events: list[str] = []

    def fail() -> None:
        raise ValueError("of the user")

    listener = MemberListener(Recording(events), Plain(events, fail))
    with pytest.raises(ValueError, match="of the user"):
        asyncio.run(listener.on_partitions_revoked({FIRST}))
    assert events == ["user", "gave up 1"]


def test_a_listener_needs_only_the_methods_that_it_uses() -> None:
    events: list[str] = []
    listener = MemberListener(Recording(events), None)
    asyncio.run(listener.on_partitions_assigned({FIRST}))
    asyncio.run(listener.on_partitions_lost({FIRST}))
    assert events == ["took 1", "lost 1"]
