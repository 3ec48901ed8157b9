"""The service goes on after an error, acts only on its turn, and always disconnects."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from ballast.contracts.errors import InvalidInput
from ballast.engines.service import EngineService


class Session:
    """A session whose steps are given by the test; it stops the service after ``rounds``."""

    def __init__(self, stopping: threading.Event, rounds: int, *, is_turn: bool = True) -> None:
        self.stopping, self.rounds, self.is_turn = stopping, rounds, is_turn
        self.events: list[str] = []
        self.fail: Callable[[str], None] = lambda _: None
        self.collector = self.applier = self

    def wait_for_turn(self) -> bool:
        self.rounds -= 1
        if self.rounds <= 0:
            self.stopping.set()
        self._step("turn")
        return self.is_turn

    def collect(self) -> int:
        self._step("collect")
        return 1

    def apply(self) -> None:
        self._step("apply")

    def close(self) -> None:
        self.events.append("close")

    def _step(self, name: str) -> None:
        self.events.append(name)
        self.fail(name)


class NoWait(threading.Event):
    """An event that is not waited for."""

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()


def test_a_round_collects_and_then_applies() -> None:
    session = Session(stopping := NoWait(), rounds=1)
    EngineService(session, stopping).run()
    assert session.events == ["turn", "collect", "apply", "close"]


def test_a_service_that_waits_for_its_turn_does_neither() -> None:
    session = Session(stopping := NoWait(), rounds=2, is_turn=False)
    EngineService(session, stopping).run()
    assert session.events == ["turn", "turn", "close"]


@pytest.mark.parametrize("step", ["turn", "collect", "apply"])
def test_a_step_that_fails_is_tried_again(step: str) -> None:
    session = Session(stopping := NoWait(), rounds=3)

    def fail(name: str) -> None:
        if name == step and session.rounds == 2:
            raise OSError("away")

    session.fail = fail
    EngineService(session, stopping).run()
    assert session.events.count(step) >= 2
    assert session.events[-2:] == ["apply", "close"]


def test_wrong_input_ends_the_service_and_disconnects() -> None:
    session = Session(stopping := NoWait(), rounds=9)

    def fail(name: str) -> None:
        if name == "collect":
            raise InvalidInput("wrong")

    session.fail = fail
    with pytest.raises(InvalidInput):
        EngineService(session, stopping).run()
    assert session.events == ["turn", "collect", "close"]
