"""Makes a region follow the weights of the plan in force, without a JVM.

A local loop starts from the weights of the plan and may change them within limits (ADR 50).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from ballast.contracts.errors import InvalidInput, PlanRefused
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Head
from ballast.contracts.regions import UNITS, RegionPolicy, Weighted, weights_of
from ballast.contracts.settings import Settings
from ballast.store.plan_content import read_published_content
from ballast.store.plans import read_acks, read_head
from ballast.store.table_schema import ensure_tables
from ballast.streaming.acks import AckBook
from ballast.streaming.job_state import job_folder
from ballast.streaming.region.measurement import RegionMeasurement
from ballast.streaming.region.meter import Control
from ballast.streaming.region.settings import RegionSettings
from ballast.streaming.region.weights import checked, near

log = logging.getLogger("ballast.streaming")
CHECK_EVERY_S = 5.0
END_S = 5.0
NO_BATCH = 0


class Region(Protocol):
    """What a follower uses of a region."""

    connection_ids: tuple[str, ...]
    settings: RegionSettings

    def set_weights(self, weights: Sequence[int]) -> None: ...


class PlanFollower:
    """Sets the weights of a job's plans in one of its regions, and acknowledges the versions."""

    def __init__(
        self,
        settings: Settings,
        policy: JobPolicy,
        region_id: str,
        *,
        every_s: float = CHECK_EVERY_S,
    ) -> None:
        self.settings, self.job = settings, policy.job
        self.policy, self._window_s = _region_of(policy, region_id), policy.window_s
        self.version = 0
        """The version whose weights are in force; 0 before the first."""
        self.planned: list[int] | None = None
        """Weights of the plan in force, in the order of the workers; None before the first."""
        self._every_s = every_s
        self._refused: set[int] = set()
        ensure_tables(settings, ["plans.acks"])
        folder = job_folder(settings, policy.job) / "regions" / region_id
        self._acks = AckBook(folder / "acks", settings, policy.job, region_id)

    @property
    def workers(self) -> tuple[str, ...]:
        """Names of the workers, for the region."""
        return self.policy.worker_ids

    @contextmanager
    def following(self, region: Region) -> Iterator[PlanFollower]:
        """Takes up the plan in force now, and checks again every ``every_s`` until the block ends.

        Raises:
            InvalidInput: the region has other workers or other windows than the policy.
        """
        if tuple(region.connection_ids) != self.workers:
            raise InvalidInput(
                f"the region has the workers {', '.join(region.connection_ids)}",
                value=list(region.connection_ids), allowed=", ".join(self.workers),
                remedy="start it with the workers of the policy (PlanFollower.workers)",
            )  # fmt: skip
        if region.settings.window_s != self._window_s:
            raise InvalidInput(
                f"the region has windows of {region.settings.window_s:g} s, so that every row of "
                "it would be set aside",
                value=region.settings.window_s, allowed=f"{self._window_s:g}, as the policy says",
                remedy="start it with RegionSettings(window_s=policy.window_s)",
            )  # fmt: skip
        stop = threading.Event()
        self.check(region)

        def follow() -> None:
            while not stop.wait(self._every_s):
                self.check(region)

        thread = threading.Thread(target=follow, name=f"follow {self.policy.id}", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            stop.set()
            thread.join(END_S)

    def bounded(self, control: Control) -> Control:
        """The local loop, limited to ``local_change_units`` around the plan in force."""

        def within(seen: RegionMeasurement) -> Sequence[int] | None:
            wanted = control(seen)
            if wanted is None or self.planned is None:
                return wanted
            units = checked(wanted, len(self.workers)).tolist()
            return near(units, self.planned, self.policy.local_change_units)

        return within

    def check(self, region: Region) -> None:
        """Takes up the head if it is new and fits; errors are logged, and the region continues."""
        try:
            self._acks.send()
            head = read_head(self.settings, self.job)
            if head and head.version > self.version and head.version not in self._refused:
                self._take_up(head, region)
        except Exception as error:  # noqa: BLE001 - the stream continues
            log.warning("the plan was not taken up, keeping v%d: %s", self.version, error)

    def _take_up(self, head: Head, region: Region) -> None:
        try:
            units = fitting_weights(self.policy, self._checked_weights(head))
        except PlanRefused as refusal:
            reason = str(refusal)
            log.warning("plan v%d refused, keeping v%d: %s", head.version, self.version, reason)
            self._acknowledge(head, "refused", reason)
            self._refused.add(head.version)
            return
        if units is not None:
            self.planned = units
            region.set_weights(units)
        self._acknowledge(head, "applied")
        # Last: if anything failed before, the next check repeats it, which changes nothing.
        self.version = head.version
        log.info("region %s runs under plan v%d: %s", self.policy.id, head.version, units)

    def _acknowledge(self, head: Head, status: str, reason: str = "") -> None:
        """Acknowledges, unless the region's newest acknowledgement has this status already."""
        recorded = read_acks(self.settings, self.job, head.version, self.policy.id)
        if not recorded or recorded[-1].status != status:
            self._acks.record(head.version, head.plan_id, status, NO_BATCH, reason=reason)

    def _checked_weights(self, head: Head) -> Sequence[Weighted]:
        """The weights of the head's plan.

        Raises:
            PlanRefused: the plan's content is not what was published.
        """
        content = read_published_content(self.settings, self.job, head.plan_id)
        content.check_hash(head)
        return content.weights


def fitting_weights(region: RegionPolicy, rows: Sequence[Weighted]) -> list[int] | None:
    """Units in the order of the workers; None if the plan has no weights for the region.

    Raises:
        PlanRefused: the weights are of other workers, negative, or do not add up.
    """
    weights = weights_of(rows, region.id)
    if not weights:
        return None
    _check_workers(region, weights)
    units = [weights[worker] for worker in region.worker_ids]
    if min(units) < 0 or sum(units) != UNITS:
        raise PlanRefused(
            f"the weights of region {region.id} add up to {sum(units)}: {units[:8]}; they must be "
            f"whole units >= 0 that add up to {UNITS}: plan again"
        )
    return units


def _check_workers(region: RegionPolicy, weights: Mapping[str, int]) -> None:
    unknown = sorted(weights.keys() - set(region.worker_ids))
    missing = sorted(set(region.worker_ids) - weights.keys())
    if unknown or missing:
        raise PlanRefused(
            f"the plan has weights for workers that region {region.id} does not have "
            f"({', '.join(unknown) or 'none'}) or leaves some out ({', '.join(missing) or 'none'});"
            " restart the region with the workers of the policy, or plan again"
        )


def _region_of(policy: JobPolicy, region_id: str) -> RegionPolicy:
    region = policy.region(region_id)
    if region is None:
        known = ", ".join(region.id for region in policy.regions) or "none"
        raise InvalidInput(
            f"the policy of job {policy.job} has no region {region_id!r}", value=region_id,
            allowed=known, remedy="name it under regions: in the policy",
        )  # fmt: skip
    return region
