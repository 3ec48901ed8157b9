"""The text for the person who answers a review."""

from __future__ import annotations

import json

from ballast.contracts.records import Draft
from spark_jobs.publication.review_text import DraftDetails, review_body
from tests.support.rows import row_of


def body(**figures):
    plan = row_of("plans.plans", job="clicks", advice=None, held_back_json=None) | figures
    return review_body(Draft.from_row(plan), DraftDetails(), ["every plan is seen"], "/ballast")


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
