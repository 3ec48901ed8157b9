"""No snapshot is made while a job makes the steps of a take-up."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ballast.contracts.errors import GateFailed
from ballast.contracts.records import Ack
from spark_jobs.snapshot.metrics_freshness import require_last_step
from tests.support.policies import small_policy

AT_ONCE = small_policy()
IN_STEPS = small_policy(take_up={"moves_per_batch": 2})


def ack(status: str, step: int | None = None, steps: int | None = None) -> Ack:
    return Ack(
        job="small", version=3, plan_id="p", status=status, batch_id=7, reason="",
        moved_key_groups=0, bytes_moved=0, pause_ms=0.0, step=step, steps=steps,
        acked_at=datetime.now(UTC),
    )  # fmt: skip


@pytest.mark.parametrize("last", [ack("accepted", 0, 4), ack("progress", 3, 4)])
def test_a_version_with_steps_left_fails_the_gate_with_how_far_it_is(last: Ack) -> None:
    with pytest.raises(GateFailed, match=rf"version 3 .* {last.step} of 4 steps are made"):
        require_last_step(IN_STEPS, [last], 3)
    # A job with an older policy file may still make steps.
    with pytest.raises(GateFailed, match="in steps"):
        require_last_step(AT_ONCE, [last], 3)


@pytest.mark.parametrize(
    "last",
    [ack("applied", 4, 4), ack("applied"), ack("accepted"), ack("accepted", 0, 1), ack("refused")],
)
def test_a_version_without_steps_left_passes(last: Ack) -> None:
    require_last_step(IN_STEPS, [last], 3)


def test_a_version_that_was_not_acknowledged_passes_only_without_steps() -> None:
    require_last_step(AT_ONCE, [], 3)
    require_last_step(IN_STEPS, [], 0)
    with pytest.raises(GateFailed, match="has not acknowledged it"):
        require_last_step(IN_STEPS, [], 3)
