"""The library of a streaming job: it routes records, keeps state, follows plans, writes metrics.

A job author needs ``Operator`` and ``StreamingJob``; ``read_states`` and
``read_key_states`` read the state of a stopped job. See docs/streaming.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ballast.streaming.job import QueryOptions, RunningJob, StreamingJob, stop_on_signals
    from ballast.streaming.job_state import read_key_states, read_states
    from ballast.streaming.operators import Operator
    from ballast.streaming.state_merge import StateMerge

__all__ = [
    "Operator",
    "QueryOptions",
    "RunningJob",
    "StateMerge",
    "StreamingJob",
    "read_key_states",
    "read_states",
    "stop_on_signals",
]

_HOME = {
    "Operator": "ballast.streaming.operators",
    "QueryOptions": "ballast.streaming.job",
    "RunningJob": "ballast.streaming.job",
    "StateMerge": "ballast.streaming.state_merge",
    "StreamingJob": "ballast.streaming.job",
    "read_key_states": "ballast.streaming.job_state",
    "read_states": "ballast.streaming.job_state",
    "stop_on_signals": "ballast.streaming.job",
}


def __getattr__(name: str) -> Any:
    # Every Python worker of Spark imports this package to run a stage. Importing the tables and
    # the query there would cost each worker seconds.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
