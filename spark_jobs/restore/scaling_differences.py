"""Compare the nodes of an earlier version with those of today, and keep today's nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from ballast.contracts import scaling
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import ScalingRow
from solvers.model.problem import DEAD
from spark_jobs.draft.round import Round
from spark_jobs.draft.scaling_rows import ScalingFigures, ScalingRowMaker, cpu_figures
from spark_jobs.restore.earlier_version import EarlierVersion

UNUSED = "not in use"
BINDING = "a person's choice"
WOULD_CHANGE = "nothing: a rollback leaves the nodes as they are"


def nodes_that_differ(
    policy: JobPolicy, then: Sequence[ScalingRow], now: Sequence[ScalingRow]
) -> dict[str, tuple[str, str]]:
    """Nodes that two plans use differently: state then and state now."""
    before = scaling.nodes_in_use(policy, scaling.scaled(then))
    after = scaling.nodes_in_use(policy, scaling.scaled(now))
    return _differing(before, after)


def nodes_not_as_planned(
    policy: JobPolicy, now: Sequence[ScalingRow], measured: Mapping[str, str]
) -> dict[str, tuple[str, str]]:
    """Nodes whose state in a snapshot differs from the plan in force. A dead node fits any plan."""
    planned = scaling.nodes_in_use(policy, scaling.scaled(now))
    draining = {node.id: scaling.DRAINING for node in policy.nodes if node.draining}
    living = {name: draining.get(name, state) for name, state in measured.items()}
    dead = {n: planned.get(n, DEAD) for n, state in measured.items() if state == DEAD}
    return _differing(planned, living | dead)


def _differing(left: Mapping[str, str], right: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    return {
        name: (left.get(name, UNUSED), right.get(name, UNUSED))
        for name in sorted(left.keys() | right.keys())
        if left.get(name) != right.get(name)
    }


def unchanged_scaling_rows(
    job_round: Round, earlier: EarlierVersion, cpu: Mapping[str, float], decided_at: datetime
) -> list[ScalingRow]:
    """The rows of plans.scaling of a plan that changes no node, without a plan id.

    Nodes that the earlier version added are in use today, and those that it removed are gone. Its
    actions on nodes therefore do not come back; its sizes of operators do.

    Args:
        job_round: the job as it is today.
        earlier: rows of the earlier version and of the version in force.
        cpu: CPU that each node carries under the plan.
        decided_at: the time of the rollback.
    """
    make = ScalingRowMaker(
        job=job_round.snapshot.job,
        period_end_at=job_round.snapshot.period_end_at,
        decided_at=decided_at,
        reason="the nodes stay as they are",
        binding=BINDING,
        would_change=WOULD_CHANGE,
    )
    sizes = [row for row in earlier.scaling if row.subject == scaling.OPERATOR]
    return [
        *_node_rows(make, job_round, earlier.scaling_in_force, cpu),
        *_cluster_rows(make, job_round),
        *(make.row(r.subject, r.subject_id, r.action, {"wanted": r.wanted}) for r in sizes),
    ]


def _node_rows(
    make: ScalingRowMaker, job_round: Round, now: Sequence[ScalingRow], cpu: Mapping[str, float]
) -> Iterator[ScalingRow]:
    rounds = {row.subject_id: row.drain_rounds for row in now if row.subject == scaling.NODE}
    for name, action in job_round.unchanged_node_actions.items():
        figures: ScalingFigures = {}
        if action in scaling.IN_USE:
            figures |= cpu_figures(job_round.policy, name, cpu)
        if action == scaling.DRAIN:
            figures |= {"drain_rounds": rounds.get(name) or 1, "due": ()}
        yield make.row(scaling.NODE, name, action, figures)


def _cluster_rows(make: ScalingRowMaker, job_round: Round) -> Iterator[ScalingRow]:
    """``needed`` is NULL: no need was computed, and later rounds do not use these rows."""
    problem, policy = job_round.problem, job_round.policy
    staying = dict.fromkeys(sorted({node.cluster for node in policy.nodes}), 0)
    for name, state in zip(problem.node_ids, problem.node_state, strict=True):
        staying[policy.node(name).cluster] += state == scaling.ALIVE
    for name, count in staying.items():
        yield make.row(scaling.CLUSTER, name, scaling.HOLD, {"wanted": count, "before": count})
