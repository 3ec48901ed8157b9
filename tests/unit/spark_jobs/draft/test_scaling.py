"""Scaling is part of the plan: decided, verified and published with it, and explained in words."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ballast.contracts.errors import NotFound, RollbackRefused
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Draft, Head, ScalingRow
from ballast.contracts.scaling import node_actions, nodes_in_use, scaled
from ballast.contracts.settings import Settings
from ballast.contracts.tables import TABLES
from ballast.store.plans import read_assignment, read_head, read_log, read_scaling
from ballast.store.tables import append, open_table, read_rows
from solvers.model.problem import Problem
from spark_jobs.draft.content import PlanContent
from spark_jobs.draft.draft_plan import draft_plan
from spark_jobs.draft.draft_tables import find_snapshot, read_content, read_round
from spark_jobs.draft.report import report
from spark_jobs.draft.scaling_inputs import (
    EarlierScaling,
    ScalingInputs,
    drains_of,
    history_of,
    series_of,
)
from spark_jobs.draft.scaling_lookup import read_scaling_inputs
from spark_jobs.draft.scaling_rows import nodes_under
from spark_jobs.draft.solve_arguments import SolveOptions
from spark_jobs.draft.verification import violations_of
from spark_jobs.outcome.figures import node_figures
from spark_jobs.publication.current_state import read_node_state
from spark_jobs.publication.publisher import publish_plan, publish_reviewed
from spark_jobs.publication.review_answer import APPROVED, ReviewAnswer
from spark_jobs.publication.review_request import prepare_review
from spark_jobs.publication.staleness import unusable_nodes
from spark_jobs.restore.request import RollbackRequest
from spark_jobs.restore.roll_back import roll_back
from spark_jobs.upkeep.log_repair import check_jobs
from tests.support.metrics import round_robin, write_windows
from tests.support.policies import small_policy
from tests.support.snapshots import write_snapshot

JOB = "probe"
OPERATORS = {"parse": 6, "count": 6}
ROUND_S = 600.0


def policy_of(**changes: Any) -> JobPolicy:
    fields = {
        "nodes": ["a", "b", {"id": "c", "spare": True}],
        "budgets": {"moves": 4},
        "scaling": {
            "min_nodes": 2,
            "cool_down_s": 60.0,
            "stabilisation_rounds": 1,
            "max_drain_rounds": 5,
        },
    }
    return small_policy(JOB, OPERATORS, **(fields | changes))


@dataclass
class ScaledRounds:
    """A job that follows every plan at once, round after round."""

    settings: Settings
    policy: JobPolicy
    placement: dict[tuple[str, int], str] = field(default_factory=dict)
    plan_id: str | None = None
    number: int = 0
    seconds: float = 1.0

    def snapshot(self, load: float, **rows: Any) -> str:
        """Write a snapshot in which every key group has this load, on the nodes in use."""
        self.placement = self.placement or round_robin(self.policy)
        self.number += 1
        at = datetime(2026, 11, 16, 12, 0, tzinfo=UTC) + timedelta(seconds=ROUND_S * self.number)
        in_force = read_scaling(self.settings, JOB, self.plan_id) if self.plan_id else []
        given = {
            "placement": self.placement,
            "loads": dict.fromkeys(self.placement, load),
            "states": nodes_in_use(self.policy, scaled(in_force)),
            "steps": 10,
            "head": read_head(self.settings, JOB),
            "applied_plan_id": self.plan_id,
            "created_at": datetime.now(UTC),
        }
        run_id = f"run-{self.number}"
        write_snapshot(self.settings, self.policy, run_id, at=at, **(given | rows))
        return run_id

    def go(self, load: float, **rows: Any) -> dict[str, Any]:
        """Snapshot, draft, publish, take up; returns the draft."""
        run_id = self.snapshot(load, **rows)
        draft = draft_plan(self.settings, JOB, run_id, SolveOptions(solver_seconds=self.seconds))
        if publish_plan(self.settings, JOB, run_id) is not None:
            self.plan_id = draft.plan_id
            content, *_ = read_content(self.settings, draft)
            self.placement = {
                (r["operator_id"], r["key_group"]): r["node_id"] for r in content.to_pylist()
            }
        return draft

    def actions(self, draft: Draft | Head) -> dict[str, str]:
        return node_actions(scaled(read_scaling(self.settings, JOB, draft.plan_id)))

    def review(self, draft: Draft) -> str:
        """Make the review of the draft and approve it."""
        run_id, plan_id = draft.run_id, draft.plan_id
        assert publish_plan(self.settings, JOB, run_id) is None, "it waits"
        shown = prepare_review(self.settings, JOB, run_id, plan_id, draft.content_hash, "/ballast/")
        now = datetime.now(UTC)
        yes = ReviewAnswer(APPROVED, "Ada", now, "review", plan_id, draft.content_hash)
        head = publish_reviewed(self.settings, JOB, run_id, yes)
        assert head is not None
        assert head.plan_id == plan_id
        return shown.body.replace("\\", "")

    def heartbeats(self, run_id: str, in_use: str) -> None:
        """Write windows of these nodes, from before the end of the run's period until after it."""
        end = find_snapshot(self.settings, JOB, run_id).period_end_at
        begin = end - timedelta(seconds=30)
        write_windows(self.settings, self.policy, begin, 12, in_use=in_use, traffic=False)

    @property
    def nodes(self) -> set[str]:
        return set(self.placement.values())


@pytest.fixture
def rounds(settings: Settings) -> ScaledRounds:
    return ScaledRounds(settings, policy_of())


def test_a_node_is_added_drained_over_rounds_and_removed(rounds: ScaledRounds) -> None:
    added = rounds.go(0.16)
    assert rounds.actions(added) == {"a": "keep", "b": "keep", "c": "add"}
    assert rounds.nodes == {"a", "b", "c"}
    assert added.moves == 4
    text = " ".join(report(added))
    assert (
        "scaling: 2 nodes become 3, because cpu is at 96 %, above 85 %; adds c; cpu bound" in text
    )
    assert "what would have changed it: cpu at or below 85 %" in text

    marked = rounds.go(0.05)
    drained = next(n for n, action in rounds.actions(marked).items() if action == "drain")
    drafts = [marked]
    while drained in rounds.nodes:
        drafts.append(rounds.go(0.05))
        assert len(drafts) <= 5, "max_drain_rounds of the policy"
    assert all(draft.moves <= 4 for draft in drafts)
    assert rounds.actions(drafts[-1])[drained] == "drain"

    removed = rounds.go(0.05)
    assert (removed.moves, removed.status == "unchanged") == (0, False)
    assert rounds.actions(removed)[drained] == "remove"
    assert "missing" not in removed.scaling_reason
    assert rounds.plan_id == removed.plan_id
    assert check_jobs(rounds.settings, [JOB]) == [], "what is in force hashes as promised"
    after = rounds.go(0.05)
    assert after.status == "unchanged"
    assert rounds.actions(after)[drained] == "spare"
    assert "2 nodes are the minimum" in after.scaling_reason


def test_a_cool_down_holds_nodes_and_a_draft_that_lost_did_nothing(rounds: ScaledRounds) -> None:
    rounds.policy = policy_of(scaling={"cool_down_s": 1200.0, "stabilisation_rounds": 1})
    rounds.go(0.16)
    held = rounds.go(0.05)
    assert "the last scaling was too recent" in held.scaling_reason
    run_id = rounds.snapshot(0.16)
    inputs = read_scaling_inputs(rounds.settings, find_snapshot(rounds.settings, JOB, run_id))
    history = history_of(rounds.policy, inputs)
    assert [r.action.value for r in history.rounds] == ["out", "hold"]
    unpublished = history_of(rounds.policy, replace(inputs, published=set()))
    assert [r.action.value for r in unpublished.rounds] == ["hold", "hold"]


def test_a_source_that_nobody_measured_means_no_scaling_and_is_named(rounds: ScaledRounds) -> None:
    draft = rounds.go(0.16, backlog=None)
    assert "no scaling, because metrics are missing of source parse" in draft.scaling_reason
    assert set(rounds.actions(draft).values()) == {"keep", "spare"}
    assert "source parse" in read_log(rounds.settings, JOB)[-1].reason


def test_an_idle_load_with_missing_metrics_lets_no_node_go(rounds: ScaledRounds) -> None:
    rounds.go(0.16)
    draft = rounds.go(0.001, backlog=None)
    assert "drain" not in rounds.actions(draft).values()


def test_nodes_that_a_plan_added_stay_when_scaling_leaves_the_policy(rounds: ScaledRounds) -> None:
    rounds.go(0.16)
    nodes = [{"id": "a"}, {"id": "b"}, {"id": "c"}]
    rounds.policy = small_policy(JOB, OPERATORS, nodes=nodes, budgets={"moves": 4})
    draft = rounds.go(0.16)
    assert rounds.actions(draft) == {"a": "keep", "b": "keep", "c": "keep"}
    assert "no scaling section" in draft.scaling_reason


def test_a_retry_finds_the_same_plan(rounds: ScaledRounds) -> None:
    run_id = rounds.snapshot(0.16)
    first = draft_plan(rounds.settings, JOB, run_id, SolveOptions(solver_seconds=1))
    assert draft_plan(rounds.settings, JOB, run_id, SolveOptions()).plan_id == first.plan_id
    assert len(read_scaling(rounds.settings, JOB, first.plan_id)) == 4


def test_operators_are_sized_where_the_method_knows_them(rounds: ScaledRounds) -> None:
    rounds.policy = policy_of(scaling={"method": "true_rate", "min_nodes": 2})
    draft = rounds.go(0.1)
    rows = read_scaling(rounds.settings, JOB, draft.plan_id)
    sizes = {r.subject_id: r.wanted for r in rows if r.subject == "operator"}
    assert set(sizes) == set(OPERATORS)
    assert all(1 <= size <= 6 for size in sizes.values())


@pytest.mark.parametrize(
    ("subject", "change", "promise"),
    [
        ("c", {"action": "spare"}, "scaling"),
        ("a", {"action": "remove"}, "scaling"),
        ("a", {"cpu_load_cores": 5.0}, "cpu_load_cores"),
        ("a", {"due": ["parse/0"]}, "due_moves"),
        ("main", {"wanted": 9}, "scaling.clusters"),
    ],
)
def test_publish_refuses_a_draft_whose_rows_were_tampered_with(
    rounds: ScaledRounds, subject: str, change: dict[str, Any], promise: str
) -> None:
    run_id = rounds.snapshot(0.16)
    draft = draft_plan(rounds.settings, JOB, run_id, SolveOptions(solver_seconds=1))
    given = read_round(rounds.settings, find_snapshot(rounds.settings, JOB, run_id))
    assignment, routes, rows, *_ = read_content(rounds.settings, draft)
    assert violations_of(given, draft, PlanContent(assignment, routes, rows)) == []
    changed = [replace(row, **change) if row.subject_id == subject else row for row in rows]
    found = violations_of(given, draft, PlanContent(assignment, routes, changed))
    assert found
    if not change.keys() & {"action", "wanted"}:
        assert promise in {violation.promise for violation in found}
    else:
        assert found[0].promise == "content_hash"


def test_what_nodes_use_is_measured_against_what_was_promised(rounds: ScaledRounds) -> None:
    draft = rounds.go(0.16)
    rows = read_scaling(rounds.settings, JOB, draft.plan_id)
    snapshot = find_snapshot(rounds.settings, JOB, "run-1")
    where = [("snapshot_id", "=", snapshot.snapshot_id)]
    before, nodes = (
        read_rows(rounds.settings, f"snapshots.{part}", job=JOB, where=where)
        for part in ("key_groups", "nodes")
    )
    held = pa.array([rounds.placement[r["operator_id"], r["key_group"]]
                     for r in before.to_pylist()])  # fmt: skip
    after = before.set_column(before.schema.get_field_index("node_id"), "node_id", held)
    figures = {f.name: (f.before, f.promised, f.measured)
               for f in node_figures(rows, (), before, after)}  # fmt: skip
    assert set(figures) == {f"cpu_load_cores/{node}" for node in "abc"}
    for was, promised, measured in figures.values():
        assert promised == pytest.approx(measured)
        assert was != pytest.approx(promised)
    under = nodes_under(rounds.policy, nodes, rows).to_pylist()
    assert {(r["node_id"], r["state"]) for r in under} == {(n, "alive") for n in "abc"}


def test_a_draining_or_removed_node_is_judged_as_the_plan_leaves_it(rounds: ScaledRounds) -> None:
    rounds.snapshot(0.1, states={"a": "alive", "b": "draining", "c": "alive"})
    snapshot = find_snapshot(rounds.settings, JOB, "run-1")
    where = [("snapshot_id", "=", snapshot.snapshot_id)]
    nodes = read_rows(rounds.settings, "snapshots.nodes", job=JOB, where=where)
    actions = {"a": "drain", "b": "remove", "c": "keep"}
    rows = [scaling_row(n, a) for n, a in actions.items()]
    under = {r["node_id"]: r["state"] for r in nodes_under(rounds.policy, nodes, rows).to_pylist()}
    assert under == {"a": "draining", "c": "alive"}


def test_a_silent_key_group_has_its_last_known_load_in_the_series() -> None:
    problem = Problem(
        node_ids=("a", "b"),
        resources=("cpu",),
        capacity=np.ones((2, 1)),
        node_state=("alive", "dead"),
        key_group_ids=("op/0", "op/1"),
        operator_ids=("op", "op"),
        load=np.array([[0.3], [0.7]]),
        state_bytes=np.array([1, 1]),
        current=np.array([0, 1]),
    )
    rows = [
        {"operator_id": "op", "key_group": 0, "step": step, "step_s": 5.0, "cpu_load_cores": load}
        for step, load in ((4, 0.4), (2, 0.2))
    ]
    series, step_s = series_of(problem, pa.Table.from_pylist(rows))
    assert series[:, 0, :].tolist() == [[0.2, 0.4], [0.7, 0.7]]
    assert step_s == 5.0


def test_a_policy_of_several_clusters_names_them_and_one_of_one_need_not(
    rounds: ScaledRounds,
) -> None:
    nodes = ["a", {"id": "b", "cluster": "east"}, {"id": "c", "cluster": "east", "spare": True}]
    rounds.policy = policy_of(nodes=nodes, scaling={})
    draft = rounds.go(0.15)
    assert "cluster east: 1 nodes become 2" in draft.scaling_reason
    rows = read_scaling(rounds.settings, JOB, draft.plan_id)
    clusters = {r.subject_id: (r.before, r.wanted) for r in rows if r.subject == "cluster"}
    assert clusters == {"main": (1, 1), "east": (1, 2)}


def test_a_node_that_the_policy_drains_may_die_and_plans_are_still_made(
    rounds: ScaledRounds,
) -> None:
    rounds.policy = policy_of(nodes=["a", "b", {"id": "c", "draining": True}])
    rounds.placement = {
        group: "c" if group[1] == 0 else "a" for group in round_robin(rounds.policy)
    }
    draft = rounds.go(0.05, states={"a": "alive", "b": "alive", "c": "dead"})
    assert rounds.actions(draft) == {"a": "keep", "b": "keep", "c": "keep"}
    assert draft.forced_moves == 2
    assert rounds.nodes == {"a", "b"}


def uneven_loads(policy: JobPolicy, heavy: int) -> dict[tuple[str, int], float]:
    return {group: 0.3 if group[1] == heavy else 0.12 for group in round_robin(policy)}


def in_use(rounds: ScaledRounds, plan_id: str) -> dict[str, str]:
    return nodes_in_use(rounds.policy, scaled(read_scaling(rounds.settings, JOB, plan_id)))


def test_a_version_of_the_nodes_of_today_comes_back_and_the_nodes_stay(
    rounds: ScaledRounds,
) -> None:
    first = rounds.go(0.16)
    then = rounds.placement
    second = rounds.go(0.0, loads=uneven_loads(rounds.policy, 2))
    assert rounds.placement != then
    rounds.snapshot(0.16)
    request = RollbackRequest(1, "two is too hot on a")
    head, retried = (roll_back(rounds.settings, JOB, "back-1", request) for _ in range(2))
    assert (head.version, head.plan_id) == (retried.version, retried.plan_id)
    rows = read_assignment(rounds.settings, JOB, head.plan_id)
    assert {(r.operator_id, r.key_group): r.node_id for r in rows} == then
    assert rounds.actions(first)["c"] == "add"
    assert rounds.actions(head) == dict.fromkeys("abc", "keep")
    assert in_use(rounds, head.plan_id) == in_use(rounds, second.plan_id)
    assert check_jobs(rounds.settings, [JOB]) == []
    with pytest.raises(RollbackRefused, match="has the content that is in force"):
        roll_back(rounds.settings, JOB, "back-2", RollbackRequest(1, "again"))

    rounds.plan_id, rounds.placement = head.plan_id, then
    run_id = rounds.snapshot(0.16)
    inputs = read_scaling_inputs(rounds.settings, find_snapshot(rounds.settings, JOB, run_id))
    actions = [r.action.value for r in history_of(rounds.policy, inputs).rounds]
    assert actions == ["out", "hold"], "a rollback is no round of scaling"
    again = roll_back(rounds.settings, JOB, "back-3", RollbackRequest(2, "back again"))
    assert again.content_hash == second.content_hash
    rounds.plan_id = again.plan_id
    rounds.placement = {
        (r.operator_id, r.key_group): r.node_id
        for r in read_assignment(rounds.settings, JOB, again.plan_id)
    }
    assert "c" in rounds.actions(rounds.go(0.05))


def test_a_draining_node_counts_on_through_a_rollback(rounds: ScaledRounds) -> None:
    rounds.policy = policy_of(nodes=["a", "b", "c"], budgets={"moves": 2})
    marked = rounds.go(0.05)
    drained = next(n for n, action in rounds.actions(marked).items() if action == "drain")
    rounds.go(0.05)
    rows = {r.subject_id: r for r in read_scaling(rounds.settings, JOB, rounds.plan_id or "")}
    assert (rows[drained].action, rows[drained].drain_rounds) == ("drain", 2)
    rounds.snapshot(0.05)
    request = RollbackRequest(1, "what left it stays away", force_nodes=True)
    head = roll_back(rounds.settings, JOB, "back-1", request)
    rows = {r.subject_id: r for r in read_scaling(rounds.settings, JOB, head.plan_id)}
    assert (rows[drained].action, rows[drained].drain_rounds) == ("drain", 2)
    assert check_jobs(rounds.settings, [JOB]) == []


def written(settings: Settings) -> dict[str, int]:
    return {name: open_table(settings, name).version() for name in TABLES}


def test_a_version_of_other_nodes_is_refused_with_them_and_nothing_is_written(
    rounds: ScaledRounds,
) -> None:
    rounds.placement = {
        group: "b" if group[1] == 0 else "a" for group in round_robin(rounds.policy)
    }
    rounds.go(0.1)
    assert rounds.nodes == {"a", "b"}
    rounds.go(0.16)
    rounds.snapshot(0.16)
    before = written(rounds.settings)
    said = r"version 1 .* other nodes than version 2.*: c not in use, alive .*let the next plan"
    with pytest.raises(RollbackRefused, match=said):
        roll_back(rounds.settings, JOB, "back-1", RollbackRequest(1, "c is too dear"))
    with pytest.raises(NotFound, match="no version 9"):
        roll_back(rounds.settings, JOB, "back-2", RollbackRequest(9, "a slip"))
    with pytest.raises(RollbackRefused, match="nothing to do"):
        roll_back(rounds.settings, JOB, "back-3", RollbackRequest(2, "a slip"))
    assert written(rounds.settings) == before


def test_a_rollback_waits_for_a_snapshot_of_the_nodes_in_force(rounds: ScaledRounds) -> None:
    rounds.go(0.16)
    rounds.go(0.0, loads=uneven_loads(rounds.policy, 2))
    rounds.snapshot(0.16, states={"a": "alive", "b": "alive"}, placement=round_robin(
        small_policy(JOB, OPERATORS, nodes=["a", "b"])))  # fmt: skip
    with pytest.raises(RollbackRefused, match=r"newest snapshot .*c alive, not in use.*reoptimize"):
        roll_back(rounds.settings, JOB, "back-1", RollbackRequest(1, "too early"))


def test_what_cannot_be_decided_is_said_and_the_load_is_still_balanced(
    rounds: ScaledRounds,
) -> None:
    nodes = ["a", "b", {"id": "c", "cluster": "east", "draining": True}]
    rounds.policy = policy_of(nodes=nodes, scaling={})
    rounds.placement = {group: "a" if group[1] % 3 else "c" for group in round_robin(rounds.policy)}
    draft = rounds.go(0.05)
    assert "no scaling, because cluster 'east' has no node" in draft.scaling_reason
    assert draft.moves == 4


def test_rounds_under_any_load_are_verified_published_and_within_the_limits(
    rounds: ScaledRounds,
) -> None:
    rounds.seconds = 0.1
    nodes = [{"id": f"n{i}", "spare": i >= 3} for i in range(5)]
    scaling = {"min_nodes": 2, "cool_down_s": 0.0, "stabilisation_rounds": 1, "max_drain_rounds": 3,
               "max_nodes": 4}  # fmt: skip
    rounds.policy = policy_of(nodes=nodes, scaling=scaling, budgets={"moves": 3})
    random = np.random.default_rng(1)
    draining: dict[str, int] = {}
    for level in random.choice([0.02, 0.1, 0.3], size=10):
        loads = {
            group: float(level * random.uniform(0.3, 2)) for group in round_robin(rounds.policy)
        }
        draft = rounds.go(0.0, loads=loads)
        assert draft.moves <= 3
        actions = rounds.actions(draft)
        staying = [n for n, action in actions.items() if action in ("add", "keep")]
        assert 2 <= len(staying) <= 4
        now = {n for n, action in actions.items() if action == "drain"}
        draining = {n: draining.get(n, 0) + 1 for n in now}
        left = {n for n in now if n in rounds.nodes}
        assert all(draining[n] < 3 for n in left), "empty after three rounds"


PERSON = {"mode": "person"}


def test_a_plan_that_adds_a_node_can_be_reviewed_and_published(rounds: ScaledRounds) -> None:
    rounds.policy = policy_of(review=PERSON)
    run_id = rounds.snapshot(0.16)
    rounds.heartbeats(run_id, "ab")
    draft = draft_plan(rounds.settings, JOB, run_id, SolveOptions(solver_seconds=0.2))
    assert rounds.actions(draft)["c"] == "add"
    body = rounds.review(draft)
    assert "### Nodes\n\n- adds 1: c\n\nWhy: 2 nodes become 3, because cpu is at 96 %" in body
    assert "| c | alive | 0.00 | " in body


def test_a_node_that_a_plan_added_is_missed_when_it_falls_silent(rounds: ScaledRounds) -> None:
    rounds.go(0.16)
    run_id = rounds.snapshot(0.16)
    rounds.heartbeats(run_id, "ab")
    snapshot = find_snapshot(rounds.settings, JOB, run_id)
    lost = unusable_nodes(read_node_state(rounds.settings, rounds.policy, snapshot))
    assert {node: of.state for node, of in lost.items()} == {"c": "dead"}


def test_a_plan_that_takes_a_draining_node_back_can_be_reviewed(rounds: ScaledRounds) -> None:
    rounds.go(0.16)
    marked = rounds.go(0.05)
    drained = next(n for n, action in rounds.actions(marked).items() if action == "drain")
    rounds.placement |= dict.fromkeys(list(rounds.placement)[:2], drained)
    rounds.policy = policy_of(review=PERSON)
    run_id = rounds.snapshot(0.16)
    draft = draft_plan(rounds.settings, JOB, run_id, SolveOptions(solver_seconds=0.2))
    assert rounds.actions(draft)[drained] == "keep"
    rows = read_content(rounds.settings, draft)[0].to_pylist()
    assert any(row["node_id"] == drained != row["previous_node_id"] for row in rows)
    body = rounds.review(draft)
    assert f"takes back {drained}" in body
    assert "No node is added, drained or removed." in body


def scaling_row(node: str, action: str) -> ScalingRow:
    at = datetime(2026, 11, 16, 12, tzinfo=UTC)
    return ScalingRow(
        job=JOB, plan_id="plan", subject="node", subject_id=node, action=action, reason="",
        binding="", would_change="", period_end_at=at, decided_at=at,
    )  # fmt: skip


def drain_row(plan_id: str, minute: int, node: str, rounds: int) -> EarlierScaling:
    at = datetime(2026, 11, 16, 12, minute, tzinfo=UTC)
    row = replace(scaling_row(node, "drain" if rounds else "keep"), plan_id=plan_id,
                  period_end_at=at, drain_rounds=rounds or None)  # fmt: skip
    return EarlierScaling.of(row)


def test_rounds_of_a_drain_are_those_of_plans_in_force_and_of_drafts_that_change_nothing() -> None:
    problem = Problem(
        node_ids=("a", "b"),
        resources=("cpu",),
        capacity=np.ones((2, 1)),
        node_state=("alive", "draining"),
        key_group_ids=("op/0",),
        operator_ids=("op",),
        load=np.array([[0.3]]),
        state_bytes=np.array([1]),
        current=np.array([1]),
    )
    none = pa.table({})
    rows = [
        drain_row("in force", 10, "b", 1),
        drain_row("unchanged", 20, "b", 2),
        drain_row("rejected", 30, "b", 3),
        drain_row("takes b back, and lost", 40, "b", 0),
    ]
    inputs = ScalingInputs(none, none, none, none, rows, {"in force"}, {"unchanged"})
    assert drains_of(problem, inputs) == {"b": 2}
    assert drains_of(problem, replace(inputs, unchanged=())) == {"b": 1}
    assert drains_of(problem, replace(inputs, published=(), unchanged=())) == {}


def remembered(rounds: ScaledRounds, **scaling: Any) -> ScalingInputs:
    """The scaling inputs of a solve under a policy with these fields of scaling."""
    rounds.policy = policy_of(scaling={"min_nodes": 2, "stabilisation_rounds": 1, **scaling})
    run_id = rounds.snapshot(0.1)
    return read_scaling_inputs(rounds.settings, find_snapshot(rounds.settings, JOB, run_id))


def test_rounds_that_scaling_does_not_remember_are_not_read(rounds: ScaledRounds) -> None:
    """Otherwise every round would read the rows of ten years."""
    draft = rounds.go(0.1)
    rows = read_scaling(rounds.settings, JOB, draft.plan_id)
    hours = {"old": 2, "older": 48, "oldest": 9000}
    for name, ago in hours.items():
        back = {
            k: getattr(rows[0], k) - timedelta(hours=ago) for k in ("decided_at", "period_end_at")
        }
        append(
            rounds.settings,
            "plans.scaling",
            [{**r.to_row(), **back, "plan_id": name} for r in rows],
        )
    now = draft.plan_id

    def plans(**scaling: Any) -> set[str]:
        return {row.plan_id for row in remembered(rounds, **scaling).earlier}

    # Twice 1 x 600 s, then 32 times, then everything, until there are enough rounds.
    assert plans(memory_rounds=1, interval_s=600.0) == {now}
    assert plans(memory_rounds=2, interval_s=600.0) == {now, "old"}
    assert plans(memory_rounds=3, interval_s=3600.0) == {now, "old", "older"}
    assert plans(memory_rounds=4, interval_s=600.0) == {now, *hours}
    # The billing period of a node begins with the node.
    assert plans(memory_rounds=1, interval_s=600.0, billing_s=3600.0) == {now, *hours}


def test_the_plan_in_force_is_looked_at_however_old_it_is(rounds: ScaledRounds) -> None:
    draft = rounds.go(0.16)
    rows = read_scaling(rounds.settings, JOB, draft.plan_id)
    back = {k: getattr(rows[0], k) - timedelta(days=400) for k in ("decided_at", "period_end_at")}
    rounds.plan_id = "long in force"
    append(
        rounds.settings,
        "plans.scaling",
        [{**r.to_row(), **back, "plan_id": rounds.plan_id} for r in rows],
    )
    inputs = remembered(rounds, memory_rounds=1, interval_s=600.0)
    assert {row.plan_id for row in inputs.earlier} == {draft.plan_id, "long in force"}
    assert "long in force" in inputs.published
