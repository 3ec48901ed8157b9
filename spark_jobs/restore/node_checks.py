"""Whether an earlier version used the nodes of today, and what a plan that brings it back says of
them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ballast.contracts import scaling as words
from ballast.contracts.policy import JobPolicy
from solvers.model.problem import DEAD
from spark_jobs.draft.plan_rows import as_it_is
from spark_jobs.draft.problem import Row
from spark_jobs.draft.round import Round

UNUSED = "not in use"
BINDING = "a person's choice"
WOULD_CHANGE = "nothing: a rollback leaves the nodes as they are"


def nodes_that_differ(
    policy: JobPolicy, then: Sequence[Row], now: Sequence[Row]
) -> dict[str, tuple[str, str]]:
    """Nodes that two plans use differently, by their rows of plans.scaling: state then and now."""
    before = words.nodes_in_use(policy, words.scaled(then))
    after = words.nodes_in_use(policy, words.scaled(now))
    return _differing(before, after)


def nodes_not_as_planned(
    policy: JobPolicy, now: Sequence[Row], measured: Mapping[str, str]
) -> dict[str, tuple[str, str]]:
    """Nodes that a snapshot has otherwise than the plan in force; one may be dead under any."""
    planned = words.nodes_in_use(policy, words.scaled(now))
    draining = {node.id: words.DRAINING for node in policy.nodes if node.draining}
    living = {name: draining.get(name, state) for name, state in measured.items()}
    dead = {n: planned.get(n, DEAD) for n, state in measured.items() if state == DEAD}
    return _differing(planned, living | dead)


def _differing(left: Mapping[str, str], right: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    return {
        name: (left.get(name, UNUSED), right.get(name, UNUSED))
        for name in sorted(left.keys() | right.keys())
        if left.get(name) != right.get(name)
    }


def rows_that_keep_nodes(
    given: Round,
    then: Sequence[Row],
    now: Sequence[Row],
    cpu: Mapping[str, float],
    common: Mapping[str, Any],
) -> list[Row]:
    """The rows of plans.scaling of a plan that leaves every node as it is.

    What the old version said to add has been added and what it removed is gone: only the states
    that came of it are the same. How large operators shall be is the old version's. ``common``
    has job, plan, period and time.
    """
    shared = {
        **dict.fromkeys(("wanted", "before", "needed", "utilisation", "cpu_load_cores",
                         "drain_rounds", "due", "loads_json")),
        "reason": "the nodes stay as they are",
        "binding": BINDING,
        "would_change": WOULD_CHANGE,
        **common,
    }  # fmt: skip
    sizes = [
        {name: row[name] for name in ("subject", "subject_id", "action", "wanted")}
        for row in then
        if row["subject"] == words.OPERATOR
    ]
    rows = [*_node_rows(given, now, cpu), *_cluster_rows(given), *sizes]
    return [{**shared, **row} for row in rows]


def _node_rows(given: Round, now: Sequence[Row], cpu: Mapping[str, float]) -> Iterator[Row]:
    rounds = {row["subject_id"]: row["drain_rounds"] for row in now if row["subject"] == words.NODE}
    for name, action in as_it_is(given).items():
        row: Row = {"subject": words.NODE, "subject_id": name, "action": action}
        if action in words.IN_USE and name in cpu:
            row["cpu_load_cores"] = cpu[name]
            row["utilisation"] = cpu[name] / given.policy.node(name).capacity.cpu_cores
        if action == words.DRAIN:
            row |= {"drain_rounds": rounds.get(name) or 1, "due": []}
        yield row


def _cluster_rows(given: Round) -> Iterator[Row]:
    """``needed`` is NULL: nothing was asked for, and later rounds do not look back at it."""
    staying = dict.fromkeys(sorted({node.cluster for node in given.policy.nodes}), 0)
    for name, state in zip(given.problem.node_ids, given.problem.node_state, strict=True):
        staying[given.policy.node(name).cluster] += state == words.ALIVE
    for name, count in staying.items():
        yield {"subject": words.CLUSTER, "subject_id": name, "action": words.HOLD,
               "wanted": count, "before": count}  # fmt: skip
