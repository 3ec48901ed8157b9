"""Brings a consumer group under the plan in force: checks the plan, sends it, waits for take-up.

A version is decided once. If the group cannot follow it, it is refused and not sent, and the
members keep their plan. Otherwise it is accepted, sent, and applied as soon as the broker shows the
group stable under it. Every step can be repeated, by this process or by another one: the topic and
``plans.acks`` say how far it is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ballast.contracts.engine import KafkaEngine
from ballast.contracts.errors import NotFound, PlanRefused
from ballast.contracts.fault_points import fault_point
from ballast.contracts.log_events import ACK_ACCEPTED, ACK_APPLIED, ACK_REFUSED
from ballast.contracts.placement_check import check_key_groups, check_nodes
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Head
from ballast.contracts.settings import Settings
from ballast.engines.acks import AckWriter, TakeUpFigures
from ballast.engines.kafka.group_view import Broker, GroupView
from ballast.engines.kafka.messages import PlanMessage
from ballast.engines.kafka.meter import wall_ms
from ballast.engines.kafka.plan_store import PlanStore
from ballast.store.plan_content import PublishedContent, read_published_content
from ballast.store.plans import read_head

log = logging.getLogger("ballast.engines")
LOOK_S = 1.0
PAUSE_WAIT_S = 10.0
"""How long the members' measured pauses are waited for after the group is stable."""

Pauses = Callable[[int], Mapping[str, float]]
"""Pause of each process for a version, as far as it is known."""


@dataclass
class _TakeUp:
    """A version that was sent and is not acknowledged as applied."""

    head: Head
    stable_since: float | None = None
    window: int = 0
    """The first window, by number, that runs wholly under it."""


class KafkaApplier:
    """Applies the plans of one job.

    Args:
        settings: where the tables are.
        policy: the job's policy.
        broker: answers questions about group and topics.
        plans: the job's plan topic.
        pauses: gives the pauses that were measured.
        on_applied: called with each version that was acknowledged.
    """

    def __init__(
        self,
        settings: Settings,
        policy: JobPolicy,
        broker: Broker,
        plans: PlanStore,
        pauses: Pauses,
        on_applied: Callable[[int], None],
    ) -> None:
        self._settings, self._policy = settings, policy
        self._broker, self._plans = broker, plans
        self._pauses, self._on_applied = pauses, on_applied
        self._acks = AckWriter(settings, policy.job)
        self._window_ms = round(1000 * policy.window_s)
        self._sent: PlanMessage | None = None
        self._decided = 0
        """The newest version that was applied or refused."""
        self._take_up: _TakeUp | None = None
        self._looked_at = 0.0

    def apply(self) -> None:
        """Do the next step, at most once a second."""
        if time.monotonic() - self._looked_at < LOOK_S:
            return
        self._looked_at = time.monotonic()
        sent = self._plan_in_topic()
        head = read_head(self._settings, self._policy.job)
        if head is None or head.version <= self._decided:
            return
        if self._take_up is None or self._take_up.head.version != head.version:
            self._begin(head, sent)
        if self._take_up is not None:
            self._finish(self._take_up)

    def _plan_in_topic(self) -> PlanMessage:
        """The plan that members read; before the first one it has the length of windows alone."""
        if self._sent is None:
            self._sent = self._plans.read()
        if self._sent is None:
            self._send(PlanMessage(self._policy.job, 0, self._window_ms))
        elif self._sent.window_ms != self._window_ms:
            self._send(replace(self._sent, window_ms=self._window_ms))
        assert self._sent is not None  # noqa: S101 - it was sent
        return self._sent

    def _begin(self, head: Head, sent: PlanMessage) -> None:
        """Accepts and sends a version, or refuses it."""
        statuses = self._acks.statuses(head.version)
        if statuses & {ACK_APPLIED, ACK_REFUSED}:
            self._decided, self._take_up = head.version, None
            return
        if sent.version < head.version or sent.plan_id != head.plan_id:
            group = self._broker.group(self._engine.group)
            if group.is_rebalancing:
                return
            content = read_published_content(self._settings, self._policy.job, head.plan_id)
            try:
                self._check(head, content)
                self._check_group(group, content)
            except PlanRefused as error:
                self._refuse(head, str(error))
                return
            self._acks.write(head, ACK_ACCEPTED, TakeUpFigures(self._window_now()))
            fault_point("engine.accepted", head.version)
            self._send(self._message(head, content, group))
            fault_point("engine.sent", head.version)
        self._take_up = _TakeUp(head)

    def _finish(self, take_up: _TakeUp) -> None:
        """Acknowledges a version as applied once the group is stable under it."""
        plan, version = self._plan_in_topic(), take_up.head.version
        group = self._broker.group(self._engine.group)
        if not group.has_taken_up(version, plan.node_by_partition):
            take_up.stable_since = None
            return
        if take_up.stable_since is None:
            take_up.stable_since, take_up.window = time.monotonic(), self._window_now() + 1
        pauses = self._pauses(version)
        is_late = time.monotonic() - take_up.stable_since > PAUSE_WAIT_S
        if len(pauses) < len(group.members) and not is_late:
            return
        figures = TakeUpFigures(
            take_up.window, plan.moves, pause_ms=max(pauses.values(), default=0.0)
        )
        fault_point("engine.before_applied", version)
        self._acks.write(take_up.head, ACK_APPLIED, figures)
        log.info("job %s: version %d applied, %d partitions moved, pause %.0f ms",
                 self._policy.job, version, figures.moved_key_groups, figures.pause_ms)  # fmt: skip
        self._decided, self._take_up = version, None
        self._on_applied(version)

    def _refuse(self, head: Head, reason: str) -> None:
        log.warning("job %s: version %d is refused: %s", self._policy.job, head.version, reason)
        self._acks.write(head, ACK_REFUSED, TakeUpFigures(self._window_now()), reason)
        self._decided, self._take_up = head.version, None

    def _check(self, head: Head, content: PublishedContent) -> None:
        """Checks a plan against what was published, the policy and the topics.

        Raises:
            PlanRefused: it does not fit.
        """
        content.check_hash(head)
        if content.routes or content.scaling or content.weights or content.splits:
            raise PlanRefused(
                f"the plan has {len(content.routes)} routes, {len(content.scaling)} rows of "
                f"scaling, {len(content.weights)} of weights and {len(content.splits)} of splits; "
                "a consumer group follows placements alone: correct the policy and plan again"
            )
        key_groups = {o.id: o.key_groups for o in self._policy.operators}
        check_key_groups(content.assignment, key_groups)
        check_nodes(content.assignment, self._policy, content.scaling)
        try:
            counts = self._broker.partition_counts(
                [self._engine.topic_of(operator) for operator in key_groups]
            )
        except NotFound as error:
            raise PlanRefused(str(error)) from error
        for operator, expected in key_groups.items():
            topic = self._engine.topic_of(operator)
            if counts[topic] != expected:
                raise PlanRefused(
                    f"topic {topic} has {counts[topic]} partitions and the plan places {expected}: "
                    f"set key_groups of {operator} to {counts[topic]} in the policy, restart the "
                    "engine, and plan again once the new partitions have been measured"
                )

    def _check_group(self, group: GroupView, content: PublishedContent) -> None:
        """Checks that the group assigns by plans and has every node that the plan uses.

        Raises:
            PlanRefused: it cannot follow the plan.
        """
        if group.members and not group.follows_plans:
            raise PlanRefused(
                f"group {self._engine.group} assigns by {group.protocol!r}: give every consumer "
                "the assignor of Ballast alone, and plan again"
            )
        absent = sorted({node for _, _, node in content.assignment} - group.nodes)
        if absent:
            raise PlanRefused(
                f"{', '.join(absent)} {'is' if len(absent) == 1 else 'are'} not in group "
                f"{self._engine.group}: start {'it' if len(absent) == 1 else 'them'} and plan again"
            )

    def _message(self, head: Head, content: PublishedContent, group: GroupView) -> PlanMessage:
        placement: dict[str, dict[int, str]] = {}
        for operator, number, node in content.assignment:
            placement.setdefault(self._engine.topic_of(operator), {})[number] = node
        owner = group.node_by_partition
        moves = sum(
            owner.get((topic, number)) != node
            for topic, nodes in placement.items()
            for number, node in nodes.items()
        )
        ordered = {
            topic: tuple(nodes[number] for number in range(len(nodes)))
            for topic, nodes in placement.items()
        }
        return PlanMessage(
            self._policy.job, head.version, self._window_ms, ordered, head.plan_id, moves
        )

    def _send(self, plan: PlanMessage) -> None:
        self._plans.send(plan)
        self._sent = plan

    def _window_now(self) -> int:
        return wall_ms() // self._window_ms

    @property
    def _engine(self) -> KafkaEngine:
        engine = self._policy.engine
        assert isinstance(engine, KafkaEngine)  # noqa: S101 - the session was made for one
        return engine
