"""One Spark cluster for all tests of a module, and a table of what was tried at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.spark_cluster import SparkCluster

FAULTS: list[tuple[str, float, str]] = []


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    """A master with two workers of two cores each."""
    made = SparkCluster(tmp_path)
    try:
        made.start_master()
        for number in (1, 2):
            made.start_worker(number)
        yield made
    finally:
        made.stop()


@pytest.fixture
def fault() -> Callable[[str, float, str], None]:
    """Records a line of the table: the fault, the seconds until the next batch, the sums."""
    return lambda name, seconds, sums: FAULTS.append((name, seconds, sums))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the table."""
    if not FAULTS:
        return
    terminalreporter.section("faults on a Spark cluster")
    width = max(len(name) for name, _, _ in FAULTS)
    terminalreporter.write_line(f"{'fault':<{width}}  recovered after  sums")
    for name, seconds, sums in FAULTS:
        terminalreporter.write_line(f"{name:<{width}}  {seconds:>13.1f} s  {sums}")
