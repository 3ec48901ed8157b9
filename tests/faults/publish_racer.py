"""A publisher in a process of its own for test_publish_race: a line of JSON in, a line out.

In each round it runs ``publish_plan`` as the program does, and waits right before the
compare-and-set for a signal, so that two of them start it together.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from ballast.contracts.errors import BallastError
from ballast.contracts.settings import Settings, load_settings
from spark_jobs.publication import publisher


def say(**message: Any) -> None:
    """Write one line for the test."""
    print(json.dumps(message), flush=True)


def hear() -> dict[str, Any]:
    """Read one line from the test; the end of input ends this process."""
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def wait_before_the_change(point: str) -> None:
    """Replaces ``fault_point``."""
    if point == "publish.before_cas":
        say(at=point)
        hear()


def race(settings: Settings, order: dict[str, Any]) -> dict[str, Any]:
    """Publish one draft and return the outcome."""
    started = time.monotonic()
    try:
        head = publisher.publish_plan(settings, order["job"], order["run_id"])
        assert head is not None
        outcome = {"won": True, "version": head.version, "plan_id": head.plan_id}
    except BallastError as error:
        outcome = {"won": False, "error": type(error).__name__, "message": str(error)}
    return {**outcome, "seconds": time.monotonic() - started}


def main() -> None:
    settings = load_settings()
    publisher.fault_point = wait_before_the_change
    say(at="start")
    while True:
        say(**race(settings, hear()))


if __name__ == "__main__":
    main()
