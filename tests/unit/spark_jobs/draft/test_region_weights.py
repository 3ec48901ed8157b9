"""Weights of ordered regions are part of the plan: solved, verified, published, rolled back."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from deltalake.exceptions import DeltaError

from ballast.cli.main import main
from ballast.contracts.errors import RollbackRefused
from ballast.contracts.identity import content_hash, plan_id
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import ConnectionWindow
from ballast.contracts.regions import weighted, weights_of
from ballast.contracts.settings import Settings
from ballast.contracts.tables import TABLES
from ballast.store.plans import (
    read_acks,
    read_assignment,
    read_head,
    read_log,
    read_plan,
    read_weights,
)
from ballast.store.tables import address, append
from spark_jobs.draft.content import PlanContent
from spark_jobs.draft.draft_plan import draft_plan
from spark_jobs.draft.draft_tables import find_snapshot, read_content, read_round, required_draft
from spark_jobs.draft.region_weights import capacity, plan_region, regions_of
from spark_jobs.draft.report import report
from spark_jobs.draft.solve_arguments import SolveOptions
from spark_jobs.draft.verification import violations_of
from spark_jobs.outcome.region_figures import region_figures, region_windows
from spark_jobs.publication.draft_checks import reasons_stale_now
from spark_jobs.publication.publisher import publish_plan, publish_reviewed
from spark_jobs.publication.review_answer import APPROVED, ReviewAnswer
from spark_jobs.publication.review_request import prepare_review
from spark_jobs.restore.request import RollbackRequest
from spark_jobs.restore.roll_back import roll_back
from spark_jobs.upkeep.log_repair import check_jobs
from tests.support.earlier import without_columns
from tests.support.policies import small_policy, write_policy
from tests.support.regions import connection_rows, connection_windows
from tests.support.snapshots import uneven, write_snapshot

JOB, REGION = "probe", "tag"
START = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
RATES = {"worker-0": 100.0, "worker-1": 50.0, "worker-2": 50.0}


def policy_of(region: dict[str, Any] | None = None, **changes: Any) -> JobPolicy:
    return small_policy(JOB, regions=[{"id": REGION, "workers": 3, **(region or {})}], **changes)


@dataclass
class RegionRounds:
    """A job with a region that follow every plan at once."""

    settings: Settings
    policy: JobPolicy
    plan_id: str | None = None
    number: int = 0

    @property
    def placement(self) -> dict[tuple[str, int], str]:
        """The present placement of the job's key groups."""
        rows = read_assignment(self.settings, JOB, self.plan_id) if self.plan_id else []
        return {(row.operator_id, row.key_group): row.node_id for row in rows}

    def draft(self, rates: dict[str, float], **connections: Any) -> dict[str, Any]:
        """A snapshot with a minute of the region, and the draft made of it."""
        self.number += 1
        at, run_id = START + timedelta(minutes=10 * self.number), f"run-{self.number}"
        rows = connection_rows(self.policy, REGION, at, rates, **connections) if rates else []
        snapshot = write_snapshot(
            self.settings, self.policy, run_id, at=at, head=read_head(self.settings, JOB),
            applied_plan_id=self.plan_id, connections_table_version=1,
            created_at=datetime.now(UTC), placement=self.placement,
        )  # fmt: skip
        names = TABLES["snapshots.connections"].column_names
        kept = [
            {name: row.get(name) for name in names} | {"snapshot_id": snapshot.snapshot_id}
            for row in rows
        ]
        append(self.settings, "snapshots.connections", kept)
        append(self.settings, "metrics.connections", rows)
        return draft_plan(self.settings, JOB, run_id, SolveOptions(solver_seconds=0.2))

    def go(self, rates: dict[str, float], **connections: Any) -> dict[str, Any]:
        draft = self.draft(rates, **connections)
        if publish_plan(self.settings, JOB, draft.run_id) is not None:
            self.plan_id = draft.plan_id
        return draft

    def weights(self, draft: dict[str, Any]) -> dict[str, int]:
        return weights_of(weighted(self.rows(draft)), REGION)

    def rows(self, draft: dict[str, Any]) -> list[dict[str, Any]]:
        return read_weights(self.settings, JOB, draft.plan_id)


@pytest.fixture
def rounds(settings: Settings) -> RegionRounds:
    return RegionRounds(settings, policy_of())


def test_workers_get_what_they_do_and_the_report_says_why(rounds: RegionRounds) -> None:
    draft = rounds.go(RATES)
    assert rounds.weights(draft) == {"worker-0": 500, "worker-1": 250, "worker-2": 250}
    assert draft.moves == 0
    assert draft.status != "unchanged"
    text = " ".join(report(draft))
    assert "weights: region tag: with the best weights it can take 200 records/s (+33.2 %)" in text
    assert "worker-0 from 334 to 500" in text
    row = rounds.rows(draft)[0]
    assert (row.previous_weight, row.state, row.records_per_s) == (334, "alive", 100.0)
    assert row.reason == "does 100 records/s, 50.0 % of what all do"
    head = read_head(rounds.settings, JOB)
    assert head is not None
    assert head.plan_id == draft.plan_id
    assert "weights: region tag" in read_log(rounds.settings, JOB)[0].reason
    assert check_jobs(rounds.settings, [JOB]) == []


def test_weights_are_part_of_the_content_that_is_hashed(rounds: RegionRounds) -> None:
    draft = rounds.go(RATES)
    rows = [
        (r.operator_id, r.key_group, r.node_id)
        for r in read_assignment(rounds.settings, JOB, draft.plan_id)
    ]
    weights = weighted(rounds.rows(draft))
    assert draft.content_hash == content_hash(rows, (), (), weights)
    assert draft.content_hash != content_hash(rows)


def test_a_change_that_gains_too_little_is_none_and_the_weights_stay(rounds: RegionRounds) -> None:
    first = rounds.go(RATES)
    second = rounds.go(RATES | {"worker-0": 103.0})
    assert second.status == "unchanged"
    assert rounds.weights(second) == rounds.weights(first)
    assert "the weights stay" in second.weights_reason
    assert "min_gain_pct" in second.weights_reason


def test_a_worker_that_died_gets_nothing_at_once_whatever_the_bound(settings: Settings) -> None:
    rounds = RegionRounds(settings, policy_of({"max_change_units": 10}))
    draft = rounds.go(RATES, dead=("worker-1",))
    weights = rounds.weights(draft)
    assert weights["worker-1"] == 0
    assert weights["worker-0"] == pytest.approx(2 * weights["worker-2"], abs=2)
    assert "dead: worker-1" in draft.weights_reason


def test_a_worker_without_a_measurement_keeps_its_weight_and_is_named(rounds: RegionRounds) -> None:
    draft = rounds.go({"worker-0": 100.0, "worker-1": 50.0})
    weights = rounds.weights(draft)
    assert weights["worker-2"] == 333
    assert weights["worker-0"] == pytest.approx(2 * weights["worker-1"], abs=2)
    assert "not measured: worker-2" in draft.weights_reason
    assert rounds.rows(draft)[2].state == "unmeasured"


def test_a_change_is_bounded_by_the_policy(settings: Settings) -> None:
    rounds = RegionRounds(settings, policy_of({"max_change_units": 50, "min_gain_pct": 0.0}))
    weights = [rounds.weights(rounds.go(RATES)) for _ in range(4)]
    assert [w["worker-0"] for w in weights] == [384, 434, 484, 500]


def test_a_silent_region_stops_no_plan_and_keeps_its_weights(rounds: RegionRounds) -> None:
    first = rounds.go(RATES)
    silent = rounds.go({})
    assert rounds.weights(silent) == rounds.weights(first)
    assert "the period has no measurement of it" in silent.weights_reason
    assert silent.status == "unchanged"


def test_a_region_that_was_never_heard_of_has_no_weights(rounds: RegionRounds) -> None:
    draft = rounds.go({})
    assert rounds.rows(draft) == []
    assert "the period has no measurement of it" in draft.weights_reason


def test_a_worker_of_no_weight_is_let_in_again_once_it_lives(rounds: RegionRounds) -> None:
    rounds.go(RATES, dead=("worker-1",))
    weights = rounds.weights(rounds.go({"worker-0": 100.0, "worker-2": 50.0}))
    assert weights["worker-1"] == 1, "alive or not, nothing says that it is dead"


def test_a_region_without_a_living_worker_stops_no_plan(rounds: RegionRounds) -> None:
    rounds.go(RATES)
    draft = rounds.go(RATES, dead=tuple(RATES))
    assert rounds.rows(draft) == []
    assert "none of its workers is alive" in draft.weights_reason
    assert rounds.weights(rounds.go(RATES)) != {}


def test_the_command_line_shows_weights_and_why(
    rounds: RegionRounds, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rounds.go(RATES)
    monkeypatch.setenv("BALLAST_HOME", str(rounds.settings.home))
    assert main(["plans", "show", JOB, "--details"]) == 0
    text = capsys.readouterr().out
    assert "Weights of workers, in units of 0.1 %" in text
    assert "does 100 records/s, 50.0 % of what all do" in text


def test_the_command_line_tells_two_versions_apart_that_differ_in_weights_alone(
    rounds: RegionRounds, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rounds.go(RATES)
    rounds.go({"worker-0": 20.0, "worker-1": 90.0, "worker-2": 90.0})
    monkeypatch.setenv("BALLAST_WAREHOUSE", str(rounds.settings.warehouse))
    assert main(["plans", "diff", JOB, "1", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["key_groups"] == []
    assert found["weights"][0] == {
        "region_id": REGION, "worker_id": "worker-0", "old_weight": 500, "new_weight": 100,
    }  # fmt: skip
    assert main(["plans", "diff", JOB, "0", "1"]) == 0
    assert "another weight" in capsys.readouterr().out


def test_blocking_rates_weigh_as_in_the_paper(settings: Settings) -> None:
    rounds = RegionRounds(settings, policy_of({"method": "blocking"}))
    draft = rounds.go(dict.fromkeys(RATES, 50.0), blocked={"worker-1": 0.6})
    weights = rounds.weights(draft)
    assert weights["worker-1"] < 333 < weights["worker-0"]
    assert sum(weights.values()) == 1000
    assert "blocks most" in draft.weights_reason
    assert rounds.rows(draft)[0].blocked_pct is not None


def test_a_dead_workers_share_goes_also_where_nothing_can_be_learned(settings: Settings) -> None:
    """Blocking rates need the weights of all workers, and worker-2 has no row."""
    rounds = RegionRounds(settings, policy_of({"method": "blocking"}))
    draft = rounds.go({"worker-0": 100.0, "worker-1": 50.0}, dead=("worker-1",))
    assert rounds.weights(draft) == {"worker-0": 500, "worker-1": 0, "worker-2": 500}
    assert "no window has the weights of all its workers" in draft.weights_reason


@pytest.mark.parametrize(
    ("change", "promise"),
    [
        (lambda rows: [*rows, rows[0]], "weights.exactly_once"),
        (lambda rows: rows[1:], "weights.workers"),
        (lambda rows: [replace(rows[0], weight=501), *rows[1:]], "weights.sum"),
        (lambda rows: [replace(rows[0], worker_id="worker-9"), *rows[1:]], "weights.workers"),
        (lambda rows: [replace(r, region_id="other") for r in rows], "weights.regions"),
        (lambda rows: [replace(rows[0], previous_weight=1), *rows[1:]], "weights.before"),
        (lambda _: [], "weights.complete"),
    ],
)
def test_weights_that_cannot_be_are_found_by_the_verifier(
    rounds: RegionRounds, change: Any, promise: str
) -> None:
    draft = rounds.draft(RATES)
    given = read_round(rounds.settings, find_snapshot(rounds.settings, JOB, draft.run_id))
    assignment, routes, scaling, weights, *_ = read_content(rounds.settings, draft)
    assert violations_of(given, draft, PlanContent(assignment, routes, scaling, weights)) == []
    assert (
        violations_of(given, draft, PlanContent(assignment, routes, scaling, weights[1:]))[
            0
        ].promise
        == "content_hash"
    )
    wrong = change(weights)
    rows = zip(
        *(assignment[c].to_pylist() for c in ("operator_id", "key_group", "node_id")), strict=True
    )
    content = content_hash(rows, routes, (), weighted(wrong))
    new_id = plan_id(JOB, draft.snapshot_id, content)
    changed = replace(draft, content_hash=content, plan_id=new_id)
    found = violations_of(given, changed, PlanContent(assignment, routes, scaling, wrong))
    assert promise in {violation.promise for violation in found}


def test_the_table_refuses_a_dead_worker_with_a_weight(rounds: RegionRounds) -> None:
    row = rounds.rows(rounds.draft(RATES))[0]
    with pytest.raises(DeltaError):
        append(rounds.settings, "plans.weights", [row.to_row() | {"state": "dead"}])


def test_a_rollback_brings_the_weights_of_its_version_back(rounds: RegionRounds) -> None:
    first = rounds.go(RATES)
    second = rounds.go({"worker-0": 20.0, "worker-1": 90.0, "worker-2": 90.0})
    head = roll_back(rounds.settings, JOB, "back", RollbackRequest(1, "too much for worker-1"))
    assert head.version == 3
    rows = read_weights(rounds.settings, JOB, head.plan_id)
    assert weights_of(weighted(rows), REGION) == rounds.weights(first)
    # The newest snapshot is from before version 2, and its weights are what is replaced.
    assert {r.worker_id: r.previous_weight for r in rows} == rounds.weights(second)
    assert read_plan(rounds.settings, JOB, head.plan_id).status != "unchanged"
    assert check_jobs(rounds.settings, [JOB]) == []


def test_a_rollback_to_a_version_without_weights_is_a_change(rounds: RegionRounds) -> None:
    policy = small_policy(JOB)
    write_snapshot(rounds.settings, policy, "old", placement=uneven(policy))
    draft_plan(rounds.settings, JOB, "old", SolveOptions(solver_seconds=0.2))
    assert publish_plan(rounds.settings, JOB, "old") is not None
    first = read_head(rounds.settings, JOB)
    assert first is not None
    rounds.plan_id = first.plan_id
    rounds.go(RATES)
    head = roll_back(rounds.settings, JOB, "back", RollbackRequest(1, "test"))
    assert read_weights(rounds.settings, JOB, head.plan_id) == []
    assert read_plan(rounds.settings, JOB, head.plan_id).status != "unchanged"


def test_a_plan_starts_from_the_head_also_where_the_operators_refused_it(
    rounds: RegionRounds,
) -> None:
    changed = {"worker-0": 20.0, "worker-1": 90.0, "worker-2": 90.0}
    rounds.go(RATES)
    applied = rounds.plan_id
    refused = rounds.go(changed)
    rounds.plan_id = applied
    again = rounds.draft(RATES)
    assert again.status != "unchanged", "the region runs under the head, not as the operators do"
    before = {row.worker_id: row.previous_weight for row in rounds.rows(again)}
    assert before == rounds.weights(refused)


def window_of(row: dict[str, Any]) -> ConnectionWindow:
    """A row of metrics.connections as a snapshot has it."""
    return ConnectionWindow.from_row({**row, "snapshot_id": "s"})


@pytest.mark.parametrize("state", ["alive", "dead"])
def test_workers_that_the_policy_no_longer_has_are_left_out(state: str) -> None:
    """A rollback uses a snapshot of earlier workers and the policy of today."""
    old, new = policy_of(), policy_of({"workers": ["worker-0", "worker-1", "new"]})
    dead = ("worker-2",) if state == "dead" else ()
    rows = connection_rows(old, REGION, START, RATES, dead=dead)
    [given] = regions_of(new.regions, new.window_s, map(window_of, rows), ())
    assert given.rules.before == {"worker-0": 334, "worker-1": 333, "new": 333}
    assert given.rules.state == {"worker-0": "alive", "worker-1": "alive", "new": "unmeasured"}
    assert plan_region(given).units["new"] == 333


@pytest.mark.parametrize(
    ("region", "why"),
    [
        ({"workers": 2}, "worker-2 of region tag is no longer in the policy"),
        ({"workers": 4}, "worker-3 of region tag came later"),
        ({"id": "other"}, "region tag is no longer in the policy"),
    ],
)
def test_a_rollback_to_weights_of_other_workers_is_refused_with_the_reason(
    rounds: RegionRounds, region: dict[str, Any], why: str, tmp_path: Any
) -> None:
    rounds.go(RATES)
    rounds.go({"worker-0": 20.0, "worker-1": 90.0, "worker-2": 90.0})
    settings = replace(rounds.settings, policies=tmp_path / "policies")
    write_policy(settings.policies, policy_of(region))
    with pytest.raises(RollbackRefused, match=why):
        roll_back(settings, JOB, "back", RollbackRequest(1, "test"))
    head = read_head(settings, JOB)
    assert head is not None
    assert head.version == 2


def test_a_rollback_to_weights_of_a_dead_worker_is_refused(rounds: RegionRounds) -> None:
    rounds.go(RATES)
    rounds.go(RATES, dead=("worker-1",))
    with pytest.raises(RollbackRefused, match="worker worker-1 of region tag was dead at"):
        roll_back(rounds.settings, JOB, "back", RollbackRequest(1, "test"))


def test_a_rollback_to_a_worker_that_lives_again_waits_for_a_snapshot(rounds: RegionRounds) -> None:
    rounds.go(RATES)
    rounds.go(RATES, dead=("worker-1",))
    later = START + timedelta(minutes=21)
    alive = connection_rows(rounds.policy, REGION, later, RATES, windows=1)
    append(rounds.settings, "metrics.connections", alive)
    with pytest.raises(RollbackRefused, match="worker-1 of region tag was dead; the plan"):
        roll_back(rounds.settings, JOB, "back", RollbackRequest(1, "test"))
    rounds.draft(RATES)
    assert roll_back(rounds.settings, JOB, "again", RollbackRequest(1, "test")).version == 3


def test_a_draft_that_waited_is_stale_once_a_worker_of_it_died(settings: Settings) -> None:
    rounds = RegionRounds(settings, policy_of(review={"mode": "person"}))
    draft = rounds.draft(RATES)
    run_id = draft.run_id
    assert publish_plan(settings, JOB, run_id) is None, "it waits"
    shown = prepare_review(settings, JOB, run_id, draft.plan_id, draft.content_hash, "/b/")
    assert "Weights of ordered regions" in shown.body
    snapshot = find_snapshot(settings, JOB, run_id)
    stored = required_draft(settings, snapshot)
    assert reasons_stale_now(settings, snapshot, stored) == []
    later = snapshot.period_end_at + timedelta(seconds=5)
    dead = connection_rows(rounds.policy, REGION, later, RATES, windows=1, dead=("worker-0",))
    append(settings, "metrics.connections", dead)
    assert (
        "worker worker-0 of region tag was dead at"
        in reasons_stale_now(settings, snapshot, stored)[0]
    )


def test_what_a_person_approved_is_published_with_its_weights(settings: Settings) -> None:
    rounds = RegionRounds(settings, policy_of(review={"mode": "person"}))
    draft = rounds.draft(RATES)
    publish_plan(settings, JOB, draft.run_id)
    now = datetime.now(UTC)
    yes = ReviewAnswer(APPROVED, "Ada", now, "review", draft.plan_id, draft.content_hash)
    head = publish_reviewed(settings, JOB, draft.run_id, yes)
    assert head is not None
    assert head.plan_id == draft.plan_id


def test_a_warehouse_from_before_there_were_weights_goes_on(rounds: RegionRounds) -> None:
    settings = rounds.settings
    write_snapshot(settings, small_policy(JOB), "old", placement=uneven(small_policy(JOB)))
    without_columns(settings, "plans.plans", ["weights_reason"])
    without_columns(settings, "plans.acks", ["region_id"])
    without_columns(settings, "snapshots.snapshots", ["connections_table_version"])
    for table in ("plans.weights", "snapshots.connections", "metrics.connections"):
        shutil.rmtree(address(settings, table))
    draft = draft_plan(settings, JOB, "old", SolveOptions(solver_seconds=0.2))
    assert draft.weights_reason is None
    assert publish_plan(settings, JOB, "old") is not None
    assert read_acks(settings, JOB) == []
    assert check_jobs(settings, [JOB]) == []


def test_what_a_region_can_take_is_bounded_by_the_worker_that_is_full_first() -> None:
    assert capacity({"a": 500, "b": 500}, {"a": 100.0, "b": 10.0}) == 20.0
    assert capacity({"a": 1000, "b": 0}, {"a": 100.0, "b": 10.0}) == 100.0
    assert capacity({"a": 1000}, {}) is None


def test_promised_and_measured_of_a_region(rounds: RegionRounds) -> None:
    draft = rounds.draft(RATES)
    before = connection_windows(connection_rows(rounds.policy, REGION, START, RATES))
    now = {"worker-0": 500, "worker-1": 250, "worker-2": 250}
    after = connection_windows(connection_rows(rounds.policy, REGION, START, RATES, weights=now))
    figures = {
        figure.name: [figure.before, figure.promised, figure.measured]
        for figure in region_figures(
            REGION,
            rounds.rows(draft),
            region_windows(before, REGION),
            region_windows(after, REGION),
            rounds.policy.window_s,
        )
    }
    was, promised, measured = figures[f"capacity_records_per_s/{REGION}"]
    assert was == pytest.approx(50 * 1000 / 333)
    assert promised == measured == pytest.approx(200.0)
    assert figures[f"done_records_per_s/{REGION}"] == [200.0, None, 200.0]
    assert figures[f"blocked_pct/{REGION}"][2] == 0.0
    assert not math.isnan(measured)
