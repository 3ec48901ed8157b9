"""Says that a program waits for cores of the cluster, and ends it after a limit.

Spark waits for executors without a word that a task's log would show: with all cores taken by
another application, a program stood still until the task's own limit of hours.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ballast.contracts.errors import ClusterUnavailable
from ballast.contracts.spark import executors_of

LOOK_S = 5.0


@dataclass(frozen=True)
class WaitLimits:
    """When a program that waits for cores says so, and when it ends."""

    say_every_s: float = 30.0
    end_after_s: float = 900.0


USUAL_LIMITS = WaitLimits()


class CoreWait:
    """How long a program has waited for its first executor, or for another one.

    Args:
        master: the Spark master, for the messages.
        limits: when to say so and when to end.
    """

    def __init__(self, master: str, limits: WaitLimits) -> None:
        self.master, self.limits = master, limits
        self.refusal: ClusterUnavailable | None = None
        self._since: float | None = None
        self._said: float | None = None

    def observe(self, now: float, executors: int | None, *, has_work: bool) -> str | None:
        """What to log now, if anything; ``refusal`` is set when the program must end.

        Args:
            now: seconds of a clock that never goes back.
            executors: number of executors; None if unknown.
            has_work: whether a Spark job of the program runs or waits.
        """
        if not (executors == 0 and has_work):
            waited = None if self._since is None else now - self._since
            was_said, self._since, self._said = self._said is not None, None, None
            return f"got cores after {waited:.0f} s" if was_said and waited is not None else None
        self._since = now if self._since is None else self._since
        waited = now - self._since
        if waited >= self.limits.end_after_s and self.refusal is None:
            self.refusal = ClusterUnavailable(f"{self._text(waited)}; the program ends")
            return str(self.refusal)
        if waited < self.limits.say_every_s:
            return None
        if self._said is not None and now - self._said < self.limits.say_every_s:
            return None
        self._said = now
        return self._text(waited)

    def _text(self, waited: float) -> str:
        return (
            f"waits for cores: no executor of {self.master} for {waited:.0f} s; see on the "
            "master's page whether workers are alive and other applications hold all cores; "
            "spark.cores.max limits what an application takes (docs/deploy.md)"
        )


@contextmanager
def watched_cores(
    spark: Any,
    say: Callable[[str], Any],
    limits: WaitLimits = USUAL_LIMITS,
) -> Iterator[None]:
    """Watches a session during the block.

    Args:
        spark: the session.
        say: logs a line.
        limits: when to say so and when to end.

    Raises:
        ClusterUnavailable: no executor came within the limit, or Spark ended the application.
    """
    context = spark.sparkContext
    wait = CoreWait(context.master, limits)
    over = threading.Event()
    thread = threading.Thread(
        target=_watch, args=(context, wait, say, over), name="ballast-cores", daemon=True
    )
    if not context.master.startswith("local"):
        thread.start()
    try:
        yield
    except Exception as error:
        refusal = wait.refusal or _application_ended(context)
        if refusal is None:
            raise
        raise refusal from error
    finally:
        over.set()


def _watch(context: Any, wait: CoreWait, say: Callable[[str], Any], over: threading.Event) -> None:
    while not over.wait(LOOK_S):
        try:
            has_work = bool(context.statusTracker().getActiveJobsIds())
            text = wait.observe(time.monotonic(), executors_of(context), has_work=has_work)
            if text is not None:
                say(text)
            if wait.refusal is not None:
                context.cancelAllJobs()
                return
        except Exception as error:  # noqa: BLE001 - the program itself fails if Spark is gone
            say(f"the cores of {wait.master} are unknown: {type(error).__name__}")


def _application_ended(context: Any) -> ClusterUnavailable | None:
    """An error if Spark stopped the context by itself, as when its master is lost."""
    try:
        ended = bool(context._jsc.sc().isStopped())
    except Exception:  # noqa: BLE001 - the JVM of the driver is gone
        ended = True
    if not ended:
        return None
    return ClusterUnavailable(
        f"Spark ended the application on {context.master}; its master or all of its executors were "
        "lost; nothing half done is left, and the next attempt or run does the work"
    )
