"""The demonstration's own policy for another objective."""

from __future__ import annotations

from pathlib import Path

import pytest

from ballast.contracts.errors import PolicyError
from ballast.contracts.policy import load_policy
from ballast.contracts.settings import load_settings
from embedded.demo import with_objective


def test_another_objective_changes_nothing_but_the_kind(tmp_path: Path) -> None:
    settings = load_settings({"BALLAST_HOME": str(tmp_path)})
    before = load_policy(settings.policies / "flights.yaml")
    changed = with_objective(settings, "joint")
    after = load_policy(changed.policies / "flights.yaml")
    assert after.objective == before.objective.model_copy(update={"kind": "joint"})
    assert after.model_copy(update={"objective": before.objective}) == before
    assert with_objective(settings, None) is settings


def test_routes_are_a_joint_objective_with_an_edge_whose_keys_are_routed(tmp_path: Path) -> None:
    settings = load_settings({"BALLAST_HOME": str(tmp_path)})
    changed = with_objective(settings, "routes")
    policy = load_policy(changed.policies / "flights.yaml")
    assert policy.objective.kind == "joint"
    (edge,) = policy.routing.edges
    assert policy.followers(edge.source) == ("extract_delays", "sum_by_airplane")


def test_a_broken_policy_is_named_where_a_person_wrote_it(tmp_path: Path) -> None:
    (tmp_path / "flights.yaml").write_text("job: flights\nwindow_s: -1\n")
    settings = load_settings({"BALLAST_HOME": str(tmp_path), "BALLAST_POLICIES": str(tmp_path)})
    with pytest.raises(PolicyError, match=r"flights\.yaml"):
        with_objective(settings, "joint")
