"""Plans that route keys: from a snapshot's key pairs to a published version."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

from ballast.contracts.errors import NotFound, PolicyError, VerificationFailed
from ballast.store.plans import read_head, read_routes
from ballast.store.tables import append
from solvers.verify.routes import BALANCE, RoutedFacts
from spark_jobs.draft.content import PlanContent, content_hash_of, routing_of
from spark_jobs.draft.draft_plan import draft_plan
from spark_jobs.draft.draft_tables import find_snapshot, read_content, read_round
from spark_jobs.draft.key_statistics import key_statistics
from spark_jobs.draft.report import report
from spark_jobs.draft.solve_arguments import SolveOptions
from spark_jobs.draft.verification import violations_of
from spark_jobs.publication.publisher import publish_plan
from tests.support.keys import flows, group_rates, key_pair_rows, keyed_policy
from tests.support.snapshots import END, snapshot_rows

JOB, STAY = "probe", SolveOptions(budget_moves=0, solver_seconds=2)


def write_keyed_snapshot(
    settings, run_id, policy=None, head=None, created_at=END, at=END, pairs=None, **own
):
    policy = policy or keyed_policy()
    rows = snapshot_rows(policy, run_id, head=head, at=at)
    snapshot = rows["snapshots.snapshots"][0]
    snapshot |= {"key_pairs_table_version": 1, "created_at": created_at, **own}
    rates = group_rates()
    for row in rows["snapshots.key_groups"]:
        rate = rates[row["operator_id"], row["key_group"]]
        row |= {"records_per_s": rate, "cpu_load_cores": rate / 1000, "state_bytes": int(rate)}
    first = rows["snapshots.traffic"][0]
    rows["snapshots.traffic"] = [
        {**first, "from_key_group": a, "to_key_group": b, "records_per_s": rate,
         "bytes_per_s": 0.0 if a % 2 == b % 2 else 20 * rate}
        for (a, b), rate in flows().items()
    ]  # fmt: skip
    ids = {"job": policy.job, "snapshot_id": snapshot["snapshot_id"]}
    rows["snapshots.key_pairs"] = [{**ids, **row} for row in pairs or key_pair_rows()]
    for table, of_table in rows.items():
        append(settings, table, of_table)
    return snapshot


def test_keys_are_routed_to_their_partners_and_the_plan_is_published(settings):
    write_keyed_snapshot(settings, "run-1")
    plan = draft_plan(settings, JOB, "run-1", STAY)
    assert plan.moves == 0
    assert plan.status != "unchanged"
    assert plan.collocation_factor_before_pct < 80.0
    assert plan.collocation_factor_pct == pytest.approx(100.0)
    assert plan.wire_bytes_per_s == pytest.approx(0.0, abs=1e-6)
    assert 0 < plan.rerouted_keys == plan.routes
    routes = read_routes(settings, JOB, plan.plan_id)
    assert len(routes) == plan.routes
    assert f"routes {plan.rerouted_keys} keys anew" in " ".join(report(plan))
    head = publish_plan(settings, JOB, "run-1")
    assert head.content_hash == content_hash_of(read_content(settings, plan))
    assert read_head(settings, JOB).plan_id == plan.plan_id


def test_a_route_that_was_changed_after_the_draft_is_not_published(settings):
    snapshot = write_keyed_snapshot(settings, "run-1")
    plan = draft_plan(settings, JOB, "run-1", STAY)
    given = read_round(settings, find_snapshot(settings, JOB, "run-1"))
    assignment, routes, *_ = read_content(settings, plan)
    assert violations_of(given, plan, PlanContent(assignment, routes)) == []
    assert (
        violations_of(given, plan, PlanContent(assignment, routes[1:]))[0].promise == "content_hash"
    )
    stray = [(routes[0][0], routes[0][1], 99), *routes[1:]]
    changed = _rehashed(snapshot, plan, assignment, stray)
    assert violations_of(given, changed, PlanContent(assignment, stray))[0].promise == "routes"
    twice = [*routes, routes[0]]
    changed = _rehashed(snapshot, plan, assignment, twice)
    assert violations_of(given, changed, PlanContent(assignment, twice))[0].promise == "routes"
    fewer = routes[1:]
    changed = _rehashed(snapshot, plan, assignment, fewer)
    broken = {v.promise for v in violations_of(given, changed, PlanContent(assignment, fewer))}
    assert "collocation_factor" in broken
    row = {"job": JOB, "plan_id": plan.plan_id, "operator_id": "parse", "key": "x"}
    append(settings, "plans.routes", [{**row, "key_group": 1}])
    with pytest.raises(VerificationFailed, match="content_hash"):
        publish_plan(settings, JOB, "run-1")


def _rehashed(snapshot, plan, assignment, routes):
    from ballast.contracts import identity

    content = content_hash_of(PlanContent(assignment, routes))
    plan_id = identity.plan_id(JOB, snapshot["snapshot_id"], content)
    return replace(plan, content_hash=content, plan_id=plan_id)


def _applied(plan):
    return {
        "job": JOB, "version": 1, "plan_id": plan.plan_id, "status": "applied", "batch_id": 3,
        "reason": "", "moved_key_groups": 0, "bytes_moved": 0, "pause_ms": 1.0,
        "acked_at": END + timedelta(minutes=1),
    }  # fmt: skip


def test_routes_in_force_are_kept_by_the_next_plan(settings):
    write_keyed_snapshot(settings, "run-1")
    first = draft_plan(settings, JOB, "run-1", STAY)
    head = publish_plan(settings, JOB, "run-1")
    append(settings, "plans.acks", [_applied(first)])
    # The traffic is as before the routes: as if all keys went by their hash.
    later = END + timedelta(minutes=2)
    write_keyed_snapshot(settings, "run-2", head=head, created_at=later)
    given = read_round(settings, find_snapshot(settings, JOB, "run-2"))
    assert sum(map(len, given.routing.values())) == first.routes
    second = draft_plan(settings, JOB, "run-2", STAY)
    assert second.status == "unchanged"
    assert second.routes == first.routes
    assert read_routes(settings, JOB, second.plan_id)


def test_fewer_routes_than_are_in_force_may_be_allowed_and_none_are_added(settings):
    write_keyed_snapshot(settings, "run-1")
    first = draft_plan(settings, JOB, "run-1", STAY)
    head = publish_plan(settings, JOB, "run-1")
    append(settings, "plans.acks", [_applied(first)])
    edges = [{"from": "parse", "to": "count"}]
    few = keyed_policy(routing={"edges": edges, "max_routes": 1, "max_imbalance": 1.5})
    later = END + timedelta(minutes=2)
    snapshot = write_keyed_snapshot(settings, "run-2", few, head, later)
    second = draft_plan(settings, JOB, "run-2", STAY)
    assert second.routes == first.routes > 2
    given = read_round(settings, find_snapshot(settings, JOB, "run-2"))
    assignment, routes, *_ = read_content(settings, second)
    more = [*routes, (routes[0][0], "one more", 0)]
    changed = _rehashed(snapshot, second, assignment, more)
    found = violations_of(given, changed, PlanContent(assignment, more))
    assert [violation.promise for violation in found] == ["routes"]


def test_routes_of_a_version_that_was_not_applied_are_not_in_force(settings):
    write_keyed_snapshot(settings, "run-1")
    draft_plan(settings, JOB, "run-1", STAY)
    head = publish_plan(settings, JOB, "run-1")
    later = END + timedelta(minutes=2)
    write_keyed_snapshot(settings, "run-2", head=head, created_at=later)
    given = read_round(settings, find_snapshot(settings, JOB, "run-2"))
    assert given.routing == {}


def test_routes_in_force_are_those_of_the_plan_that_the_snapshot_ran_under(settings):
    """The acknowledgement and its time have no effect."""
    write_keyed_snapshot(settings, "run-1")
    first = draft_plan(settings, JOB, "run-1", STAY)
    head = publish_plan(settings, JOB, "run-1")
    write_keyed_snapshot(settings, "run-2", head=head, applied_plan_id=first.plan_id)
    given = read_round(settings, find_snapshot(settings, JOB, "run-2"))
    assert sum(map(len, given.routing.values())) == first.routes > 0


def write_rounds(settings, ends, keep_every=3):
    """Write snapshots, each with another part of the pairs; the last one remembers all."""
    taken = []
    for number, end in enumerate(ends):
        pairs = [row for i, row in enumerate(key_pair_rows())
                 if row["kind"] != "pair" or (i // 3 + number) % keep_every == 0]  # fmt: skip
        at = END + timedelta(minutes=end)
        remembered = [row["snapshot_id"] for row in taken] or None
        taken.append(
            write_keyed_snapshot(
                settings,
                f"run-{number}",
                created_at=at,
                at=at,
                pairs=pairs,
                remembered_snapshot_ids=remembered,
            )
        )
    return taken


def test_a_round_reckons_with_the_keys_of_the_snapshots_that_it_remembers(settings):
    """A missing snapshot in between is a round in which statistics decayed."""
    write_rounds(settings, ends=(0, 10, 20, 40, 50))
    given = read_round(settings, find_snapshot(settings, JOB, "run-4"))
    assert [e.rounds_ago for e in given.statistics.earlier] == [5.0, 4.0, 3.0, 1.0]
    alone = read_round(settings, find_snapshot(settings, JOB, "run-0"))
    assert alone.statistics.earlier == ()


def test_a_plan_that_remembers_is_verified_and_published_with_the_same_figures(settings):
    write_rounds(settings, ends=(0, 10, 20, 30))
    plan = draft_plan(settings, JOB, "run-3", STAY)
    assert "keys by 4 periods of statistics" in plan.reason
    assert plan.rerouted_keys > 0
    # A later round does not change the result of this one.
    write_keyed_snapshot(settings, "run-9", created_at=END + timedelta(hours=2))
    assert publish_plan(settings, JOB, "run-3").plan_id == plan.plan_id


def test_a_plan_that_is_out_of_balance_in_an_earlier_memory_alone_is_not_published(settings):
    """Keys 0 and 1 were heavy in earlier rounds, and the plan puts them on one node."""
    heavy = [{**row, "records_per_s": 300.0} if row["from_key"] in ("plane 0", "plane 1") else row
             for row in key_pair_rows()]  # fmt: skip
    at = [END + timedelta(minutes=10 * n) for n in range(3)]
    before = [write_keyed_snapshot(settings, f"run-{n}", at=at[n], pairs=heavy)["snapshot_id"]
              for n in range(2)]  # fmt: skip
    snapshot = write_keyed_snapshot(settings, "run-2", at=at[2], remembered_snapshot_ids=before)
    plan = draft_plan(settings, JOB, "run-2", STAY)
    given = read_round(settings, find_snapshot(settings, JOB, "run-2"))
    assignment, routes, *_ = read_content(settings, plan)
    assert violations_of(given, plan, PlanContent(assignment, routes)) == []
    node = {row["key_group"]: row["node_id"] for row in assignment.to_pylist()
            if row["operator_id"] == "parse"}  # fmt: skip
    others = [route for route in routes if route[1] not in ("plane 0", "plane 1")]
    together = [("parse", f"plane {n}", next(g for g in node if node[g] == "node-0"))
                for n in (0, 1)]  # fmt: skip
    changed = _rehashed(snapshot, plan, assignment, [*others, *together])
    facts = RoutedFacts(given.problem, given.statistics, given.routing,
                        routing_of([*others, *together]))  # fmt: skip
    nodes = [f"node-{n}" for n in given.problem.current.tolist()]
    found = [v for v in facts.violations(nodes, given.route_rules) if v.promise == BALANCE]
    assert found
    assert not [v for v in found if "decay 0," in v.message]
    assert violations_of(given, changed, PlanContent(assignment, [*others, *together]))


def test_a_snapshot_that_is_remembered_and_gone_is_an_error_that_says_what_to_do(settings):
    write_keyed_snapshot(settings, "run-1", remembered_snapshot_ids=["lost"])
    with pytest.raises(NotFound, match=r"remembers lost, which is gone.*start a new run"):
        draft_plan(settings, JOB, "run-1", STAY)


def test_keys_take_no_more_bytes_than_the_budget_has(settings):
    write_keyed_snapshot(settings, "run-1")
    plan = draft_plan(settings, JOB, "run-1", SolveOptions(budget_moves=0, budget_bytes=30))
    assert 0 < plan.route_bytes <= 30
    assert plan.collocation_factor_pct < 100.0


def test_the_pause_of_routed_keys_counts_against_the_budget(settings):
    write_keyed_snapshot(settings, "run-1")
    plan = draft_plan(settings, JOB, "run-1", STAY)
    given = read_round(settings, find_snapshot(settings, JOB, "run-1"))
    assignment, routes, *_ = read_content(settings, plan)
    needed = plan.pause_s + plan.route_pause_s
    assert plan.pause_s < 0.9 * needed
    enough = replace(plan, budget_pause_s=needed)
    assert violations_of(given, enough, PlanContent(assignment, routes)) == []
    short = replace(plan, budget_pause_s=0.9 * needed)
    found = violations_of(given, short, PlanContent(assignment, routes))
    assert [violation.promise for violation in found] == ["budget.pause_s"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"objective": {"kind": "balance"}}, "keys are routed where it is 'joint'"),
        ({"routing": {"edges": [{"from": "count", "to": "parse"}]}}, "is not one of edges"),
        ({"routing": {"edges": [], "max_routes": 0}}, "max_routes"),
        ({"partition_keys": {}}, "would be routed twice"),
    ],
)
def test_a_policy_that_cannot_route_is_refused(fields, said):
    with pytest.raises(PolicyError, match=said):
        keyed_policy(**fields)


def test_keys_that_may_have_no_route_are_left_out_and_odd_ones_are_not():
    """Another collector may count keys of any length, and no job accepts a plan with them."""
    odd = ["o'clock", 'say "x"', "two\nlines", "\x00", ""]
    rows = []
    for key in [*odd, "x" * 2**20, "ü" * 513]:
        rows += [
            {"kind": "key", "from_operator_id": "parse", "from_key": key, "records_per_s": 1.0},
            {"kind": "pair", "from_operator_id": "parse", "from_key": "plane", "records_per_s": 1.0,
             "to_operator_id": "count", "to_key": key},
        ]  # fmt: skip
    names = ("kind", "from_operator_id", "from_key", "to_operator_id", "to_key", "records_per_s")
    columns = {name: [row.get(name) for row in rows] for name in names}
    table = pa.table({**columns, "error_records_per_s": [0.0] * len(rows)})
    groups = pa.table({"operator_id": ["parse"], "key_group": [0], "records_per_s": [7.0]})
    found = key_statistics(groups, table)
    assert list(found.keys["parse"]) == odd
    assert [b for _, b in found.pairs["parse", "count"]] == odd
