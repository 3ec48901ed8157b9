"""The tables that each program reads and writes, for OpenLineage if its provider is installed."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from ballast.contracts.settings import Settings

CONTENT = (
    "plans.assignments", "plans.routes", "plans.splits", "plans.scaling", "plans.weights",
)  # fmt: skip
WINDOWS = (
    "metrics.key_groups", "metrics.nodes", "metrics.traffic", "metrics.key_pairs",
    "metrics.sources", "metrics.connections",
)  # fmt: skip
SNAPSHOT = (
    "snapshots.snapshots", "snapshots.key_groups", "snapshots.nodes", "snapshots.traffic",
    "snapshots.noise", "snapshots.key_pairs", "snapshots.load_series", "snapshots.sources",
    "snapshots.connections",
)  # fmt: skip
DRAFT = ("plans.plans", "plans.promises", *CONTENT)
VERIFIED_BY = ("plans.acks", "plans.outcomes")
IN_FORCE = ("plans.routes", "plans.splits", "plans.scaling", "plans.weights", *VERIFIED_BY)
"""Tables that a round reads beside its snapshot."""
TABLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "measure": (
        (*WINDOWS, *SNAPSHOT, *DRAFT, *VERIFIED_BY, "plans.heads", "plans.log"),
        ("plans.outcomes", "plans.log"),
    ),
    "condense": (
        (*WINDOWS, *SNAPSHOT, "plans.heads", "plans.acks", "plans.scaling"),
        (*SNAPSHOT, "metrics.rejected", "plans.log"),
    ),
    "solve": (
        (*SNAPSHOT, *IN_FORCE, "plans.plans", "plans.promises", "plans.log"),
        (*DRAFT, "plans.log"),
    ),
    "prepare": ((*SNAPSHOT, *DRAFT, *VERIFIED_BY, "plans.log"), ("plans.log",)),
    "publish": (
        (*SNAPSHOT, *DRAFT, *VERIFIED_BY, "plans.heads", "plans.log"),
        ("plans.heads", "plans.log"),
    ),
    "rollback": (
        (*SNAPSHOT, *DRAFT, *VERIFIED_BY, "plans.heads", "plans.log"),
        (*SNAPSHOT, *DRAFT, "plans.heads", "plans.log"),
    ),
    "what_if": ((*SNAPSHOT, *IN_FORCE), ()),
}
"""The tables that each program reads, and those that it writes."""


def dataset_name(settings: Settings, table: str) -> tuple[str, str]:
    """Return namespace and name of a table, as OpenLineage names files and objects in a bucket."""
    parts = urlsplit(settings.table_uri(table))
    if not parts.scheme or parts.scheme == "file":
        return "file", str(PurePosixPath(parts.path))
    scheme = "s3" if parts.scheme == "s3a" else parts.scheme
    return f"{scheme}://{parts.netloc}", parts.path.lstrip("/")


def lineage_of(program: str, settings: Settings) -> Any:
    """Return an ``OperatorLineage``; called by the OpenLineage provider if it is installed."""
    from airflow.providers.common.compat.openlineage.facet import Dataset
    from airflow.providers.openlineage.extractors import OperatorLineage

    read, written = (
        [Dataset(*dataset_name(settings, table)) for table in tables] for tables in TABLES[program]
    )
    return OperatorLineage(inputs=read, outputs=written)
