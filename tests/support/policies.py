"""Small job policies for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from ballast.contracts.policy import JobPolicy, parse_policy


def small_policy(
    job: str = "probe",
    operators: Mapping[str, int] | None = None,
    nodes: int | Sequence[str | Mapping[str, Any]] = 2,
    partition_keys: Mapping[str, str] | None = None,
    **fields: Any,
) -> JobPolicy:
    """A valid policy: operators in a chain with their key groups, windows of 5 s, periods of 30 s.

    ``fields`` replaces whole fields of the policy; ``nodes`` is a number, or each node's id or
    fields.
    """
    sizes = operators or {"parse": 4, "count": 4}
    names = list(sizes)
    named = [f"node-{i}" for i in range(nodes)] if isinstance(nodes, int) else nodes
    data: dict[str, Any] = {
        "job": job,
        "window_s": 5,
        "statistics_period_s": 30,
        "dead_after_windows": 4,
        "operators": [
            {
                "id": name,
                "key_groups": size,
                "partition_key": [(partition_keys or {}).get(name, "key")],
            }
            for name, size in sizes.items()
        ],
        "edges": [{"from": a, "to": b} for a, b in pairwise(names)],
        "nodes": [{"id": node} if isinstance(node, str) else node for node in named],
    }
    return parse_policy({**data, **fields}, f"{job}.yaml")


def write_policy(folder: Path, policy: JobPolicy) -> Path:
    """Write the policy to ``<folder>/<job>.yaml``."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{policy.job}.yaml"
    path.write_text(yaml.safe_dump(json.loads(policy.to_json())), encoding="utf-8")
    return path
