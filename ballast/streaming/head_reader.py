"""Reads the head of a job's plan, and the content of a new plan, beside the batches.

A store that does not answer must not stop a job, which has a plan in force anyway. A thread of its
own reads. A batch asks for a new reading and waits for it during a bounded time, and not at all
while an earlier reading still hangs. What was read last stays in force meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ballast.contracts.records import Head
from ballast.contracts.settings import Settings
from ballast.store.plan_content import PublishedContent, read_published_content
from ballast.store.plan_loads import PlanLoads, read_plan_loads
from ballast.store.plans import read_head
from ballast.streaming.bounded_call import WAIT_S, BoundedCall

log = logging.getLogger("ballast.streaming")


@dataclass(frozen=True)
class PublishedPlan:
    """A published version with its content, unchecked."""

    head: Head
    content: PublishedContent | None
    """None if the job has no use for it: it has taken the version up, or refused it."""
    loads: PlanLoads | None = None
    """Loads that the plan was made from; None if the job takes plans up at once, or if they are
    gone."""


def read_published_plan(
    settings: Settings,
    job: str,
    known: PublishedPlan | None,
    is_news: Callable[[Head], bool],
    resources: Sequence[str] = (),
) -> PublishedPlan | None:
    """The plan of the head, with its content only if it is news; None before the first plan.

    Args:
        settings: where the tables are.
        job: the job.
        known: the plan that was read before.
        is_news: whether the job has a use for the content of a version.
        resources: resources whose loads decide on the order of steps; none for a job that takes
            plans up at once.
    """
    head = read_head(settings, job)
    if head is None or (known is not None and known.head == head):
        return None if head is None else known
    if not is_news(head):
        return PublishedPlan(head, None)
    content = read_published_content(settings, job, head.plan_id)
    loads = read_plan_loads(settings, job, head.plan_id, resources) if resources else None
    return PublishedPlan(head, content, loads)


class HeadReader:
    """Reads the published plan in a thread of its own when a batch asks for it.

    Args:
        read: gives the published plan, given the one that was read before.
        wait_s: most seconds that :meth:`newest` waits.
        clock: gives seconds.
    """

    def __init__(
        self,
        read: Callable[[PublishedPlan | None], PublishedPlan | None],
        wait_s: float = WAIT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._clock = read, clock
        self.read_now = BoundedCall("reading the head of the plan", self._run, wait_s)
        self._plan: PublishedPlan | None = None
        self._read_at: float | None = None

    def newest(self) -> PublishedPlan | None:
        """Asks for a reading, and gives the newest plan that is known by then.

        Returns:
            The plan; None if none was published, or none could be read so far.
        """
        self.read_now()
        return self._plan

    def age_s(self) -> float | None:
        """Seconds since the head was last read; None before the first time."""
        read_at = self._read_at
        return None if read_at is None else self._clock() - read_at

    def _run(self) -> None:
        try:
            self._plan = self._read(self._plan)
        except Exception as error:  # noqa: BLE001 - the job continues without the tables
            age_s = self.age_s()
            known = "not read yet" if age_s is None else f"read {age_s:.0f} s ago"
            log.warning("the plan could not be read; the last one, %s, stays: %s", known, error)
        else:
            self._read_at = self._clock()
