"""Brings a Flink job under the plan in force: checks it, asks for it, sees it run.

A version is decided once. It is refused before the cluster hears of it if the job cannot follow it.
Otherwise it is accepted, the cluster is asked for it right after a completed checkpoint, and it is
applied as soon as the job runs with its subtasks. That the cluster takes the request does not mean
that it has the slots: if the subtasks are not seen in time, the cluster is asked for those of
before and the version is refused. Every step can be repeated, by this process or by another one:
the cluster and ``plans.acks`` say how far it is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ballast.contracts.engine import FlinkEngine
from ballast.contracts.errors import PlanRefused
from ballast.contracts.fault_points import fault_point
from ballast.contracts.log_events import ACK_ACCEPTED, ACK_APPLIED, ACK_REFUSED
from ballast.contracts.placement_check import check_key_groups, check_nodes
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Head
from ballast.contracts.scaling import OPERATOR, operator_sizes
from ballast.contracts.settings import Settings
from ballast.engines.acks import AckWriter, TakeUpFigures
from ballast.engines.flink.collector import wall_ms
from ballast.engines.flink.followed_plan import FollowedPlan
from ballast.engines.flink.job_view import FlinkJob, JobMissing, JobView, TopologyChanged
from ballast.engines.flink.rescale import (
    CountedRecords,
    RescaleStages,
    counted_records,
    newest_completed,
    pause_ms,
    records_per_s,
    stages_of,
)
from ballast.engines.flink.rest import FlinkRefusal
from ballast.store.plan_content import PublishedContent, read_published_content
from ballast.store.plans import read_acks, read_head

log = logging.getLogger("ballast.engines")
LOOK_S = 1.0
FULFIL_WITHIN_S = 120.0
"""How long the cluster has to run a plan that it was asked for."""
HISTORY_WAIT_S = 10.0
"""How long the cluster's history of a rescale is waited for once its subtasks run."""
RATE_OVER_MS = 20_000
"""The longest time that the rate of the sources is taken over."""
FRESH_CHECKPOINT_MS = 1_000
"""A checkpoint that is not older counts as just completed."""
CLOCK_SKEW_MS = 5_000
ADAPTIVE = "Adaptive"


@dataclass
class _Rescaling:
    """A version that is accepted and not decided."""

    head: Head
    sizes: Mapping[str, int]
    accepted_ms: int
    before: Mapping[str, int]
    """Sizes of the version that the job runs under."""
    waiting_since: float
    """Monotonic time from which the cluster has to fulfil it."""
    asked_ms: int | None = None
    seen_since: float | None = None
    """Monotonic time from which its subtasks run."""


class FlinkApplier:
    """Applies the plans of one job.

    Args:
        settings: where the tables are.
        policy: the job's policy.
        engine: its section of the engine.
        job: answers questions about the job, and rescales it.
        plan: gives the version that the job runs under.
        on_applied: called after a version was acknowledged as applied.
    """

    def __init__(
        self,
        settings: Settings,
        policy: JobPolicy,
        engine: FlinkEngine,
        job: FlinkJob,
        plan: Callable[[], FollowedPlan],
        on_applied: Callable[[], None],
    ) -> None:
        self._settings, self._policy, self._engine, self._job = settings, policy, engine, job
        self._plan, self._on_applied = plan, on_applied
        self._acks = AckWriter(settings, policy.job)
        self._window_ms = round(1000 * policy.window_s)
        self._decided = 0
        """The newest version that was applied or refused."""
        self._take_up: _Rescaling | None = None
        self._counted: CountedRecords | None = None
        self._rate: float | None = None
        """Records per second of the sources, as far as they were counted before a rescale."""
        self._looked_at = 0.0
        self._said = ""

    def apply(self) -> None:
        """Do the next step, at most once a second."""
        if time.monotonic() - self._looked_at < LOOK_S:
            return
        self._looked_at = time.monotonic()
        head = read_head(self._settings, self._policy.job)
        try:
            if head is None or head.version <= self._decided:
                self._stay_under_plan()
                return
            if self._take_up is None or self._take_up.head.version != head.version:
                self._begin(head)
            if self._take_up is not None:
                self._go_on(self._take_up)
        except JobMissing as error:
            if self._take_up is not None:
                # The time that the job is away does not count.
                self._take_up.waiting_since = time.monotonic()
            self._tell(str(error))

    def _begin(self, head: Head) -> None:
        """Accepts a version, or refuses it; goes on with one that was accepted before."""
        acks = read_acks(self._settings, self._policy.job, head.version)
        statuses = {ack.status for ack in acks}
        if statuses & {ACK_APPLIED, ACK_REFUSED}:
            self._decided, self._take_up = head.version, None
            # Another process may have applied it.
            self._on_applied()
            return
        content = read_published_content(self._settings, self._policy.job, head.plan_id)
        before = self._plan().sizes
        accepted = next((ack for ack in acks if ack.status == ACK_ACCEPTED), None)
        if accepted is None:
            try:
                self._check(head, content)
            except PlanRefused as error:
                self._refuse(head, str(error))
                return
            accepted_ms = wall_ms()
            self._acks.write(head, ACK_ACCEPTED, TakeUpFigures(self._window_now()))
            fault_point("engine.accepted", head.version)
        else:
            accepted_ms = round(accepted.acked_at.timestamp() * 1000)
        self._take_up = _Rescaling(
            head, self._sizes_in(content), accepted_ms, before, time.monotonic()
        )

    def _go_on(self, take_up: _Rescaling) -> None:
        """Asks for the sizes, or acknowledges that they run, or gives them up."""
        try:
            view = self._job.view()
        except TopologyChanged as error:
            self._refuse(take_up.head, str(error))
            return
        if self._bounds(view, take_up.sizes) != self._asked_bounds(view):
            runs_so = view.is_running and view.sizes == dict(take_up.sizes)
            # If it runs so already, nothing restarts, and no checkpoint is waited for.
            ask = self._ask if runs_so else self._ask_after_checkpoint
            if not ask(view, take_up):
                return
        if view.is_running and view.sizes == dict(take_up.sizes):
            self._finish(take_up, view)
        elif time.monotonic() - take_up.waiting_since > FULFIL_WITHIN_S:
            self._give_up(take_up, view)

    def _ask_after_checkpoint(self, view: JobView, take_up: _Rescaling) -> bool:
        """Ask for the sizes if a checkpoint has just been completed; whether it was asked.

        Then few records are processed again.
        """
        self._note_rate(view)
        checkpoint = self._job.checkpoint(view.job_id)
        if checkpoint is not None and wall_ms() - checkpoint.completed_ms <= FRESH_CHECKPOINT_MS:
            return self._ask(view, take_up)
        if time.monotonic() - take_up.waiting_since > FULFIL_WITHIN_S:
            self._refuse(
                take_up.head,
                f"the job completed no checkpoint within {FULFIL_WITHIN_S:.0f} s, and without one "
                "a rescale loses its state: switch checkpoints on, or repair them, and plan again",
            )
        return False

    def _ask(self, view: JobView, take_up: _Rescaling) -> bool:
        """Ask for the sizes; whether the cluster takes the request."""
        try:
            self._job.require(view.job_id, self._bounds(view, take_up.sizes))
        except FlinkRefusal as error:
            self._refuse(take_up.head, str(error))
            return False
        take_up.asked_ms, take_up.waiting_since = wall_ms(), time.monotonic()
        fault_point("engine.sent", take_up.head.version)
        return True

    def _finish(self, take_up: _Rescaling, view: JobView) -> None:
        """Acknowledges a version whose subtasks run."""
        version = take_up.head.version
        is_rescaled = dict(take_up.before) != dict(take_up.sizes)
        stages = self._stages(take_up, view) if is_rescaled else None
        if is_rescaled and stages is None and self._is_recorded(view, take_up):
            # The history has it a moment later; a request that changed nothing stays open in it.
            take_up.seen_since = take_up.seen_since or time.monotonic()
            if time.monotonic() - take_up.seen_since < HISTORY_WAIT_S:
                return
        figures, text = self._figures(take_up, view, stages)
        fault_point("engine.before_applied", version)
        self._acks.write(take_up.head, ACK_APPLIED, figures, text)
        log.info("job %s: version %d applied: %s, pause %.0f ms",
                 self._policy.job, version, text, figures.pause_ms)  # fmt: skip
        self._decided, self._take_up = version, None
        self._on_applied()

    def _is_recorded(self, view: JobView, take_up: _Rescaling) -> bool:
        """Whether the cluster keeps a history in which this rescale is not over yet."""
        since = take_up.accepted_ms - CLOCK_SKEW_MS
        return any(
            each.get("terminalState") is None
            and isinstance(each.get("startTimestampInMillis"), int)
            and each["startTimestampInMillis"] >= since
            for each in self._job.rescales(view.job_id)[:1]
        )

    def _stages(self, take_up: _Rescaling, view: JobView) -> RescaleStages | None:
        """The recorded stages of the rescale; None if the cluster has none of it."""
        since = take_up.accepted_ms - CLOCK_SKEW_MS
        uuid = newest_completed(self._job.rescales(view.job_id), since)
        stages = None if uuid is None else stages_of(self._job.rescale(view.job_id, uuid))
        if stages is None:
            return None
        wanted = {v.vertex_id: take_up.sizes[name] for name, v in view.vertices.items()}
        return stages if stages.sizes_after == wanted else None

    def _figures(
        self, take_up: _Rescaling, view: JobView, stages: RescaleStages | None
    ) -> tuple[TakeUpFigures, str]:
        """What the take-up cost, and the same as text."""
        changed = {
            name: size for name, size in take_up.sizes.items() if take_up.before[name] != size
        }
        batch_id = self._window_now() + 1
        if not changed:
            return TakeUpFigures(batch_id), "no operator has another number of subtasks"
        moves = ", ".join(f"{name} {take_up.before[name]} to {n}" for name, n in changed.items())
        restored = self._job.restored(view.job_id)
        pause = 0.0 if take_up.asked_ms is None else view.running_since_ms - take_up.asked_ms
        stopped_ms = take_up.asked_ms
        if stages is not None:
            pause, stopped_ms = pause_ms(stages, view), stages.stopped_ms
        again = "an unknown number of"
        if restored is not None and stopped_ms is not None and self._rate is not None:
            since_checkpoint_s = max(0, stopped_ms - restored.completed_ms) / 1000
            again = f"about {round(since_checkpoint_s * self._rate)}"
        figures = TakeUpFigures(
            batch_id,
            moved_key_groups=sum(changed.values()),
            bytes_moved=restored.state_bytes if restored else 0,
            pause_ms=max(0.0, float(pause)),
        )
        return figures, f"subtasks of {moves}; {again} records were processed again"

    def _give_up(self, take_up: _Rescaling, view: JobView) -> None:
        """Asks for the subtasks of before, and refuses the version."""
        found = {name: n for name, n in view.sizes.items() if n != take_up.sizes[name]}
        self._job.require(view.job_id, self._bounds(view, take_up.before))
        state = f"it runs with {found}" if found else "its subtasks do not all run"
        self._refuse(
            take_up.head,
            f"the cluster did not fulfil {dict(take_up.sizes)} within {FULFIL_WITHIN_S:.0f} s "
            f"({state}, {self._job.free_slots()} slots are free), so it was asked for "
            f"{dict(take_up.before)} again: add slots, and plan again",
        )

    def _stay_under_plan(self) -> None:
        """Asks for the sizes of the plan that the job runs under, as after a new submission."""
        plan, view = self._plan(), self._job.view()
        self._note_rate(view)
        if plan.version == 0:
            return
        wanted = self._bounds(view, plan.sizes)
        if view.state != "RUNNING" or wanted == self._asked_bounds(view):
            self._said = ""
            return
        if view.scheduler != ADAPTIVE:
            self._tell(f"job {view.job_id} does not run under the adaptive scheduler")
            return
        if any(size > view.vertices[name].most for name, size in plan.sizes.items()):
            self._tell(f"version {plan.version} has more subtasks than job {view.job_id} allows")
            return
        checkpoint = self._job.checkpoint(view.job_id)
        if checkpoint is not None and wall_ms() - checkpoint.completed_ms <= FRESH_CHECKPOINT_MS:
            log.info("job %s: Flink's job %s is brought under version %d again",
                     self._policy.job, view.job_id, plan.version)  # fmt: skip
            self._job.require(view.job_id, wanted)

    def _note_rate(self, view: JobView) -> None:
        """Note the rate of the sources, for the number of records that a rescale repeats."""
        counted = counted_records(view, self._policy.entry_operators, wall_ms())
        rate = records_per_s(self._counted, counted)
        self._rate = self._rate if rate is None else rate
        is_old = self._counted is None or wall_ms() - self._counted.at_ms > RATE_OVER_MS
        if rate is None or is_old:
            self._counted = counted

    def _refuse(self, head: Head, reason: str) -> None:
        log.warning("job %s: version %d is refused: %s", self._policy.job, head.version, reason)
        self._acks.write(head, ACK_REFUSED, TakeUpFigures(self._window_now()), reason)
        self._decided, self._take_up = head.version, None

    def _check(self, head: Head, content: PublishedContent) -> None:
        """Checks a plan against what was published, the policy, the job and the cluster.

        Raises:
            PlanRefused: it does not fit.
        """
        content.check_hash(head)
        if content.routes or content.weights or content.splits:
            raise PlanRefused(
                f"the plan has {len(content.routes)} routes, {len(content.weights)} weights and "
                f"{len(content.splits)} splits; a Flink job follows sizes of operators "
                "alone: correct the policy and plan again"
            )
        most = {operator.id: operator.key_groups for operator in self._policy.operators}
        check_key_groups(content.assignment, most)
        check_nodes(content.assignment, self._policy, content.scaling)
        self._check_sizes(content, most)
        try:
            view = self._job.view()
        except TopologyChanged as error:
            raise PlanRefused(str(error)) from error
        self._check_job(self._sizes_in(content), view)

    def _check_sizes(self, content: PublishedContent, most: Mapping[str, int]) -> None:
        named = {name for subject, name, _, _ in content.scaling if subject == OPERATOR}
        unknown = sorted(named - most.keys())
        if unknown:
            raise PlanRefused(
                f"the plan sizes the unknown operator {', '.join(unknown)}; the job has "
                f"{', '.join(most)}: plan again"
            )
        for name, size in self._sizes_in(content).items():
            if not 1 <= size <= most[name]:
                raise PlanRefused(
                    f"the plan gives operator {name} {size} subtasks; allowed: 1 to {most[name]}, "
                    "its key_groups in the policy: plan again"
                )

    def _check_job(self, sizes: Mapping[str, int], view: JobView) -> None:
        if view.scheduler != ADAPTIVE:
            raise PlanRefused(
                f"the job runs under the scheduler {view.scheduler!r}, which cannot rescale it: "
                "set jobmanager.scheduler to adaptive on the cluster, submit the job again, and "
                "plan again"
            )
        for name, size in sizes.items():
            most = view.vertices[name].most
            if size > most:
                raise PlanRefused(
                    f"the plan gives operator {name} {size} subtasks, and its maximum parallelism "
                    f"is {most}: set key_groups to {most} in the policy and plan again"
                )
        needed, used = view.slots_for(sizes), view.slots_for(view.sizes)
        free = self._job.free_slots()
        if needed > used + free:
            raise PlanRefused(
                f"the plan needs {needed} slots; the job has {used} and {free} are free: add "
                "TaskManagers, or give the operators fewer key_groups in the policy, and plan again"
            )

    def _sizes_in(self, content: PublishedContent) -> dict[str, int]:
        """Subtasks of each operator; one that the plan does not size starts with the policy's."""
        return {**self._engine.first_sizes, **operator_sizes(content.scaling)}

    def _bounds(self, view: JobView, sizes: Mapping[str, int]) -> dict[str, tuple[int, int]]:
        """Bounds by vertex id. From 1: with a lost TaskManager the job goes on with fewer."""
        return {vertex.vertex_id: (1, sizes[name]) for name, vertex in view.vertices.items()}

    def _asked_bounds(self, view: JobView) -> dict[str, tuple[int, int]]:
        return self._job.requirements(view.job_id)

    def _window_now(self) -> int:
        return wall_ms() // self._window_ms

    def _tell(self, text: str) -> None:
        if text != self._said:
            log.warning("job %s: %s", self._policy.job, text)
        self._said = text
