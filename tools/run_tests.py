"""Runs each kind of test in a pytest process of its own, and ends with one table for all.

A kind never stops the next one, so that one run shows everything that is broken.
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
    """What became of one kind of test."""

    kind: str
    exit_code: int
    seconds: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    @property
    def is_good(self) -> bool:
        return self.exit_code == PASSED

    def row(self) -> str:
        verdict = {PASSED: "ok", NO_TESTS: "no tests"}.get(self.exit_code, "FAILED")
        return (
            f"{self.kind:<8}{self.passed:>8}{self.failed:>8}{self.skipped:>8}"
            f"{self.seconds:>9.1f}  {verdict}"
        )


def counts_of(report: Path) -> dict[str, int]:
    """Passed, failed and skipped tests in a JUnit report; all zero without one."""
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    if report.is_file():
        # Written by the pytest just run, not by a stranger.
        for suite in ElementTree.parse(report).iter("testsuite"):  # noqa: S314
            for name in totals:
                totals[name] += int(suite.get(name, 0))
    failed = totals["failures"] + totals["errors"]
    passed = max(0, totals["tests"] - failed - totals["skipped"])
    return {"passed": passed, "failed": failed, "skipped": totals["skipped"]}


def spread(kind: str, cores: int | None = os.cpu_count()) -> list[str]:
    """Some kinds run on all cores, each file on one; the others share a session or a stack.

    Faults start programs and JVMs and wait for them most of the time.
    """
    workers = min(cores or 1, MOST_WORKERS.get(kind, 1))
    return ["-n", str(workers), "--dist", "loadfile"] if workers > 1 else []


def run_kind(kind: str) -> KindResult:
    folder = ROOT / "tests" / kind
    if not any(folder.rglob("test_*.py")):
        return KindResult(kind, NO_TESTS, 0.0)
    print(f"== {kind} tests", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        report = Path(work) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", str(folder), f"--junitxml={report}"]
        command += [f"--durations={SLOWEST_SHOWN}", *spread(kind)]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        return KindResult(kind, code, time.monotonic() - started, **counts_of(report))


def main(arguments: Sequence[str] | None = None) -> int:
    kinds = list(arguments if arguments is not None else sys.argv[1:]) or list(KINDS)
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        print(f"error: no such kind of test: {' '.join(unknown)}; {' '.join(KINDS)}")
        return 2
    results = [run_kind(kind) for kind in kinds]
    print(f"\n{'kind':<8}{'passed':>8}{'failed':>8}{'skipped':>8}{'seconds':>9}")
    for result in results:
        print(result.row())
    return 0 if all(result.is_good for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
