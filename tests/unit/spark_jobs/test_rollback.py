"""An earlier content is put in force as a new version, if it fits the nodes of today."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ballast.contracts.errors import NotFound, PublishConflict, RollbackRefused
from ballast.contracts.identity import content_hash, key_group_name
from ballast.contracts.records import Head
from ballast.contracts.scaling import node_actions, scaled
from ballast.contracts.settings import Settings
from ballast.store.plans import (
    read_assignment,
    read_head,
    read_log,
    read_plan,
    read_promises,
    read_scaling,
)
from ballast.store.snapshots import read_noise, snapshot_of_run
from ballast.store.tables import append
from spark_jobs.publication.publisher import publish_plan
from spark_jobs.restore.derived_snapshot import derived_snapshot
from spark_jobs.restore.request import RollbackRequest
from spark_jobs.restore.roll_back import roll_back
from spark_jobs.rollback import main
from tests.support.earlier import without_columns
from tests.support.policies import small_policy, write_policy
from tests.support.snapshots import END, snapshot_rows, uneven, write_draft

JOB = "probe"
POLICY = small_policy(JOB, nodes=3)
REQUEST = RollbackRequest(1, "version 2 starves node-1")


def acked(settings: Settings, head: Head, status: str = "applied", **columns: Any) -> None:
    row = {
        "job": JOB, "version": head.version, "plan_id": head.plan_id, "status": status,
        "batch_id": head.version, "reason": "", "moved_key_groups": 0, "bytes_moved": 0,
        "pause_ms": 0.0, "acked_at": datetime.now(UTC), **columns,
    }  # fmt: skip
    append(settings, "plans.acks", [row])


def versions(settings: Settings, count: int = 2, applied: int | None = None) -> list[Head]:
    """Publish this number of versions with different content; the job applies the first ones."""
    heads: list[Head] = []
    for number in range(1, count + 1):
        head = heads[-1] if heads else None
        loads = {("parse", number): 0.3, ("count", 4 - number): 0.2}
        write_draft(settings, POLICY, f"run-{number}", placement=uneven(POLICY, number % 3),
                    head=head, loads=loads, seconds=0.1)  # fmt: skip
        heads.append(publish_plan(settings, JOB, f"run-{number}"))
        if number <= (count if applied is None else applied):
            acked(settings, heads[-1])
    assert len({head.content_hash for head in heads}) == count
    return heads


def later(settings: Settings, **changes: Any) -> None:
    rows = snapshot_rows(POLICY, "later", placement=changes.pop("placement", uneven(POLICY)),
                         **changes)  # fmt: skip
    rows["snapshots.snapshots"][0]["created_at"] = END + timedelta(minutes=10)
    rows["snapshots.snapshots"][0]["period_end_at"] = END + timedelta(minutes=10)
    for table, of_table in rows.items():
        append(settings, table, of_table)


def placed(settings: Settings, head: Head) -> dict[tuple[str, int], str]:
    rows = read_assignment(settings, JOB, head.plan_id)
    return {(row.operator_id, row.key_group): row.node_id for row in rows}


def test_a_rollback_promises_an_interval_from_the_noise_of_the_newest_snapshot(settings):
    versions(settings)
    later(settings, noise_pct=20.0)
    head = roll_back(settings, JOB, "back-1", REQUEST)
    promises = {row.figure: row for row in read_promises(settings, JOB, head.plan_id)}
    load = promises["load_distance_pct"]
    assert load.low < load.expected < load.high
    derived = snapshot_of_run(settings, JOB, "back-1")
    assert {row.resource for row in read_noise(settings, derived)} == {"cpu", "network"}


def test_a_rollback_without_noise_says_why_there_is_no_interval(settings):
    versions(settings)
    head = roll_back(settings, JOB, "back-1", REQUEST)
    promises = {row.figure: row for row in read_promises(settings, JOB, head.plan_id)}
    assert promises["load_distance_pct"].low is None
    assert "taken by an earlier version" in promises["load_distance_pct"].reason


def test_the_old_content_is_in_force_as_a_new_version_and_the_log_says_why(settings):
    first, second = versions(settings)
    for _ in range(2):
        head = roll_back(settings, JOB, "back-1", REQUEST)
    found = read_head(settings, JOB)
    assert (head.version, found.version, found.run_id) == (3, 3, "back-1")
    assert found.content_hash == first.content_hash
    rows = read_assignment(settings, JOB, found.plan_id)
    assert content_hash((r.operator_id, r.key_group, r.node_id) for r in rows) == (
        first.content_hash
    )
    events = [row for row in read_log(settings, JOB) if row.run_id == "back-1"]
    assert [row.event for row in events] == ["published", "rolled_back"]
    assert events[1].version == 3
    assert "starves node-1" in events[1].reason
    # Moves start from the placement of the version that the job applied last.
    assert {(r.operator_id, r.key_group): r.previous_node_id for r in rows} == placed(
        settings, second
    )
    plan = read_plan(settings, JOB, found.plan_id)
    assert (plan.method, plan.parent_version) == ("rollback", 2)
    assert plan.moves == sum(row.node_id != row.previous_node_id for row in rows)


def test_a_version_can_be_rolled_back_and_forth(settings):
    _, second = versions(settings)
    roll_back(settings, JOB, "back-1", REQUEST)
    acked(settings, read_head(settings, JOB))
    head = roll_back(settings, JOB, "back-2", replace(REQUEST, version=2))
    assert (head.version, head.content_hash) == (4, second.content_hash)


@pytest.mark.parametrize("state", ["dead", "draining"])
def test_a_content_on_a_lost_node_is_refused_with_the_node_and_the_count(settings, state):
    versions(settings)
    later(settings, states={"node-2": state}, placement=dict.fromkeys(uneven(POLICY), "node-0"))
    with pytest.raises(
        RollbackRefused, match=rf"node-2 is {state} \(\d+ key groups\).*force_nodes"
    ):
        roll_back(settings, JOB, "back-1", REQUEST)
    assert read_head(settings, JOB).version == 2


def test_forced_nodes_place_only_what_was_lost(settings):
    first, _ = versions(settings)
    later(settings, states={"node-2": "dead"})
    head = roll_back(settings, JOB, "back-1", replace(REQUEST, force_nodes=True))
    assert head.version == 3
    then, now = placed(settings, first), placed(settings, head)
    assert {group for group in then if then[group] != now[group]} == {
        group for group, node in then.items() if node == "node-2"
    }
    assert "node-2" not in now.values()


def test_a_node_that_left_the_policy_is_lost(settings, tmp_path):
    versions(settings)
    write_policy(tmp_path, small_policy(JOB, nodes=["node-0", "node-1"]))
    with pytest.raises(RollbackRefused, match="node-2 is draining"):
        roll_back(replace(settings, policies=tmp_path), JOB, "back-1", REQUEST)


def test_a_job_that_is_scaled_since_has_an_action_for_each_of_its_nodes(settings, tmp_path):
    first, _ = versions(settings)
    write_policy(tmp_path, small_policy(JOB, nodes=3, scaling={"method": "thresholds"}))
    head = roll_back(replace(settings, policies=tmp_path), JOB, "back-1", REQUEST)
    assert placed(settings, head) == placed(settings, first)
    actions = node_actions(scaled(read_scaling(settings, JOB, head.plan_id)))
    assert actions == {"node-0": "keep", "node-1": "keep", "node-2": "keep"}


def test_a_node_that_left_the_policy_of_a_scaled_job_is_named(settings, tmp_path):
    versions(settings)
    nodes = ["node-0", "node-1"]
    write_policy(tmp_path, small_policy(JOB, nodes=nodes, scaling={"method": "thresholds"}))
    with pytest.raises(RollbackRefused, match="node-2 not in use, alive"):
        roll_back(replace(settings, policies=tmp_path), JOB, "back-1", REQUEST)


def test_a_warehouse_from_before_the_scaling_columns_can_be_rolled_back(settings):
    first, _ = versions(settings)
    without_columns(settings, "snapshots.snapshots", ["sources_table_version", "applied_plan_id"])
    without_columns(settings, "plans.plans", ["due_moves", "scaling_reason"])
    assert roll_back(settings, JOB, "back-1", REQUEST).content_hash == first.content_hash


def test_other_key_groups_than_today_are_refused(settings, tmp_path):
    versions(settings)
    other = small_policy(JOB, operators={"parse": 4, "count": 5}, nodes=3)
    rows = snapshot_rows(other, "later")
    rows["snapshots.snapshots"][0]["created_at"] = END + timedelta(minutes=10)
    for table, of_table in rows.items():
        append(settings, table, of_table)
    acked(settings, read_head(settings, JOB), "refused")
    with pytest.raises(RollbackRefused, match="no place for count/4"):
        roll_back(settings, JOB, "back-1", REQUEST)


def test_a_version_that_does_not_exist_or_is_in_force_is_refused(settings):
    with pytest.raises(NotFound, match="no version in force"):
        roll_back(settings, JOB, "back-0", REQUEST)
    versions(settings)
    with pytest.raises(NotFound, match=r"no version 9.*1 to 2"):
        roll_back(settings, JOB, "back-1", replace(REQUEST, version=9))
    with pytest.raises(RollbackRefused, match="is in force"):
        roll_back(settings, JOB, "back-2", replace(REQUEST, version=2))


def test_a_head_that_moved_meanwhile_wins(settings):
    *_, last = versions(settings, 3)
    derived_snapshot(settings, JOB, "back-1", last)
    roll_back(settings, JOB, "back-2", replace(REQUEST, version=2))
    with pytest.raises(PublishConflict):
        roll_back(settings, JOB, "back-1", REQUEST)
    assert read_head(settings, JOB).run_id == "back-2"


def test_a_rollback_that_died_between_head_and_log_is_completed_by_its_retry(settings, monkeypatch):
    versions(settings)
    with monkeypatch.context() as broken:
        broken.setattr("spark_jobs.restore.roll_back._log_rolled_back", _dies)
        with pytest.raises(RuntimeError):
            roll_back(settings, JOB, "back-1", REQUEST)
    assert read_head(settings, JOB).version == 3
    assert roll_back(settings, JOB, "back-1", REQUEST).version == 3
    assert [r.event for r in read_log(settings, JOB)].count("rolled_back") == 1


def _dies(*_: Any) -> None:
    raise RuntimeError("killed")


@pytest.mark.parametrize(
    ("option", "value"),
    [("--version", "1\n"), ("--version", "0"), ("--version", "1 or 1=1"), ("--reason", "  ")],
)
def test_params_are_checked_again(option: str, value: str) -> None:
    given = {"--job": JOB, "--run-id": "r", "--version": "1", "--reason": "why", option: value}
    with pytest.raises(SystemExit):
        main([f"{name}={text}" for name, text in given.items()])


def test_a_rollback_in_the_middle_of_steps_starts_from_the_steps_that_were_made(settings):
    first, second = versions(settings, applied=1)
    before, after = placed(settings, first), placed(settings, second)
    moving = [name for name in before if before[name] != after[name]]
    made = moving[: len(moving) // 2]
    assert made
    step(settings, second, made, 1)
    head = roll_back(settings, JOB, "back-1", REQUEST)
    rows = read_assignment(settings, JOB, head.plan_id)
    now = {(row.operator_id, row.key_group): row.previous_node_id for row in rows}
    assert now == before | {name: after[name] for name in made}
    assert {name for name in now if now[name] != before[name]} == set(made)
    assert read_plan(settings, JOB, head.plan_id).moves == len(made)


def step(settings: Settings, head: Head, moved: list[tuple[str, int]], number: int) -> None:
    """The job acknowledges a step of three that moved some key groups."""
    acked(settings, head, "accepted", step=0, steps=3)
    names = [key_group_name(*name) for name in moved]
    acked(settings, head, "progress", step=number, steps=3, moved=names)
