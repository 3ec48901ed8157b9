"""Rules of a policy through the pipeline: solved, verified, recorded, published, shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ballast.contracts import plan_text
from ballast.contracts.errors import Infeasible, PlanStale
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Draft, Snapshot
from ballast.contracts.settings import Settings
from ballast.store.plans import read_assignment, read_log
from spark_jobs.draft.draft_plan import draft_plan
from spark_jobs.draft.draft_tables import read_content, read_round
from spark_jobs.draft.report import report
from spark_jobs.draft.solve_arguments import SolveOptions
from spark_jobs.draft.verification import violations_of
from spark_jobs.publication.publisher import publish_plan
from spark_jobs.publication.review_request import prepare_review
from tests.support.policies import small_policy, write_policy
from tests.support.snapshots import END, uneven, write_snapshot

JOB, RUN = "probe", "run-1"
OPTIONS = SolveOptions(solver_seconds=0.3)
NODES = [{"id": "a", "labels": ["ssd"]}, {"id": "b", "labels": ["ssd"]}, {"id": "c"}]
FAST = {"name": "fast", "operators": ["count"], "labels": ["ssd"]}
STAY = {"name": "stay", "key_groups": ["parse/0"], "stay": True}
OUTSIDE = {("count", 0): "c", ("count", 1): "c"}
"""Key groups that the rule ``fast`` does not permit where they are."""


def policy(*place: dict[str, Any], **fields: Any) -> JobPolicy:
    return small_policy(JOB, nodes=NODES, rules={"place": list(place)}, **fields)


def drafted(settings: Settings, of: JobPolicy, **rows: Any) -> tuple[Snapshot, Draft]:
    rows = {"placement": uneven(of) | OUTSIDE} | rows
    snapshot = write_snapshot(settings, of, RUN, **rows)
    return snapshot, draft_plan(settings, JOB, RUN, OPTIONS)


def placed(settings: Settings, draft: Draft) -> dict[str, str]:
    rows = read_assignment(settings, JOB, draft.plan_id)
    return {f"{row.operator_id}/{row.key_group}": row.node_id for row in rows}


@pytest.mark.parametrize(
    ("kind", "method"),
    [("balance", "auto"), ("balance", "milp"), ("balance", "flux"), ("joint", "auto")],
)
def test_every_method_and_objective_keeps_the_rules(
    settings: Settings, kind: str, method: str
) -> None:
    of = policy(FAST, STAY, objective={"kind": kind}, solver={"method": method})
    _, draft = drafted(settings, of)
    found = placed(settings, draft)
    assert {found[f"count/{group}"] for group in range(4)} <= {"a", "b"}
    assert found["parse/0"] == uneven(of)["parse", 0]
    assert draft.rules == "fast,stay"
    assert publish_plan(settings, JOB, RUN) is not None


def test_a_restored_rule_is_recorded_and_said_everywhere(settings: Settings) -> None:
    _, draft = drafted(settings, policy(FAST))
    assert draft.restored_rules == "fast"
    (line,) = (draft.rules_text or "").splitlines()
    assert line.startswith(
        "fast: 4 key groups of count are on a, b, of 2 nodes that it lists; 2 of"
    )
    assert f"rule {line}" in report(draft)
    assert "Rules that are broken now are kept: fast" in plan_text.plan_reason(draft)
    shown = prepare_review(settings, JOB, RUN, draft.plan_id, draft.content_hash, "/ballast/").body
    assert "### Rules of the policy" in shown


def test_moves_off_forbidden_nodes_are_made_although_the_job_is_level(settings: Settings) -> None:
    every = {"name": "fast", "operators": ["parse", "count"], "labels": ["ssd"]}
    of = policy(every, thresholds={"good_enough_pct": 1000.0})
    _, draft = drafted(settings, of, placement={})
    assert draft.status != "unchanged"
    assert draft.moves > 0
    assert draft.load_distance_pct > draft.load_distance_before_pct


def test_a_plan_without_rules_records_none(settings: Settings) -> None:
    _, draft = drafted(settings, policy())
    assert (draft.rules, draft.restored_rules, draft.rules_text) == (None, None, None)


def test_a_draft_that_hides_its_rules_or_claims_others_is_not_published(
    settings: Settings,
) -> None:
    snapshot, draft = drafted(settings, policy(FAST))
    job_round, content = read_round(settings, snapshot), read_content(settings, draft)
    for wrong in ({"rules": None}, {"rules": "fast,other"}, {"restored_rules": None}):
        found = violations_of(job_round, replace(draft, **wrong), content)
        assert [each.promise for each in found] == list(wrong)


def test_the_verifier_refuses_the_plan_of_a_policy_without_the_rule(settings: Settings) -> None:
    snapshot, draft = drafted(settings, policy())
    job_round, content = read_round(settings, snapshot), read_content(settings, draft)
    with_rule = write_snapshot(settings, policy(FAST), "other", placement=uneven(policy()))
    stricter = replace(job_round, problem=read_round(settings, with_rule).problem)
    broken = {each.promise for each in violations_of(stricter, draft, content)}
    assert {"rules.fast", "allowed_nodes", "rules"} <= broken


def test_rules_that_no_placement_keeps_end_the_run_with_their_names(settings: Settings) -> None:
    pin = {"name": "pin", "key_groups": ["parse/1"], "nodes": ["c"]}
    with pytest.raises(
        Infeasible, match=r"rule pin leaves key group parse/1 no node: .*c \(dead\)"
    ):
        drafted(settings, policy(pin), states={"c": "dead"})
    assert "rule pin leaves" in read_log(settings, JOB)[-1].reason


def test_a_budget_that_is_too_small_for_a_rule_is_a_reason(settings: Settings) -> None:
    with pytest.raises(Infeasible, match=r"allowed nodes do not list.*over the budget"):
        drafted(settings, policy(FAST, budgets={"moves": 1}))


def test_a_spare_node_with_the_label_takes_key_groups_when_it_is_added(
    settings: Settings,
) -> None:
    nodes = [
        {"id": "a", "labels": ["ssd"]},
        {"id": "b"},
        {"id": "c", "labels": ["ssd"], "spare": True},
    ]
    of = small_policy(
        JOB, nodes=nodes, scaling={"min_nodes": 2, "cool_down_s": 60.0},
        rules={"place": [FAST]}, budgets={"moves": 20},
    )  # fmt: skip
    states = {"a": "alive", "b": "alive"}
    loads = {(o.id, g): 0.24 for o in of.operators for g in range(4)}
    _, draft = drafted(settings, of, states=states, loads=loads, steps=10, traffic=False,
                       placement={("count", g): "a" for g in range(4)}
                       | {("parse", g): "b" for g in range(4)})  # fmt: skip
    found = placed(settings, draft)
    assert "c" in {found[f"count/{group}"] for group in range(4)}
    assert {found[f"count/{group}"] for group in range(4)} <= {"a", "c"}


def test_a_draft_is_stale_if_the_rules_changed_while_it_waited(settings: Settings) -> None:
    _, draft = drafted(settings, policy(FAST))
    folder = settings.policies
    assert not (folder / f"{JOB}.yaml").exists()
    changed = replace(settings, policies=settings.home / "policies")
    write_policy(changed.policies, policy(FAST, STAY))
    write_snapshot(changed, policy(FAST), "run-2", placement=uneven(policy()),
                   at=END + timedelta(minutes=1))  # fmt: skip
    with pytest.raises(PlanStale, match="the rules of the policy, or the labels"):
        prepare_review(changed, JOB, RUN, draft.plan_id, draft.content_hash, "/ballast/")


@pytest.mark.parametrize("kind", ["balance", "joint"])
def test_rules_for_several_key_groups_are_kept_by_both_objectives(
    settings: Settings, kind: str
) -> None:
    rules = {
        "apart": [{"name": "pair", "key_groups": ["parse/0", "parse/3"], "share_no": "rack"}],
        "moves": [{"name": "slow", "operators": ["count"], "moves": 1}],
    }
    nodes = [{"id": name, "rack": rack} for name, rack in (("a", "r1"), ("b", "r1"), ("c", "r2"))]
    of = small_policy(JOB, nodes=nodes, rules=rules, objective={"kind": kind})
    _, draft = drafted(settings, of, placement=dict.fromkeys(uneven(of), "a"))
    found = placed(settings, draft)
    assert sorted({found["parse/0"], found["parse/3"]} & {"c"}) == ["c"]
    assert found["parse/0"] != found["parse/3"]
    assert sum(found[f"count/{group}"] != "a" for group in range(4)) <= 1
    assert (draft.rules, draft.restored_rules) == ("pair,slow", "pair")
    assert "are on different racks" in (draft.rules_text or "")
    assert draft.bound_pct <= draft.load_distance_pct
    assert publish_plan(settings, JOB, RUN) is not None


RACKS = [{"id": f"n{i}", "rack": f"r{i % 3}"} for i in range(6)]


def headroom(limit: float, **fields: Any) -> JobPolicy:
    rule = {"name": "survive", "loss_of": ["node", "rack"], "max_utilisation_pct": limit}
    return small_policy(JOB, {"parse": 12, "count": 12}, nodes=RACKS, rules={"headroom": rule},
                        **fields)  # fmt: skip


def test_headroom_is_restored_promised_and_verified(settings: Settings) -> None:
    of = headroom(80.0, thresholds={"good_enough_pct": 1000.0})
    snapshot, draft = drafted(settings, of, placement=uneven(of, 4))
    assert draft.restored_rules == "survive"
    assert (draft.headroom_before_pct or 0) > 80.0 >= (draft.headroom_pct or 100)
    assert "survive: with the plan after the loss of" in (draft.rules_text or "")
    job_round, content = read_round(settings, snapshot), read_content(settings, draft)
    for wrong in ({"headroom_pct": 1.0}, {"headroom_limit_pct": None}, {"restored_rules": None}):
        found = violations_of(job_round, replace(draft, **wrong), content)
        assert wrong.keys() <= {f"{each.promise}_pct" for each in found} | {
            each.promise for each in found
        }
    assert publish_plan(settings, JOB, RUN) is not None


def test_headroom_that_no_placement_has_ends_the_run_with_the_nodes_it_takes(
    settings: Settings,
) -> None:
    with pytest.raises(
        Infeasible, match=r"rule survive cannot be kept: .* it would take at least \d"
    ):
        drafted(settings, headroom(50.0), placement=uneven(headroom(50.0)))
