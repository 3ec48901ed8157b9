"""The one place that changes plans.heads: compare-and-set on the version (docs/adr/0007)."""

from __future__ import annotations

import json
import random
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from ballast.contracts.errors import PublishConflict
from ballast.contracts.records import Head
from ballast.contracts.settings import Settings
from ballast.store.plans import head_in, read_head
from ballast.store.tables import open_table, replace_if_unmoved, table_exists

HEADS = "plans.heads"
# Each try is lost only to another publish, of this job or another one, that took ten milliseconds.
ATTEMPTS = 200


@dataclass(frozen=True)
class HeadCommit:
    """What a head's commit says of itself in the table's history."""

    job: str
    version: int
    plan_id: str
    run_id: str

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def commit_of(head: Head) -> HeadCommit:
    """How the commit that brought this head is marked."""
    return HeadCommit(head.job, head.version, head.plan_id, head.run_id)


def is_same(found: Head | None, wanted: Head) -> bool:
    """Whether the head is the very one that was wanted; the time it came into force aside."""
    return found is not None and commit_of(found) == commit_of(wanted)


def compare_and_set(settings: Settings, wanted: Head) -> Head | None:
    """Put ``wanted`` in force if the version before it is; returns the head that is then there.

    What is compared and what is replaced are one version of the table: the commit is tried once,
    as the very next version, and whoever loses it looks again.
    """
    for _ in range(ATTEMPTS):
        table = open_table(settings, HEADS)
        head = head_in(table, wanted.job)
        if (head.version if head else 0) != wanted.version - 1:
            return head
        if replace_if_unmoved(
            table, HEADS, wanted.job, [asdict(wanted)], mark=commit_of(wanted).to_json()
        ):
            return read_head(settings, wanted.job)
        time.sleep(random.uniform(0.0, 0.02))  # noqa: S311
    raise PublishConflict(
        f"the head of job {wanted.job} could not be changed in {ATTEMPTS} tries, so many others "
        "publish; nothing was published; to fix it: start a new run"
    )


def when_in_force(settings: Settings, wanted: Head) -> datetime | None:
    """When a commit of the table's history put ``wanted`` in force; None if none did."""
    if not table_exists(settings, HEADS):
        return None
    mark = commit_of(wanted).to_json()
    for entry in open_table(settings, HEADS).history():
        if entry.get("userMetadata") == mark:
            return datetime.fromtimestamp(entry["timestamp"] / 1000, UTC)
    return None
