"""The fields of ``--json``: programs rely on them, so none may go away or change its name."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from ballast.cli.main import main
from ballast.contracts.records import (
    Ack,
    AssignedKeyGroup,
    Draft,
    LogEntry,
    Outcome,
    Promise,
)
from ballast.contracts.settings import load_settings
from bench.review_page.warehouse import SampleJob, job_policy, write_job

JOB = "clicks"
SHOW = {
    "job": None, "version": None, "nodes": None, "weights": None, "region_acks": None,
    "plan": Draft, "assignment": AssignedKeyGroup, "moves": AssignedKeyGroup, "log": LogEntry,
    "acks": Ack, "promises": Promise, "outcomes": Outcome,
}  # fmt: skip
"""The fields of ``plans show``, and the record that a field is or is a list of."""
FIGURE = ["expected", "low", "high", "measured", "side", "last_measured", "last_side", "reason"]
LIST = [
    "version", "in_force", "plan_id", "created_at", "last_event", "method",
    "load_distance_before_pct", "load_distance_pct", "load_distance", "gap_pct", "moves", "bytes",
    "run_id",
]  # fmt: skip
STATUS = [
    "job", "version", "plan_id", "published_at", "take_up", "taken_up_at_batch", "take_up_reason",
    "load_distance_before_pct", "load_distance_promised_pct", "load_distance_low_pct",
    "load_distance_high_pct", "load_distance_measured_pct", "load_distance_side",
    "no_interval_reason", "planning", "planning_stopped_since", "planning_reason",
    "broken_promises_in_a_row", "versions_with_interval", "versions_inside", "no_change", "noise",
    "waiting_plan_id", "waiting_since", "waiting_reason", "last_window_end_at", "job_state",
    "job_state_at", "job_state_since", "executors", "head_age_s", "last_event", "last_event_at",
    "last_event_reason", "last_trouble", "last_trouble_at", "last_trouble_reason",
    "last_trouble_over_since",
]  # fmt: skip
PROMISES = ["figure", "promised_inside_pct", "inside", "below", "above", "versions"]
DIFF = [
    "key_groups",
    "nodes",
    "nodes_in_use",
    "operators",
    "rerouted_keys",
    "routes",
    "splits",
    "weights",
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job with promises, whose plans add and remove nodes."""
    folder = tmp_path_factory.mktemp("home")
    own = {"BALLAST_HOME": str(folder), "BALLAST_POLICIES": str(folder / "policies")}
    sample = SampleJob(job_policy(JOB, 3, 20, 5, spares=1), per_version=6, has_promises=True)
    write_job(load_settings(own), sample, 3)
    return folder


@pytest.fixture(autouse=True)
def environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BALLAST_HOME", str(home))
    monkeypatch.setenv("BALLAST_POLICIES", str(home / "policies"))
    monkeypatch.delenv("BALLAST_WAREHOUSE", raising=False)


def found(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_show_has_every_field_of_the_plan_and_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    shown = found(capsys, "plans", "show", JOB)
    assert set(shown) == set(SHOW)
    for name, record in SHOW.items():
        if record is not None:
            row = shown[name] if isinstance(shown[name], dict) else shown[name][0]
            assert set(row) == {field.name for field in fields(record)}, name


def test_options_for_people_do_not_change_json(capsys: pytest.CaptureFixture[str]) -> None:
    shown = found(capsys, "plans", "show", JOB)
    assert found(capsys, "plans", "show", JOB, "--details", "--all") == shown


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("status", JOB), STATUS),
        (("plans", "promises", JOB), PROMISES),
        (("plans", "diff", JOB, "1", "2"), DIFF),
    ],
)
def test_objects_have_their_fields(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], names: list[str]
) -> None:
    assert sorted(found(capsys, *arguments)) == sorted(names)


def test_lists_have_their_fields(capsys: pytest.CaptureFixture[str]) -> None:
    rows = found(capsys, "plans", "list", JOB)
    assert list(rows[0]) == LIST
    assert list(rows[0]["load_distance"]) == FIGURE
    log = found(capsys, "plans", "log", JOB)
    assert set(log[0]) == {field.name for field in fields(LogEntry)}
    versions = found(capsys, "plans", "promises", JOB)["versions"]
    assert list(versions[0]) == ["version", "plan_id", *FIGURE]
