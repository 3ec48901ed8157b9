"""Steps lead from the placement in force to that of the plan, through placements that can run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ballast.contracts.scaling import nodes_in_use
from ballast.store.plan_loads import PlanLoads
from ballast.streaming.batch_versions import DecisionLog, MoveFigures, VersionDecision
from ballast.streaming.routing import Placement, first_placement, key_group_of
from ballast.streaming.take_up_steps import (
    ScheduledStep,
    TakeUpState,
    placement_after_step,
    scheduled_steps,
)
from tests.support.streaming_parts import policy_of, topology_of

OPERATORS = ("parse", "count", "total")
SIZES = {"parse": 4, "count": 6, "total": 2}


def placed(node_of, version=1, **changes):
    nodes = {name: tuple(node_of(name, g) for g in range(n)) for name, n in SIZES.items()}
    return Placement(version, f"plan-{version}", nodes, **changes)


def spread(by):
    return lambda operator, group: f"node-{(group + by + len(operator)) % 3}"


def state_of(policy, loads=None, size=100):
    names = [(name, group) for name, n in SIZES.items() for group in range(n)]
    return TakeUpState(policy, OPERATORS, dict.fromkeys(names, size), loads)


def all_placements(old, new, policy, loads=None):
    """The placements after each step, the last one the plan's own."""
    steps = scheduled_steps(old, new, state_of(policy, loads))
    found = [old]
    for number, step in enumerate(steps[:-1], start=1):
        found.append(placement_after_step(found[-1], new, step, number, policy))
    return steps, [*found[1:], new]


def test_without_limits_a_plan_is_taken_up_at_once():
    steps, _ = all_placements(placed(spread(0)), placed(spread(1), 2), policy_of())
    assert len(steps) == 1
    assert len(steps[0].key_groups) == 12


def test_each_step_moves_its_key_groups_and_no_others():
    policy = policy_of(take_up={"moves_per_batch": 5})
    old, new = placed(spread(0)), placed(spread(1), 2)
    steps, placements = all_placements(old, new, policy)
    assert len(steps) > 2
    before = old
    for number, (step, after) in enumerate(zip(steps, placements, strict=True), start=1):
        moved = {
            (name, group)
            for name in OPERATORS
            for group in range(SIZES[name])
            if before.node_of(name, group) != after.node_of(name, group)
        }
        assert moved == set(step.key_groups)
        assert after.name == (2, None if number == len(steps) else number)
        before = after


def test_bytes_are_those_that_the_job_has():
    policy = policy_of(take_up={"bytes_per_batch": 250})
    loads = PlanLoads({}, frozenset())
    steps, _ = all_placements(placed(spread(0)), placed(spread(1), 2), policy, loads)
    assert [len(step.key_groups) for step in steps] == [2] * 6


def test_loads_of_the_plan_decide_on_the_order():
    policy = policy_of(take_up={"moves_per_batch": 1})
    old = placed(lambda *_: "node-0")
    new = replace(placed(lambda o, g: "node-1" if (o, g) == ("count", 1) else
                         "node-2" if (o, g) == ("parse", 3) else "node-0"), version=2)  # fmt: skip
    heavy = {("count", 1): (1.0,), ("parse", 3): (5.0,), ("parse", 0): (6.0,)}
    steps = scheduled_steps(old, new, state_of(policy, PlanLoads(heavy, frozenset())))
    assert [step.key_groups for step in steps] == [(("parse", 3),), (("count", 1),)]


def test_what_is_on_a_dead_node_moves_first():
    policy = policy_of(take_up={"moves_per_batch": 2})
    old = placed(lambda operator, group: f"node-{group % 3}")
    new = placed(lambda operator, group: f"node-{group % 2}", 2)
    loads = {(name, group): (1.0,) for name, n in SIZES.items() for group in range(n)}
    steps = scheduled_steps(old, new, state_of(policy, PlanLoads(loads, frozenset({"node-2"}))))
    forced = [
        key in {("parse", 2), ("count", 2), ("count", 5)} for s in steps for key in s.key_groups
    ]
    assert forced == sorted(forced, reverse=True)


def test_keys_change_their_key_group_in_the_last_step_alone():
    policy = policy_of(take_up={"moves_per_batch": 100})
    other = (key_group_of("a", 6) + 1) % 6
    new = placed(spread(1), 2, routes={"count": {"a": other}})
    steps, placements = all_placements(placed(spread(0)), new, policy)
    assert steps[-1].key_groups == ()
    assert "keys" in steps[-1].exceeds
    assert all(placement.routes == {} for placement in placements[:-1])
    assert placements[-1].routes == {"count": {"a": other}}


def test_a_node_that_the_plan_removes_drains_until_its_last_key_group_has_left():
    policy = policy_of(take_up={"moves_per_batch": 1}, scaling={})
    keep = [("node", "node-0", "keep", None), ("node", "node-1", "keep", None)]
    old = placed(lambda operator, group: f"node-{group % 3}")
    new = placed(
        lambda operator, group: f"node-{group % 2}", 2,
        scaling=(*keep, ("node", "node-2", "remove", None)),
    )  # fmt: skip
    _, placements = all_placements(old, new, policy)
    for placement in placements:
        used = {node for nodes in placement.nodes.values() for node in nodes}
        in_use = nodes_in_use(policy, placement.scaling)
        assert used <= in_use.keys()
        if "node-2" in used:
            assert in_use["node-2"] == "draining"


def test_a_node_that_the_plan_adds_is_in_use_from_the_first_step_on():
    nodes = [{"id": "node-0"}, {"id": "node-1"}, {"id": "node-2", "spare": True}]
    policy = policy_of(take_up={"moves_per_batch": 1}, scaling={}, nodes=nodes)
    new = placed(spread(0), 2, scaling=(("node", "node-2", "add", None),))
    _, placements = all_placements(placed(lambda *_: "node-0"), new, policy)
    assert "node-2" in nodes_in_use(policy, placements[0].scaling)


def test_steps_and_placements_survive_the_disk(tmp_path):
    log = DecisionLog(tmp_path)
    steps = [ScheduledStep((("count", 3), ("parse", 0)), "why"), ScheduledStep(())]
    log.record_steps(4, steps)
    assert DecisionLog(tmp_path).steps(4) == steps
    assert DecisionLog(tmp_path).steps(5) == []
    placement = replace(first_placement(topology_of(), policy_of()), version=4, step=1)
    log.record_placement(placement)
    assert DecisionLog(tmp_path).placement((4, 1)) == placement
    assert DecisionLog(tmp_path).placement((4, None)) is None


def test_the_figures_of_all_steps_are_added_up(tmp_path):
    log = DecisionLog(tmp_path)
    log.record_moved((4, 1), MoveFigures(2, 100, 5.0, 0, 5.0))
    log.record_moved((4, 2), MoveFigures(3, 200, 7.0, 1, 7.0))
    log.record_moved((4, None), MoveFigures(1, 50, 6.0, 0, 6.0))
    last = VersionDecision(9, 4, 4, None, 2, 3)
    assert log.moved_so_far(last) == MoveFigures(6, 350, 18.0, 1, 7.0)
    second = VersionDecision(8, 4, 4, 2, 1, 3)
    assert log.moved_so_far(second) == MoveFigures(5, 300, 12.0, 1, 7.0)


def test_only_placements_that_a_replay_needs_are_kept(tmp_path):
    log = DecisionLog(tmp_path)
    of = first_placement(topology_of(), policy_of())
    for version, step in ((3, None), (4, None), (4, 1), (4, 2)):
        log.record_placement(replace(of, version=version, step=step))
        log.record_moved((version, step), MoveFigures(1, 1, 1.0))
    log.record_steps(4, [ScheduledStep(())])
    log.forget_placements(keep=[(4, 2), (4, 1), (4, None)])
    assert {path.stem for path in tmp_path.iterdir()} == {
        "placement-4", "placement-4-step-1", "placement-4-step-2", "steps-4",
        "moved-4", "moved-4-step-1", "moved-4-step-2",
    }  # fmt: skip
    log.forget_placements(keep=[(4, None)])
    assert log.placement((4, 2)) is None
    assert log.moved((4, 2)) is not None


@pytest.mark.parametrize(
    ("decision", "begins", "takes_up", "label"),
    [
        (VersionDecision(5, 2, 1), True, True, "2"),
        (VersionDecision(5, 2, 2), False, False, "2"),
        (VersionDecision(5, 2, 1, 1, None, 3), True, True, "2.1"),
        (VersionDecision(5, 2, 2, 2, 1, 3), False, True, "2.2"),
        (VersionDecision(5, 2, 2, None, 2, 3), False, True, "2.3"),
        (VersionDecision(6, 2, 2, None, None, 3), False, False, "2.3"),
    ],
)
def test_a_decision_says_whether_a_step_is_made(decision, begins, takes_up, label):
    assert (decision.begins, decision.takes_up, decision.fault_label) == (begins, takes_up, label)
