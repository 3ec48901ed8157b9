"""A scaling decision as rows of plans.scaling, as text, and as the nodes that it leaves. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypedDict

import numpy as np
import pyarrow as pa

from ballast.contracts import scaling
from ballast.contracts.policy import JobPolicy, NodePolicy
from ballast.contracts.records import ScalingRow, SnapshotNode
from ballast.contracts.tables import LARGEST_LOAD
from solvers.model.problem import DEAD, DRAINING, Problem
from solvers.planner.plan import Plan
from solvers.planner.round import RoundPlan
from spark_jobs.draft.operator_sizes import SizesPlan, size_rows
from spark_jobs.draft.round import Round
from spark_jobs.draft.scaling_inputs import Clusters

CPU = "cpu"


def due_of(problem: Problem) -> dict[str, list[str]]:
    """Key groups that must leave in this round, by their node (solvers/planner/drain.py)."""
    due: dict[str, list[str]] = {}
    every = np.arange(problem.n_key_groups)
    must_leave = problem.draining[problem.current] & ~problem.permits(every, problem.current)
    for k in np.flatnonzero(must_leave).tolist():
        node = problem.node_ids[problem.current[k]]
        due.setdefault(node, []).append(problem.key_group_ids[k])
    return due


def actions_of(policy: JobPolicy, plan: RoundPlan) -> dict[str, str]:
    """The action for each node of the policy."""
    states = dict(zip(plan.problem.node_ids, plan.problem.node_state, strict=True))
    actions = {}
    for node in policy.nodes:
        if node.id in plan.added:
            actions[node.id] = scaling.ADD
        elif node.id in plan.ended:
            actions[node.id] = scaling.REMOVE
        elif node.id in states:
            actions[node.id] = scaling.DRAIN if states[node.id] == DRAINING else scaling.KEEP
        else:
            actions[node.id] = scaling.SPARE
    return actions


@dataclass(frozen=True, kw_only=True)
class ScalingRowMaker:
    """Makes rows of plans.scaling that share a reason. Their plan id is set later."""

    job: str
    period_end_at: datetime
    decided_at: datetime
    reason: str
    binding: str
    would_change: str

    def row(
        self,
        subject: str,
        subject_id: str,
        action: str,
        figures: ScalingFigures | None = None,
    ) -> ScalingRow:
        """A row for one node, cluster or operator."""
        return ScalingRow(
            job=self.job,
            plan_id="",
            subject=subject,
            subject_id=subject_id,
            action=action,
            reason=self.reason,
            binding=self.binding,
            would_change=self.would_change,
            period_end_at=self.period_end_at,
            decided_at=self.decided_at,
            **(figures or {}),
        )


class ScalingFigures(TypedDict, total=False):
    """Columns of plans.scaling that only some rows have."""

    wanted: int | None
    before: int | None
    needed: int | None
    utilisation: float | None
    cpu_load_cores: float | None
    drain_rounds: int | None
    due: tuple[str, ...] | None
    loads_json: str | None


def cpu_figures(policy: JobPolicy, node_id: str, cpu: Mapping[str, float]) -> ScalingFigures:
    """CPU and utilisation of a node under the plan; empty if its CPU is not known."""
    if node_id not in cpu:
        return {}
    cores = policy.node(node_id).capacity.cpu_cores
    return {"cpu_load_cores": cpu[node_id], "utilisation": cpu[node_id] / cores}


def rows_of_decision(
    job_round: Round, plan: Plan, decided_at: datetime, sizes: SizesPlan | None = None
) -> list[ScalingRow]:
    """The rows of plans.scaling of a plan, without a plan id; empty if the job is not scaled.

    Args:
        job_round: the snapshot that the plan was made from.
        plan: the plan.
        decided_at: the time of the decision.
        sizes: the sizes of operators, for an engine whose plans decide on them.
    """
    nodes = plan.nodes
    if nodes is None:
        return []
    decision = nodes.decision
    make = ScalingRowMaker(
        job=job_round.snapshot.job,
        period_end_at=job_round.snapshot.period_end_at,
        decided_at=decided_at,
        reason=nodes.reason,
        binding=decision.binding,
        would_change=decision.would_change,
    )
    cpu = plan.loads(job_round.objective, CPU)
    operators = [
        make.row(scaling.OPERATOR, name, scaling.SIZE, {"wanted": size})
        for name, size in decision.parallelism.items()
    ]
    return [
        *_node_rows(make, job_round.policy, nodes, cpu),
        *_cluster_rows(make, job_round.policy, nodes),
        *(operators if sizes is None else size_rows(sizes, operators)),
    ]


def _node_rows(
    make: ScalingRowMaker, policy: JobPolicy, plan: RoundPlan, cpu: Mapping[str, float]
) -> Iterator[ScalingRow]:
    due = due_of(plan.problem)
    for name, action in actions_of(policy, plan).items():
        figures: ScalingFigures = {}
        if action in scaling.IN_USE:
            figures |= cpu_figures(policy, name, cpu)
        if action == scaling.DRAIN:
            figures["drain_rounds"] = plan.drains.get(name, 1)
            figures["due"] = tuple(due.get(name, ()))
        yield make.row(scaling.NODE, name, action, figures)


def _cluster_rows(
    make: ScalingRowMaker, policy: JobPolicy, plan: RoundPlan
) -> Iterator[ScalingRow]:
    clusters, decision = Clusters.of(policy), plan.decision
    before, after = _counts(policy, plan)
    for name in after:
        inner = clusters.inner(name)
        loads = decision.loads.get(inner)
        change = after[name] - before[name]
        action = scaling.OUT if change > 0 else scaling.IN if change < 0 else scaling.HOLD
        yield make.row(
            scaling.CLUSTER,
            name,
            action,
            {
                "wanted": after[name],
                "before": before[name],
                "needed": decision.needs.get(inner),
                "utilisation": _finite(decision.utilisation.get(inner)),
                "loads_json": None if loads is None else json.dumps(dict(loads), sort_keys=True),
            },
        )


def _counts(policy: JobPolicy, plan: RoundPlan) -> tuple[dict[str, int], dict[str, int]]:
    """Nodes of each cluster that stay, before the plan and with it."""
    cluster_of = {node.id: node.cluster for node in policy.nodes}
    problem = plan.problem
    staying = [problem.node_ids[i] for i in np.flatnonzero(problem.staying)]
    after = dict.fromkeys(sorted(set(cluster_of.values())), 0)
    for name in staying:
        after[cluster_of[name]] += 1
    before = dict(after)
    for names, by in ((plan.added, -1), (plan.revived, -1), (plan.marked, 1)):
        for name in names:
            before[cluster_of[name]] += by
    return before, after


def _finite(value: float | None) -> float | None:
    """An infinite load as a number that the table can hold."""
    return value if value is None or math.isfinite(value) else LARGEST_LOAD


def nodes_under(policy: JobPolicy, nodes: pa.Table, rows: Sequence[ScalingRow]) -> pa.Table:
    """The nodes of a snapshot as they will be under a plan.

    Args:
        policy: capacities of the nodes that the plan adds.
        nodes: rows of snapshots.nodes.
        rows: rows of plans.scaling of the plan.

    Returns:
        Rows of snapshots.nodes: without removed nodes, with added ones, and with new states.
    """
    actions = scaling.node_actions(scaling.scaled(rows))
    known = [SnapshotNode.from_row(row) for row in nodes.to_pylist()]
    kept = []
    for node in known:
        action = actions.get(node.node_id, scaling.KEEP)
        if action in scaling.IN_USE:
            state = node.state if node.state == DEAD else scaling.IN_USE[action]
            kept.append(replace(node, state=state))
    present = {node.node_id for node in kept}
    added = [n for n, a in actions.items() if a == scaling.ADD and n not in present]
    kept += [_added_node(policy.node(name), known[0]) for name in added]
    return pa.Table.from_pylist([node.to_row() for node in kept], schema=nodes.schema)


def _added_node(node: NodePolicy, like: SnapshotNode) -> SnapshotNode:
    """A node that a plan adds, in the snapshot of another node."""
    return replace(
        like,
        node_id=node.id,
        cluster=node.cluster,
        rack=node.rack,
        cpu_capacity_cores=node.capacity.cpu_cores,
        memory_capacity_bytes=node.capacity.memory_bytes,
        network_capacity_bytes_per_s=node.capacity.network_bytes_per_s,
        state=scaling.ALIVE,
    )


def scaling_reason(policy: JobPolicy, plan: RoundPlan) -> str:
    """What changes and why, which metric was binding, and what would change the decision."""
    actions = actions_of(policy, plan)
    changes = [
        f"{verb} {', '.join(names)}"
        for verb, names in (
            ("adds", plan.added),
            ("takes back", plan.revived),
            ("drains", [n for n, a in actions.items() if a == scaling.DRAIN]),
            ("removes", plan.ended),
        )
        if names
    ]
    decision = plan.decision
    parts = [plan.reason, *changes, f"{decision.binding} bound"]
    return f"{'; '.join(parts)}; what would have changed it: {decision.would_change}"
