"""Log that a job stops planning by itself, or goes on: each change once (ADR 60).

The state follows from outcomes and log (ballast/contracts/planning_stop.py). The events inform
people, and a person's ``planning_resumed`` also changes the state. The identity of an event is the
event before it. So of several processes that find the same change one logs it, and a process that
has read an old log adds nothing.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ballast.contracts.fault_points import fault_point
from ballast.contracts.log_events import PLANNING_EVENTS, PLANNING_RESUMED, PLANNING_STOPPED
from ballast.contracts.planning_stop import PlanningState, broken_row_text, promise_text
from ballast.contracts.records import LogEntry, Outcome
from ballast.contracts.settings import Settings
from ballast.contracts.task_result import Notice
from ballast.store.planning import read_planning_state
from ballast.store.plans import read_log
from spark_jobs.program.arguments import one_line
from spark_jobs.program.run import progress
from spark_jobs.warehouse.plan_log import Event, append_event

FindCause = Callable[[PlanningState], str]
"""Finds the most likely reason of broken promises, as part of a sentence."""
NO_CAUSE = "unknown, because this run measured no loads under the newest of these versions"
TICK = timedelta(microseconds=1)


@dataclass(frozen=True)
class ResumeRequest:
    """A person who lets a job plan again."""

    by: str
    """Empty if Airflow does not know who started the run."""
    reason: str

    @classmethod
    def of(cls, arguments: Namespace) -> ResumeRequest | None:
        """The request that :func:`add_resume_arguments` parsed; None without a reason."""
        return cls(arguments.by, arguments.resume) if arguments.resume else None


def add_resume_arguments(parser: ArgumentParser) -> None:
    """Add ``--resume`` and ``--by``; both may be empty, as in a run that resumes nothing."""
    parser.add_argument(
        "--resume", type=one_line, default="", metavar="REASON",
        help="let a job that stopped planning by itself go on, and why",
    )  # fmt: skip
    parser.add_argument("--by", type=one_line, default="", help="who lets it go on")


@dataclass(frozen=True)
class PlanningLog:
    """The planning events of a job, for one run of ``measure``."""

    settings: Settings
    job: str
    run_id: str

    @property
    def state(self) -> PlanningState:
        """Whether the job plans by itself, as tables and policy say now."""
        return read_planning_state(self.settings, self.job)

    def resume(self, request: ResumeRequest) -> None:
        """Log that a person lets the job plan again, once for a run.

        Does nothing, with a progress line, if the run has done it before or if planning is not
        stopped. A stop that no process has logged yet is logged first.
        """
        if any(entry.event == PLANNING_RESUMED for entry in self._own_events()):
            progress.info("this run has resumed planning")
            return
        self.update()
        state = self.state
        if not state.is_stopped:
            progress.info("planning is not stopped, so there is nothing to resume")
            return
        actor = request.by or self._actor
        if self._append(state, PLANNING_RESUMED, actor, request.reason, state.broken[-1]):
            progress.info("planning goes on, as %s says: %s", actor, request.reason)
        else:
            progress.info("another run has let planning go on meanwhile; the log names who")

    def update(self, find_cause: FindCause | None = None) -> PlanningState:
        """Log that planning stopped or goes on, unless the log says so.

        Args:
            find_cause: called only if planning has stopped and the log does not say so yet.

        Returns:
            The state.
        """
        state = self.state
        if state.is_stopped and not state.is_logged_as_stopped:
            fault_point("measure.before_planning_event")
            cause = find_cause(state) if find_cause else NO_CAUSE
            text = stop_text(self.job, state, cause)
            self._append(state, PLANNING_STOPPED, self._actor, text, state.broken[-1])
            progress.info("%s", text)
        elif not state.is_stopped and state.is_logged_as_stopped:
            kept = _kept_since_stop(state)
            text = f"a promise is kept: {promise_text(kept)}" if kept else _policy_text(state)
            self._append(state, PLANNING_RESUMED, self._actor, text, kept)
            progress.info("planning goes on: %s", text)
        return state

    def notices(self) -> list[Notice]:
        """The notices of the events that this run has logged, also in an earlier attempt.

        An attempt may be killed after it has logged an event and before its notice is sent.
        """
        return [
            Notice(entry.event, f"job {self.job}: {entry.reason}") for entry in self._own_events()
        ]

    @property
    def _actor(self) -> str:
        return f"measure of run {self.run_id}"

    def _own_events(self) -> list[LogEntry]:
        return [
            entry
            for entry in read_log(self.settings, self.job)
            if entry.event in PLANNING_EVENTS and entry.run_id == self.run_id
        ]

    def _append(
        self, state: PlanningState, event: str, actor: str, reason: str, outcome: Outcome | None
    ) -> bool:
        """Append the event that follows the last one of a state, unless another one does.

        Returns:
            Whether this call appended it.
        """
        last_at = state.last_event.at if state.last_event else None
        after = last_at.isoformat() if last_at else f"version {state.versions[0]}"
        change = Event(
            self.job, event, self.run_id, actor, reason,
            version=outcome.version if outcome else None,
            plan_id=outcome.plan_id if outcome else None,
            unique_by=after,
        )  # fmt: skip
        now = datetime.now(UTC)
        # Later than the last one, also if that was written by a machine whose clock is ahead.
        at = now if last_at is None else max(now, last_at + TICK)
        is_first = append_event(self.settings, change, at)
        fault_point("measure.after_planning_event")
        return is_first


def stop_text(job: str, state: PlanningState, cause: str) -> str:
    """Why planning stops, the most likely cause, and what lets it go on."""
    return (
        f"{broken_row_text(state.broken)}; most likely reason: {cause}; the job makes no plan by "
        "itself until a measurement of the plan in force is inside of its interval or a person "
        f"resumes planning (`ballast resume {job} --reason TEXT`)"
    )


def _kept_since_stop(state: PlanningState) -> Outcome | None:
    """The kept promise that ended the stop in the log; None if the policy ended it."""
    stopped_at = state.last_event.version if state.last_event else None
    if state.kept is None or stopped_at is None or state.kept.version < stopped_at:
        return None
    return state.kept


def _policy_text(state: PlanningState) -> str:
    if state.stop_after is None:
        return "by the policy the job never stops planning (stop_after_broken_promises is null)"
    return (
        f"by the policy planning stops after {state.stop_after} broken promises in a row, and "
        f"there are {len(state.broken)}"
    )
