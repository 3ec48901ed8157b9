"""Gauges of jobs for a monitoring system, from the tables: the text that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ballast.contracts.log_events import GATE_FAILED, REFUSALS
from ballast.contracts.records import JobWindow
from ballast.readmodel.job_history import JobHistory
from ballast.readmodel.plans import JobSummary, job_summary, newest_job_window, newest_window

APPLIED = "applied"


@dataclass(frozen=True)
class Gauge:
    """A gauge: its name, which ends in the unit, and what it says."""

    name: str
    help: str


VERSION = Gauge("ballast_plan_version", "Version of the plan in force; 0 before the first.")
HEAD_AGE = Gauge("ballast_plan_age_seconds", "Since the plan in force was published.")
BEFORE = Gauge("ballast_load_distance_before_percent", "Load distance before the plan in force.")
PROMISED = Gauge("ballast_load_distance_promised_percent", "Load distance that the plan promises.")
LOW = Gauge("ballast_load_distance_promised_low_percent", "Lower end of its 90 % interval.")
HIGH = Gauge("ballast_load_distance_promised_high_percent", "Upper end of its 90 % interval.")
MEASURED = Gauge("ballast_load_distance_measured_percent", "Newest measurement under the plan.")
MOVES = Gauge("ballast_plan_moves", "Key groups that the plan in force moved.")
MOVED = Gauge("ballast_plan_moved_bytes", "State that the plan in force moved.")
PAUSE_PREDICTED = Gauge("ballast_plan_pause_predicted_seconds", "Pause that the plan predicts.")
PAUSE = Gauge("ballast_plan_pause_measured_seconds", "Pause of its take-up, all steps together.")
TAKE_UP = Gauge(
    "ballast_take_up_lag_seconds", "From publication until the job took the plan up, or until now."
)
PENDING = Gauge("ballast_take_up_pending", "1 while the job has not taken the plan up, else 0.")
GATE = Gauge("ballast_gate_open", "0 while the newest run was stopped by its metrics, else 1.")
STOPPED = Gauge("ballast_planning_stopped", "1 while broken promises keep the job from planning.")
WAITING = Gauge("ballast_plan_waiting", "1 while a plan waits for a person, else 0.")
REFUSED = Gauge("ballast_refusals", "Plans that were refused, as far back as the log is kept.")
WINDOW_AGE = Gauge("ballast_metrics_age_seconds", "Since the end of the newest window of metrics.")
JOB_HEAD_AGE = Gauge(
    "ballast_job_head_age_seconds", "Age of what the streaming job knows about its plan."
)
EXECUTORS = Gauge("ballast_job_executors", "Executors of the streaming job.")
GAUGES = (
    VERSION, HEAD_AGE, BEFORE, PROMISED, LOW, HIGH, MEASURED, MOVES, MOVED, PAUSE_PREDICTED, PAUSE,
    TAKE_UP, PENDING, GATE, STOPPED, WAITING, REFUSED, WINDOW_AGE, JOB_HEAD_AGE, EXECUTORS,
)  # fmt: skip


@dataclass(frozen=True)
class GaugeValue:
    """The value of a gauge for a job."""

    gauge: Gauge
    job: str
    value: float


def job_gauges(history: JobHistory, now: datetime) -> list[GaugeValue]:
    """The gauges of a job; one without a value is left out."""
    summary = job_summary(history)
    window = newest_window(history.cache, history.job)
    pairs: list[tuple[Gauge, float | None]] = [
        (VERSION, summary.version),
        (REFUSED, sum(entry.event in REFUSALS for entry in history.log)),
        (STOPPED, summary.planning.is_stopped),
        (WAITING, summary.waiting is not None),
        (GATE, not _is_gate_failed(summary)),
        (WINDOW_AGE, _seconds(window, now)),
        *_of_plan(summary, now),
        *_of_job(newest_job_window(history.cache, history.job, now)),
    ]
    return [
        GaugeValue(gauge, history.job, float(value)) for gauge, value in pairs if value is not None
    ]


def prometheus_text(values: Iterable[GaugeValue]) -> str:
    """The values in the text format of Prometheus, by gauge."""
    found = list(values)
    return "".join(_family(gauge, [v for v in found if v.gauge == gauge]) for gauge in GAUGES)


def _of_plan(summary: JobSummary, now: datetime) -> Iterator[tuple[Gauge, float | None]]:
    """The gauges of the plan in force; none before the first."""
    plan, figure, ack = summary.plan, summary.load_distance, summary.ack
    published = summary.published_at
    if published is not None:
        is_applied = ack is not None and ack.status == APPLIED
        yield HEAD_AGE, _seconds(published, now)
        yield PENDING, not is_applied
        yield TAKE_UP, _seconds(published, ack.acked_at if ack and is_applied else now)
        if ack is not None and is_applied:
            yield PAUSE, None if ack.pause_ms is None else ack.pause_ms / 1000.0
    if plan is not None:
        yield MOVES, plan.moves
        yield MOVED, plan.bytes
        yield PAUSE_PREDICTED, plan.pause_s
    if figure is not None:
        yield BEFORE, figure.before
        yield PROMISED, figure.expected
        yield LOW, figure.low
        yield HIGH, figure.high
        yield MEASURED, figure.last_measured


def _of_job(window: JobWindow | None) -> Iterator[tuple[Gauge, float | None]]:
    if window is not None:
        yield EXECUTORS, window.executors
        yield JOB_HEAD_AGE, window.head_age_s


def _is_gate_failed(summary: JobSummary) -> bool:
    trouble = summary.last_trouble
    return trouble is not None and trouble.entry.event == GATE_FAILED and trouble.over_since is None


def _seconds(start: datetime | None, end: datetime) -> float | None:
    return None if start is None else (end - start).total_seconds()


def _family(gauge: Gauge, values: Sequence[GaugeValue]) -> str:
    lines = [f"# HELP {gauge.name} {gauge.help}", f"# TYPE {gauge.name} gauge"]
    # The name of a job has no character that would have to be escaped.
    lines += [f'{gauge.name}{{job="{each.job}"}} {each.value:.12g}' for each in values]
    return "\n".join(lines) + "\n" if values else ""
