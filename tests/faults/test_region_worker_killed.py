"""Workers of an ordered region are killed: order and records are kept, or the error is clear."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from ballast.streaming.region import OrderedRegion, RegionFailed, RegionSettings
from tests.unit.ballast.streaming.region import works

SMALL = RegionSettings(send_buffer=4096, receive_buffer=2048)


def numbers(count: int) -> list[bytes]:
    return [str(n).encode() for n in range(count)]


@pytest.mark.parametrize("after", [0, 1, 57, 299])
def test_a_killed_worker_costs_neither_order_nor_records(after: int) -> None:
    with OrderedRegion(works.uneven, 3, settings=SMALL) as region:
        results: list[bytes] = []
        for result in region.run(numbers(300)):
            if len(results) == after:
                os.kill(region.pids[1], signal.SIGKILL)
            results.append(result)
        assert results == numbers(300)
        if after < 299:
            assert region.weights[1] == 0
            assert sum(region.weights) == 1000


def test_a_worker_killed_while_the_source_waits_is_made_up_for() -> None:
    """The source has no further record whose sending would detect the dead worker."""
    with OrderedRegion(works.uneven, 2, settings=SMALL) as region:
        results: list[bytes] = []
        all_out = threading.Event()

        def source() -> Iterator[bytes]:
            yield from numbers(40)
            os.kill(region.pids[0], signal.SIGKILL)
            assert all_out.wait(30)

        for result in region.run(source()):
            results.append(result)
            if len(results) == 40:
                all_out.set()
        assert results == numbers(40)


def test_two_of_three_workers_killed_one_after_the_other() -> None:
    with OrderedRegion(works.uneven, 3, settings=SMALL) as region:
        results: list[bytes] = []
        for result in region.run(numbers(200)):
            if len(results) in (20, 90):
                os.kill(region.pids[0 if len(results) == 20 else 2], signal.SIGKILL)
            results.append(result)
        assert results == numbers(200)
        assert region.weights == [0, 1000, 0]


def test_without_any_worker_left_the_region_says_so() -> None:
    with OrderedRegion(works.never, 2) as region:
        for pid in region.pids:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(RegionFailed, match="no worker is left; 0 records came out"):
            list(region.run(numbers(10)))
