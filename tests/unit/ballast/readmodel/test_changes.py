"""Nodes and routes of plans, on a job whose versions add, drain and remove a node."""

from __future__ import annotations

import shutil
from dataclasses import astuple
from pathlib import Path

import pytest

from ballast.contracts.errors import NotFound
from ballast.contracts.records import DraftSummary
from ballast.contracts.settings import Settings, load_settings
from ballast.readmodel.changes import (
    RouteDifference,
    cluster_under,
    node_change_label,
    node_difference,
    node_plan,
    route_difference,
    weight_difference,
    weight_rows,
)
from ballast.readmodel.job_history import JobHistory
from ballast.readmodel.placement import node_loads
from ballast.store.cache import TableCache
from ballast.store.plans import read_routes
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import address, append, open_table
from bench.review_page.warehouse import SampleJob, ids_of, job_policy, write_job
from tests.support.streaming_plans import weight_row

JOB = "clicks"
HELD, ADDS, DRAINS, REMOVES = "3", "2", "4", "5"
LAST = "node-06"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    home = tmp_path_factory.mktemp("home")
    made = load_settings({"BALLAST_HOME": str(home), "BALLAST_POLICIES": str(home / "policies")})
    write_job(made, SampleJob(job_policy(JOB, 2, 20, 5, spares=2), per_version=6, routes=40), 5)
    write_job(made, SampleJob(job_policy("still", 2, 10, 3), per_version=3), 2)
    return made


@pytest.fixture
def history(settings: Settings) -> JobHistory:
    return JobHistory(TableCache(settings), JOB)


def plan_of(history: JobHistory, version: str) -> DraftSummary:
    return history.plans[history.plan_id_of(int(version))]


@pytest.mark.parametrize(
    ("version", "changes", "before", "wanted"),
    [
        (HELD, [], 6, 6),
        (ADDS, [(LAST, "added")], 5, 6),
        (DRAINS, [(LAST, "draining")], 6, 5),
        (REMOVES, [(LAST, "removed")], 5, 5),
    ],
)
def test_a_plan_says_which_nodes_it_changes_and_why(
    history: JobHistory, version: str, changes: list[tuple[str, str]], before: int, wanted: int
) -> None:
    said = node_plan(history, plan_of(history, version))
    assert said is not None
    assert [(row.node_id, row.change) for row in said.changes] == changes
    assert (said.before, said.wanted) == (before, wanted)
    assert "boundar" in said.reason or "empty" in said.reason
    assert (said.binding, said.would_change.startswith("cpu ")) == ("cpu", True)
    assert (said.spares, said.spare_count) == (["node-05"], 1)


def test_a_job_that_is_not_scaled_has_no_decision_on_nodes(settings: Settings) -> None:
    history = JobHistory(TableCache(settings), "still")
    assert node_plan(history, plan_of(history, "2")) is None
    found = node_difference(history, "0", "2")
    assert (found.nodes, found.nodes_in_use, found.operators) == ([], (3, 3), [])


def test_a_warehouse_from_before_scaling_and_routes_has_neither(
    settings: Settings, tmp_path: Path
) -> None:
    shutil.copytree(settings.home, tmp_path / "home")
    old = load_settings({"BALLAST_HOME": str(tmp_path / "home")})
    for name in ("plans.scaling", "plans.routes"):
        shutil.rmtree(address(old, name))
    history = JobHistory(TableCache(old), JOB)
    assert node_plan(history, plan_of(history, ADDS)) is None
    assert route_difference(history, "1", "2", 10) == RouteDifference(0, (0, 0), [])
    assert LAST in [row.node_id for row in node_loads(history, ADDS).resources[0].nodes]


def test_a_difference_of_weights_names_workers_with_another_share(
    settings: Settings, tmp_path: Path
) -> None:
    shutil.copytree(settings.home, tmp_path / "home")
    copy = load_settings({"BALLAST_HOME": str(tmp_path / "home")})
    weighed = JobHistory(TableCache(copy), "still")
    first, second = (plan_of(weighed, version).plan_id for version in ("1", "2"))
    ensure_tables(copy, ["plans.weights"])
    assert weight_difference(weighed, "1", "2") == []
    shares = [(first, "b", 400), (first, "a", 600), (second, "a", 600), (second, "c", 400)]
    rows = [weight_row("still", plan, "join", worker, units) for plan, worker, units in shares]
    append(copy, "plans.weights", rows)
    assert [row.worker_id for row in weight_rows(weighed, first)] == ["a", "b"]
    different = [astuple(row) for row in weight_difference(weighed, "1", "2")]
    assert different == [("join", "b", 400, None), ("join", "c", None, 400)]
    from_start = [astuple(row) for row in weight_difference(weighed, "0", "1")]
    assert from_start == [("join", "a", None, 600), ("join", "b", None, 400)]


def test_a_warehouse_from_before_weights_has_none(settings: Settings, tmp_path: Path) -> None:
    shutil.copytree(settings.home, tmp_path / "home")
    old = load_settings({"BALLAST_HOME": str(tmp_path / "home")})
    shutil.rmtree(address(old, "plans.weights"), ignore_errors=True)
    history = JobHistory(TableCache(old), JOB)
    assert weight_rows(history, plan_of(history, ADDS).plan_id) == []
    assert weight_difference(history, "1", "2") == []


def test_a_difference_of_nodes_names_old_and_new_state(history: JobHistory) -> None:
    def between(old: str, new: str) -> list[tuple[str, str]]:
        rows = node_difference(history, old, new).nodes
        assert {row.node_id for row in rows} <= {LAST}
        return [(row.old, row.new) for row in rows]

    assert between("0", ADDS) == [("not in use", "in use")]
    assert between(ADDS, HELD) == []
    assert between(HELD, DRAINS) == [("in use", "draining")]
    assert between(DRAINS, REMOVES) == [("draining", "not in use")]
    assert between("0", REMOVES) == []


def test_a_dead_node_that_a_plan_keeps_is_dead(history: JobHistory, tmp_path: Path) -> None:
    shutil.copytree(history.cache.settings.home, tmp_path / "home")
    copy = load_settings({"BALLAST_HOME": str(tmp_path / "home")})
    rows = open_table(copy, "snapshots.nodes").to_pyarrow_table().to_pylist()
    gone = {"snapshot_id": ids_of(JOB, 3)[1], "node_id": "node-01"}
    shutil.rmtree(address(copy, "snapshots.nodes"))
    ensure_tables(copy, ["snapshots.nodes"])
    is_gone = [all(row[name] == value for name, value in gone.items()) for row in rows]
    pairs = zip(rows, is_gone, strict=True)
    append(copy, "snapshots.nodes", [row | ({"state": "dead"} if it else {}) for row, it in pairs])
    changed = JobHistory(TableCache(copy), JOB)
    assert cluster_under(changed, HELD).nodes["node-01"] == "dead"
    loads = node_loads(changed, HELD).resources[0].nodes
    assert {row.node_id: row.state for row in loads}["node-01"] == "dead"


def test_a_new_node_has_a_promised_load_by_its_capacity_in_the_policy(history: JobHistory) -> None:
    rows = {row.node_id: row for row in node_loads(history, ADDS).resources[0].nodes}
    assert (rows[LAST].state, rows[LAST].before) == ("new", None)
    assert rows[LAST].promised > 0
    assert rows[LAST].measured > 0
    assert {row.state for name, row in rows.items() if name != LAST} == {"alive"}


@pytest.mark.parametrize(("version", "state"), [(DRAINS, "draining"), (REMOVES, "removed")])
def test_a_node_that_goes_is_marked_and_promised_to_be_empty(
    history: JobHistory, version: str, state: str
) -> None:
    rows = {row.node_id: row for row in node_loads(history, version).resources[0].nodes}
    assert (rows[LAST].state, rows[LAST].promised) == (state, 0)


@pytest.mark.parametrize(
    ("action", "before", "said"),
    [
        ("keep", "draining", "taken back"), ("keep", "in use", None), ("spare", None, None),
        ("add", None, "added"), ("drain", "in use", "draining"), ("remove", "draining", "removed"),
    ],
)  # fmt: skip
def test_the_label_of_a_change_depends_on_the_state_before(
    action: str, before: str | None, said: str | None
) -> None:
    assert node_change_label(action, before) == said


def test_a_version_whose_plan_has_no_row_is_not_found(settings: Settings, tmp_path: Path) -> None:
    shutil.copytree(settings.home, tmp_path / "home")
    copy = load_settings({"BALLAST_HOME": str(tmp_path / "home")})
    rows = open_table(copy, "plans.plans").to_pyarrow_table().to_pylist()
    shutil.rmtree(address(copy, "plans.plans"))
    ensure_tables(copy, ["plans.plans"])
    append(copy, "plans.plans", [row for row in rows if row["plan_id"] != ids_of(JOB, 2)[2]])
    history = JobHistory(TableCache(copy), JOB)
    for ask in (lambda: node_difference(history, "1", "2"), lambda: node_loads(history, "2")):
        with pytest.raises(NotFound, match=r"missing from plans\.plans"):
            ask()


def test_a_difference_of_routes_counts_every_key_and_shows_the_first(
    settings: Settings, history: JobHistory
) -> None:
    old, new = (
        {(operator, key): group for operator, key, group in read_routes(settings, JOB, plan_id)}
        for plan_id in (ids_of(JOB, 1)[2], ids_of(JOB, 2)[2])
    )
    different = sorted(key for key in old if old[key] != new[key])
    assert len(different) > 2
    found = route_difference(history, "1", "2", 2)
    assert (found.total, found.routes) == (len(different), (40, 40))
    assert [(row.operator_id, row.key) for row in found.rows] == different[:2]
    assert [(row.old_key_group, row.new_key_group) for row in found.rows] == [
        (old[key], new[key]) for key in different[:2]
    ]
    by_hash = route_difference(history, "0", "2", 500)
    assert by_hash.total == 40
    assert {row.old_key_group for row in by_hash.rows} == {None}


def test_before_the_first_plan_is_not_there_without_a_version(tmp_path: Path) -> None:
    empty = load_settings({"BALLAST_HOME": str(tmp_path), "BALLAST_POLICIES": str(tmp_path)})
    with pytest.raises(NotFound, match="no version yet"):
        cluster_under(JobHistory(TableCache(empty), "nobody"), "0")
