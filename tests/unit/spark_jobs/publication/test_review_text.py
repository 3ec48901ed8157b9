"""The text for the person who answers a review."""

from __future__ import annotations

import json

from ballast.contracts.records import Draft, Promise
from spark_jobs.publication.review_text import DraftDetails, review_body
from tests.support.rows import row_of


def body(details=None, **figures):
    plan = row_of("plans.plans", job="clicks", advice=None, held_back_json=None) | figures
    shown = details or DraftDetails()
    return review_body(Draft.from_row(plan), shown, ["every plan is seen"], "/ballast")


def promise(figure, low, high, reason=""):
    row = row_of(Promise.table, figure=figure, expected=3.1, low=low, high=high, reason=reason)
    return Promise.from_row(row | {"unit": "% of mean"})


def test_promises_have_their_intervals_or_the_reason_why_there_is_none():
    load = promise("load_distance_pct", 2.0, 4.5)
    traffic = promise("collocation_factor_pct", None, None, "5 outcomes are needed")
    node = promise("cpu_load_cores/node-0", 1.0, 9.0)
    said = body(DraftDetails(promises=(load, traffic, node)))
    promised = said.split("### Promised for the next period")[1].split("###")[0].replace("\\", "")
    assert "90 of 100 cases" in promised
    assert "| load_distance_pct | 3.1 % (2.0 to 4.5) |  |" in promised
    assert "| collocation_factor_pct | 3.10 % | 5 outcomes are needed |" in promised
    assert "cpu_load_cores" not in promised
    assert "an earlier version" in body()


def test_what_was_held_back_is_summed_and_named():
    found = [
        {"kind": "key group", "what": ["count/3"], "count": 1, "saved_rate": 2.0, "bytes": 9,
         "reason": "saves 1, costs 2"},
        {"kind": "key", "what": ["'a|b' of parse"], "count": 1, "saved_rate": 4.0, "bytes": 9,
         "reason": "saves 3, costs 5"},
    ]  # fmt: skip
    said = body(held_back_json=json.dumps(found))
    assert "1 single key groups that would save 2 records a second" in said
    assert "- key group count/3: saves 1, costs 2" in said
    assert "1 keys that would save 4 records a second" in said
    assert "Held back" not in body()


def test_advice_is_said_to_be_no_part_of_the_plan():
    said = body(advice="parse, count could be one\nand 2 more components")
    assert "### Advice, not part of the plan\n\n- parse, count could be one\n- and 2 more" in said
    assert "Advice" not in body()
