"""Plans for a Flink job say its subtasks, verified and published like any plan."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from ballast.contracts.identity import content_hash, plan_id
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Ack, Draft
from ballast.contracts.scaling import operator_sizes, scaled
from ballast.contracts.settings import Settings
from ballast.store.plans import read_assignment, read_head, read_promises, read_scaling
from ballast.store.tables import append
from spark_jobs.draft.content import content_hash_of
from spark_jobs.draft.draft_plan import draft_plan
from spark_jobs.draft.draft_tables import find_snapshot, read_content, read_round
from spark_jobs.draft.operator_sizes import (
    CAPACITY,
    CAPACITY_BEFORE,
    OperatorLoad,
    edges_of,
    operator_loads,
    restart_s,
    sizes_in_force,
)
from spark_jobs.draft.solve_arguments import SolveOptions
from spark_jobs.draft.verification import violations_of
from spark_jobs.outcome.figures import PlanFigure
from spark_jobs.outcome.size_figures import size_figures, without_moves
from spark_jobs.publication.publisher import publish_plan
from spark_jobs.restore.request import RollbackRequest
from spark_jobs.restore.roll_back import roll_back
from tests.support.policies import small_policy
from tests.support.rows import row_of
from tests.support.snapshots import snapshot_rows
from tests.support.visits_job import COUNT, FIRST, MOST, SOURCE, flink_policy

JOB = "visits"
RATE = 20.0
"""Records per second of every source in a snapshot."""
AT = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
SCALING = {
    "method": "true_rate", "interval_s": 60.0, "catch_up_s": 60.0, "restart_s": 1.0,
    "cool_down_s": 60.0, "stabilisation_rounds": 1,
    "boundaries": {"lower": 0.4, "target": 0.6, "upper": 0.8},
}  # fmt: skip


def policy_of(**changes: Any) -> JobPolicy:
    return flink_policy(JOB, **{"scaling": SCALING, **changes})


class Rounds:
    """A Flink job that follows every plan at once, round after round."""

    def __init__(self, settings: Settings, policy: JobPolicy | None = None) -> None:
        self.settings, self.policy = settings, policy or policy_of()
        self.plan_id: str | None = None
        self.number = 0

    def snapshot(self, *busy: float, backlog: int = 0, source_busy: float = 0.05) -> str:
        """Write a snapshot in which the subtasks of ``count`` are that busy."""
        self.number += 1
        loads = {(SOURCE, 0): source_busy, **{(COUNT, i): 0.0 for i in range(MOST)}}
        loads |= {(COUNT, i): load for i, load in enumerate(busy)}
        run_id = f"run-{self.number}"
        rows = snapshot_rows(
            self.policy,
            run_id,
            loads=loads,
            steps=2,
            backlog=backlog,
            placement=dict.fromkeys(loads, "cluster"),
            traffic=False,
            head=read_head(self.settings, JOB),
            applied_plan_id=self.plan_id,
            at=AT + timedelta(seconds=60 * self.number),
            created_at=datetime.now(UTC),
        )
        for row in rows["snapshots.key_groups"]:
            # The subtasks of ``count`` get what the source passes on, and no others exist.
            if row["operator_id"] == COUNT:
                row["records_per_s"] = RATE / len(busy) if row["key_group"] < len(busy) else 0.0
        for table, of_table in rows.items():
            if of_table:
                append(self.settings, table, of_table)
        return run_id

    def draft(self, *busy: float, backlog: int = 0, source_busy: float = 0.05) -> Draft:
        run_id = self.snapshot(*busy, backlog=backlog, source_busy=source_busy)
        return draft_plan(self.settings, JOB, run_id, SolveOptions(solver_seconds=1.0))

    def go(self, *busy: float, backlog: int = 0) -> Draft:
        """Snapshot, draft, publish, take up."""
        draft = self.draft(*busy, backlog=backlog)
        if publish_plan(self.settings, JOB, draft.run_id) is not None:
            self.plan_id = draft.plan_id
        return draft

    def sizes(self, plan_id: str) -> dict[str, int]:
        return operator_sizes(scaled(read_scaling(self.settings, JOB, plan_id)))


@pytest.fixture
def rounds(settings: Settings) -> Rounds:
    return Rounds(settings)


def test_a_plan_says_the_subtasks_of_every_operator(rounds: Rounds) -> None:
    draft = rounds.go(0.95, 0.95)
    assert draft.status != "unchanged"
    assert (draft.moves, draft.bytes) == (0, 0)
    sizes = rounds.sizes(draft.plan_id)
    assert sizes == {SOURCE: 1, COUNT: 4}
    assert "operator count goes from 2 to 4 instances" in (draft.scaling_reason or "")
    head = read_head(rounds.settings, JOB)
    assert head is not None
    assert (head.version, head.plan_id) == (1, draft.plan_id)
    placed = {row.node_id for row in read_assignment(rounds.settings, JOB, draft.plan_id)}
    assert placed == {"cluster"}


def test_the_next_round_starts_from_the_sizes_in_force(rounds: Rounds) -> None:
    rounds.go(0.95, 0.95)
    second = rounds.draft(0.6, 0.6, 0.6, 0.6)
    assert second.status == "unchanged"
    assert rounds.sizes(second.plan_id) == {SOURCE: 1, COUNT: 4}


def test_sizes_that_fit_publish_nothing(rounds: Rounds) -> None:
    draft = rounds.go(0.6, 0.6)
    assert draft.status == "unchanged"
    assert read_head(rounds.settings, JOB) is None


def test_the_busiest_subtask_counts_and_skew_is_a_finding(rounds: Rounds) -> None:
    draft = rounds.draft(0.95, 0.25)
    assert rounds.sizes(draft.plan_id)[COUNT] > FIRST
    assert "operator count is skewed: its busiest subtask has 1.58 times" in (
        draft.scaling_reason or ""
    )
    assert "spread evenly, about" in (draft.scaling_reason or "")


def test_sizes_are_content_and_other_plans_keep_their_hashes(rounds: Rounds) -> None:
    draft = rounds.draft(0.95, 0.95)
    content = read_content(rounds.settings, draft)
    columns = ("operator_id", "key_group", "node_id")
    placed = list(zip(*(content.assignments[c].to_pylist() for c in columns), strict=True))
    assert content_hash(placed, (), scaled(content.scaling)) == draft.content_hash
    other = [replace(row, wanted=3) if row.subject_id == COUNT else row for row in content.scaling]
    assert content_hash(placed, (), scaled(other)) != draft.content_hash
    # As it was before plans of engines had sizes.
    assert content_hash([("count", 0, "a"), ("count", 1, "b")]).startswith("9ff88631")


def test_the_verifier_refuses_sizes_that_the_job_does_not_have(rounds: Rounds) -> None:
    draft = rounds.draft(0.95, 0.95)
    job_round = read_round(rounds.settings, find_snapshot(rounds.settings, JOB, draft.run_id))
    content = read_content(rounds.settings, draft)
    assert violations_of(job_round, draft, content) == []

    def broken(subject: str, **changes: Any) -> list[str]:
        rows = [
            replace(row, **changes) if row.subject_id == subject else row for row in content.scaling
        ]
        return verdict([row for row in rows if row.wanted != -1])

    def verdict(rows: list[Any]) -> list[str]:
        changed = content._replace(scaling=rows)
        found = content_hash_of(changed)
        as_named = replace(
            draft, content_hash=found,
            plan_id=plan_id(JOB, draft.snapshot_id, found),
        )  # fmt: skip
        return [str(each) for each in violations_of(job_round, as_named, changed)]

    assert any("allowed 1 to 6" in each for each in broken(COUNT, wanted=MOST + 1))
    assert any("3 instances before the plan, are 2" in each for each in broken(COUNT, before=3))
    assert any("'count' has no size" in each for each in broken(COUNT, wanted=-1))


def test_an_earlier_version_brings_its_sizes_back(rounds: Rounds) -> None:
    first = rounds.go(0.95, 0.95)
    second = rounds.go(0.95, 0.95, 0.95, 0.95)
    assert rounds.sizes(second.plan_id)[COUNT] == MOST
    rounds.snapshot(0.4, 0.4, 0.4, 0.4, 0.4, 0.4)
    head = roll_back(rounds.settings, JOB, "back", RollbackRequest(1, "Ada", "too many slots"))
    assert head.version == 3
    assert rounds.sizes(head.plan_id) == rounds.sizes(first.plan_id)


def test_nothing_is_promised_of_what_the_plan_does_not_place(rounds: Rounds) -> None:
    draft = rounds.draft(0.95, 0.95)
    figures = {row.figure for row in read_promises(rounds.settings, JOB, draft.plan_id)}
    assert "load_distance_pct" in figures
    assert not figures & {"moves", "bytes", "pause_s", "cpu_load_cores/cluster"}


def test_capacities_are_promised_and_measured(rounds: Rounds) -> None:
    draft = rounds.draft(0.95, 0.475)
    rows = read_scaling(rounds.settings, JOB, draft.plan_id)
    count = next(row for row in rows if row.subject_id == COUNT)
    # Of the two subtasks that exist, at 20 records/s together.
    found = json.loads(count.loads_json or "")
    assert found[CAPACITY_BEFORE] == pytest.approx(RATE / 0.95)
    assert count.wanted is not None
    assert found[CAPACITY] == pytest.approx(RATE / 0.95 * count.wanted / 2)
    size = count.wanted
    measured = [("count", i, 0.5 if i else 0.8, 20.0) for i in range(MOST)]
    key_groups = key_group_table([*measured, ("visits", 0, 0.05, 40.0)])
    figures = {each.name: each for each in size_figures(rows, key_groups)}
    figure = figures["capacity_records_per_s/count"]
    assert figure.measured == pytest.approx(20 * size / 0.8)
    assert figure.promised == pytest.approx(found[CAPACITY])


def key_group_table(rows: list[tuple[str, int, float, float]]) -> pa.Table:
    names = ("operator_id", "key_group", "cpu_load_cores", "records_per_s")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def test_a_pause_is_measured_and_not_promised() -> None:
    figures = [PlanFigure(name, "", None, 0.0, 1.0) for name in ("moves", "bytes", "pause_s", "x")]
    assert [(each.name, each.promised) for each in without_moves(figures)] == [
        ("pause_s", None), ("x", 0.0),
    ]  # fmt: skip


def test_subtasks_that_do_not_exist_do_not_count() -> None:
    table = key_group_table([("count", 0, 0.5, 10.0), ("count", 1, 0.0, 0.0)])
    assert operator_loads(table, {"count": 1}) == {"count": OperatorLoad(10.0, (0.5,))}
    assert operator_loads(table, {"count": 2})["count"].skew == pytest.approx(2.0)
    assert operator_loads(table, {"count": 3}) == {}


def edge_rates(*edges: tuple[str, str], **rates: float) -> dict[tuple[str, str], float]:
    named = [{"from": source, "to": target} for source, target in edges]
    policy = small_policy(JOB, dict.fromkeys(rates, 1), edges=named)
    loads = {name: OperatorLoad(rate, (0.5,)) for name, rate in rates.items()}
    return {(edge.from_id, edge.to_id): edge.rate for edge in edges_of(policy, loads)}


def test_what_a_source_passes_on_counts_although_it_waits_before_the_next_operator() -> None:
    assert edge_rates(("read", "count"), read=700.0, count=400.0) == {("read", "count"): 700.0}
    assert edge_rates(("read", "a"), ("read", "b"), read=100.0, a=60.0, b=20.0) == {
        ("read", "a"): 75.0, ("read", "b"): 25.0,
    }  # fmt: skip


def test_records_of_several_operators_are_divided_by_what_they_get() -> None:
    edges = (("read", "a"), ("read", "b"), ("a", "join"), ("b", "join"))
    found = edge_rates(*edges, read=40.0, a=30.0, b=10.0, join=80.0)
    assert (found["a", "join"], found["b", "join"]) == (60.0, 20.0)
    idle = edge_rates(*edges, read=0.0, a=0.0, b=0.0, join=0.0)
    assert set(idle.values()) == {0.0}


def test_an_operator_that_is_too_fast_to_be_measured_is_not_missing(rounds: Rounds) -> None:
    draft = rounds.draft(0.95, 0.95, source_busy=0.0)
    assert rounds.sizes(draft.plan_id) == {SOURCE: 1, COUNT: 4}


def test_measured_pauses_say_what_the_next_restart_costs(settings: Settings) -> None:
    policy = policy_of()
    assert restart_s(policy, []) == 1.0
    acks = [
        Ack.from_row(row_of("plans.acks", job=JOB, version=n, status="applied", pause_ms=pause))
        for n, pause in enumerate((9000.0, 400.0, 0.0, 600.0, 500.0, 450.0, 550.0), start=1)
    ]
    assert restart_s(policy, acks) == pytest.approx(0.5)


def test_sizes_before_the_first_plan_are_those_of_the_policy() -> None:
    assert sizes_in_force(policy_of(), []) == {SOURCE: 1, COUNT: FIRST}


def test_a_measured_pause_is_read_with_the_other_inputs(rounds: Rounds) -> None:
    rounds.go(0.95, 0.95)
    append(
        rounds.settings, "plans.acks",
        [row_of("plans.acks", job=JOB, version=1, plan_id=rounds.plan_id, status="applied",
                pause_ms=5_000_000.0, reason="", region_id=None,
                acked_at=datetime.now(UTC) - timedelta(seconds=1))],
    )  # fmt: skip
    # The backlog alone asks for more, and a pause of 5,000 s would not drain it earlier.
    draft = rounds.draft(0.7, 0.7, 0.7, 0.7, backlog=400)
    assert draft.status == "unchanged"
    assert "pauses 5000.0 s" in (draft.scaling_reason or "")
