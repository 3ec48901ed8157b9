"""The whole loop by one command of a user, from the first window to the outcome."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ballast.contracts.settings import Settings, load_settings
from ballast.store.plans import read_log, read_plans
from ballast.store.tables import read_rows
from embedded.processes import marked_processes
from tests.support.limits import limit_s
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(limit_s(1800))


@dataclass(frozen=True)
class Demonstration:
    """The output of ``make demo``, and the folder of its tables."""

    exit_code: int
    output: str
    environment: dict[str, str]
    settings: Settings

    @property
    def missed_precision_alone(self) -> bool:
        """Whether only the measured load distance is missing from what the demonstration must
        show."""
        missed = [line for line in self.output.splitlines() if "NOT SHOWN" in line]
        return bool(missed) and all("measured load distance" in line for line in missed)

    def ballast(self, *arguments: str) -> Any:
        """Run a command of the user afterwards; return its JSON."""
        done = subprocess.run(
            [sys.executable, "-m", "ballast.cli.main", *arguments, "--json"],
            cwd=ROOT, env=self.environment, check=True, capture_output=True, text=True,
        )  # fmt: skip
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> Demonstration:
    """The demonstration; it is repeated once if only the measured load distance missed its limit.

    The difference between measured and promised load distance depends on the load of the machine.
    Every other failure fails the test at once.
    """
    first = demonstrate(tmp_path_factory.mktemp("home"))
    if first.exit_code == 0 or not first.missed_precision_alone:
        return first
    return demonstrate(tmp_path_factory.mktemp("home"))


def demonstrate(home: Path) -> Demonstration:
    ours = {
        "BALLAST_HOME": str(home),
        "BALLAST_JARS": str(ROOT / ".ballast" / "jars"),
        "BALLAST_PORT": str(free_port()),
    }
    environment = {k: v for k, v in os.environ.items() if not k.startswith("BALLAST_")} | ours
    done = subprocess.run(
        [sys.executable, "-m", "embedded.demo"],
        cwd=ROOT, env=environment, check=False, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    print(done.stdout)
    return Demonstration(done.returncode, done.stdout, environment, load_settings(ours))


def test_it_goes_all_the_way_round_keeps_the_promise_and_prints_the_table(
    demonstration: Demonstration,
) -> None:
    assert demonstration.exit_code == 0, demonstration.output
    for row in ("load distance measured", "moves", "taken up at batch", "seconds of each stage"):
        assert row in demonstration.output


def test_the_sums_are_those_of_the_input(demonstration: Demonstration) -> None:
    assert "4043 airplanes and years, 105 destinations: equal" in demonstration.output


def test_the_plan_and_its_outcome_can_be_looked_at_afterwards(
    demonstration: Demonstration,
) -> None:
    detail = demonstration.ballast("plans", "show", "flights")
    assert detail["version"] == 1
    assert [ack["status"] for ack in detail["acks"]] == ["accepted", "applied"]
    assert detail["acks"][-1]["moved_key_groups"] == len(detail["moves"]) == detail["plan"]["moves"]
    outcome = {row["figure"]: row for row in detail["outcomes"]}["load_distance_pct"]
    promise = {row["figure"]: row for row in detail["promises"]}["load_distance_pct"]
    assert outcome["promised"] == promise["expected"]
    assert (outcome["low"], outcome["high"]) == (promise["low"], promise["high"])
    assert promise["low"] < promise["expected"] < promise["high"]
    assert outcome["measured"] < outcome["before"]
    status = demonstration.ballast("status", "flights")
    assert (status["version"], status["take_up"]) == (1, "applied")


def test_one_run_made_one_draft_and_one_version(demonstration: Demonstration) -> None:
    settings = demonstration.settings
    assert len(read_plans(settings, "flights")) == 1
    assert [entry.event for entry in read_log(settings, "flights")] == ["drafted", "published"]


def test_good_metrics_left_nothing_aside(demonstration: Demonstration) -> None:
    assert read_rows(demonstration.settings, "metrics.rejected", job="flights").num_rows == 0


def test_no_process_is_left(demonstration: Demonstration) -> None:
    home = demonstration.settings.home
    assert marked_processes(str(home / "airflow")) == []
