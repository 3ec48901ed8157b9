"""Check that an earlier version can come back; refuse it with the reason if not. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ballast.contracts.errors import RollbackRefused
from ballast.contracts.records import WorkerWeight
from ballast.contracts.regions import DEAD, weighted, weights_of
from spark_jobs.draft.region_weights import regions_of
from spark_jobs.publication.staleness import SHOWN_NODES
from spark_jobs.restore.earlier_version import RollbackContext, StoredVersion
from spark_jobs.restore.scaling_differences import nodes_not_as_planned, nodes_that_differ


def check_version(version: int, stored: StoredVersion, context: RollbackContext) -> None:
    """Check an earlier version against the job as it is today.

    Args:
        version: the number of the earlier version.
        stored: its content.
        context: the job as it is today.

    Raises:
        RollbackRefused: the version used other nodes, is in force, or has weights of other
            workers.
    """
    _check_nodes(version, stored, context)
    if _is_in_force(stored, context):
        raise RollbackRefused(
            f"version {version} of job {context.head.job} has the content that is in force; "
            "nothing to do"
        )
    _check_workers(version, stored, context)


def _check_nodes(version: int, stored: StoredVersion, context: RollbackContext) -> None:
    """Refuse a version that used other nodes than are in use today.

    Adding and draining nodes needs budgets and several rounds, which only a new plan has.
    """
    head, policy, now = context.head, context.policy, context.in_force.scaling
    if policy.scaling is None and not (stored.scaling or now or context.applied_scaling):
        return
    different = nodes_that_differ(policy, stored.scaling, now)
    if different:
        raise RollbackRefused(
            f"version {version} of job {head.job} used other nodes than version "
            f"{head.version}, which is in force: {_listed(different)} (then, now); the plan in "
            "force stays; to fix it: let the next plan decide on the nodes, or choose a version "
            "that used the nodes of today"
        )
    measured = {node.node_id: node.state for node in context.nodes}
    differing = nodes_not_as_planned(policy, now, measured)
    if differing or (policy.scaling is None and not context.applied_scaling):
        raise RollbackRefused(
            f"the newest snapshot of job {head.job} does not have the nodes of version "
            f"{head.version}, which is in force{': ' if differing else ''}{_listed(differing)}; "
            "to fix it: wait until the job has taken the version up, run "
            f"reoptimize__{head.job}, then start the rollback again; if the job refused "
            "the version, let the next plan decide"
        )


def _is_in_force(stored: StoredVersion, context: RollbackContext) -> bool:
    """Whether the version has the content of the head. The nodes of both are the same."""
    if stored.content_hash == context.head.content_hash:
        return True
    if not (stored.scaling or context.in_force.scaling):
        return False
    return stored.hash_without_nodes == context.in_force.hash_without_nodes


def _check_workers(version: int, stored: StoredVersion, context: RollbackContext) -> None:
    """Refuse a version whose weights are for other workers than there are today."""
    job, found = context.head.job, context.weight_conflicts
    if found:
        more = f"; and {len(found) - SHOWN_NODES} more" if len(found) > SHOWN_NODES else ""
        raise RollbackRefused(
            f"the weights of version {version} of job {job} do not fit its ordered "
            f"regions of today: {'; '.join(found[:SHOWN_NODES])}{more}; the plan in force stays; "
            "to fix it: let the next plan weigh the workers, or choose a version with the workers "
            "of today"
        )
    dead = _dead_in_snapshot(context, stored.weights)
    if dead:
        raise RollbackRefused(
            f"the newest snapshot of job {job} is from when {', '.join(dead[:SHOWN_NODES])} "
            f"was dead; the plan in force stays; to fix it: run reoptimize__{job}, then start "
            "the rollback again"
        )


def _dead_in_snapshot(context: RollbackContext, weights: Sequence[WorkerWeight]) -> list[str]:
    """Workers with a weight that are dead in the newest snapshot, though they live today."""
    policy, then = context.policy, weighted(weights)
    if not context.connections or not then:
        return []
    return [
        f"worker {worker} of region {region.policy.id}"
        for region in regions_of(policy.regions, policy.window_s, context.connections, ())
        for worker, units in weights_of(then, region.policy.id).items()
        if units and region.state[worker] == DEAD
    ]


def _listed(different: Mapping[str, tuple[str, str]]) -> str:
    found = [f"{name} {one}, {other}" for name, (one, other) in different.items()]
    more = len(found) - SHOWN_NODES
    return "; ".join(found[:SHOWN_NODES] + ([f"{more} more nodes"] if more > 0 else []))
