"""Publishes plans into a test's tables, as the pipeline would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from ballast.contracts.identity import content_hash
from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings
from ballast.store.plans import read_head
from ballast.store.tables import append, open_table


def publish(
    settings: Settings,
    policy: JobPolicy,
    version: int,
    node_of: Callable[[str, int], str],
    routes: Sequence[tuple[str, str, int]] = (),
) -> str:
    """Detail rows first, then the head."""
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
    if routes:
        names = ("operator_id", "key", "key_group")
        common = {"job": policy.job, "plan_id": plan_id}
        append(
            settings,
            "plans.routes",
            [common | dict(zip(names, route, strict=True)) for route in routes],
        )
    _set_head(settings, policy.job, version, plan_id, content_hash(content, routes))
    return plan_id


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
