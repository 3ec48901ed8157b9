"""Flink jobs: collect their metrics over REST, and rescale them by the plan in force.

``session`` connects both to a cluster, ``rest`` calls it, ``job_view`` is what it answers as typed
records. ``counters`` and ``window_rows`` make rows from it, ``rescale`` reads how a rescale went;
these three are pure. See docs/engine-flink.md.
"""
