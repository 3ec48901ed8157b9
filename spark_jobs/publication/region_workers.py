"""Why a plan's weights no longer fit a region: workers that left, are new or died. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import WorkerWeight
from ballast.contracts.regions import weighted, weights_of


def weight_conflicts(
    policy: JobPolicy,
    weights: Sequence[WorkerWeight],
    dead: Mapping[tuple[str, str], datetime],
) -> Iterator[str]:
    """Every reason why weights of a plan cannot be put in force.

    Args:
        policy: today's policy.
        weights: rows of ``plans.weights`` of the plan.
        dead: region and worker of dead workers, and the window that reported the death.
    """
    planned = weighted(weights)
    for region_id in sorted({region for region, _, _ in planned}):
        region = policy.region(region_id)
        if region is None:
            yield f"region {region_id} is no longer in the policy"
            continue
        units_of = weights_of(planned, region_id)
        for worker in sorted(units_of.keys() - set(region.worker_ids)):
            yield f"worker {worker} of region {region_id} is no longer in the policy"
        for worker in sorted(set(region.worker_ids) - units_of.keys()):
            yield f"worker {worker} of region {region_id} came later and would have no weight"
        for worker, units in units_of.items():
            at = dead.get((region_id, worker))
            if units and at is not None:
                when = f"{at:%Y-%m-%d %H:%M:%S} UTC"
                yield f"worker {worker} of region {region_id} was dead at {when}"
