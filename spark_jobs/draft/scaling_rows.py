"""What a round makes of nodes as rows of plans.scaling, in words, and as nodes. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ballast.contracts import scaling as words
from ballast.contracts.policy import JobPolicy
from ballast.contracts.tables import LARGEST_LOAD
from solvers.model.problem import DEAD, DRAINING, Problem
from solvers.planner.round import RoundPlan
from spark_jobs.draft.problem import Row
from spark_jobs.draft.scaling_inputs import Clusters


def due_of(problem: Problem) -> dict[str, list[str]]:
    """Key groups that have to leave in this round, by their node (solvers/planner/drain.py)."""
    due: dict[str, list[str]] = {}
    if problem.allowed is not None:
        for k in np.flatnonzero(problem.allowed.restricted).tolist():
            node = problem.node_ids[problem.current[k]]
            due.setdefault(node, []).append(problem.key_group_ids[k])
    return due


def actions_of(policy: JobPolicy, plan: RoundPlan) -> dict[str, str]:
    """What becomes of each node of the policy."""
    states = dict(zip(plan.problem.node_ids, plan.problem.node_state, strict=True))
    actions = {}
    for node in policy.nodes:
        if node.id in plan.added:
            actions[node.id] = words.ADD
        elif node.id in plan.ended:
            actions[node.id] = words.REMOVE
        elif node.id in states:
            actions[node.id] = words.DRAIN if states[node.id] == DRAINING else words.KEEP
        else:
            actions[node.id] = words.SPARE
    return actions


def scaling_rows(
    policy: JobPolicy, plan: RoundPlan, cpu: Mapping[str, float], common: Row
) -> list[Row]:
    """The rows of plans.scaling; ``cpu`` is what each node in use is promised to carry.

    ``common`` has what all rows share: job, plan, period and time.
    """
    decision = plan.decision
    shared = {
        **dict.fromkeys(("wanted", "before", "needed", "utilisation", "cpu_load_cores",
                         "drain_rounds", "due", "loads_json")),
        "reason": plan.reason,
        "binding": decision.binding,
        "would_change": decision.would_change,
        **common,
    }  # fmt: skip
    rows = [*_node_rows(policy, plan, cpu), *_cluster_rows(policy, plan)]
    rows += [
        {"subject": words.OPERATOR, "subject_id": name, "action": words.SIZE, "wanted": size}
        for name, size in decision.parallelism.items()
    ]
    return [{**shared, **row} for row in rows]


def _node_rows(policy: JobPolicy, plan: RoundPlan, cpu: Mapping[str, float]) -> Iterator[Row]:
    due = due_of(plan.problem)
    for name, action in actions_of(policy, plan).items():
        row: dict[str, Any] = {"subject": words.NODE, "subject_id": name, "action": action}
        if action in words.IN_USE and name in cpu:
            row["cpu_load_cores"] = cpu[name]
            row["utilisation"] = cpu[name] / policy.node(name).capacity.cpu_cores
        if action == words.DRAIN:
            row["drain_rounds"] = plan.drains.get(name, 1)
            row["due"] = due.get(name, [])
        yield row


def _cluster_rows(policy: JobPolicy, plan: RoundPlan) -> Iterator[Row]:
    clusters, decision = Clusters.of(policy), plan.decision
    before, after = _counts(policy, plan)
    for name in after:
        inner = clusters.inner(name)
        loads = decision.loads.get(inner)
        change = after[name] - before[name]
        yield {
            "subject": words.CLUSTER,
            "subject_id": name,
            "action": words.OUT if change > 0 else words.IN if change < 0 else words.HOLD,
            "wanted": after[name],
            "before": before[name],
            "needed": decision.needs.get(inner),
            "utilisation": _finite(decision.utilisation.get(inner)),
            "loads_json": None if loads is None else json.dumps(dict(loads), sort_keys=True),
        }


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
    """More than all there is, as a number that a table can hold."""
    return value if value is None or math.isfinite(value) else LARGEST_LOAD


def nodes_under(policy: JobPolicy, nodes: pa.Table, rows: Sequence[Row]) -> pa.Table:
    """Rows of snapshots.nodes as they are under a plan with these rows of plans.scaling."""
    actions = words.node_actions(words.scaled(rows))
    kept = []
    for row in nodes.to_pylist():
        action = actions.get(row["node_id"], words.KEEP)
        if action in words.IN_USE:
            state = row["state"] if row["state"] == DEAD else words.IN_USE[action]
            kept.append({**row, "state": state})
    first = nodes.slice(0, 1).to_pylist()[0]
    known = {row["node_id"] for row in kept}
    added = [policy.node(n) for n, a in actions.items() if a == words.ADD and n not in known]
    kept += [
        {
            **first,
            "node_id": node.id,
            "cluster": node.cluster,
            "rack": node.rack,
            "cpu_capacity_cores": node.capacity.cpu_cores,
            "memory_capacity_bytes": node.capacity.memory_bytes,
            "network_capacity_bytes_per_s": node.capacity.network_bytes_per_s,
            "state": words.ALIVE,
        }
        for node in added
    ]
    return pa.Table.from_pylist(kept, schema=nodes.schema)


def in_words(policy: JobPolicy, plan: RoundPlan) -> str:
    """What, why, which metric bound, and what would have changed the decision."""
    actions = actions_of(policy, plan)
    what = [
        f"{verb} {', '.join(names)}"
        for verb, names in (
            ("adds", plan.added),
            ("takes back", plan.revived),
            ("drains", [n for n, a in actions.items() if a == words.DRAIN]),
            ("removes", plan.ended),
        )
        if names
    ]
    decision = plan.decision
    parts = [plan.reason, *what, f"{decision.binding} bound"]
    return f"{'; '.join(parts)}; what would have changed it: {decision.would_change}"
