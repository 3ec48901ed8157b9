"""Presets of the papers: policies of the reference job whose plans their methods make."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from ballast.contracts.policy import JobPolicy, load_policy, parse_policy
from ballast.contracts.settings import Settings
from ballast.store.plans import read_assignment
from spark_jobs.draft.draft_plan import draft_plan
from spark_jobs.draft.solve_arguments import SolveOptions
from spark_jobs.publication.publisher import publish_plan
from tests.support.snapshots import END, uneven, write_snapshot

ROOT = Path(__file__).resolve().parents[3]
PRESETS = sorted((ROOT / "policies" / "presets").glob("*.yaml"))
STEPS = SolveOptions(solver_steps=2)
CHANGED = ("feasible", "optimal")
HEAVY, LIGHT = 0.03, 0.01
"""Cores of a key group."""


def preset(name: str) -> JobPolicy:
    path = ROOT / "policies" / "presets" / f"{name}.yaml"
    return parse_policy(yaml.safe_load(path.read_text(encoding="utf-8")), str(path))


@pytest.mark.parametrize("name", [path.stem for path in PRESETS])
def test_a_preset_is_a_policy_of_the_reference_job(name: str) -> None:
    policy, own = preset(name), load_policy(ROOT / "policies" / "flights.yaml")
    assert (policy.job, policy.operators, policy.edges) == (own.job, own.operators, own.edges)
    assert [node.id for node in policy.nodes] == [node.id for node in own.nodes]
    assert f"[{name.upper()}]" in policy.description


def test_there_is_a_preset_for_each_of_the_papers() -> None:
    names = {path.stem.upper() for path in PRESETS}
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    assert len(names) == 5
    assert all(f"\n## {name}\n" in page for name in names)


@pytest.mark.parametrize(
    ("name", "first", "method"),
    [
        ("icde17", "cola", "albic"),
        ("autodasp17", "components", "clb"),
        ("dodo", "static_mapping", "dynamic_mapping"),
    ],
)
def test_the_first_plan_is_the_first_placement_and_the_next_one_that_of_the_method(
    settings: Settings, name: str, first: str, method: str
) -> None:
    policy = preset(name)
    groups = [(o.id, group) for o in policy.operators for group in range(o.key_groups)]
    write_snapshot(
        settings, policy, "run-1", placement=uneven(policy, 12), steps=8,
        loads=dict.fromkeys(groups, LIGHT),
    )  # fmt: skip
    draft = draft_plan(settings, policy.job, "run-1", STEPS)
    assert draft.method == first
    assert draft.status in CHANGED, draft.reason
    head = publish_plan(settings, policy.job, "run-1")
    assert head is not None
    placed = {
        (row.operator_id, row.key_group): row.node_id
        for row in read_assignment(settings, policy.job, head.plan_id)
    }
    loads = {group: HEAVY if placed[group] == "node-1" else LIGHT for group in groups}
    write_snapshot(
        settings, policy, "run-2", placement=placed, loads=loads, steps=8, head=head,
        at=END + timedelta(hours=1),
    )  # fmt: skip
    draft = draft_plan(settings, policy.job, "run-2", STEPS)
    assert draft.method == method
    assert draft.status in CHANGED, draft.reason
    assert draft.moves > 0
    assert draft.load_distance_pct < draft.load_distance_before_pct
