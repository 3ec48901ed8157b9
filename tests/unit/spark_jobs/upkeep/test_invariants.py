"""The invariants of heads, plans and log, and the message of each violation."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ballast.contracts.identity import content_hash
from ballast.contracts.records import Head
from spark_jobs.upkeep.invariants import JobState, Publication, StoredContent, invariant_violations

AT = datetime(2026, 1, 1, tzinfo=UTC)
CONTENT = [("count", 0, "n1"), ("count", 1, "n2")]
HASH = content_hash(CONTENT)


def said(version, plan=None):
    return Publication(version, plan or f"p{version}", f"r{version}", AT)


HEAD = Head("clicks", 3, "p3", HASH, "r3", AT)
WHOLE = JobState(
    "clicks", [said(1), said(2), said(3)], [HEAD], [said(2), said(3)],
    StoredContent(HASH, CONTENT),
)  # fmt: skip


def test_a_whole_job_has_no_findings_however_far_back_delta_remembers():
    assert invariant_violations(WHOLE) == []
    assert invariant_violations(replace(WHOLE, history=[])) == []
    assert invariant_violations(replace(WHOLE, logged=[said(2), said(3)])) == []
    assert invariant_violations(JobState("clicks", [], [], [])) == []


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"heads": [HEAD, replace(HEAD, version=2)]}, "plans.heads has 2 rows"),
        ({"heads": [], "history": []}, "version 3 was published, but the job has no head"),
        ({"plan": StoredContent(None, CONTENT)}, "which plans.plans does not have"),
        ({"plan": StoredContent("f" * 64, CONTENT)}, "whose content hash is ffffffffffffffff"),
        ({"plan": StoredContent(HASH)}, "whose 0 assignments and 0 routes hash to"),
        ({"plan": StoredContent(HASH, CONTENT[:1])}, "whose 1 assignments"),
        ({"plan": StoredContent(HASH, CONTENT, [("count", "k", 1)])}, "and 1 routes hash to"),
        ({"history": [said(1), said(3)]}, "goes from version 1 to 3"),
        ({"history": [said(3, "other")]}, "the last commit of plans.heads brought version 3, plan"),
        ({"logged": [said(1), said(2), said(2, "x"), said(3)]}, "version 2 as plans p2, x"),
        ({"logged": [said(1), said(2, "x"), said(3)]}, "version 2 as plan x, the history"),
        ({"logged": [said(1), said(2), said(3), said(4)]}, "has version 4, but version 3 is in"),
        ({"logged": [said(1), said(3)], "history": [said(3)]}, "has version 2"),
    ],
)
def test_each_breach_is_named_with_what_to_do(changed, what):
    found = invariant_violations(replace(WHOLE, **changed))
    assert any(what in str(finding) for finding in found), found
    assert all("to fix it: " in str(finding) and finding.repair is None for finding in found)


@pytest.mark.parametrize("history", [[said(2), said(3)], []])
def test_a_version_that_only_the_log_lacks_can_be_put_right(history):
    found = invariant_violations(replace(WHOLE, logged=[said(1), said(2)], history=history))
    assert [finding.repair for finding in found] == [said(3)]
