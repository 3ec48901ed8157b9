"""Runs kinds of tests, or single folders of tests, and prints one table of the results.

Each kind or folder runs in its own pytest process. A failure in one does not stop the next one, so
that one run shows everything that fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("unit", "spark", "dags", "e2e", "faults")
MOST_WORKERS = {"unit": 8, "faults": 2}
SLOWEST_SHOWN = 5
PASSED = 0
NO_TESTS = 5


@dataclass(frozen=True)
class KindResult:
    """The result of one kind or one folder of tests."""

    kind: str
    """Name of the kind, or path of the folder."""
    exit_code: int
    seconds: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    @property
    def is_good(self) -> bool:
        return self.exit_code == PASSED

    def row(self, width: int) -> str:
        """The line of the table, with the name ``width`` characters wide."""
        verdict = {PASSED: "ok", NO_TESTS: "no tests"}.get(self.exit_code, "FAILED")
        return (
            f"{self.kind:<{width}}{self.passed:>8}{self.failed:>8}{self.skipped:>8}"
            f"{self.seconds:>9.1f}  {verdict}"
        )


def counts_of(report: Path) -> dict[str, int]:
    """Passed, failed and skipped tests in a JUnit report; all zero without one."""
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    if report.is_file():
        # The file was written by the pytest process that just ran.
        for suite in ElementTree.parse(report).iter("testsuite"):  # noqa: S314
            for name in totals:
                totals[name] += int(suite.get(name, 0))
    failed = totals["failures"] + totals["errors"]
    passed = max(0, totals["tests"] - failed - totals["skipped"])
    return {"passed": passed, "failed": failed, "skipped": totals["skipped"]}


def spread(kind: str, cores: int | None = os.cpu_count()) -> list[str]:
    """Arguments that run a kind on several cores, each file on one of them.

    Kinds that are not in ``MOST_WORKERS`` share one Spark session or one Airflow, so they run on
    one core. Tests of faults mostly wait for programs that they start.
    """
    workers = min(cores or 1, MOST_WORKERS.get(kind, 1))
    return ["-n", str(workers), "--dist", "loadfile"] if workers > 1 else []


def folder_of(name: str) -> Path | None:
    """The folder of a kind, or a folder of tests by its path; None if there is no such folder."""
    folder = (ROOT / "tests" / name if name in KINDS else ROOT / name).resolve()
    tests = ROOT / "tests"
    return folder if folder.is_dir() and tests in folder.parents else None


def run_folder(name: str, folder: Path) -> KindResult:
    """Runs the tests of a folder.

    Args:
        name: what the table calls it.
        folder: a folder in ``tests``; its first part is the kind of the tests.
    """
    if not any(folder.rglob("test_*.py")):
        return KindResult(name, NO_TESTS, 0.0)
    print(f"== {name} tests", flush=True)
    kind = folder.relative_to(ROOT / "tests").parts[0]
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        report = Path(work) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", str(folder), f"--junitxml={report}"]
        command += [f"--durations={SLOWEST_SHOWN}", *spread(kind)]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        return KindResult(name, code, time.monotonic() - started, **counts_of(report))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs kinds and folders of tests, all kinds by default; returns 0 if all of them passed."""
    names = list(arguments if arguments is not None else sys.argv[1:]) or list(KINDS)
    folders = {name: folder_of(name) for name in names}
    unknown = [name for name, folder in folders.items() if folder is None]
    if unknown:
        print(
            f"error: no such kind or folder of tests: {' '.join(unknown)}; "
            f"kinds: {' '.join(KINDS)}; folders: tests/..."
        )
        return 2
    results = [run_folder(name, folder) for name, folder in folders.items() if folder is not None]
    width = max(8, *(len(result.kind) + 1 for result in results))
    print(f"\n{'tests':<{width}}{'passed':>8}{'failed':>8}{'skipped':>8}{'seconds':>9}")
    for result in results:
        print(result.row(width))
    return 0 if all(result.is_good for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
