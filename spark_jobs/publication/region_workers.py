"""Why weights of a plan can no longer be put in force: workers that are gone, new or dead today."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from ballast.contracts.policy import JobPolicy
from ballast.contracts.regions import DEAD, weighted, weights_of
from ballast.contracts.settings import Settings
from ballast.store.tables import read_rows, table_exists
from spark_jobs.draft.problem import Row

CONNECTIONS = "metrics.connections"
Dead = Mapping[tuple[str, str], datetime]
"""Region and worker of those that died, and the end of the window that said so last."""


def why_weights_do_not_fit(
    settings: Settings, policy: JobPolicy, rows: Sequence[Row], since: datetime
) -> list[str]:
    """Everything that stands against rows of plans.weights today; ``since`` bounds the reading."""
    if not rows:
        return []
    return list(misfits(policy, rows, dead_workers(settings, policy.job, since)))


def misfits(policy: JobPolicy, rows: Sequence[Row], dead: Dead) -> Iterable[str]:
    """The same, from what was read. Pure."""
    planned = weighted(rows)
    for region_id in sorted({region for region, _, _ in planned}):
        region = policy.region(region_id)
        if region is None:
            yield f"region {region_id} is no longer in the policy"
            continue
        weights = weights_of(planned, region_id)
        for worker in sorted(weights.keys() - set(region.worker_ids)):
            yield f"worker {worker} of region {region_id} is no longer in the policy"
        for worker in sorted(set(region.worker_ids) - weights.keys()):
            yield f"worker {worker} of region {region_id} came later and would have no weight"
        for worker, units in weights.items():
            at = dead.get((region_id, worker))
            if units and at is not None:
                when = f"{at:%Y-%m-%d %H:%M:%S} UTC"
                yield f"worker {worker} of region {region_id} was dead at {when}"


def dead_workers(settings: Settings, job: str, since: datetime) -> dict[tuple[str, str], datetime]:
    """Workers whose newest row since a time says that they died."""
    if not table_exists(settings, CONNECTIONS):
        return {}
    found = read_rows(
        settings, CONNECTIONS, job=job,
        columns=["region_id", "worker_id", "window_end_at", "state"],
        where=[("window_date", ">=", since.date()), ("window_end_at", ">", since)],
    )  # fmt: skip
    newest: dict[tuple[str, str], Row] = {}
    for row in sorted(found.to_pylist(), key=lambda row: row["window_end_at"]):
        newest[row["region_id"], row["worker_id"]] = row
    return {name: row["window_end_at"] for name, row in newest.items() if row["state"] == DEAD}
