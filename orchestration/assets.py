"""A job's metrics and plans as Airflow assets: runs may start by them, and other DAGs as well."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset, AssetAlias


def metrics_asset(job: str) -> Asset:
    """Fresh metrics; whoever writes them says so through Airflow's API (docs/runbook.md)."""
    return Asset(f"ballast://metrics/{job}")


def plans_asset(job: str) -> Asset:
    """A version that came into force."""
    return Asset(f"ballast://plans/{job}")


def plans_alias(job: str) -> AssetAlias:
    """What a task has for outlet that may publish: an event comes only of a new version."""
    return AssetAlias(f"ballast-plans-{job}")


def announce(context: Any, job: str, handed: dict[str, Any]) -> None:
    """Add the event that a version is in force."""
    keys = ("version", "plan_id", "content_hash")
    extra = {key: handed[key] for key in keys if key in handed}
    context["outlet_events"][plans_alias(job)].add(plans_asset(job), extra=extra)
