"""Limits grow with the measured slowness, and a wait ends only without progress."""

from __future__ import annotations

from itertools import count

import pytest

from embedded.errors import WaitedTooLong
from embedded.machine_speed import MachineSpeed, wait_while_progressing
from tests.support.limits import measured_slowdown


def test_a_machine_of_usual_speed_gets_the_usual_limits() -> None:
    speed = MachineSpeed()
    speed.observe(10.0, usual_s=30.0)
    assert speed.limit(120.0) == 120.0


def test_limits_grow_with_the_slowest_observation() -> None:
    speed = MachineSpeed()
    speed.observe(90.0, usual_s=30.0)
    speed.observe(45.0, usual_s=30.0)
    assert speed.limit(120.0) == 360.0


def test_a_wait_with_progress_outlasts_its_limit() -> None:
    looks = count()
    steps = count()
    found = wait_while_progressing(
        lambda: "there" if next(looks) == 20 else None,
        lambda: next(steps),
        "nothing came",
        lambda: 0.005,
        every_s=0.001,
    )
    assert found == "there"


def test_a_wait_without_progress_ends_and_says_what_did_not_happen() -> None:
    with pytest.raises(WaitedTooLong, match=r"rain did not come: no progress for 0 s"):
        wait_while_progressing(
            lambda: None, lambda: 1, "rain did not come", lambda: 0.01, every_s=0.001
        )


def test_a_measured_machine_is_of_usual_speed_or_slower() -> None:
    assert measured_slowdown() >= 1.0
