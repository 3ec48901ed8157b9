"""What a streaming job imports: declare operators, get routing, state, plans and metrics.

``Operator`` and ``StreamingJob`` are all a job author needs; ``read_states`` looks at the state
of a stopped job. See docs/streaming.md.
"""

from ballast.streaming.inspect import read_states
from ballast.streaming.job import RunningJob, StreamingJob, stop_on_signals
from ballast.streaming.operators import Operator

__all__ = ["Operator", "RunningJob", "StreamingJob", "read_states", "stop_on_signals"]
