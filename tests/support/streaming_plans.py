"""Publishes plans into a test's tables, as the pipeline would."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ballast.contracts.identity import Scaled, Split, content_hash
from ballast.contracts.policy import JobPolicy
from ballast.contracts.regions import Weighted
from ballast.contracts.settings import Settings
from ballast.store.plans import read_head
from ballast.store.tables import append, open_table


def publish(
    settings: Settings,
    policy: JobPolicy,
    version: int,
    node_of: Callable[[str, int], str],
    routes: Sequence[tuple[str, str, int]] = (),
    nodes: Mapping[str, str] | None = None,
    weights: Sequence[Weighted] = (),
    hash_of_weights: Sequence[Weighted] | None = None,
    sizes: Mapping[str, int] | None = None,
    splits: Sequence[Split] = (),
) -> str:
    """Write the content of a plan and then the head; ``nodes`` are the actions on nodes.

    ``sizes``: instances of each operator.

    ``hash_of_weights``: the weights that the hash in the head is computed from, if not those of the
    rows.
    """
    content = [
        (operator.id, group, node_of(operator.id, group))
        for operator in policy.operators
        for group in range(operator.key_groups)
    ]
    plan_id = f"plan-{version}"
    rows = [
        {
            "job": policy.job,
            "plan_id": plan_id,
            "operator_id": operator,
            "key_group": group,
            "node_id": node,
            "previous_node_id": node,
            "state_bytes": 0,
        }
        for operator, group, node in content
    ]
    append(settings, "plans.assignments", rows)
    names = ("operator_id", "key", "key_group")
    common = {"job": policy.job, "plan_id": plan_id}
    for table, keys in (("plans.routes", routes), ("plans.splits", splits)):
        if keys:
            append(settings, table, [common | dict(zip(names, row, strict=True)) for row in keys])
    scaling: list[Scaled] = [
        *(("node", name, action, None) for name, action in (nodes or {}).items()),
        *(("operator", name, "size", size) for name, size in (sizes or {}).items()),
    ]
    if scaling:
        append(settings, "plans.scaling", [_scaling_row(policy.job, plan_id, *s) for s in scaling])
    if weights:
        append(settings, "plans.weights", [weight_row(policy.job, plan_id, *w) for w in weights])
    promised = weights if hash_of_weights is None else hash_of_weights
    content_is = content_hash(content, routes, scaling, promised, splits)
    _set_head(settings, policy.job, version, plan_id, content_is)
    return plan_id


def weight_row(job: str, plan_id: str, region: str, worker: str, units: int) -> dict[str, Any]:
    """A row of plans.weights."""
    return {
        "job": job,
        "plan_id": plan_id,
        "region_id": region,
        "worker_id": worker,
        "weight": units,
        "previous_weight": units,
        "state": "alive",
        "reason": "test",
    }


def _scaling_row(
    job: str, plan_id: str, subject: str, name: str, action: str, wanted: int | None
) -> dict[str, Any]:
    texts = dict.fromkeys(("reason", "binding", "would_change"), "test")
    at = dict.fromkeys(("period_end_at", "decided_at"), datetime.now(UTC))
    row = {"subject": subject, "subject_id": name, "action": action, "wanted": wanted}
    return {"job": job, "plan_id": plan_id, **row, **texts, **at}


def _set_head(settings: Settings, job: str, version: int, plan_id: str, content: str) -> None:
    if read_head(settings, job) is None:
        head = {
            "job": job,
            "version": version,
            "plan_id": plan_id,
            "content_hash": content,
            "run_id": "test",
            "published_at": datetime.now(UTC),
        }
        append(settings, "plans.heads", [head])
    else:
        open_table(settings, "plans.heads").update(
            new_values={"version": version, "plan_id": plan_id, "content_hash": content},
            predicate=f"job = '{job}'",
        )
