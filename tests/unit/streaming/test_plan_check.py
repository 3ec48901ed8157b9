"""A plan is checked against the job's own world; what does not fit is refused with the reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ballast.contracts.errors import PlanRefused
from ballast.contracts.identity import content_hash
from ballast.store.plans import Head
from ballast.streaming.plan_check import checked_placement
from ballast.streaming.routing import first_placement
from tests.support.streaming_parts import JOB, policy_of, topology_of

POLICY = policy_of()
TOPOLOGY = topology_of()
CURRENT = first_placement(TOPOLOGY, POLICY)


def plan(change=lambda rows: rows):
    rows = change([(o, g, "node-1") for o, g in TOPOLOGY.all_key_groups])
    head = Head(JOB, 3, "plan", content_hash(rows), "run", datetime.now(UTC))
    return head, [{"operator_id": o, "key_group": g, "node_id": n} for o, g, n in rows]


def check(head, rows, policy=POLICY):
    return checked_placement(head, rows, TOPOLOGY, policy, CURRENT)


def test_a_whole_plan_is_taken_with_its_version():
    head, rows = plan()
    placement = check(head, rows)
    assert (placement.version, placement.plan_id) == (3, "plan")
    assert placement.nodes["count"] == ("node-1",) * 6
    assert placement.content_hash == head.content_hash


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda rows: rows[1:], "parse/0 not"),
        (lambda rows: [*rows, rows[0]], "parse/0 twice"),
        (lambda rows: [*rows, ("parse", 4, "node-1")], "parse/4 unknown"),
        (lambda rows: [*rows, ("ghost", 0, "node-1")], "ghost/0 unknown"),
        (lambda rows: [("parse", 0, "node-9"), *rows[1:]], "unknown node node-9"),
        (lambda _: [], "parse/0|not"),
    ],
)  # fmt: skip
def test_a_plan_that_does_not_fit_is_refused(change, reason):
    with pytest.raises(PlanRefused, match=reason):
        check(*plan(change))


def test_a_content_that_is_not_what_the_head_promises_is_refused():
    head, rows = plan()
    with pytest.raises(PlanRefused, match="content hash"):
        check(replace(head, content_hash="0" * 64), rows)
    with pytest.raises(PlanRefused, match="content hash"):
        check(head, [{**rows[0], "node_id": "node-2"}, *rows[1:]])


def test_nothing_new_goes_to_a_draining_node():
    nodes = [{"id": "node-0"}, {"id": "node-1", "draining": True}, {"id": "node-2"}]
    with pytest.raises(PlanRefused, match="onto a draining node"):
        check(*plan(), policy=policy_of(nodes=nodes))
