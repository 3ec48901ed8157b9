"""States of a streaming job in a window, as ``metrics.jobs`` has them."""

from __future__ import annotations

RUNNING = "running"
IDLE = "idle"
IN_BATCH = "in_batch"
STALLED = "stalled"
NO_EXECUTORS = "no_executors"
JOB_STATES = (RUNNING, IDLE, IN_BATCH, STALLED, NO_EXECUTORS)

UNMEASURED = (STALLED, NO_EXECUTORS)
"""Nothing is known of the time in such a state: its windows are missing in the other tables."""

STATE_TEXTS = {
    RUNNING: "a batch ended in the window",
    IDLE: "the job waits for input",
    IN_BATCH: "one batch has run through the whole window",
    STALLED: "no batch ends",
    NO_EXECUTORS: "the job has no executor",
}
