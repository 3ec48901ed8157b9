"""The ``review`` section of a job's policy: which drafts are published without a person.

The functions are pure: draft and clock are arguments, so a verdict can be computed for any time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, time
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, model_validator

from ballast.contracts.records import DraftSummary
from ballast.contracts.strict_model import StrictModel
from ballast.contracts.tables import WEIGHTED

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
HOURS_PATTERN = r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])"

Percent = Annotated[float, Field(strict=True, ge=0, le=1e6, allow_inf_nan=False)]
Timeout = Annotated[float, Field(strict=True, ge=1, le=86_400 * 30, allow_inf_nan=False)]


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(
            f"review.limits.time_zone is {name!r}; it must be a zone like UTC or Europe/Copenhagen"
        ) from error


class ReviewLimits(StrictModel):
    """Limits within which a plan is published without a person; None does not limit.

    Moves off dead nodes do not count, as in budgets.
    """

    moves: Annotated[int, Field(strict=True, ge=0, le=10_000_000)] | None = None
    bytes: Annotated[int, Field(strict=True, ge=0, le=10**15)] | None = None
    pause_s: Annotated[float, Field(strict=True, ge=0, le=1e6, allow_inf_nan=False)] | None = None
    min_benefit_pct: Percent | None = None
    """The least fall of the load distance, in percent of the mean. For a joint plan, a rise of the
    traffic within nodes by this many percent is enough."""
    max_gap_pct: Percent | None = None
    """The largest gap between plan and bound, in percent of the mean."""
    hours: tuple[str, ...] = ()
    """Times of day like 22:00-06:00, without the end."""
    days: tuple[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"], ...] = ()
    """Days; hours that go past midnight belong to the day on which they begin."""
    time_zone: str = "UTC"
    """The time zone of hours and days, such as Europe/Copenhagen."""

    @model_validator(mode="after")
    def _check_hours(self) -> ReviewLimits:
        for span in self.hours:
            if not re.fullmatch(HOURS_PATTERN, span) or span[:5] == span[6:]:
                raise ValueError(
                    f"review.limits.hours has {span!r}; it must be like 22:00-06:00, in 24 hours, "
                    "from one time to another"
                )
        _zone(self.time_zone)
        return self


class StalePolicy(StrictModel):
    """When a plan that waited for a person is out of date."""

    load_moved_pct: Percent = 25.0
    """It is out of date if more than this percentage of all load has moved between key groups."""


class ReviewPolicy(StrictModel):
    """Which plans a person has to approve."""

    mode: Literal["automatic", "automatic_within_limits", "person"] = "automatic"
    limits: ReviewLimits = ReviewLimits()
    timeout_s: Timeout = 86_400.0
    """How long a plan waits for a person; after that it is not published."""
    stale: StalePolicy = StalePolicy()

    @model_validator(mode="after")
    def _check_mode(self) -> ReviewPolicy:
        if self.mode == "automatic_within_limits" and self.limits == ReviewLimits():
            raise ValueError(
                "review.mode is 'automatic_within_limits' but review.limits names none; name at "
                "least one of moves, bytes, pause_s, min_benefit_pct, max_gap_pct, hours, days"
            )
        if self.mode != "automatic_within_limits" and self.limits != ReviewLimits():
            raise ValueError(
                f"review.limits are given, but review.mode is {self.mode!r}; limits are used by "
                "'automatic_within_limits' only"
            )
        return self


@dataclass(frozen=True)
class ReviewVerdict:
    """Whether a draft is published at once; if not, the reasons why it waits for a person."""

    reasons: tuple[str, ...] = ()

    @property
    def publish(self) -> bool:
        """Whether no person has to see the draft."""
        return not self.reasons


def review_verdict(plan: DraftSummary, policy: ReviewPolicy, now: datetime) -> ReviewVerdict:
    """Decide whether the plan is published at ``now`` or waits for a person.

    Args:
        plan: the draft.
        policy: the job's review policy.
        now: the time of the decision, with a time zone.
    """
    if policy.mode == "automatic":
        return ReviewVerdict()
    if policy.mode == "person":
        return ReviewVerdict(
            ("the policy has every plan seen by a person (review.mode is person)",)
        )
    return ReviewVerdict((*_over_limits(plan, policy.limits), *_out_of_hours(policy.limits, now)))


def benefit_pct(plan: DraftSummary) -> float:
    """The gain of a plan, in percent.

    It is the fall of the load distance. For a joint plan it is the rise of the traffic within nodes
    where that is larger, or the weighted sum of both where the plan trades them by weights.
    """
    gain = plan.load_distance_before_pct - plan.load_distance_pct
    if plan.trade == WEIGHTED:
        # NULL where no traffic was measured: only the load counts then.
        saved = (plan.traffic_saved_pct or 0.0) - (plan.traffic_saved_before_pct or 0.0)
        return (plan.traffic_weight or 0.0) * saved + (plan.load_weight or 0.0) * gain
    before, after = plan.collocation_factor_before_pct, plan.collocation_factor_pct
    if plan.objective != "joint" or before is None or after is None:
        return gain
    return max(gain, after - before)


def _over_limits(plan: DraftSummary, limits: ReviewLimits) -> Iterator[str]:
    n_bytes = plan.bytes + (plan.route_bytes or 0)
    if limits.moves is not None and plan.moves > limits.moves:
        yield f"it moves {plan.moves:,} key groups, without a person at most {limits.moves:,}"
    if limits.bytes is not None and n_bytes > limits.bytes:
        yield f"it moves {n_bytes:,} bytes, without a person at most {limits.bytes:,}"
    if limits.pause_s is not None and plan.pause_s > limits.pause_s:
        yield f"its pause is {plan.pause_s:.3f} s, without a person at most {limits.pause_s:g} s"
    gain = benefit_pct(plan)
    least = limits.min_benefit_pct
    if least is not None and gain < least and not plan.forced_moves:
        yield f"it gains {gain:.2f} percent, without a person at least {least:g}"
    if limits.max_gap_pct is not None and plan.gap_pct > limits.max_gap_pct:
        yield (
            f"it may be {plan.gap_pct:.2f} percent from the best possible, without a person at "
            f"most {limits.max_gap_pct:g}"
        )


def _out_of_hours(limits: ReviewLimits, now: datetime) -> Iterator[str]:
    local = now.astimezone(_zone(limits.time_zone))
    if _is_open(limits, local):
        return
    hours = ", ".join(limits.hours) or "all hours"
    days = ", ".join(limits.days) or "all days"
    yield (
        f"it is {DAYS[local.weekday()]} {local:%H:%M} in {limits.time_zone}, without a person "
        f"plans are published {hours} on {days}"
    )


def _is_open(limits: ReviewLimits, local: datetime) -> bool:
    """Whether a plan may be published at a local time."""
    today = local.weekday()
    if not limits.hours:
        return _is_day(limits, today)
    return any(
        _is_day(limits, today if begins_today else (today - 1) % 7)
        for span in limits.hours
        for begins_today in _holding(span, local.time())
    )


def _holding(span: str, clock: time) -> Iterator[bool]:
    """Yields whether the span began today or the day before; nothing if the time is outside."""
    begin, end = time.fromisoformat(span[:5]), time.fromisoformat(span[6:])
    if begin < end:
        if begin <= clock < end:
            yield True
    elif clock >= begin:
        yield True
    elif clock < end:
        yield False


def _is_day(limits: ReviewLimits, weekday: int) -> bool:
    return not limits.days or DAYS[weekday] in limits.days
