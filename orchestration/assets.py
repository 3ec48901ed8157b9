"""A job's metrics and plans as Airflow assets; DAGs may be scheduled on them."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset, AssetAlias


def metrics_asset(job: str) -> Asset:
    """Return the asset of new metrics.

    The writer of the metrics posts an event to Airflow's API (docs/runbook.md).
    """
    return Asset(f"ballast://metrics/{job}")


def plans_asset(job: str) -> Asset:
    """Return the asset of versions in force."""
    return Asset(f"ballast://plans/{job}")


def plans_alias(job: str) -> AssetAlias:
    """Return the outlet of a task that may publish; it emits an event only for a new version."""
    return AssetAlias(f"ballast-plans-{job}")


def announce(context: Any, job: str, result: dict[str, Any]) -> None:
    """Emit the event that a version is in force.

    Args:
        context: The context of the Airflow task.
        job: The job of the version.
        result: The result of the program; version, plan and content hash go into the event.
    """
    keys = ("version", "plan_id", "content_hash")
    extra = {key: result[key] for key in keys if key in result}
    context["outlet_events"][plans_alias(job)].add(plans_asset(job), extra=extra)
