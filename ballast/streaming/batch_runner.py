"""Runs one batch: decides on a plan version, moves state, processes, measures, acknowledges.

The boundary between two batches is the barrier that replaces the reconfiguration protocol of
[MW16-LOCALITY, 3.4]; ADR 5 compares their guarantees.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame

from ballast.contracts.errors import PlanRefused
from ballast.contracts.fault_points import fault_point
from ballast.contracts.identity import key_group_name
from ballast.contracts.log_events import (
    ACK_ACCEPTED,
    ACK_APPLIED,
    ACK_PROGRESS,
    ACK_REFUSED,
    ACK_SUPERSEDED,
)
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Head
from ballast.contracts.scaling import nodes_in_use
from ballast.contracts.settings import Settings
from ballast.streaming.acks import NOTHING_MOVED, AckBook, StepReport
from ballast.streaming.batch_figures import BatchFigures, KeyGroup, figures_of_batch
from ballast.streaming.batch_versions import DecisionLog, MoveFigures, VersionDecision
from ballast.streaming.bounded_call import WAIT_S
from ballast.streaming.clock import ForwardClock
from ballast.streaming.head_reader import HeadReader, read_published_plan
from ballast.streaming.job_report import PlanInForce
from ballast.streaming.key_group_state import StateStore
from ballast.streaming.metrics_ledger import Ledger
from ballast.streaming.metrics_rows import MetricsWriter
from ballast.streaming.metrics_window import MetricsWindow
from ballast.streaming.node_task import BatchWork, NodeReport, no_routes
from ballast.streaming.operators import Topology
from ballast.streaming.plan_check import (
    check_keeps_merges,
    check_keeps_routes,
    checked_placement,
)
from ballast.streaming.routing import (
    FIRST_VERSION,
    Placement,
    PlacementName,
    first_placement,
    node_indexes,
    taking_turns,
)
from ballast.streaming.spark_stages import SentRoutes, run_stages
from ballast.streaming.state_token import StateTokens
from ballast.streaming.take_up import (
    Transfer,
    carry_over,
    forget_old_places,
    transfers_between,
)
from ballast.streaming.take_up_steps import (
    ScheduledStep,
    TakeUpState,
    placement_after_step,
    scheduled_steps,
)

log = logging.getLogger("ballast.streaming")

FIRST_DECISION = VersionDecision(-1, FIRST_VERSION, FIRST_VERSION)
"""Before the first batch."""

Backlog = Callable[[int], int | None]
"""Gives the records that wait after a batch that took the given number; None if unknown."""


class JobRuntime:
    """Runs the batches of a job in one process.

    Args:
        topology: the operators and key groups.
        source_key: SQL expression of the key of a record of the source.
        settings: where tables and folders are.
        policy: the job's policy.
        folder: the job's own folder.
        backlog: gives the records that wait at the source.

    Raises:
        InvalidInput: the policy does not fit the state.
        StateNotShared: the state folder is missing, or not that of the last start.
    """

    def __init__(
        self,
        topology: Topology,
        source_key: str,
        settings: Settings,
        policy: JobPolicy,
        folder: Path,
        backlog: Backlog | None = None,
    ) -> None:
        self.topology, self.source_key = topology, source_key
        self.settings, self.policy = settings, policy
        self.backlog = backlog
        self.last_backlog: int | None = None
        self.decisions = DecisionLog(folder / "decisions")
        self.decisions.check_topology(topology)
        self.state = StateStore(folder / "state")
        self.token = StateTokens(self.state.root, folder / "decisions" / "state-token.json").start(
            is_first_start=self.decisions.latest() is None
        )
        self.acks = AckBook(folder / "acks", settings, policy.job, wait_s=WAIT_S)
        self.metrics = MetricsWriter(settings, policy, topology.ids[0], self._node_states)
        window_ms = round(policy.window_s * 1000)
        self.ledger = Ledger(
            folder / "metrics", window_ms, ForwardClock().now_ms, self.metrics.write
        )
        resources = policy.objective.resources if policy.take_up.limits.is_limited else ()
        self.heads = HeadReader(
            lambda known: read_published_plan(settings, policy.job, known, self._is_news, resources)
        )
        self.refused: set[int] = set()
        latest = self.decisions.latest()
        self.version = FIRST_VERSION if latest is None else latest.version
        """The version of the newest batch."""
        self.placed: Placement | None = None
        """The placement of the newest batch."""
        self.placements: dict[PlacementName, Placement] = {}
        self.sent_routes: SentRoutes | None = None
        self.routed_by: Placement | None = None
        """The placement whose routes were sent."""
        self.state_bytes: dict[KeyGroup, int] | None = None
        self._check_policy_holds_state()

    def on_batch(self, frame: DataFrame, batch_id: int) -> None:
        """Runs one batch; Spark calls this at least once, and again after a crash."""
        self._begin(batch_id)
        decision = self._decide(batch_id)
        self.version = decision.version
        self.placed = placement = self._placement(decision.placement)
        if decision.takes_up:
            fault_point("after_decision", decision.fault_label)
            self._take_up(decision, placement)
            fault_point("after_move", decision.fault_label)
        self._size_states(placement)
        sent = self._send_routes(frame, placement)
        work = self._work(batch_id, placement, sent)
        reports = run_stages(frame, self.source_key, work, sent.source if sent else None)
        if decision.takes_up:
            fault_point("after_state", decision.fault_label)
        self.ledger.record(self._measured(batch_id, placement, reports))
        if decision.takes_up:
            fault_point("after_metrics", decision.fault_label)
            self._acknowledge(decision, placement)
        else:
            self.acks.send()

    def _begin(self, batch_id: int) -> None:
        """Before the first batch of a process: removes what a broken attempt left."""
        if self.state_bytes is None:
            self.decisions.check_continues(batch_id)
            self.state.discard_from(batch_id)

    def _size_states(self, placement: Placement) -> None:
        """In the first batch of a process: reads the state sizes, after any move."""
        if self.state_bytes is None:
            self.state_bytes = self._stored_sizes(placement)

    def _stored_sizes(self, placement: Placement) -> dict[KeyGroup, int]:
        return {
            name: self.state.size(placement.node_of(*name), *name)
            for name in self.topology.all_key_groups
        }

    def _decide(self, batch_id: int) -> VersionDecision:
        """The version of this batch: the recorded one on a replay, else from the head."""
        known = self.decisions.of_batch(batch_id)
        if known is not None:
            return known
        before = self.decisions.latest()
        if before is None:
            current, before = first_placement(self.topology, self.policy), FIRST_DECISION
            self.decisions.record_placement(current)
        else:
            current = self._placement(before.placement)
        before = replace(before, batch_id=batch_id - 1)
        decision = self._follow_head(current, before) or self._next_step(current, before)
        decision = decision or before.kept()
        self.decisions.record(decision)
        return decision

    def _follow_head(self, current: Placement, before: VersionDecision) -> VersionDecision | None:
        """Follows the head if it is new and fits; None to keep the present version."""
        plan = self.heads.newest()
        if plan is None or plan.content is None or not self._is_news(plan.head):
            return None
        head = plan.head
        try:
            new = checked_placement(head, plan.content, self.topology, self.policy, current)
        except PlanRefused as refusal:
            self._refuse(head, current, str(refusal), before.batch_id + 1)
            return None
        sizes = self.state_bytes or self._stored_sizes(current)
        state = TakeUpState(self.policy, self.topology.ids, sizes, plan.loads)
        steps = scheduled_steps(current, new, state)
        self.decisions.record_placement(new)
        self._keep_in_memory(new)
        if len(steps) > 1:
            self.decisions.record_steps(new.version, steps)
        return self._step_decision(current, before, new, steps)

    def _next_step(self, current: Placement, before: VersionDecision) -> VersionDecision | None:
        """Makes the next step of a take-up that is under way; None if none is."""
        if before.step is None:
            return None
        new = self._placement((before.version, None))
        return self._step_decision(current, before, new, self.decisions.steps(before.version))

    def _step_decision(
        self,
        current: Placement,
        before: VersionDecision,
        new: Placement,
        steps: Sequence[ScheduledStep],
    ) -> VersionDecision:
        """Records the placement after the next step to ``new``; returns the decision for it."""
        done = (before.step or 0) if before.version == new.version else 0
        following = new
        if done + 1 < len(steps):
            following = placement_after_step(current, new, steps[done], done + 1, self.policy)
            self.decisions.record_placement(following)
            self._keep_in_memory(following)
        return before.followed_by(new.version, following.step, len(steps))

    def _is_news(self, head: Head) -> bool:
        """Whether the job has neither taken up nor refused the version."""
        return head.version > self.version and head.version not in self.refused

    def _refuse(self, head: Head, current: Placement, reason: str, batch_id: int) -> None:
        log.warning("plan v%d refused, keeping v%d: %s", head.version, current.version, reason)
        self.refused.add(head.version)
        self.acks.record(head.version, head.plan_id, ACK_REFUSED, batch_id, reason=reason)

    def _take_up(self, decision: VersionDecision, placement: Placement) -> None:
        """Accepts the plan, or goes on with it, and moves state, upstream operators first."""
        old = self._placement(decision.previous_placement)
        if decision.begins:
            self._supersede(decision, old)
            self.acks.record(
                decision.version, placement.plan_id, ACK_ACCEPTED, decision.batch_id,
                report=StepReport(0, decision.steps),
            )  # fmt: skip
        transfers = transfers_between(old, placement, self.topology.ids)
        if self.decisions.moved(decision.placement) is None:
            figures = self._carry_over(decision, transfers)
            fault_point("all_copied", decision.fault_label)
            self.decisions.record_moved(decision.placement, figures)
            log.info(
                "plan v%d taken up at batch %d, step %d of %d: %d key groups, %d keys, %d bytes, "
                "pause %.1f ms", decision.version, decision.batch_id, decision.number,
                decision.steps, figures.moved_key_groups, figures.moved_keys, figures.bytes_moved,
                figures.pause_ms,
            )  # fmt: skip
        fault_point("moves_recorded", decision.fault_label)
        # Only now: until all copies are known to be complete, the old files are the state.
        forget_old_places(self.state, transfers)

    def _supersede(self, decision: VersionDecision, old: Placement) -> None:
        """Acknowledges that the steps that were left of the version before are not made."""
        if old.step is None:
            return
        steps = self.decisions.steps(old.version)
        last = VersionDecision(
            decision.batch_id, old.version, old.version, old.step, steps=len(steps)
        )
        self.acks.record(
            old.version, old.plan_id, ACK_SUPERSEDED, decision.batch_id,
            reason=f"version {decision.version} was accepted after step {old.step} of "
            f"{len(steps)}; the other steps are not made",
            report=StepReport(old.step, len(steps), self.decisions.moved_so_far(last)),
        )  # fmt: skip

    def _carry_over(self, decision: VersionDecision, transfers: Sequence[Transfer]) -> MoveFigures:
        """Moves the state and measures bytes, keys and time."""

        def fail_half_way(done: int) -> None:
            if done == len(transfers) // 2 + 1:
                fault_point("during_move", decision.fault_label)

        started = time.perf_counter()
        carried = carry_over(
            self.state, transfers, decision.batch_id, fail_half_way, self.topology.operators
        )
        pause_ms = (time.perf_counter() - started) * 1000
        moved = sum(transfer.moves for transfer in transfers)
        return MoveFigures(moved, carried.bytes, pause_ms, carried.keys, pause_ms)

    def _acknowledge(self, decision: VersionDecision, placement: Placement) -> None:
        """Acknowledges a step, or with the last one that the plan is applied."""
        fault_point("before_ack", decision.fault_label)
        steps = self.decisions.steps(decision.version) if decision.steps > 1 else []
        reason = steps[decision.number - 1].exceeds if steps else ""
        if decision.step is None:
            status, moved = ACK_APPLIED, None
            figures = self.decisions.moved_so_far(decision)
        else:
            status = ACK_PROGRESS
            moved = tuple(key_group_name(*name) for name in steps[decision.step - 1].key_groups)
            figures = self.decisions.moved(decision.placement) or NOTHING_MOVED
        report = StepReport(decision.number, decision.steps, figures, moved)
        self.acks.record(
            decision.version, placement.plan_id, status, decision.batch_id,
            reason=reason, report=report,
        )  # fmt: skip
        fault_point("after_ack", decision.fault_label)
        kept = (decision.placement, (decision.version, None))
        self.decisions.forget_placements(keep=(*kept, decision.previous_placement))
        self.placements = {name: self.placements[name] for name in kept if name in self.placements}

    def _send_routes(self, frame: DataFrame, placement: Placement) -> SentRoutes | None:
        """The routes in force, sent to the executors once for each version with routes."""
        if self.sent_routes is not None and not self._has_sent_routes_of(placement):
            self.sent_routes.forget()
            self.sent_routes = None
        if self.sent_routes is None and any(placement.routes.values()):
            self.sent_routes = SentRoutes(frame.sparkSession, placement, self.topology.ids[0])
        self.routed_by = placement
        return self.sent_routes

    def _has_sent_routes_of(self, placement: Placement) -> bool:
        """Whether the routes that were sent are those of the placement.

        Between the steps of a take-up they stay, and a million of them take seconds to send.
        """
        sent = self.routed_by
        return sent is None or sent.name == placement.name or sent.routes == placement.routes

    def _work(self, batch_id: int, placement: Placement, sent: SentRoutes | None) -> BatchWork:
        node_ids = taking_turns(self._nodes(placement), batch_id)
        return BatchWork(
            self.topology,
            node_indexes(placement, self.topology, node_ids),
            node_ids,
            batch_id,
            str(self.state.root),
            sent.on_worker() if sent else no_routes,
            token=self.token,
            splits=placement.splits,
        )

    def _measured(
        self, batch_id: int, placement: Placement, reports: Sequence[NodeReport]
    ) -> BatchFigures:
        measured = figures_of_batch(
            batch_id,
            reports,
            self.topology,
            placement,
            taking_turns(self._nodes(placement), batch_id),
            self.state_bytes or {},
        )
        self.state_bytes = {name: group.state_bytes for name, group in measured.groups.items()}
        return self._with_arrivals(measured)

    def _with_arrivals(self, measured: BatchFigures) -> BatchFigures:
        """Adds the records that wait at the source, and those that arrived since the last batch."""
        taken = measured.records_of(self.topology.ids[0])
        before, self.last_backlog = self.last_backlog, self._waiting(taken)
        if before is None or self.last_backlog is None:
            return replace(measured, backlog=self.last_backlog)
        arrived = max(0, taken + self.last_backlog - before)
        return replace(measured, backlog=self.last_backlog, arrived=arrived)

    def _waiting(self, taken: int) -> int | None:
        try:
            return self.backlog(taken) if self.backlog is not None else None
        except Exception as error:  # noqa: BLE001 - the job continues with an unknown backlog
            log.warning("the backlog of the source is unknown: %s", error)
            return None

    def _nodes(self, placement: Placement) -> tuple[str, ...]:
        """The nodes in use under a placement, in the policy's order."""
        return tuple(nodes_in_use(self.policy, placement.scaling))

    def log_window(self, window: MetricsWindow) -> None:
        """Logs one line about a window that was written."""
        self.metrics.log_window(window, self.heads.age_s())

    def plan_in_force(self) -> PlanInForce:
        """The version of the newest batch, and how long ago the head was read."""
        return PlanInForce(self.version, self.heads.age_s())

    def _node_states(self, version: int) -> dict[str, str]:
        """States of the nodes in use under a version; by the policy if its content is gone."""
        placement = self.placed
        if placement is None or placement.version != version:
            placement = self.decisions.placement((version, None))
        return nodes_in_use(self.policy, placement.scaling if placement else ())

    def _placement(self, name: PlacementName) -> Placement:
        """A placement, read once, because a million routes take a second."""
        if name not in self.placements:
            placement = self.decisions.placement(name)
            if placement is None:
                version, step = name
                of = f"plan v{version}" if step is None else f"step {step} of plan v{version}"
                raise RuntimeError(f"the content of {of} is not in {self.decisions.folder}")
            self._keep_in_memory(placement)
        return self.placements[name]

    def _keep_in_memory(self, placement: Placement) -> None:
        self.placements[placement.name] = placement

    def _check_policy_holds_state(self) -> None:
        latest = self.decisions.latest()
        if latest is not None:
            self.placed = placement = self._placement(latest.placement)
            node_indexes(placement, self.topology, self._nodes(placement))
            check_keeps_routes(placement, self.topology)
            check_keeps_merges(placement, self.topology)
