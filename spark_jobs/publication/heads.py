"""Compare-and-set on the version in ``plans.heads``; no other code writes it (ADR 7)."""

from __future__ import annotations

import json
import random
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from ballast.contracts.errors import PublishConflict
from ballast.contracts.records import Draft, Head
from ballast.contracts.settings import Settings
from ballast.store.plans import head_in, read_head
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import open_table, replace_if_unmoved, table_exists

HEADS = "plans.heads"
# An attempt fails only if another publish commits at the same time, which takes 10 ms.
ATTEMPTS = 200


@dataclass(frozen=True)
class HeadCommit:
    """Metadata of the commit that put a head in force, in the history of the table."""

    job: str
    version: int
    plan_id: str
    run_id: str

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str | None) -> HeadCommit | None:
        """The metadata of a commit; None for a commit that did not publish a head."""
        try:
            values = json.loads(text or "null")
        except ValueError:
            return None
        names = cls.__dataclass_fields__.keys()
        if not isinstance(values, dict) or not names <= values.keys():
            return None
        return cls(**{name: values[name] for name in names})


def head_of(draft: Draft, at: datetime) -> Head:
    """The head that the draft becomes if it is published at a time."""
    return Head(
        job=draft.job,
        version=draft.parent_version + 1,
        plan_id=draft.plan_id,
        content_hash=draft.content_hash,
        run_id=draft.run_id,
        published_at=at,
    )


def commit_of(head: Head) -> HeadCommit:
    """The metadata of the commit that puts this head in force."""
    return HeadCommit(head.job, head.version, head.plan_id, head.run_id)


def is_same(found: Head | None, wanted: Head) -> bool:
    """Whether both heads are the same plan of the same run; the time of publication is ignored."""
    return found is not None and commit_of(found) == commit_of(wanted)


def current_version(head: Head | None) -> int:
    """The version in force; 0 before the first plan."""
    return head.version if head else 0


def compare_and_set(settings: Settings, wanted: Head) -> Head | None:
    """Put ``wanted`` in force if the version in force is the one before it.

    The comparison and the replacement use the same version of the table: each commit is tried once,
    as the next version of the table. If another commit is first, the head is read again.

    Returns:
        The head after the attempt: ``wanted``, or another head that was published first.

    Raises:
        PublishConflict: other publishers won every attempt.
    """
    ensure_tables(settings, [HEADS])
    for _ in range(ATTEMPTS):
        table = open_table(settings, HEADS)
        head = head_in(table, wanted.job)
        if current_version(head) != wanted.version - 1:
            return head
        if replace_if_unmoved(
            table, HEADS, wanted.job, [wanted.to_row()], mark=commit_of(wanted).to_json()
        ):
            return read_head(settings, wanted.job)
        time.sleep(random.uniform(0.0, 0.02))  # noqa: S311
    raise PublishConflict(
        f"the head of job {wanted.job} could not be changed in {ATTEMPTS} attempts, because others "
        "publish at the same time; nothing was published; to fix it: start a new run"
    )


def when_in_force(settings: Settings, wanted: Head) -> datetime | None:
    """When a commit in the history of the table put ``wanted`` in force; None if none did."""
    if not table_exists(settings, HEADS):
        return None
    mark = commit_of(wanted).to_json()
    for entry in open_table(settings, HEADS).history():
        if entry.get("userMetadata") == mark:
            return datetime.fromtimestamp(entry["timestamp"] / 1000, UTC)
    return None
