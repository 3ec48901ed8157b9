"""Policies are checked on load; an error names file, field, value and what is allowed."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from ballast.contracts.errors import PolicyError
from ballast.contracts.policy import (
    load_policy,
    parse_policy,
    policy_files,
    policy_from_json,
    policy_schema,
)
from tests.support.policies import small_policy

POLICIES = Path(__file__).parents[4] / "policies"


def smallest() -> dict[str, Any]:
    return {
        "job": "clicks",
        "window_s": 5,
        "statistics_period_s": 60,
        "operators": [
            {"id": "parse", "key_groups": 4, "partition_key": ["user"]},
            {"id": "count", "key_groups": 4, "partition_key": ["user"]},
        ],
        "edges": [{"from": "parse", "to": "count"}],
        "nodes": [{"id": "n1"}, {"id": "n2"}],
    }


def changed(path: list[Any], value: Any) -> dict[str, Any]:
    data = copy.deepcopy(smallest())
    target: Any = data
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return data


def test_the_smallest_policy_gets_sensible_defaults() -> None:
    policy = parse_policy(smallest(), "clicks.yaml")
    assert policy.windows_per_period == 12
    assert policy.solver.method == "auto"
    assert policy.review.mode == "automatic"
    assert policy.budgets.moves is None


def test_a_policy_survives_its_json() -> None:
    policy = parse_policy(smallest(), "clicks.yaml")
    assert policy_from_json(policy.to_json()) == policy


def test_a_policy_may_weigh_resources_and_cap_others() -> None:
    data = smallest()
    for node in data["nodes"]:
        node["capacity"] = {"memory_bytes": 1e9, "network_bytes_per_s": 1e8}
    data["objective"] = {
        "resources": ["cpu", "memory", "network"], "weights": {"cpu": 2}, "caps": ["memory"],
    }  # fmt: skip
    policy = parse_policy(data, "clicks.yaml")
    assert policy.objective.weights == {"cpu": 2.0}
    assert policy_from_json(policy.to_json()) == policy


@pytest.mark.parametrize(
    ("path", "value", "field", "said"),
    [
        (["window_s"], "soon", "window_s", "'soon'"),
        (["window_s"], 0, "window_s", "0"),
        (["window_s"], float("nan"), "window_s", "nan"),
        (["window_s"], True, "window_s", "True"),
        (["statistics_period_s"], 61, "policy", "multiple of window_s"),
        (["job"], "Clicks", "job", "'Clicks'"),
        (["job"], "clicks\n", "job", r"'clicks\n'"),
        (["operators"], [], "operators", "[]"),
        (["operators", 0, "key_groups"], 0, "operators.0.key_groups", "0"),
        (["operators", 0, "key_groups"], 2.5, "operators.0.key_groups", "2.5"),
        (["operators", 1, "id"], "parse", "policy", "given twice"),
        (["nodes", 1, "id"], "n1", "policy", "given twice"),
        (["nodes", 0, "capacity"], {"cpu_cores": -1}, "nodes.0.capacity.cpu_cores", "-1"),
        (["edges", 0, "to"], "sink", "policy", "'sink' is not an operator"),
        (["edges"], [{"from": "parse", "to": "count"}, {"from": "count", "to": "parse"}],
         "policy", "cycle"),
        (["edges"], [{"from": "parse", "to": "parse"}], "policy", "cycle"),
        (["budgets"], {"moves": -1}, "budgets.moves", "-1"),
        (["objective"], {"resources": ["memory"]}, "policy", "capacity.memory_bytes"),
        (["objective"], {"kind": "collocate"}, "objective.kind", "'balance' or 'joint'"),
        (["nodes"], [{"id": "n1", "draining": True}], "policy", "every node is draining"),
        (["dead_after_windows"], 1, "dead_after_windows", "1"),
        (["colour"], "red", "colour", "not a field"),
        (["nodes", 0, "colour"], "red", "nodes.0.colour", "not a field"),
        (["edges"], [{"from": "parse", "to": "count"}] * 2, "policy", "given twice"),
        (["objective"], {"resources": ["cpu", "cpu"]}, "policy", "given twice"),
        (["objective"], {"weights": {"cpu": 0}}, "objective.weights.cpu", "0"),
        (["objective"], {"weights": {"cpu": float("inf")}}, "objective.weights.cpu", "inf"),
        (["objective"], {"weights": {"memory": 2}}, "policy", "not in objective.resources"),
        (["objective"], {"weights": {"disk": 2}}, "objective.weights.disk.[key]", "'disk'"),
        (["objective"], {"caps": ["network"]}, "policy", "not in objective.resources"),
        (["objective"], {"caps": ["cpu"]}, "policy", "names every resource"),
        (["objective"], {"resources": ["cpu", "memory"], "caps": ["memory"] * 2},
         "policy", "given twice"),
        (["objective"],
         {"resources": ["cpu", "memory"], "caps": ["memory"], "weights": {"memory": 2}},
         "policy", "leave it out of one of the two"),
        (["budgets"], {"pause_s": 2e6}, "budgets.pause_s", "2000000"),
        (["schedule"], "every day", "policy", "five fields"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_with_its_value(
    path: list[Any], value: Any, field: str, said: str
) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(changed(path, value), "clicks.yaml")
    assert caught.value.field == field
    assert str(caught.value).startswith("clicks.yaml: ")
    assert said in str(caught.value)


def test_a_missing_field_is_named() -> None:
    data = smallest()
    del data["nodes"]
    with pytest.raises(PolicyError, match=r"clicks\.yaml: nodes: is missing"):
        parse_policy(data, "clicks.yaml")


@pytest.mark.parametrize(
    ("solver", "field", "message"),
    [
        ({"method": "magic"}, "solver.method", "is no method for balance plans; allowed: auto, "),
        ({"method": "albic"}, "solver.method", "is no method for balance plans"),
        (
            {"method": "flux", "params": {"patients": 3}},
            "solver.params.patients",
            "is not a parameter of method 'flux'; allowed: patience",
        ),
        (
            {"method": "flux", "params": {"patience": 0}},
            "solver.params.patience",
            "is 0; allowed: a whole number >= 1",
        ),
        (
            {"params": {"search": {"enough": "much"}}},
            "solver.params.search.enough",
            "is 'much'; allowed: a finite number >= 0",
        ),
        ({"method": "unchanged", "params": {"x": 1}}, "solver.params.x", "allowed: no parameters"),
    ],
)
def test_a_method_or_parameter_that_is_not_there_is_refused_with_what_is(
    solver: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(PolicyError, match=message) as caught:
        parse_policy(changed(["solver"], solver), "clicks.yaml")
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        (
            {"solver": {"method": "static_mapping"}},
            "solver.method",
            "maps operators to clusters of nodes, and there are 1",
        ),
        (
            {"solver": {"first_placement": "magic"}},
            "solver.first_placement",
            "is no first placement; allowed: hash, ring, static_mapping, cola, ",
        ),
        (
            {"solver": {"first_placement": "cola"}, "edges": []},
            "solver.first_placement",
            "needs traffic between operators, and there is none",
        ),
        (
            {
                "solver": {"method": "elb"},
                "nodes": [{"id": "a"}, {"id": "b", "capacity": {"cpu_cores": 2.0}}],
            },
            "solver.method",
            "assumes nodes of the same capacity",
        ),
    ],
)
def test_a_method_that_does_not_fit_the_job_is_refused_with_the_reason(
    changes: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(PolicyError, match=message) as caught:
        parse_policy({**smallest(), **changes}, "clicks.yaml")
    assert caught.value.field == field


def test_snapshots_have_a_load_series_for_scaling_or_where_the_method_needs_it() -> None:
    assert not parse_policy(smallest(), "clicks.yaml").has_load_series
    for changes in ({"solver": {"method": "clb"}}, {"scaling": {}}):
        assert parse_policy({**smallest(), **changes}, "clicks.yaml").has_load_series


def test_parameters_of_a_method_are_kept() -> None:
    solver = {"method": "auto", "params": {"flux": {"patience": 3}, "milp": {"threads": 2}}}
    policy = parse_policy(changed(["solver"], solver), "clicks.yaml")
    assert policy.solver.params == solver["params"]
    assert policy_from_json(policy.to_json()) == policy


def test_a_joint_objective_has_its_own_methods() -> None:
    joint = changed(["objective"], {"kind": "joint", "max_load_distance_pct": 12.5})
    assert parse_policy(joint, "clicks.yaml").objective.max_load_distance_pct == 12.5
    with pytest.raises(PolicyError, match="is no method for joint plans; allowed: auto, joint"):
        parse_policy({**joint, "solver": {"method": "milp"}}, "clicks.yaml")
    bad = changed(["objective"], {"kind": "joint", "max_load_distance_pct": 0})
    with pytest.raises(PolicyError, match="max_load_distance_pct"):
        parse_policy(bad, "clicks.yaml")


def test_a_first_plan_may_have_limits_of_its_own() -> None:
    own = {"moves": 100, "first_plan": {"bytes": 5}}
    budgets = parse_policy(changed(["budgets"], own), "clicks.yaml").budgets
    assert (budgets.of(0).moves, budgets.of(0).bytes) == (None, 5)
    assert (budgets.of(1).moves, budgets.of(1).bytes) == (100, None)
    plain = parse_policy(changed(["budgets"], {"moves": 100}), "clicks.yaml").budgets
    assert plain.of(0).moves == 100
    for bad in ({"first_plan": {"first_plan": {}}}, {"first_plan": {"moves": -1}}):
        with pytest.raises(PolicyError, match=r"budgets\.first_plan"):
            parse_policy(changed(["budgets"], bad), "clicks.yaml")


WEIGHTED = {"kind": "joint", "trade": "weighted"}


def test_load_and_traffic_may_be_weighed() -> None:
    aim = {**WEIGHTED, "traffic_weight": 2.0, "load_weight": 0.5}
    policy = parse_policy(changed(["objective"], aim), "clicks.yaml")
    assert policy.objective.trade == "weighted"
    assert policy_from_json(policy.to_json()) == policy


@pytest.mark.parametrize(
    ("objective", "thresholds", "said"),
    [
        ({**WEIGHTED, "max_load_distance_pct": 5.0}, {}, "objective.max_load_distance_pct"),
        (WEIGHTED, {"min_improvement_pct": 3.0}, "thresholds.min_improvement_pct"),
        (WEIGHTED, {"good_enough_pct": 3.0}, "thresholds.good_enough_pct"),
        (WEIGHTED, {"min_collocation_gain_pct": 3.0}, "thresholds.min_collocation_gain_pct"),
        ({"kind": "joint", "traffic_weight": 2.0}, {}, "objective.traffic_weight"),
        ({"kind": "joint", "load_weight": 2.0}, {}, "objective.load_weight"),
        ({"kind": "joint"}, {"min_weighted_gain": 2.0}, "thresholds.min_weighted_gain"),
    ],
)
def test_a_field_that_the_trade_does_not_look_at_is_refused(
    objective: Any, thresholds: Any, said: str
) -> None:
    data = {**changed(["objective"], objective), "thresholds": thresholds}
    with pytest.raises(PolicyError, match=f"{said} has no effect if objective.trade is"):
        parse_policy(data, "clicks.yaml")


@pytest.mark.parametrize("weight", [0, -1.0, float("nan"), "much"])
def test_a_weight_must_weigh_something(weight: Any) -> None:
    bad = changed(["objective"], {**WEIGHTED, "load_weight": weight})
    with pytest.raises(PolicyError, match="load_weight"):
        parse_policy(bad, "clicks.yaml")


def test_a_balance_objective_weighs_nothing() -> None:
    bad = changed(["objective"], {"kind": "balance", "trade": "weighted"})
    with pytest.raises(PolicyError, match="where it is 'joint'"):
        parse_policy(bad, "clicks.yaml")


def test_the_file_must_be_named_like_the_job(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(yaml.safe_dump(smallest()))
    with pytest.raises(PolicyError, match=r"job: is 'clicks' but the file is named 'orders'"):
        load_policy(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("job: [", "is not YAML"),
        ("- a\n- b\n", "holds a list"),
        ("", "holds a NoneType"),
        ("job: clicks\njob: clicks\n", "given twice"),
        ("schedule: 2013-13-45\n", "is not YAML"),
        ("job: !!python/object:os.system {}\n", "is not YAML"),
    ],
)
def test_a_file_that_is_no_policy_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "clicks.yaml"
    file.write_text(text)
    with pytest.raises(PolicyError, match=said):
        load_policy(file)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="does not exist"):
        load_policy(tmp_path / "nothing.yaml")


@pytest.mark.parametrize("file", policy_files(POLICIES), ids=lambda file: file.stem)
def test_every_policy_of_the_project_is_right_and_fits_its_schema(file: Path) -> None:
    load_policy(file)
    jsonschema.validate(yaml.safe_load(file.read_text()), policy_schema())


def test_the_schema_for_editors_is_generated_from_the_policy() -> None:
    written = json.loads((POLICIES / "policy.schema.json").read_text())
    assert written == policy_schema(), (
        "policies/policy.schema.json is out of date: "
        "run `ballast policy schema > policies/policy.schema.json`"
    )


def test_the_schema_refuses_what_the_policy_refuses() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed(["budgets"], {"moves": -1}), policy_schema())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"splits": {"operators": ["ghost"]}}, "splits.operators: 'ghost' is not an operator"),
        ({"splits": {"operators": ["parse"]}}, "'parse' sends records to 'count'"),
        ({"splits": {"operators": ["count", "count"]}}, "'count' is given twice"),
        ({"splits": {"max_parts": 1}}, "splits.max_parts"),
        ({"splits": {"join_below": 1.5}}, "splits.join_below"),
        (
            {"splits": {"operators": ["count"]}, "objective": {"kind": "joint"}},
            "keys are split where it is 'balance'",
        ),
        ({"splits": {"operators": ["count"]}, "scaling": {}}, "leave one of the two out"),
        (
            {
                "splits": {"operators": ["count"]},
                "rules": {"headroom": {"max_utilisation_pct": 90.0}},
            },
            "so is rules.headroom",
        ),
    ],
)
def test_splits_that_no_plan_could_make_are_refused(changes, message):
    with pytest.raises(PolicyError, match=re.escape(message)):
        small_policy(**changes)


def test_splits_are_off_unless_the_policy_has_the_section():
    assert (small_policy().split_operators, small_policy().needs_keys) == ((), False)
    watching = small_policy(splits={})
    assert (watching.split_operators, watching.needs_keys) == ((), True)
    assert small_policy(splits={"operators": ["count"]}).split_operators == ("count",)
