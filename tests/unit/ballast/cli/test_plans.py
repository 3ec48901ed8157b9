"""The output of ``ballast plans`` and ``ballast status`` for a warehouse with two versions."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ballast.cli.main import main
from ballast.contracts.settings import Settings, load_settings
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import address, append
from tests.support.earlier import without_columns
from tests.support.policies import small_policy, write_policy
from tests.support.rows import NOW, row_of


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("BALLAST_HOME", str(tmp_path))
    monkeypatch.delenv("BALLAST_WAREHOUSE", raising=False)
    return load_settings()


@pytest.fixture
def warehouse(settings: Settings) -> Settings:
    """Two published versions, and a third draft of a dry run."""
    ensure_tables(settings)
    for number, plan_id in enumerate(("p1", "p2", "p3"), start=1):
        at = NOW + timedelta(minutes=number)
        append(
            settings,
            "plans.plans",
            [
                row_of(
                    "plans.plans",
                    job="clicks",
                    plan_id=plan_id,
                    run_id=f"r{number}",
                    created_at=at,
                    load_distance_before_pct=40.0,
                    load_distance_pct=4.0 / number,
                    moves=1,
                    budget_moves=5,
                    budget_bytes=None,
                    bytes=10,
                    method="search",
                    bound_pct=1.5,
                    gap_pct=0.0 if number == 1 else 0.5,
                    solver_seconds=2.0,
                    precision=None if number == 1 else "measured",
                    held_back_json=None,
                    advice="parse, count could be one\nand 2 more components",
                    trace_json='[[0.0, "start", 40.0], [0.5, "search", 2.0], [0.7, "milp", 9.0]]',
                )
            ],
        )
        append(settings, "plans.assignments", [
            row_of("plans.assignments", job="clicks", plan_id=plan_id, operator_id="count",
                   key_group=0, node_id="n1" if number == 1 else "n2", previous_node_id="n0"),
            row_of("plans.assignments", job="clicks", plan_id=plan_id, operator_id="count",
                   key_group=1, node_id="n0", previous_node_id="n0"),
        ])  # fmt: skip
        event = "dry_run" if number == 3 else "published"
        append(settings, "plans.log", [row_of(
            "plans.log", job="clicks", plan_id=plan_id, event=event, run_id=f"r{number}", at=at,
            version=None if number == 3 else number)])  # fmt: skip
    append(settings, "plans.heads", [row_of("plans.heads", job="clicks", version=2, plan_id="p2")])
    append(settings, "plans.acks", [row_of(
        "plans.acks", job="clicks", version=2, plan_id="p2", status="applied", batch_id=17,
        reason="")])  # fmt: skip
    append(settings, "plans.outcomes", [row_of(
        "plans.outcomes", job="clicks", version=2, plan_id="p2", figure="load_distance_pct",
        unit="% of mean", promised=2.0, measured=2.5, low=0.9, high=3.4,
        side="inside")])  # fmt: skip
    append(settings, "plans.promises", [row_of(
        "plans.promises", job="clicks", plan_id="p2", figure="load_distance_pct",
        unit="% of mean", expected=2.0, low=0.9, high=3.4, lowest=0.2, highest=5.0,
        reason="")])  # fmt: skip
    return settings


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("warehouse")
def test_list_shows_versions_and_what_became_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    rows = run_json(capsys, "plans", "list", "clicks")
    assert [(r["version"], r["in_force"], r["last_event"]) for r in rows] == [
        (1, False, "published"), (2, True, "published"), (None, False, "dry_run")]  # fmt: skip


@pytest.mark.usefixtures("warehouse")
def test_list_has_the_promised_interval_and_the_measured_side(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = run_json(capsys, "plans", "list", "clicks")
    assert (rows[1]["load_distance"]["low"], rows[1]["load_distance"]["side"]) == (0.9, "inside")
    assert main(["plans", "list", "clicks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].split()[0] == "2"
    assert "in force" in lines[3]
    assert "2.0 % (0.9 to 3.4)  2.50 % (inside)" in lines[3]
    assert "4.00 %" in lines[2]


@pytest.mark.usefixtures("warehouse")
def test_promises_are_a_picture_of_intervals_over_the_versions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plans", "promises", "clicks"]) == 0
    text = capsys.readouterr().out
    (line,) = [line for line in text.splitlines() if line.strip().startswith("2  ")]
    assert line.index("[") < line.index("|") < line.index("o") < line.index("]")
    assert line.endswith("2.0 % (0.9 to 3.4)  2.50 % (inside)")
    assert "1 of 1 version was measured inside (100 %); 90 % are promised" in text
    assert "No interval for version 1: the plan is of an earlier version of Ballast" in text
    found = run_json(capsys, "plans", "promises", "clicks", "--limit", "1")
    assert (found["promised_inside_pct"], found["inside"], found["above"]) == (90.0, 1, 0)
    assert [(row["version"], row["side"]) for row in found["versions"]] == [(2, "inside")]


def test_a_warehouse_of_an_earlier_version_has_no_promises_and_says_so(
    warehouse: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(address(warehouse, "plans.promises"))
    shutil.rmtree(address(warehouse, "snapshots.noise"))
    without_columns(warehouse, "plans.outcomes", ["low", "high", "side"])
    without_columns(warehouse, "plans.plans", ["precision", "gain_chance_pct"])
    assert main(["plans", "promises", "clicks"]) == 0
    text = capsys.readouterr().out
    assert "No version with an interval was measured yet" in text
    assert "No interval for versions 1, 2: the plan is of an earlier version of Ballast" in text
    assert run_json(capsys, "plans", "show", "clicks")["promises"] == []
    status = run_json(capsys, "status", "clicks")
    assert (status["load_distance_low_pct"], status["load_distance_side"]) == (None, None)
    assert "earlier version" in status["no_interval_reason"]


@pytest.mark.usefixtures("settings")
def test_a_job_without_versions_has_no_promises(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plans", "promises", "clicks"]) == 0
    assert "trigger reoptimize__clicks" in capsys.readouterr().out


@pytest.mark.usefixtures("warehouse")
def test_list_takes_the_newest_n(capsys: pytest.CaptureFixture[str]) -> None:
    rows = run_json(capsys, "plans", "list", "clicks", "--limit", "1")
    assert [row["plan_id"] for row in rows] == ["p3"]


@pytest.mark.usefixtures("warehouse")
def test_show_gives_the_plan_in_force_with_its_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    detail = run_json(capsys, "plans", "show", "clicks")
    assert (detail["version"], detail["plan"]["plan_id"]) == (2, "p2")
    assert [(m["key_group"], m["node_id"]) for m in detail["moves"]] == [(0, "n2")]
    assert detail["outcomes"][0]["measured"] == 2.5
    assert main(["plans", "show", "clicks"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Job clicks, version 2 (in force), plan p2\n")
    assert "1 of 2 key groups moves" in text
    assert "The job took it up at 2026-01-02 03:04:05 UTC, batch 17." in text
    assert "load distance  40.0 %  2.0 % (0.9 to 3.4)       2.50 % (inside)" in text
    assert "at most 0.50 points from the best possible" in text
    assert "2 lines of advice on operators (--details)" in text
    assert main(["plans", "show", "clicks", "--details"]) == 0
    text = capsys.readouterr().out
    assert "2.00 % after 0.50 s (search)" in text
    assert "Advice: parse, count could be one.\nAdvice: and 2 more components." in text
    assert main(["plans", "show", "clicks", "1"]) == 0
    assert "proven optimal" in capsys.readouterr().out


@pytest.mark.usefixtures("warehouse")
def test_show_finds_an_older_version_and_a_draft(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_json(capsys, "plans", "show", "clicks", "1")["plan"]["plan_id"] == "p1"
    draft = run_json(capsys, "plans", "show", "clicks", "p3")
    assert (draft["version"], draft["acks"]) == (None, [])


@pytest.mark.usefixtures("warehouse")
def test_diff_names_the_key_groups_that_two_versions_place_differently(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = run_json(capsys, "plans", "diff", "clicks", "1", "2")
    assert found["key_groups"] == [
        {"operator_id": "count", "key_group": 0, "old_node_id": "n1", "new_node_id": "n2"}
    ]
    same = run_json(capsys, "plans", "diff", "clicks", "2")
    assert [same[name] for name in ("key_groups", "nodes", "operators", "routes")] == [[]] * 4
    before_first = run_json(capsys, "plans", "diff", "clicks", "0", "1")["key_groups"]
    assert [(r["old_node_id"], r["new_node_id"]) for r in before_first] == [("n0", "n1")]


def test_diff_and_show_name_changes_of_nodes_and_keys(
    warehouse: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    common = {
        "job": "clicks", "reason": "cpu is at 0.91", "binding": "cpu", "due": [],
        "would_change": "cpu below 0.85",
    }  # fmt: skip
    append(warehouse, "plans.scaling", [
        row_of("plans.scaling", plan_id=plan_id, subject=subject, subject_id=name, action=action,
               before=1, wanted=wanted, **common)
        for plan_id, subject, name, action, wanted in (
            ("p1", "node", "n1", "keep", None), ("p1", "node", "n2", "spare", None),
            ("p2", "node", "n1", "keep", None), ("p2", "node", "n2", "add", None),
            ("p2", "cluster", "main", "out", 2),
        )
    ])  # fmt: skip
    append(warehouse, "plans.routes", [
        row_of("plans.routes", job="clicks", plan_id="p2", operator_id="count", key="k",
               key_group=1)])  # fmt: skip
    append(warehouse, "plans.splits", [
        row_of("plans.splits", job="clicks", plan_id="p2", operator_id="count", key="hot",
               key_group=group) for group in (0, 1)])  # fmt: skip
    found = run_json(capsys, "plans", "diff", "clicks", "1", "2")
    assert found["splits"] == [
        {"operator_id": "count", "key": "hot", "old_key_groups": None, "new_key_groups": "0, 1"}
    ]
    assert found["nodes"] == [{"node_id": "n2", "old": "not in use", "new": "in use"}]
    assert found["nodes_in_use"] == [1, 2]
    assert (found["rerouted_keys"], found["routes"][0]["key"]) == (1, "k")
    assert main(["plans", "diff", "clicks", "1"]) == 0
    text = capsys.readouterr().out
    assert "nodes in use: 1 and 2; in another state: 1" in text
    assert "keys that go to another key group: 1 " in text
    assert "keys that are split otherwise" in text
    assert main(["plans", "show", "clicks"]) == 0
    assert "Nodes: 1 before, 2 with the plan; cpu is at 0.91" in capsys.readouterr().out
    assert main(["plans", "show", "clicks", "--details"]) == 0
    text = capsys.readouterr().out
    assert "Bound by cpu; what would have changed it: cpu below 0.85" in text
    assert "n2    added" in text
    assert run_json(capsys, "plans", "show", "clicks", "1")["nodes"]["spares"] == ["n2"]
    assert run_json(capsys, "plans", "show", "clicks", "p3")["nodes"] is None


@pytest.mark.usefixtures("warehouse")
def test_log_tells_who_did_what_newest_last(capsys: pytest.CaptureFixture[str]) -> None:
    rows = run_json(capsys, "plans", "log", "clicks")
    assert [(row["event"], row["version"]) for row in rows] == [
        ("published", 1), ("published", 2), ("dry_run", None)]  # fmt: skip
    assert len(run_json(capsys, "plans", "log", "clicks", "--limit", "1")) == 1
    assert main(["plans", "log", "clicks"]) == 0
    assert "dry_run" in capsys.readouterr().out
    assert main(["plans", "log", "nobody"]) == 0
    assert "nothing has happened" in capsys.readouterr().out


@pytest.mark.usefixtures("warehouse")
def test_status_says_what_is_in_force_and_how_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    status = run_json(capsys, "status", "clicks")
    assert (status["version"], status["take_up"], status["taken_up_at_batch"]) == (2, "applied", 17)
    assert (status["load_distance_promised_pct"], status["load_distance_measured_pct"]) == (
        2.0,
        2.5,
    )


@pytest.mark.usefixtures("warehouse")
def test_status_has_the_interval_the_side_and_the_noise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = run_json(capsys, "status", "clicks")
    assert (status["load_distance_low_pct"], status["load_distance_high_pct"]) == (0.9, 3.4)
    assert (status["load_distance_side"], status["versions_inside"]) == ("inside", 1)
    assert status["noise"]["reason"] == "the job has no snapshot yet"
    assert main(["status", "clicks"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Job clicks: version 2 is in force, applied by the job.\n\n")
    lines = dict(line.split("  ", 1) for line in text.splitlines()[2:])
    said = {name: value.strip() for name, value in lines.items()}
    assert said["load distance promised"] == "2.0 % (0.9 to 3.4)"
    assert said["load distance measured"] == "2.50 % (inside)"
    assert said["noise"] == "the job has no snapshot yet"
    assert said["versions inside"].endswith("90 % are promised")


def test_status_says_why_the_newest_run_changed_nothing(
    warehouse: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_json(capsys, "status", "clicks")["no_change"] is None
    said = "the difference of 2.1 points is within the noise of 3.4 of these 12 windows"
    draft = row_of(
        "plans.plans", job="clicks", plan_id="p4", run_id="r4", status="unchanged", reason=said,
        moves=0, forced_moves=0, bytes=0, forced_bytes=0, created_at=NOW + timedelta(hours=1),
        trace_json="[]", held_back_json=None, skew_reason=None, splits_reason=None,
    )  # fmt: skip
    append(warehouse, "plans.plans", [draft])
    assert run_json(capsys, "status", "clicks")["no_change"] == f"T{said[1:]}."


def test_status_tells_trouble_that_lasts_from_trouble_that_is_over(
    warehouse: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = "job clicks: 1 of 3 nodes silent; b since 12:00:30; wait until 12:04:30"
    gate = row_of("plans.log", job="clicks", event="gate_failed", run_id="r4", plan_id=None,
                  version=None, reason=closed, at=NOW + timedelta(hours=1))  # fmt: skip
    append(warehouse, "plans.log", [gate])
    status = run_json(capsys, "status", "clicks")
    assert (status["last_trouble"], status["last_trouble_reason"]) == ("gate_failed", closed)
    assert status["last_trouble_over_since"] is None
    later = gate | {"event": "drafted", "run_id": "r5", "at": NOW + timedelta(hours=2)}
    append(warehouse, "plans.log", [later])
    assert run_json(capsys, "status", "clicks")["last_trouble_over_since"] is not None


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plans", "show", "clicks", "9"], "no version or plan '9'"),
        (["plans", "diff", "clicks", "9" * 5000], "no version or plan '999"),
        (["plans", "show", "nobody"], "has no published plan"),
        (["status", "nobody"], "has no job 'nobody'"),
        (["plans", "list", "../x"], "is not a job name"),
        (["plans", "list", "clicks", "--limit", "0"], "--limit"),
        (["tables", "ddl", "plans.nothing"], "there is no table"),
        (["policy", "check", "nothing.yaml"], "does not exist"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_plan_from_before_the_scaling_columns_is_shown(
    warehouse: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    without_columns(warehouse, "plans.plans", ["scaling_reason", "due_moves"])
    assert main(["plans", "show", "clicks", "--details"]) == 0
    assert "scaling reason" not in capsys.readouterr().out


def test_a_checked_policy_comes_with_advice_on_its_operators(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alike = write_policy(tmp_path, small_policy("clicks"))
    assert main(["policy", "check", str(alike)]) == 0
    said = capsys.readouterr().out
    assert "advice: operators parse, count could be one component, partitioned by key" in said
    other = small_policy("clicks", partition_keys={"parse": "user"})
    assert main(["policy", "check", str(write_policy(tmp_path, other))]) == 0
    assert "advice" not in capsys.readouterr().out


@pytest.mark.usefixtures("settings")
def test_an_empty_warehouse_has_no_plans_and_says_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plans", "list", "clicks"]) == 0
    assert "trigger reoptimize__clicks" in capsys.readouterr().out


def test_ddl_of_a_table_is_printed(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tables", "ddl", "plans.heads"]) == 0
    assert f"{settings.warehouse}/plans/heads" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("refused", "The job refused it at 2026-01-02 03:09:05 UTC, batch 20: too large."),
        ("superseded", "The job left it for a newer version at 2026-01-02 03:09:05 UTC"),
        ("progress", "is moving state, 2 of 5 steps made (at 2026-01-02 03:09:05 UTC, batch 20)."),
        ("applied", "The job took it up at 2026-01-02 03:09:05 UTC, batch 20."),
    ],
)
def test_show_says_what_the_job_did_with_the_version(
    warehouse: Settings, capsys: pytest.CaptureFixture[str], status: str, said: str
) -> None:
    append(warehouse, "plans.acks", [row_of(
        "plans.acks", job="clicks", version=2, plan_id="p2", status=status, batch_id=20,
        reason="too large", step=2, steps=5, acked_at=NOW + timedelta(minutes=5))])  # fmt: skip
    assert main(["plans", "show", "clicks"]) == 0
    assert said in capsys.readouterr().out
