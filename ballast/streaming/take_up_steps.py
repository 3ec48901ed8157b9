"""The steps in which a job takes a plan up, and the placements between them (ADR 72).

The steps are computed from the placement that is really in force, so they also fit if an earlier
plan was taken up in part. They are recorded before the first of them is used.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ballast.contracts.move_steps import MoveStep, StepProblem, divide_into_steps
from ballast.contracts.policy import JobPolicy, NodePolicy
from ballast.contracts.problem_columns import RESOURCES
from ballast.contracts.scaling import ALIVE, DRAIN, NODE, nodes_in_use
from ballast.store.metric_windows import capacity_columns
from ballast.store.plan_loads import PlanLoads
from ballast.streaming.routing import Move, Placement, key_transfers_between, moves_between

OwnedGroup = tuple[str, int]
"""An operator, and the number of one of its key groups."""

log = logging.getLogger("ballast.streaming")

KEYS_AT_ONCE = "keys that change their key group move in a step of their own, without a limit"


@dataclass(frozen=True)
class ScheduledStep:
    """The key groups that one step moves to their nodes under the plan."""

    key_groups: tuple[OwnedGroup, ...]
    exceeds: str = ""
    """Why the step is beyond the limits of the policy; empty if it is within them."""


@dataclass(frozen=True)
class TakeUpState:
    """What the order of the steps depends on beside the plan."""

    policy: JobPolicy
    operators: Sequence[str]
    state_bytes: Mapping[OwnedGroup, int]
    loads: PlanLoads | None
    """Loads of the plan's snapshot; without them every key group counts the same."""


def scheduled_steps(old: Placement, new: Placement, state: TakeUpState) -> list[ScheduledStep]:
    """The steps from the placement in force to that of a plan; at least one.

    The last step ends at the plan's own placement. If keys change their key group, they do so in
    a last step that moves no key group to another node.
    """
    moves = moves_between(old, new, state.operators)
    limits = state.policy.take_up.limits
    if not limits.is_limited:
        return [ScheduledStep(tuple((m.operator_id, m.key_group) for m in moves))]
    if state.loads is None and moves:
        log.warning(
            "plan v%d: the loads of its snapshot are gone; steps are ordered as if every key "
            "group had the same load", new.version,
        )  # fmt: skip
    found = divide_into_steps(_problem(old, new, moves, state), limits) if moves else []
    steps = [_named(step, moves) for step in found]
    if key_transfers_between(old, new, state.operators):
        steps.append(ScheduledStep((), KEYS_AT_ONCE))
    return steps or [ScheduledStep(())]


def placement_after_step(
    before: Placement, new: Placement, step: ScheduledStep, number: int, policy: JobPolicy
) -> Placement:
    """The placement after a step that is not the last one.

    Keys still belong to the key groups of before. A node that the plan no longer uses drains while
    it has key groups.
    """
    nodes = {operator: list(of) for operator, of in before.nodes.items()}
    for operator, group in step.key_groups:
        nodes[operator][group] = new.node_of(operator, group)
    kept = {node for of in nodes.values() for node in of} - nodes_in_use(policy, new.scaling).keys()
    scaling = [row for row in new.scaling if row[0] != NODE or row[1] not in kept]
    return replace(
        before,
        version=new.version,
        plan_id=new.plan_id,
        nodes={operator: tuple(of) for operator, of in nodes.items()},
        scaling=(*scaling, *((NODE, node, DRAIN, None) for node in sorted(kept))),
        weights=new.weights,
        step=number,
    )


def _named(step: MoveStep, moves: Sequence[Move]) -> ScheduledStep:
    of = tuple((moves[i].operator_id, moves[i].key_group) for i in step.moves)
    return ScheduledStep(of, step.exceeds)


def _problem(
    old: Placement, new: Placement, moves: Sequence[Move], state: TakeUpState
) -> StepProblem:
    policy, loads = state.policy, state.loads
    objective = policy.objective
    resources = objective.resources if loads is not None else ("cpu",)
    node_ids = [node.id for node in policy.nodes]
    index = {node: position for position, node in enumerate(node_ids)}
    in_use = nodes_in_use(policy, new.scaling)
    dead = loads.dead if loads is not None else frozenset()

    def load_of(operator: str, group: int) -> tuple[float, ...]:
        return (1.0,) if loads is None else loads.key_groups.get((operator, group), nothing)

    nothing = (0.0,) * len(resources)
    node_load = np.zeros((len(node_ids), len(resources)))
    for operator in state.operators:
        for group, node in enumerate(old.nodes[operator]):
            node_load[index[node]] += load_of(operator, group)
    return StepProblem(
        source=np.array([index[move.source] for move in moves]),
        target=np.array([index[move.target] for move in moves]),
        state_bytes=np.array(
            [state.state_bytes.get((move.operator_id, move.key_group), 0) for move in moves]
        ),
        load=np.array([load_of(move.operator_id, move.key_group) for move in moves]),
        node_load=node_load,
        capacity=np.array([_capacities(node, resources) for node in policy.nodes]),
        staying=np.array([in_use.get(node) == ALIVE and node not in dead for node in node_ids]),
        dead=np.array([node in dead for node in node_ids]),
        weights=np.array(
            [
                0.0 if loads is not None and name in objective.caps
                else objective.weights.get(name, 1.0)
                for name in resources
            ]
        ),
    )  # fmt: skip


def _capacities(node: NodePolicy, resources: Sequence[str]) -> list[float]:
    columns = capacity_columns(node)
    found = [columns[RESOURCES[name].capacity] for name in resources]
    return [float("inf") if capacity is None else float(capacity) for capacity in found]
