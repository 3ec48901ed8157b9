"""Whether a freeze of the job's policy keeps a draft from coming into force."""

from __future__ import annotations

from datetime import datetime

from ballast.contracts.freeze import FreezePolicy, active_freeze
from ballast.contracts.policy import policy_from_json
from ballast.contracts.records import Draft, Snapshot
from ballast.contracts.settings import Settings
from ballast.store.policies import current_policy


def freeze_of_draft(
    settings: Settings, snapshot: Snapshot, draft: Draft, now: datetime
) -> FreezePolicy | None:
    """The freeze that keeps a draft from being published at ``now``; None if none does.

    The freezes are those of the policy file of today, so that one which is added or removed counts
    at once. What has to leave dead nodes is published also in a freeze, unless the draft was made
    before the freeze and moves other key groups as well.
    """
    policy = current_policy(settings, policy_from_json(snapshot.policy_json))
    freeze = active_freeze(policy.freezes, now)
    if freeze is None:
        return None
    is_evacuation = draft.forced_moves > 0 and (
        draft.moves == 0 or draft.created_at >= freeze.begins_at
    )
    return None if is_evacuation else freeze
