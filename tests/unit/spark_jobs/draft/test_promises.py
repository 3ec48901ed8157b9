"""A draft promises what the next period will measure; its promises are verified and published."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ballast.contracts.errors import VerificationFailed
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Draft, Outcome, Promise
from ballast.contracts.settings import Settings
from ballast.contracts.tables import TREND
from ballast.store.plans import read_plans, read_promises
from ballast.store.tables import append, open_table, read_rows
from solvers.noise.calibration import PSEUDO_WIDTH
from spark_jobs.draft.draft_plan import draft_plan, make_draft
from spark_jobs.draft.draft_tables import find_snapshot, read_content, read_round, write_draft
from spark_jobs.draft.report import promise_report
from spark_jobs.draft.solve_arguments import SolveOptions
from spark_jobs.draft.verification import violations_of
from spark_jobs.publication.publisher import publish_plan
from tests.support.earlier import without_columns
from tests.support.policies import small_policy
from tests.support.rows import row_of
from tests.support.snapshots import END, uneven, write_snapshot

JOB, RUN = "probe", "run-1"
OPTIONS = SolveOptions(solver_seconds=1)


@pytest.fixture
def policy() -> JobPolicy:
    return small_policy(JOB)


def drafted(settings: Settings, policy: JobPolicy, **rows: Any) -> Draft:
    write_snapshot(settings, policy, RUN, **{"noise_pct": 20.0, "traffic": False, **rows})
    return draft_plan(settings, JOB, RUN, OPTIONS)


def emptied(settings: Settings, table: str) -> None:
    """Remove all rows of a table."""
    open_table(settings, table).alter.set_table_properties({"delta.appendOnly": "false"})
    open_table(settings, table).delete()


def promises_of(settings: Settings, draft: Draft) -> dict[str, Promise]:
    rows = read_promises(settings, JOB, draft.plan_id)
    found = {row.figure: row for row in rows}
    assert len(found) == len(rows)
    return found


def test_a_draft_promises_every_figure_that_is_measured_with_an_interval(
    settings: Settings, policy: JobPolicy
) -> None:
    draft = drafted(settings, policy, placement=uneven(policy))
    promises = promises_of(settings, draft)
    load = promises["load_distance_pct"]
    assert 0 <= load.lowest <= load.low < load.expected < load.high < load.highest
    # The plan is level by the estimated loads, but the measured loads are not level.
    assert draft.load_distance_pct == pytest.approx(0.0)
    assert load.expected > 1.0
    assert (load.reason, load.calibration_below, load.calibration_above) == (
        "",
        PSEUDO_WIDTH,
        PSEUDO_WIDTH,
    )
    assert {"cpu_load_cores/node-0", "cpu_load_cores/node-1", "pause_s", "bytes"} <= set(promises)
    moves = promises["moves"]
    assert (moves.expected, moves.low, moves.high) == (4.0, 4.0, 4.0)
    assert any(line.startswith("expected load_distance_pct: ") for line in
               promise_report(list(promises.values())))  # fmt: skip


def test_a_draft_that_changes_nothing_promises_what_the_placement_in_force_will_have(
    settings: Settings, policy: JobPolicy
) -> None:
    draft = drafted(settings, policy)
    promises = promises_of(settings, draft)
    assert draft.status == "unchanged"
    assert promises["load_distance_pct"].high > 0
    assert promises["moves"].expected == 0
    # Nothing moves, so nothing pauses: that is exact.
    assert (promises["pause_s"].low, promises["pause_s"].high) == (0.0, 0.0)


def test_without_noise_there_are_expected_values_and_the_reason(
    settings: Settings, policy: JobPolicy
) -> None:
    promises = promises_of(settings, drafted(settings, policy, noise_pct=None))
    load = promises["load_distance_pct"]
    assert (load.expected, load.low, load.highest) == (pytest.approx(0.0), None, None)
    assert "taken by an earlier version" in load.reason
    assert "no interval: the snapshot was taken" in " ".join(promise_report([load]))


def test_a_trend_gives_no_interval_and_says_so(settings: Settings, policy: JobPolicy) -> None:
    snapshot = write_snapshot(settings, policy, RUN, noise_pct=20.0)
    rows = read_rows(settings, "snapshots.noise", job=JOB).to_pylist()
    emptied(settings, "snapshots.noise")
    for row in rows:
        append(settings, "snapshots.noise", [row | {"status": TREND, "reason": "loads moved"}])
    promises = promises_of(settings, draft_plan(settings, JOB, snapshot.run_id, OPTIONS))
    assert promises["load_distance_pct"].low is None
    assert "loads moved" in promises["load_distance_pct"].reason


def test_records_that_become_remote_are_in_the_expected_loads(settings: Settings) -> None:
    """A balance plan ignores the cost of records that become remote; its promise does not."""
    policy = small_policy(
        JOB, traffic={"send_cpu_s": 0.01, "receive_cpu_s": 0.01}, operators={"parse": 4, "count": 4}
    )
    together = {(operator, group): f"node-{int(group >= 3)}" for operator in ("parse", "count")
                for group in range(4)}  # fmt: skip
    draft = drafted(settings, policy, placement=together, traffic=True, noise_pct=0.1)
    nodes = [
        row.expected
        for name, row in promises_of(settings, draft).items()
        if name.startswith("cpu_load_cores/")
    ]
    placed = {
        (row["operator_id"], row["key_group"]): row["node_id"]
        for row in read_rows(settings, "plans.assignments", job=JOB).to_pylist()
    }
    remote = sum(placed["parse", group] != placed["count", group] for group in range(4))
    # Each edge carries 10 records a second, each of which costs 0.02 CPU seconds between nodes.
    assert sum(nodes) == pytest.approx(8 * 0.1 + remote * 10 * 0.02)


def test_the_promises_are_no_part_of_the_content(settings: Settings) -> None:
    """Of two exact plans for the same loads, one has the noise and promises more."""
    policy = small_policy(JOB, solver={"precision": "exact"})
    quiet = write_snapshot(settings, policy, "quiet", placement=uneven(policy), noise_pct=None)
    draft = drafted(settings, policy, placement=uneven(policy), noise_pct=1.0)
    plain = make_draft(settings, quiet, OPTIONS)
    assert plain.draft.content_hash == draft.content_hash


def test_two_attempts_leave_each_promise_once(settings: Settings, policy: JobPolicy) -> None:
    snapshot = write_snapshot(settings, policy, RUN, placement=uneven(policy), noise_pct=20.0)
    made = make_draft(settings, snapshot, OPTIONS)
    for _ in range(2):
        write_draft(settings, made)
    assert read_promises(settings, JOB, made.draft.plan_id) == sorted(
        made.promises, key=lambda row: row.figure
    )
    assert draft_plan(settings, JOB, RUN, OPTIONS).plan_id == made.draft.plan_id


@pytest.mark.parametrize(
    ("figure", "change"),
    [
        ("load_distance_pct", {"expected": 1e-3, "low": 0.0, "lowest": 0.0}),
        ("load_distance_pct", {"expected": 500.0, "high": 600.0, "highest": 700.0}),
        ("cpu_load_cores/node-1", {"expected": 0.1}),
        ("moves", {"expected": 5.0, "low": 5.0, "high": 5.0, "lowest": 5.0, "highest": 5.0}),
        ("pause_s", {"expected": -1.0}),
    ],
)
def test_a_promise_that_was_tampered_with_is_found(
    settings: Settings, policy: JobPolicy, figure: str, change: dict[str, Any]
) -> None:
    draft = drafted(settings, policy, placement=uneven(policy))
    given = read_round(settings, find_snapshot(settings, JOB, RUN))
    content, promises = read_content(settings, draft), promises_of(settings, draft)
    assert violations_of(given, draft, content, list(promises.values())) == []
    changed = promises | {figure: replace(promises[figure], **change)}
    found = violations_of(given, draft, content, list(changed.values()))
    assert [violation.promise for violation in found] == [figure]
    twice = [*promises.values(), promises[figure]]
    assert violations_of(given, draft, content, twice)[0].promise == "promises"


def test_publish_refuses_promises_that_its_own_sums_contradict(
    settings: Settings, policy: JobPolicy
) -> None:
    draft = drafted(settings, policy, placement=uneven(policy))
    rows = read_rows(settings, "plans.promises", job=JOB).to_pylist()
    emptied(settings, "plans.promises")
    for row in rows:
        is_load = row["figure"] == "load_distance_pct"
        ends = dict.fromkeys(("low", "high", "lowest", "highest"), 0.0) if is_load else {}
        append(settings, "plans.promises", [row | ends | ({"expected": 0.0} if is_load else {})])
    with pytest.raises(VerificationFailed, match="load_distance_pct: expected 0; by the sums"):
        publish_plan(settings, JOB, draft.run_id)


def test_publish_refuses_a_draft_whose_promises_were_lost(
    settings: Settings, policy: JobPolicy
) -> None:
    draft = drafted(settings, policy, placement=uneven(policy))
    emptied(settings, "plans.promises")
    with pytest.raises(VerificationFailed, match=r"no rows of plans\.promises"):
        publish_plan(settings, JOB, draft.run_id)


def test_a_draft_of_an_earlier_version_has_no_promises_and_is_published(
    settings: Settings, policy: JobPolicy
) -> None:
    draft = drafted(settings, policy, placement=uneven(policy), noise_pct=None)
    emptied(settings, "plans.promises")
    without_columns(settings, "plans.plans", ["precision", "gain_chance_pct"])
    head = publish_plan(settings, JOB, draft.run_id)
    assert head is not None
    assert head.plan_id == draft.plan_id


def test_earlier_outcomes_outside_of_their_intervals_make_the_next_ones_wider(
    settings: Settings, policy: JobPolicy
) -> None:
    before = drafted(settings, policy, placement=uneven(policy))
    first = promises_of(settings, before)["load_distance_pct"]
    for version in range(1, 31):
        plan_id = f"p{version}"
        append(settings, "plans.promises", [replace(first, plan_id=plan_id).to_row()])
        at = END - timedelta(hours=40 - version)
        outcome = row_of(
            Outcome.table, job=JOB, version=version, plan_id=plan_id, run_id=f"r{version}",
            figure="load_distance_pct", unit="% of mean", promised=first.expected,
            measured=first.expected + 3 * (first.high - first.expected), measured_at=at,
        )  # fmt: skip
        append(settings, "plans.outcomes", [outcome])
    write_snapshot(settings, policy, "run-2", placement=uneven(policy), noise_pct=20.0,
                   traffic=False, at=END + timedelta(minutes=1))  # fmt: skip
    after = draft_plan(settings, JOB, "run-2", OPTIONS)
    wider = promises_of(settings, after)["load_distance_pct"]
    assert len(read_plans(settings, JOB)) == 2
    assert wider.expected == pytest.approx(first.expected)
    assert wider.calibration_above > 2.0
    assert wider.calibration_below < 1.1 * PSEUDO_WIDTH
    width = (wider.high - wider.expected) / (first.high - first.expected)
    assert width == pytest.approx(wider.calibration_above / PSEUDO_WIDTH)
